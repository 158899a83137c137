"""What a v3.0 dataset holds so far, checked before it is continued."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from piper_collect.dataset.json_files import read_json
from piper_collect.dataset.layout import INFO, META
from piper_collect.dataset.state import REPAIR, DatasetState, check_kind, check_sources, check_totals
from piper_collect.dataset.v3.layout import (
    DATA,
    DATA_PATH,
    EPISODES_FOLDER,
    VIDEO_PATH,
    place_of,
    video_prefix,
)
from piper_collect.dataset.v3.reader import open_v3
from piper_collect.dataset.v3.statistics import GrowingStats
from piper_collect.errors import DatasetError

HEADER = (
    "codebase_version",
    "robot_type",
    "fps",
    "chunks_size",
    "data_files_size_in_mb",
    "video_files_size_in_mb",
    "data_path",
    "video_path",
)
"""What of info.json is the same from the first episode on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class V3State(DatasetState):
    """The metadata of a v3.0 dataset; ``episodes`` are rows of the table of episodes, statistics left out.

    Attributes:
        growing: Statistics of its rows, where they are at hand.
    """

    growing: GrowingStats | None = None


def load_v3_state(root: Path, expected_info: Mapping[str, Any]) -> V3State:
    """Read the metadata of ``root`` and check that it can be continued.

    Args:
        root: A folder with ``meta/info.json``.
        expected_info: info.json as the writer would write it; totals and splits are not compared.

    Raises:
        DatasetError: when the dataset is of another kind, or its files do not agree with each other.
    """
    path = root / META / INFO
    check_kind(path, read_json(path), expected_info, HEADER)
    reader = open_v3(root)
    state = V3State(
        episodes=tuple(reader.episodes.values()),
        tasks=tuple(reader.tasks.values()),
        sources=tuple(reader.sources.values()),
        sessions=reader.sessions,
    )
    if list(reader.tasks) != list(range(len(reader.tasks))):
        raise DatasetError("the tasks are not numbered from 0 without a gap", where=root, hint=REPAIR)
    _check_episodes(root, state)
    check_totals(path, reader.info, state)
    check_sources(root / META, state)
    _check_files(root, state, reader.video_keys)
    return state


def _check_episodes(root: Path, state: V3State) -> None:
    """Numbers and rows follow each other without a gap."""
    rows = 0
    for number, line in enumerate(state.episodes):
        found = (line["episode_index"], line["dataset_from_index"], line["dataset_to_index"])
        expected = (number, rows, rows + int(line["length"]))
        if found != expected or line["length"] < 1:
            raise DatasetError(
                "an episode does not follow the one before it",
                where=root / EPISODES_FOLDER,
                expected=f"episode {expected[0]}, rows {expected[1]} to {expected[2]}",
                got=f"episode {found[0]}, rows {found[1]} to {found[2]}",
                hint=REPAIR,
            )
        rows = expected[2]


def _check_files(root: Path, state: V3State, video_keys: tuple[str, ...]) -> None:
    seen: set[str] = set()
    for line in state.episodes:
        files = [place_of(line, DATA).path(DATA_PATH)]
        files += [place_of(line, video_prefix(key)).path(VIDEO_PATH, key) for key in video_keys]
        for file in files:
            if file not in seen and not ((root / file).is_file() and (root / file).stat().st_size):
                raise DatasetError(
                    f"a file of episode {line['episode_index']} is missing or empty",
                    where=root / file,
                    hint=REPAIR,
                )
            seen.add(file)
