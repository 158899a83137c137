"""A dataset in another format: the rows as they are, the videos packet by packet, and what is lost told."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from piper_collect.core.image_stats import ImageHistogram, sample_rows, thin
from piper_collect.dataset.dialect import VideoClip
from piper_collect.dataset.embodiment import EMBODIMENT, known_embodiment
from piper_collect.dataset.episode_stats import Entry
from piper_collect.dataset.guard import check_apart, check_empty, locked, new_or_locked
from piper_collect.dataset.hdf5.layout import CASES, case_of
from piper_collect.dataset.hdf5.reader import HDF5CasesReader
from piper_collect.dataset.json_files import json_bytes, jsonl_bytes, read_jsonl
from piper_collect.dataset.layout import (
    DELTA_STATS,
    EPISODES_STATS,
    EXTRAS,
    LATEST_SESSION,
    META,
    MODALITY,
    RELATIVE_STATS,
    SESSIONS,
    SOURCES,
    STAGING,
    STATS_STATE,
)
from piper_collect.dataset.parquet import column_values, list_cells
from piper_collect.dataset.reader import DatasetReader
from piper_collect.dataset.readers import open_any
from piper_collect.dataset.renumber import renumbered, used_tasks
from piper_collect.dataset.transaction import LEROBOT_FOLDERS, Transaction
from piper_collect.dataset.v3.layout import QUANTILES_STATE
from piper_collect.dataset.v3.reader import LeRobotV3Reader
from piper_collect.dataset.v3.statistics import array_shapes
from piper_collect.dataset.v3.tables import episode_tables, stats_of
from piper_collect.errors import DatasetError

Convertible: TypeAlias = DatasetReader | LeRobotV3Reader | HDF5CasesReader
"""Datasets that can be converted."""

_CARRIED = (MODALITY, EMBODIMENT, LATEST_SESSION, SESSIONS)
_OWN = {
    *("info.json", "stats.json", "tasks.jsonl", "tasks.parquet", "episodes.jsonl", "episodes"),
    *(EPISODES_STATS, SOURCES, CASES, *_CARRIED),
}
"""What is under ``meta/`` in either format, or follows from it."""
_CASE_FIELDS = "agent_pose, actions, joint_positions, ee_pose"
_STATES = (STATS_STATE, QUANTILES_STATE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    """What a conversion made.

    Attributes:
        root: The new dataset.
        version: Its ``codebase_version``.
        episodes: How many there are.
        rows: Of all of them.
        lost: What the new dataset does not hold, or holds otherwise; one line each.
    """

    root: Path
    version: str
    episodes: int
    rows: int
    lost: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """An episode on its way.

    Attributes:
        index: Its number.
        table: Its rows, numbered as they will be.
        clips: Its videos by key.
        tasks: Its task strings.
        line: What the source's list of episodes says of it.
        pictures: What is known of the statistics of its pictures, by key.
    """

    index: int
    table: pa.Table
    clips: Mapping[str, VideoClip]
    tasks: Sequence[str]
    line: Mapping[str, Any]
    pictures: Mapping[str, Entry]


class Target(Protocol):
    """Stages a dataset of one format, episode by episode."""

    def add(self, part: Part) -> None:
        """Take an episode more."""

    def finish(self, tasks: Sequence[str]) -> None:
        """Stage what tells of all of them."""

    @property
    def lost(self) -> Sequence[str]:
        """What this format does not hold of the source."""


MakeTarget: TypeAlias = Callable[[Transaction, Convertible, Path], Target]
"""``make(change, source, out)``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetFormat:
    """A format that datasets can be converted to.

    Attributes:
        version: ``codebase_version`` of the new dataset.
        make: Makes what stages it.
        folders: Folders below its root that it has beside those of LeRobot.
    """

    version: str
    make: MakeTarget
    folders: Callable[[Convertible], Sequence[str]] = lambda source: ()


