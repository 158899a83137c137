"""Statistics of relative and delta actions, for trainers that learn those instead of absolute ones."""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np

from piper_collect.core import windows
from piper_collect.core.se3 import quat_normalize_wxyz
from piper_collect.core.stats import ColumnStats, column_stats
from piper_collect.core.types import FloatArray
from piper_collect.dataset.dialect import EpisodeReader
from piper_collect.dataset.embodiment import known_embodiment
from piper_collect.dataset.guard import locked
from piper_collect.dataset.json_files import json_bytes
from piper_collect.dataset.layout import DELTA_STATS, META, RELATIVE_STATS, STAGING
from piper_collect.dataset.metadata import stats_json
from piper_collect.dataset.numeric import Columns, numeric_width, read_columns
from piper_collect.dataset.pairs import OBSERVATION, ColumnPair, column_pairs
from piper_collect.dataset.readers import open_any
from piper_collect.errors import DatasetError, UsageError
from piper_collect.files import write_atomic
from piper_collect.pipelines.chunk_stats import ChunkResult, chunk_statistics

LONGEST_HORIZON = 10_000
"""Five minutes at 30 Hz: more is a slip of the finger, and work without end."""
DEFAULT_HORIZON = 30
ROT6D_SUFFIX = ".rot6d"

_NORM_TOLERANCE = 1e-3
_KINDS = {RELATIVE_STATS: windows.relative_steps, DELTA_STATS: windows.delta_steps}

