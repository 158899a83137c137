"""The verdict on a dataset of a format that one consumer reads."""

from piper_collect.core.findings import Findings, Report
from piper_collect.core.survey import ConsumerOutlook, DatasetSurvey
from piper_collect.dataset.hdf5.reader import HDF5CasesReader
from piper_collect.dataset.v3.reader import LeRobotV3Reader
from piper_collect.pipelines.validate import Validation


def verdict(
    reader: LeRobotV3Reader | HDF5CasesReader,
    findings: Findings,
    outlook: ConsumerOutlook,
    *,
    rows: int,
    duration_s: float,
    decoded: bool,
) -> Validation:
    """The verdict on the dataset of ``reader``.

    Args:
        reader: Of the dataset.
        findings: All of them.
        outlook: What its consumer would do with it.
        rows: Of all episodes.
        duration_s: Of all episodes.
        decoded: Whether every frame was decoded.
    """
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
        outlooks=(outlook,),
    )
    facts = {
        "episodes": dataset.episodes,
        "rows": dataset.rows,
        "cameras": list(dataset.cameras),
        "tasks": len(dataset.tasks),
        "version": dataset.version,
        "fps": dataset.fps,
        "decoded": decoded,
        "consumers": {outlook.consumer: "loads" if outlook.loads else "refuses"},
    }
    report = Report(
        subject=str(reader.root), findings=findings.listed, facts=facts, unlisted=findings.unlisted
    )
    return Validation(report=report, dataset=dataset)
