"""The last gate before an episode is written: is it what the dataset's columns say?"""

from collections.abc import Iterable

import numpy as np

from piper_collect.config.profile import ColumnSpec, Profile
from piper_collect.core.types import Episode, FloatArray
from piper_collect.errors import DatasetError

_UNIT_TOLERANCE = 1e-3


def checked_columns(episode: Episode, profile: Profile) -> dict[str, FloatArray]:
    """The columns of ``episode`` by column key, in the order of the profile.

    Raises:
        DatasetError: when there are no rows or no task, ticks do not increase, or a column is missing,
            has another shape, a value that is not finite, or a rotation that is not a unit quaternion.
    """
    if not episode.task.strip():
        raise DatasetError("the episode has no task", where=episode.name, got=repr(episode.task))
    _check_ticks(episode)
    return {column.key: _checked_column(episode, column) for column in profile.columns}


def check_cameras(episode: Episode, cameras: Iterable[str]) -> None:
    """Check that the episode has exactly the dataset's cameras.

    Raises:
        DatasetError: naming both lists.
    """
    if set(episode.cameras) != set(cameras):
        raise DatasetError(
            "the episode has other cameras than the dataset",
            where=episode.name,
            expected=sorted(cameras) or "none",
            got=sorted(episode.cameras) or "none",
        )


def _check_ticks(episode: Episode) -> None:
    if episode.length == 0:
        raise DatasetError("the episode has no rows", where=episode.name)
    if episode.tick_ns.ndim != 1 or episode.tick_ns.dtype != np.int64:
        raise DatasetError(
            "the ticks are not int64 nanoseconds", where=episode.name, got=episode.tick_ns.dtype
        )
    if episode.tick_ns[0] < episode.t0_ns or np.any(np.diff(episode.tick_ns) <= 0):
        raise DatasetError("the ticks do not increase from T0", where=episode.name)


def _checked_column(episode: Episode, column: ColumnSpec) -> FloatArray:
    where = f"{episode.name}, column {column.key}"
    if column.source not in episode.columns:
        raise DatasetError(
            "the episode lacks a source", where=where, got=column.source, valid=sorted(episode.columns)
        )
    values = episode.columns[column.source]
    expected = (episode.length, len(column.names))
    if values.shape != expected:
        raise DatasetError("the values have another shape", where=where, expected=expected, got=values.shape)
    with np.errstate(over="ignore"):
        bad = np.flatnonzero(~np.isfinite(values.astype(np.float32)).all(axis=1))
    if bad.size:
        raise DatasetError(
            f"{bad.size} rows are not finite float32 numbers",
            where=f"{where}, row {bad[0]}",
            got=values[bad[0]].tolist(),
        )
    if column.rotation == "quat_wxyz":
        norm = np.linalg.norm(values[:, -4:], axis=1)
        bad = np.flatnonzero(np.abs(norm - 1.0) > _UNIT_TOLERANCE)
        if bad.size:
            raise DatasetError(
                f"{bad.size} rows are no unit quaternions",
                where=f"{where}, row {bad[0]}",
                expected="norm 1",
                got=f"norm {norm[bad[0]]:.6g}",
            )
    return values