def convert_dataset(
    root: Path,
    out: Path,
    target_format: TargetFormat,
    on_episode: Callable[[int, int], None] | None = None,
) -> Converted:
    """Write the dataset at ``root`` as one of another format at ``out``, whole or not at all.

    Args:
        root: The dataset; nothing in it changes.
        out: A folder that is missing or empty.
        target_format: Of the new one.
        on_episode: Told how many of how many episodes are done.

    Raises:
        DatasetError: The source cannot be read or converted, or ``out`` holds something,
            is ``root``, or lies in a dataset.
    """
    check_apart(out, (root,))
    with locked(root):
        if (root / STAGING).exists():
            raise DatasetError(
                "an interrupted save was left in it", where=root, hint="export to it or edit it once more"
            )
        source = open_any(root)
        if not isinstance(source, Convertible):
            raise DatasetError("a dataset of this format cannot be converted", where=root)
        version = target_format.version
        if source.info["codebase_version"] == version:
            raise DatasetError("the dataset has this format already", where=root, got=version)
        if not source.lines:
            raise DatasetError("there is no episode to convert", where=root, hint="export into a new folder")
        with new_or_locked(out) as new_root:
            check_empty(out)
            folders = (*LEROBOT_FOLDERS, *target_format.folders(source))
            change = Transaction(out, new_root=new_root, folders=folders)
            try:
                change.begin()
                target = target_format.make(change, source, out)
                tasks = _fill(target, source, on_episode)
                target.finish(tasks)
                _carry(change, source)
                change.commit()
            except BaseException:
                if not change.committed:
                    change.roll_back()
                raise
    lost = (*_left_out(source), *target.lost)
    rows = sum(line.length for line in source.lines.values())
    return Converted(root=out, version=version, episodes=len(source.lines), rows=rows, lost=lost)


def _fill(
    target: Target, source: Convertible, on_episode: Callable[[int, int], None] | None
) -> tuple[str, ...]:
    """Give the target every episode; gives the task strings by their new numbers."""
    tasks = tuple(source.tasks[i] for i in sorted(source.tasks))
    first, total = 0, len(source.lines)
    for done, (index, pictures) in enumerate(_pictures(source)):
        used_tasks(source, index)
        table = renumbered(_rows(source, index), done, first, source.tasks, tasks)
        _check_columns(source, table, index)
        target.add(
            Part(
                index=done,
                table=table,
                clips={key: source.clip(index, key) for key in source.video_keys},
                tasks=source.lines[index].tasks,
                line=source.episodes[index],
                pictures=pictures,
            )
        )
        first += len(table)
        if on_episode is not None:
            on_episode(done + 1, total)
    return tasks


def _rows(source: Convertible, index: int) -> pa.Table:
    """The rows of an episode without depth images, which only v3.0 holds, and no other format takes."""
    if not isinstance(source, LeRobotV3Reader):
        return source.rows(index)
    depths = depth_features(source.info["features"])
    return source.rows(index, [name for name in source.columns(index) if name not in depths])


def _check_columns(source: Convertible, table: pa.Table, index: int) -> None:
    declared = {k for k, f in source.info["features"].items() if f["dtype"] != "video"}
    if isinstance(source, LeRobotV3Reader):
        declared -= set(depth_features(source.info["features"]))
    if set(table.column_names) != declared:
        raise DatasetError(
            f"the columns of episode {index} are not those that info.json declares",
            where=source.root,
            got=", ".join(sorted(set(table.column_names) ^ declared)),
            hint="piper-collect validate says more",
        )
    nulls = [name for name in table.column_names if table[name].null_count]
    if nulls:
        raise DatasetError(f"values of episode {index} are missing", where=source.root, got=", ".join(nulls))


def _pictures(source: Convertible) -> Iterator[tuple[int, Mapping[str, Entry]]]:
    """What the source tells of the statistics of each episode's pictures."""
    told: dict[int, Mapping[str, Entry]] = {}
    if isinstance(source, LeRobotV3Reader):
        for _, table in episode_tables(source.root, statistics=True):
            told |= {int(row["episode_index"]): stats_of(row) for row in table.to_pylist()}
    elif (source.root / META / EPISODES_STATS).exists():
        lines = read_jsonl(source.root / META / EPISODES_STATS)
        told = {int(line["episode_index"]): line["stats"] for line in lines}
    for index in source.episodes:
        stats = told.get(index, {})
        yield index, {key: stats[key] for key in source.video_keys if key in stats}


