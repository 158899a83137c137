"""The verdict on a dataset of a format that one consumer reads."""

from collections.abc import Callable

from piper_collect.core.findings import Findings, Report
from piper_collect.core.survey import ConsumerOutlook, DatasetSurvey
from piper_collect.dataset.hdf5.reader import HDF5CasesReader
from piper_collect.dataset.v3.reader import LeRobotV3Reader
from piper_collect.pipelines.validate import Validation
from piper_collect.pipelines.validation.empty import tell_empty


def verdict(
    reader: LeRobotV3Reader | HDF5CasesReader,
    findings: Findings,
    outlook: Callable[[], ConsumerOutlook],
    *,
    rows: int,
    duration_s: float,
    decoded: bool,
) -> Validation:
    """The verdict on the dataset of ``reader``.

    Args:
        reader: Of the dataset.
        findings: All of them.
        outlook: Finds what its consumer would do with it; not asked where there is no episode.
        rows: Of all episodes.
        duration_s: Of all episodes.
        decoded: Whether every frame was decoded.
    """
    if not reader.episodes:
        tell_empty(findings)
    outlooks = (outlook(),) if reader.episodes else ()
    dataset = DatasetSurvey(
        root=str(reader.root),
        version=str(reader.info["codebase_version"]),
        robot_type=str(reader.info.get("robot_type") or ""),
        fps=reader.fps,
        episodes=len(reader.episodes),
        rows=rows,
        duration_s=duration_s,
        cameras=reader.video_keys,
        tasks=tuple(reader.tasks.values()),
        sessions=tuple(str(s["session"]) for s in reader.sessions if s.get("session")),
        outlooks=outlooks,
    )
    facts = {
        "episodes": dataset.episodes,
        "rows": dataset.rows,
        "cameras": list(dataset.cameras),
        "tasks": len(dataset.tasks),
        "version": dataset.version,
        "fps": dataset.fps,
        "decoded": decoded,
        "consumers": {o.consumer: "loads" if o.loads else "refuses" for o in outlooks},
    }
    report = Report(
        subject=str(reader.root), findings=findings.listed, facts=facts, unlisted=findings.unlisted
    )
    return Validation(report=report, dataset=dataset)
