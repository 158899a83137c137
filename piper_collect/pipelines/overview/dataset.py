"""What one asks first about a dataset; of its episodes only a few are opened."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from piper_collect.core.overview import NO_EPISODE, Overview, counted, session_facts, summed
from piper_collect.core.provenance import binding_changes
from piper_collect.dataset.dialect import EpisodeLine, EpisodeReader
from piper_collect.dataset.embodiment import known_embodiment
from piper_collect.dataset.json_files import read_jsonl
from piper_collect.dataset.layout import META, SESSIONS, STAGING, VIDEO_KEY_PREFIX
from piper_collect.dataset.meta_files import finalized_files
from piper_collect.dataset.pairs import column_pairs
from piper_collect.dataset.reader import DatasetReader
from piper_collect.dataset.readers import open_any
from piper_collect.errors import DatasetError
from piper_collect.pipelines.overview.at_work import is_locked
from piper_collect.pipelines.overview.disk import folder_bytes
from piper_collect.pipelines.overview.trainers import TrainerLook, look_for_trainers

_FOLDERS = ("data", "videos", META, "extras")
_UNKNOWN = "unknown"
_NOT_LOOKED = TrainerLook(outlooks=(), episodes=(), problems=())
"""Of formats whose trainers only ``validate`` foretells."""


def dataset_overview(root: Path) -> Overview:
    """Look at a dataset's metadata, at the names and sizes of its files, and at a few episodes.

    Raises:
        DatasetError: It is no dataset, or its metadata cannot be read.
    """
    locked, interrupted = is_locked(root), (root / STAGING).exists()
    if interrupted and locked:
        raise DatasetError("is being saved to at this moment", where=root, hint="ask again when it is done")
    dataset = open_any(root)
    trainers = look_for_trainers(root) if isinstance(dataset, DatasetReader) else _NOT_LOOKED
    lines, records = _lines(dataset), _session_records(root)
    sources = [line.source for line in lines.values() if line.source]
    facts = {
        **_content(dataset, lines, sources),
        "sessions": _sessions(records, sources),
        "losses": _losses(sources),
        "binding_changes": list(_binding_changes(records)),
        "trainers": {
            "episodes_looked_at": list(trainers.episodes),
            "loads": [o.consumer for o in trainers.outlooks if o.loads],
            "refuses": {o.consumer: o.reason for o in trainers.outlooks if not o.loads},
        },
        "disk_bytes": {
            "total": folder_bytes(root),
            **{name: folder_bytes(root / name) for name in _folders(root)},
        },
        "finalized": [name for name in finalized_files(root) if (root / META / name).is_file()],
        "interrupted_save": interrupted,
        "being_written": locked,
        "exports_at_work_or_killed": _exports_beside(root),
    }
    problems = tuple(_problems(root, facts, trainers))
    return Overview(
        subject=str(root),
        kind="dataset",
        facts=facts,
        problems=problems,
        next_steps=tuple(_next(dataset, facts, trainers)),
    )


def _folders(root: Path) -> list[str]:
    """Names of the folders that are not hidden: those of LeRobot, then others, as formats like HDF5 have."""
    there = {p.name for p in root.iterdir() if p.is_dir() and not p.name.startswith(".")}
    return [name for name in _FOLDERS if name in there] + sorted(there.difference(_FOLDERS))


def _lines(dataset: EpisodeReader) -> Mapping[int, EpisodeLine]:
    """What is told of each episode; of LeRobot v2 also where a line of it lacks something."""
    if not isinstance(dataset, DatasetReader):
        return dataset.lines
    return {
        index: EpisodeLine(
            length=int(line.get("length") or 0),
            tasks=tuple(map(str, line.get("tasks") or ())),
            source=dataset.sources.get(index, {}),
        )
        for index, line in dataset.episodes.items()
    }


def _session_records(root: Path) -> list[dict[str, Any]]:
    path = root / META / SESSIONS
    return read_jsonl(path) if path.exists() else []


def _content(
    dataset: EpisodeReader, lines: Mapping[int, EpisodeLine], sources: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    rows = sum(line.length for line in lines.values())
    marks = [s["profile"] for s in sources if isinstance(s.get("profile"), Mapping)]
    return {
        "version": dataset.info["codebase_version"],
        "profiles": counted(str(mark.get("name")) for mark in marks),
        "robot": dataset.info.get("robot_type"),
        "fps": dataset.fps,
        "episodes": len(lines),
        "rows": rows,
        "seconds": round(rows / dataset.fps, 3),
        "tasks": counted(line.tasks[0] if line.tasks else _UNKNOWN for line in lines.values()),
        "outcomes": counted(str(_recording(s).get("outcome") or _UNKNOWN) for s in sources)
        or ({_UNKNOWN: len(lines)} if lines else {}),
        "incomplete_episodes": [
            int(s["episode_index"]) for s in sources if _recording(s).get("incomplete_reasons")
        ],
        "cameras": {key.removeprefix(VIDEO_KEY_PREFIX): _camera(dataset, key) for key in dataset.video_keys},
        "features": {
            key: {"dtype": feature["dtype"], "shape": list(feature.get("shape", ()))}
            for key, feature in dataset.info["features"].items()
            if feature["dtype"] != "video"
        },
    }


def _camera(dataset: EpisodeReader, key: str) -> dict[str, Any]:
    feature = dataset.info["features"][key]
    told = feature.get("info") or feature.get("video_info") or {}
    shape = list(feature.get("shape", ()))
    return (
        {"height": shape[0], "width": shape[1], "codec": told.get("video.codec")} if len(shape) == 3 else {}
    )


def _recording(source: Mapping[str, Any]) -> Mapping[str, Any]:
    recording = source.get("recording")
    return recording if isinstance(recording, Mapping) else {}


def _sessions(
    records: Sequence[Mapping[str, Any]], sources: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    episodes = counted(str(s.get("session") or _UNKNOWN) for s in sources)
    return [
        {**session_facts(record), "episodes": episodes.get(str(record.get("session")), 0)}
        for record in records
    ]


def _losses(sources: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What was lost on the way from the topics to the rows, summed over the episodes."""
    counts = [c if isinstance(c := s.get("counts"), Mapping) else {} for s in sources]
    cameras = [c for s in sources for c in (s.get("cameras") or {}).values() if isinstance(c, Mapping)]
    rows = summed({name: c.get(name) for name in ("gaps", "dropped")} for c in counts)
    frames = summed({name: c.get(name) for name in ("repeated", "dropped_not_increasing")} for c in cameras)
    by_topic = summed(losses for s in sources if isinstance(losses := _recording(s).get("losses"), Mapping))
    return {
        "messages": sum(by_topic.values()),
        "messages_by_topic": by_topic,
        "rows_missing": rows.get("gaps", 0),
        "rows_dropped": rows.get("dropped", 0),
        "frames_repeated": frames.get("repeated", 0),
        "frames_dropped": frames.get("dropped_not_increasing", 0),
    }