def _carry(change: Transaction, source: Convertible) -> None:
    """Stage what is the same in every format."""
    root = source.root
    if source.sources:
        lines = [
            {**source.sources[old], "episode_index": new}
            for new, old in enumerate(source.episodes)
            if old in source.sources
        ]
        change.write(f"{META}/{SOURCES}", jsonl_bytes(lines, SOURCES))
    files = [f"{META}/{name}" for name in _CARRIED if (root / META / name).is_file()]
    if (root / EXTRAS).is_dir() and list(source.episodes) == list(range(len(source.episodes))):
        files += [p.relative_to(root).as_posix() for p in sorted((root / EXTRAS).iterdir()) if p.is_file()]
    for file in (f for f in files if f not in _STATES):
        change.write(file, (root / file).read_bytes())


def _left_out(source: Convertible) -> Iterator[str]:
    root = source.root
    said = known_embodiment(root)
    for path in sorted((root / META).iterdir()):
        if said.ready is not None and path.name == said.ready.file:
            yield f"{META}/{path.name}: of the dataset as it was; validate --ready looks at the new one"
        elif path.name in (RELATIVE_STATS, DELTA_STATS, *said.files):
            yield f"{META}/{path.name}: run finalize on the new dataset"
        elif path.name not in _OWN:
            yield f"{META}/{path.name}: a file that the formats do not know"
    known = {*LEROBOT_FOLDERS}
    if isinstance(source, HDF5CasesReader):
        known |= {case_of(line).robot for line in source.episodes.values()}
        yield f"{_CASE_FIELDS}: they follow from the rows, which are the same"
        yield "resolved_config.yaml, results: sessions and sources tell the same"
    for path in sorted(p for p in root.iterdir() if p.name not in known):
        yield f"{path.name}: beside the dataset's own folders"
    if list(source.episodes) != list(range(len(source.episodes))):
        yield "episode numbers: they had gaps, and go from 0 now; extras are left out"


def depth_features(features: Mapping[str, Any]) -> tuple[str, ...]:
    """Keys of the depth images in rows: pictures of one channel."""
    images = {k: f for k, f in features.items() if f["dtype"] == "image"}
    return tuple(k for k, f in images.items() if len(f["shape"]) == 3 and f["shape"][2] == 1)


def flat_features(features: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Features of a format whose cells are lists at most, and the keys of those that were arrays."""
    arrays = tuple(array_shapes(features))
    flat = {
        k: {**f, "shape": [math.prod(f["shape"])], "names": None} for k, f in features.items() if k in arrays
    }
    return {k: flat.get(k, f) for k, f in features.items()}, arrays


def with_flat_cells(table: pa.Table, arrays: Sequence[str]) -> pa.Table:
    """The rows with the cells of ``arrays`` as lists, row by row."""
    for key in arrays:
        table = table.set_column(
            table.schema.get_field_index(key), key, list_cells(column_values(table, key))
        )
    return table


def flat_notes(features: Mapping[str, Any], arrays: Sequence[str]) -> Iterator[str]:
    """What became of the arrays, one line each."""
    for key in arrays:
        extents = " x ".join(map(str, features[key]["shape"]))
        yield f"{key}: an array of {extents} is a list now, row by row"


def count_pictures(source: Convertible, index: int, key: str) -> ImageHistogram:
    """The pixels of those frames of an episode that LeRobot looks at, from its video.

    Raises:
        DatasetError: A frame cannot be decoded.
    """
    looked = frozenset(sample_rows(source.lines[index].length).tolist())
    histogram = ImageHistogram.empty()
    for number, (_, picture) in enumerate(source.frames(index, key)):
        if number in looked:
            histogram = histogram.added(thin(picture))
    return histogram


def write_json_lines(change: Transaction, name: str, lines: Sequence[Mapping[str, Any]]) -> None:
    """Stage a file of ``meta/`` of one object a line."""
    change.write(f"{META}/{name}", b"".join(json_bytes(line, name, indent=None) for line in lines))