Progress: TypeAlias = Callable[[str, int, int], None]
"""Told what is being done, how much of it is done, and of how much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowColumn:
    """What both files hold of one pair of columns.

    Attributes:
        key: Its key in the files.
        pair: The columns.
        shape: (H, E) of each statistic.
    """

    key: str
    pair: ColumnPair
    shape: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkSummary:
    """The statistics over chunks that were made.

    Attributes:
        key: Their entry in the file.
        state: Column that the chunks are seen from.
        action: Column of the actions.
        rate_hz: Steps a second.
        steps: Of a chunk.
        count: Chunks.
    """

    key: str
    state: str
    action: str
    rate_hz: float
    steps: int
    count: int

    @classmethod
    def of(cls, result: ChunkResult) -> "ChunkSummary":
        """What is told of ``result``."""
        c = result.chunks
        return cls(
            key=c.key, state=c.state, action=c.action, rate_hz=c.rate_hz, steps=c.steps, count=result.count
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalizeSummary:
    """What was written.

    Attributes:
        root: The dataset.
        files: The two files, unless no column has a pair, and that of chunks.
        horizon: Steps of a window.
        episodes: Episodes of the dataset.
        rows: Rows, and so windows.
        columns: What has statistics over windows.
        observations: Columns that have statistics over rows.
        left_out: By key of each action column without statistics over windows, why.
        chunks: What has statistics over chunks; None where the dataset's embodiment asks for none.
    """

    root: Path
    files: tuple[Path, ...]
    horizon: int
    episodes: int
    rows: int
    columns: tuple[WindowColumn, ...]
    observations: tuple[str, ...]
    left_out: Mapping[str, str]
    chunks: ChunkSummary | None = None


def finalize(
    root: Path, *, horizon: int = DEFAULT_HORIZON, rot6d: bool = False, on_progress: Progress | None = None
) -> FinalizeSummary:
    """Write ``meta/relative_stats.json``, ``meta/delta_stats.json`` and the statistics that its layout has.

    Nothing else is touched. Each of them is the old file or the new one, whole, at any moment, and
    what is written depends on the dataset alone.

    Memory grows with the N rows and not with H: all observations and paired actions as stored, and for one
    pair of columns at a time state, action and two arrays of one step of its windows, float64 [N, E]. For
    the columns of the profile ``piper`` that is about 0.4 kB a row.

    Args:
        root: The dataset.
        horizon: Steps H of a window.
        rot6d: Whether poses get a second entry, with the first two columns of the rotation matrix in
            place of the quaternion.
        on_progress: See ``Progress``.

    Raises:
        UsageError: The horizon is no number of steps.
        DatasetError: The dataset cannot be read, has no pair of columns or values without statistics,
            or the files cannot be written.
    """
    if not 1 <= horizon <= LONGEST_HORIZON:
        expected = f"1 to {LONGEST_HORIZON}"
        raise UsageError("the horizon is no number of steps", expected=expected, got=horizon)
    if not root.is_dir():
        raise DatasetError("is no dataset", where=root, expected="a folder")
    tell = on_progress or (lambda what, done, total: None)
    # what overflows has no statistics, and is refused where they are made or written
    with locked(root), np.errstate(over="ignore", invalid="ignore"):
        if (root / STAGING).exists():
            raise DatasetError(
                "holds an interrupted save", where=root, hint="run the export again, which repairs it"
            )
        dataset = open_any(root)
        said = known_embodiment(root)
        pairs, left_out = column_pairs(dataset, needed=said.chunks is None)
        columns = _read(dataset, pairs, tell)
        entries = _entries(pairs, horizon, rot6d)
        observations = {
            key: column_stats(columns.values(key)) for key in columns.stored if key.startswith(OBSERVATION)
        }
        made = {name: observations | stats for name, stats in _windows(columns, entries, tell).items()}
        total = len(dataset.lines)
        chunks = chunk_statistics(dataset, said, lambda done: tell("chunks of episodes", done, total))
        if chunks is not None:
            made[chunks.chunks.file] = {chunks.chunks.key: chunks.stats}
        _write(root, made)
    return FinalizeSummary(
        root=root,
        files=tuple(root / META / name for name in made),
        horizon=horizon,
        episodes=len(columns.episodes),
        rows=columns.rows,
        columns=entries,
        observations=tuple(observations),
        left_out=left_out,
        chunks=None if chunks is None else ChunkSummary.of(chunks),
    )


def _read(dataset: EpisodeReader, pairs: tuple[ColumnPair, ...], tell: Progress) -> Columns:
    features = dataset.info["features"]
    keys = [k for k in features if k.startswith(OBSERVATION) and numeric_width(features[k]) is not None]
    keys += [pair.action for pair in pairs]
    total = len(dataset.lines)
    return read_columns(dataset, keys, lambda done: tell("reading episodes", done, total))


def _entries(pairs: tuple[ColumnPair, ...], horizon: int, rot6d: bool) -> tuple[WindowColumn, ...]:
    entries = []
    for pair in pairs:
        entries.append(WindowColumn(key=pair.action, pair=pair, shape=(horizon, pair.width)))
        if rot6d and pair.is_pose:
            shape = (horizon, len(windows.ROT6D_CHANGE.none))
            entries.append(WindowColumn(key=pair.action + ROT6D_SUFFIX, pair=pair, shape=shape))
    return tuple(entries)


def _windows(
    columns: Columns, entries: tuple[WindowColumn, ...], tell: Progress
) -> dict[str, dict[str, ColumnStats]]:
    """Statistics over windows by file and key; no file where there are no entries."""
    found: dict[str, dict[str, ColumnStats]] = {name: {} for name in (_KINDS if entries else ())}
    total = sum(entry.shape[0] for entry in entries) * len(_KINDS)
    count = itertools.count(1)

    def told(key: str, step: FloatArray) -> FloatArray:
        tell(key, next(count), total)
        return step

    for entry in entries:
        state, action = _values(columns, entry.pair)
        for name, steps_of in _KINDS.items():
            steps = steps_of(state, action, columns.lengths, entry.shape[0], _change(entry))
            try:
                found[name][entry.key] = windows.stats_of_steps(map(partial(told, entry.key), steps))
            except ValueError as err:
                raise DatasetError(
                    f"no statistics of its changes: {err}", where=f"column {entry.key}"
                ) from err
    return found


def _values(columns: Columns, pair: ColumnPair) -> tuple[FloatArray, FloatArray]:
    """State and action of a pair, float64 [N, D]; quaternions scaled to a norm of exactly 1."""
    state, action = columns.values(pair.observation), columns.values(pair.action)
    if pair.is_pose:
        for key, values in ((pair.observation, state), (pair.action, action)):
            norm = np.sqrt(np.sum(values[:, 3:] ** 2, axis=1))
            columns.refuse(
                key, np.abs(norm - 1.0) > _NORM_TOLERANCE, "no poses: their quaternion is not unit"
            )
            values[:, 3:] = quat_normalize_wxyz(values[:, 3:])
    return state, action


def _change(entry: WindowColumn) -> windows.Change:
    if not entry.pair.is_pose:
        return windows.vector_change(entry.pair.width)
    return windows.POSE_CHANGE if entry.key == entry.pair.action else windows.ROT6D_CHANGE


def _write(root: Path, content: Mapping[str, Mapping[str, ColumnStats]]) -> None:
    """Make all files before the first is written."""
    made = {root / META / name: json_bytes(stats_json(stats), name) for name, stats in content.items()}
    for path, text in made.items():
        try:
            _remove_leftovers(path)
            write_atomic(path, text)
        except OSError as err:
            raise DatasetError(f"cannot be written: {err.strerror}", where=path) from err


def _remove_leftovers(path: Path) -> None:
    """Remove what killed runs left of ``path``; the caller holds the lock, so none of them is at work."""
    for file in path.parent.glob(f".{path.name}.*.tmp"):
        # named after a process: other tools have temporary files there, too
        if file.name.split(".")[-2].isdigit():
            file.unlink()
