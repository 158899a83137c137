"""What a dataset holds so far, checked before it is continued."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from piper_collect.dataset.json_files import read_json, read_jsonl
from piper_collect.dataset.layout import (
    DATA_PATH,
    EPISODES,
    INFO,
    META,
    SESSIONS,
    SOURCES,
    TASKS,
    VIDEO_PATH,
    data_path,
    video_path,
)
from piper_collect.errors import DatasetError

_REPAIR = "restore the files from a backup, or export the bags into a new folder"


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetState:
    """The metadata of a dataset.

    Attributes:
        episodes: Lines of episodes.jsonl.
        tasks: Task strings by task_index.
        sources: Lines of episode_sources.jsonl.
        sessions: Lines of collection_sessions.jsonl.
    """

    episodes: tuple[Mapping[str, Any], ...] = ()
    tasks: tuple[str, ...] = ()
    sources: tuple[Mapping[str, Any], ...] = ()
    sessions: tuple[Mapping[str, Any], ...] = ()

    @property
    def frames(self) -> int:
        """Rows of all episodes."""
        return sum(int(e["length"]) for e in self.episodes)


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
    _check_kind(meta / INFO, info, expected_info)
    state = DatasetState(
        episodes=tuple(read_jsonl(meta / EPISODES)),
        tasks=_tasks(meta / TASKS),
        sources=_optional_lines(meta / SOURCES),
        sessions=_optional_lines(meta / SESSIONS),
    )
    _check_episodes(meta / EPISODES, state)
    _check_totals(meta / INFO, info, state)
    _check_files(root, info, state)
    return state


def _check_kind(path: Path, info: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    for field in ("codebase_version", "robot_type", "fps", "chunks_size", "data_path", "video_path"):
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
        raise DatasetError("the tasks are not numbered from 0 without a gap", where=path, hint=_REPAIR)
    return tuple(str(line["task"]) for line in lines)


def _optional_lines(path: Path) -> tuple[Mapping[str, Any], ...]:
    return tuple(read_jsonl(path)) if path.exists() else ()


def _check_episodes(path: Path, state: DatasetState) -> None:
    if [e.get("episode_index") for e in state.episodes] != list(range(len(state.episodes))):
        raise DatasetError("the episodes are not numbered from 0 without a gap", where=path, hint=_REPAIR)
    for episode in state.episodes:
        index, length = episode["episode_index"], episode.get("length")
        if not isinstance(length, int) or length < 1:
            raise DatasetError(f"episode {index} has no length", where=path, got=length, hint=_REPAIR)


def _check_totals(path: Path, info: Mapping[str, Any], state: DatasetState) -> None:
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
                hint=_REPAIR,
            )


def _check_files(root: Path, info: Mapping[str, Any], state: DatasetState) -> None:
    videos = [k for k, f in info["features"].items() if f["dtype"] == "video"]
    chunks_size = int(info["chunks_size"])
    for index in range(len(state.episodes)):
        files = [data_path(index, chunks_size, DATA_PATH)]
        files += [video_path(index, chunks_size, key, VIDEO_PATH) for key in videos]
        for file in files:
            path = root / file
            if not path.is_file() or path.stat().st_size == 0:
                raise DatasetError(f"a file of episode {index} is missing or empty", where=path, hint=_REPAIR)