def _binding_changes(records: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for before, after in pairwise(records):
        for change in binding_changes(before, after).changed:
            yield {"session": after.get("session"), "key": change.key, "old": change.old, "new": change.new}


def _exports_beside(root: Path) -> list[str]:
    """Folders that an export in several processes encodes into."""
    place = root.absolute()
    return sorted(str(p) for p in place.parent.glob(f".{place.name}.ahead-*"))


def _problems(root: Path, facts: Mapping[str, Any], trainers: TrainerLook) -> Iterator[str]:
    if facts["being_written"]:
        yield "another process is writing it now"
    if facts["interrupted_save"]:
        yield f"a save was interrupted here ({STAGING}); the next change completes or drops it"
    for folder in facts["exports_at_work_or_killed"]:
        if is_locked(Path(folder)):
            yield f"an export is at work on it now ({folder})"
        else:
            yield f"an export was killed and left {folder}; the next export removes it"
    yield from (text for text in trainers.problems if STAGING not in text)
    if not facts["episodes"] and not trainers.problems:
        yield NO_EPISODE
    for change in facts["binding_changes"]:
        yield (
            f"session {change['session']} was recorded under other control: "
            f"{change['key']} {change['old']} -> {change['new']}"
        )


def _next(
    dataset: EpisodeReader, facts: Mapping[str, Any], trainers: TrainerLook
) -> Iterator[tuple[str, str]]:
    root = shlex.quote(str(dataset.root))
    if facts["interrupted_save"] or facts["exports_at_work_or_killed"]:
        yield f"piper-collect export PATH... -o {root}", "goes on where an export stopped"
        return
    if not facts["episodes"] and not trainers.problems:
        yield f"piper-collect export PATH... -o {root}", "puts recordings into it"
        return
    if trainers.problems:
        yield f"piper-collect validate {root}", "tells all that is wrong"
        return
    if not facts["finalized"] and _can_be_finalized(dataset):
        yield f"piper-collect finalize {root}", "statistics for trainers of relative actions"
    yield f"piper-collect validate {root}", "looks at every episode"
    if trainers.outlooks and not facts["trainers"]["loads"]:
        yield (
            "piper-collect export PATH... -o NEW --profile train",
            "of the same bags, a dataset that trainers load",
        )


def _can_be_finalized(dataset: EpisodeReader) -> bool:
    try:
        return bool(column_pairs(dataset, needed=known_embodiment(dataset.root).chunks is None))
    except DatasetError:
        return False
