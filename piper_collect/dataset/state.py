"""What a dataset holds so far, checked before it is continued."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from piper_collect.core.running_stats import RunningStats
from piper_collect.dataset.json_files import read_json, read_jsonl
from piper_collect.dataset.layout import (
    DATA_PATH,
    EPISODES,
    EPISODES_STATS,
    INFO,
    LATEST_SESSION,
    META,
    MODALITY,
    SESSIONS,
    SOURCES,
    TASKS,
    VIDEO_PATH,
    data_path,
    video_path,
)
from piper_collect.errors import DatasetError

_HEADER = ("codebase_version", "robot_type", "fps", "chunks_size", "data_path", "video_path")
REPAIR = "restore the files from a backup, or export the bags into a new folder"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBag:
    """What a dataset holds of one bag.

    Attributes:
        by_part: Episode by part of the recording; one part where it was not split.
        parts: How many parts there are; 0 for a bag that the dataset does not hold.
    """

    by_part: Mapping[int, int]
    parts: int

    @property
    def whole(self) -> bool:
        """Whether every part is there."""
        return self.parts > 0 and len(self.by_part) == self.parts

    @property
    def indexes(self) -> tuple[int, ...]:
        """Its episodes, in their order."""
        return tuple(sorted(self.by_part.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetState:
    """The metadata of a dataset.

    Attributes:
        episodes: Lines of episodes.jsonl.
        tasks: Task strings by task_index.
        sources: Lines of episode_sources.jsonl.
        sessions: Lines of collection_sessions.jsonl.
        stats: Statistics of its rows, where they are at hand.
    """

    episodes: tuple[Mapping[str, Any], ...] = ()
    tasks: tuple[str, ...] = ()
    sources: tuple[Mapping[str, Any], ...] = ()
    sessions: tuple[Mapping[str, Any], ...] = ()
    stats: RunningStats | None = None

    @property
    def frames(self) -> int:
        """Rows of all episodes."""
        return sum(int(e["length"]) for e in self.episodes)

    def held(self, content_hash: str) -> HeldBag:
        """What there is of the bag with this hash."""
        return held_bag([s for s in self.sources if content_hash and s.get("content_hash") == content_hash])

    def held_by_hash(self) -> dict[str, HeldBag]:
        """What there is of each bag, by its hash."""
        return {content_hash: held_bag(lines) for content_hash, lines in lines_by_hash(self.sources).items()}


def lines_by_hash(sources: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """The lines of episode_sources.jsonl of each bag whose hash is known."""
    lines: dict[str, list[Mapping[str, Any]]] = {}
    for source in sources:
        if source.get("content_hash"):
            lines.setdefault(str(source["content_hash"]), []).append(source)
    return lines


def held_bag(lines: Sequence[Mapping[str, Any]]) -> HeldBag:
    """What there is of the one bag that these lines of episode_sources.jsonl tell of."""
    return HeldBag(
        by_part={int(s.get("part", 0)): int(s["episode_index"]) for s in lines},
        parts=max((int(s.get("parts", 1)) for s in lines), default=0),
    )


def load_state(root: Path, expected_info: Mapping[str, Any]) -> DatasetState:
    """Read the metadata of ``root`` and check that it can be continued.

    Args:
        root: A folder with ``meta/info.json``.
        expected_info: info.json as the writer would write it; totals and splits are not compared.

    Raises:
        DatasetError: when the dataset is of another kind, or its files do not agree with each other.
    """
    meta = root / META
    info = read_json(meta / INFO)
    check_kind(meta / INFO, info, expected_info)
    state = DatasetState(
        episodes=tuple(read_jsonl(meta / EPISODES)),
        tasks=_tasks(meta / TASKS),
        sources=_optional_lines(meta / SOURCES),
        sessions=_optional_lines(meta / SESSIONS),
    )
    _check_episodes(meta / EPISODES, state)
    check_totals(meta / INFO, info, state)
    check_sources(meta, state)
    _check_other_lines(meta, state)
    _check_files(root, info, state)
    return state


def check_kind(
    path: Path, info: Mapping[str, Any], expected: Mapping[str, Any], header: Sequence[str] = _HEADER
) -> None:
    """Check that a dataset can be continued by a writer of another ``expected`` info.json.

    Raises:
        DatasetError: naming what of the ``header``, or which feature, differs.
    """
    for field in header:
        if info.get(field) != expected[field]:
            raise DatasetError(
                f"the dataset has another {field}",
                where=path,
                expected=repr(expected[field]),
                got=repr(info.get(field)),
                hint="export into a new folder",
            )
    theirs, ours = info.get("features"), expected["features"]
    if theirs == ours and list(theirs) == list(ours):
        return
    keys = [*ours, *(k for k in theirs or {} if k not in ours)]
    key = next((k for k in keys if (theirs or {}).get(k) != ours.get(k)), None)
    raise DatasetError(
        f"the dataset has another feature {key}" if key else "the features come in another order",
        where=path,
        expected=ours.get(key, "no such feature") if key else list(ours),
        got=(theirs or {}).get(key, "no such feature") if key else list(theirs or {}),
        hint="export into a new folder",
    )


def _tasks(path: Path) -> tuple[str, ...]:
    lines = read_jsonl(path)
    if [line.get("task_index") for line in lines] != list(range(len(lines))):
        raise DatasetError("the tasks are not numbered from 0 without a gap", where=path, hint=REPAIR)
    return tuple(str(line["task"]) for line in lines)


def _optional_lines(path: Path) -> tuple[Mapping[str, Any], ...]:
    return tuple(read_jsonl(path)) if path.exists() else ()


def _check_episodes(path: Path, state: DatasetState) -> None:
    if [e.get("episode_index") for e in state.episodes] != list(range(len(state.episodes))):
        raise DatasetError("the episodes are not numbered from 0 without a gap", where=path, hint=REPAIR)
    for episode in state.episodes:
        index, length = episode["episode_index"], episode.get("length")
        if not isinstance(length, int) or length < 1:
            raise DatasetError(f"episode {index} has no length", where=path, got=length, hint=REPAIR)
        task_index, tasks = episode.get("task_index"), episode.get("tasks")
        if not isinstance(task_index, int) or not 0 <= task_index < len(state.tasks):
            raise DatasetError(
                f"the task of episode {index} is not known", where=path, got=task_index, hint=REPAIR
            )
        if tasks != [state.tasks[task_index]]:
            raise DatasetError(
                f"the task of episode {index} is another one in {TASKS}",
                where=path,
                expected=repr(state.tasks[task_index]),
                got=repr(tasks),
                hint=REPAIR,
            )


def check_totals(path: Path, info: Mapping[str, Any], state: DatasetState) -> None:
    """Check the totals of info.json.

    Raises:
        DatasetError: naming the one that is another.
    """
    counted = {
        "total_episodes": len(state.episodes),
        "total_frames": state.frames,
        "total_tasks": len(state.tasks),
    }
    for key, count in counted.items():
        if info.get(key) != count:
            raise DatasetError(
                f"{key} does not agree with the lines of the other files",
                where=path,
                expected=count,
                got=info.get(key),
                hint=REPAIR,
            )


def check_sources(meta: Path, state: DatasetState) -> None:
    """Check that every episode has its source, in order, and every source its session.

    Raises:
        DatasetError: naming the file that lacks one.
    """
    numbers = [s.get("episode_index") for s in state.sources]
    if numbers != list(range(len(state.episodes))):
        raise DatasetError(
            "the sources are not those of the episodes, one by one",
            where=meta / SOURCES,
            expected=f"lines for episodes 0 to {len(state.episodes) - 1}" if state.episodes else "no line",
            got=f"{len(numbers)} lines",
            hint=REPAIR,
        )
    known = {s.get("session") for s in state.sessions}
    for source in state.sources:
        if source.get("session") and source["session"] not in known:
            raise DatasetError(
                f"the session of episode {source['episode_index']} is not recorded",
                where=meta / SESSIONS,
                expected=f"a line of session {source['session']}",
                hint=REPAIR,
            )


def _check_other_lines(meta: Path, state: DatasetState) -> None:
    """Files that are only written later must be whole, too."""
    for name in (MODALITY, LATEST_SESSION):
        if state.episodes:
            read_json(meta / name)
    path = meta / EPISODES_STATS
    if not path.exists():
        return
    content = path.read_bytes()
    lines = content.count(b"\n")
    if lines != len(state.episodes) or (content and not content.endswith(b"\n")):
        raise DatasetError(
            "there is not one whole line an episode",
            where=path,
            expected=f"{len(state.episodes)} lines",
            got=f"{lines} whole lines",
            hint=REPAIR,
        )


def _check_files(root: Path, info: Mapping[str, Any], state: DatasetState) -> None:
    videos = [k for k, f in info["features"].items() if f["dtype"] == "video"]
    chunks_size = int(info["chunks_size"])
    sizes: dict[str, Mapping[str, int]] = {}
    for index in range(len(state.episodes)):
        files = [data_path(index, chunks_size, DATA_PATH)]
        files += [video_path(index, chunks_size, key, VIDEO_PATH) for key in videos]
        for file in files:
            folder, _, name = file.rpartition("/")
            if folder not in sizes:
                sizes[folder] = _file_sizes(root / folder)
            if not sizes[folder].get(name):
                raise DatasetError(
                    f"a file of episode {index} is missing or empty", where=root / file, hint=REPAIR
                )


def _file_sizes(folder: Path) -> dict[str, int]:
    """Bytes of each file in ``folder`` by name, in one pass; none where there is no such folder."""
    try:
        with os.scandir(folder) as entries:
            return {entry.name: entry.stat().st_size for entry in entries if entry.is_file()}
    except (FileNotFoundError, NotADirectoryError):
        return {}
