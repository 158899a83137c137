"""From an aligned episode to the columns of its rows, as a profile wants them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from piper_collect.config.column_parts import ColumnPart
from piper_collect.config.column_spec import ColumnSpec
from piper_collect.config.profile import Profile
from piper_collect.core.column_forms import in_form, local_poses, next_rows, tool_pose
from piper_collect.core.sampling import grid_timestamps, tick_offsets
from piper_collect.core.types import NO_SAMPLE, Episode, FloatArray
from piper_collect.errors import DatasetError

SOURCE_TIMESTAMP = "source_timestamp."
SOURCE_STATE = "source_state."
VALID, INVALID = "valid", "invalid"

_UNIT_TOLERANCE = 1e-3
_ROUNDING_NS = 1  # T0 of a part of a recording is a row, rounded to whole ns as the others are
_NS_PER_S = 1e9
_SUCCESS = "success"


def is_whole(episode: Episode) -> bool:
    """Whether nothing is known to be missing of the recording."""
    return not episode.provenance.get("incomplete_reasons")


def task_strings(episode: Episode, profile: Profile) -> tuple[str, ...]:
    """The lines of tasks.jsonl that the rows of ``episode`` point at, its task first."""
    validity = any(c.value == "validity" for c in profile.columns)
    return (episode.task, *((VALID if is_whole(episode) else INVALID,) if validity else ()))


def row_columns(
    episode: Episode, profile: Profile, cameras: Iterable[str], tasks: Sequence[str]
) -> dict[str, NDArray[Any]]:
    """The cells [T, D] of every column by key, in the order of the profile, then the samples' columns.

    Args:
        episode: Aligned rows.
        profile: Columns.
        cameras: The dataset's cameras and depth images, in their order.
        tasks: The lines of tasks.jsonl; those of ``task_strings`` are among them.

    Raises:
        DatasetError: when there are no rows or no task, ticks do not increase, or a column is missing,
            has another shape, a value that is not finite, or a rotation that is not a unit quaternion.
    """
    if not episode.task.strip():
        raise DatasetError("the episode has no task", where=episode.name, got=repr(episode.task))
    _check_ticks(episode)
    by_key = {c.key: _source_column(episode, c) for c in profile.columns if c.source}
    columns: dict[str, NDArray[Any]] = {}
    tool = tool_pose(profile.tool.translation_m, profile.tool.yaw_deg)
    for column in profile.stored:
        if column.value:
            columns[column.key] = _row_value(episode, profile, column, tasks)
        elif column.concat:
            columns[column.key] = np.concatenate([by_key[k] for k in column.concat], axis=1)
        elif column.parts:
            columns[column.key] = np.concatenate(
                [_part(p, by_key, tool, episode.length) for p in column.parts], axis=1
            )
        else:
            columns[column.key] = by_key[column.key]
    if profile.row_samples == "columns":
        for name in (*profile.sources, *cameras):
            columns[SOURCE_TIMESTAMP + name] = _sample_times(episode, name)[:, None]
            columns[SOURCE_STATE + name] = episode.samples[name].state[:, None]
    return columns


def _part(part: ColumnPart, by_key: Mapping[str, FloatArray], tool: FloatArray, length: int) -> FloatArray:
    if part.form == "zeros":
        return np.zeros((length, part.count))
    values = by_key[part.column]
    if part.local:
        of = in_form(values, "as_is", tool) if part.tool else values
        formed = in_form(local_poses(of), part.form)
    else:
        formed = in_form(values, part.form, tool if part.tool else None)
    return next_rows(formed) if part.next_row else formed


def row_timestamps(episode: Episode, profile: Profile, fps: float) -> NDArray[np.float32]:
    """float32 [T] seconds since T0; the difference is taken in int64 and divided last.

    Raises:
        DatasetError: the profile wants k/fps and the rows do not lie there.
    """
    since_ns = episode.tick_ns - episode.t0_ns
    if profile.timestamp == "nearest":
        seconds: NDArray[np.float32] = (since_ns / 1e9).astype(np.float32)
        return seconds
    off = np.flatnonzero(np.abs(since_ns - tick_offsets(fps, episode.length)) > _ROUNDING_NS)
    if off.size:
        raise DatasetError(
            f"{off.size} rows do not lie at T0 + k/{fps:g} s",
            where=f"{episode.name}, row {off[0]}",
            got=f"{since_ns[off[0]]} ns after T0",
        )
    return grid_timestamps(fps, episode.length)


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


def _sample_times(episode: Episode, name: str) -> FloatArray:
    """Seconds since T0 of the sample that each row shows.

    Raises:
        DatasetError: a row shows none.
    """
    _check_sampled(episode, name)
    times: FloatArray = (episode.samples[name].stamp_ns - episode.t0_ns) / _NS_PER_S
    return times


def _check_sampled(episode: Episode, name: str) -> None:
    """Check that each row shows a sample.

    Raises:
        DatasetError: A row shows none, or there is no such source or camera.
    """
    if name not in episode.samples:
        raise DatasetError(
            "there is no such source or camera", where=episode.name, got=name, valid=episode.samples
        )
    stamp_ns = episode.samples[name].stamp_ns
    none = np.flatnonzero(stamp_ns == NO_SAMPLE)
    if none.size:
        raise DatasetError(
            f"{none.size} rows have no sample of {name} at or before them",
            where=f"{episode.name}, row {none[0]}",
            hint="a camera that is not required may be missing there: leave it out of the configuration",
        )


def _row_value(episode: Episode, profile: Profile, column: ColumnSpec, tasks: Sequence[str]) -> NDArray[Any]:
    length = episode.length
    if column.value == "unix_time":
        return (episode.tick_ns / _NS_PER_S)[:, None]
    if column.value == "sample_time":
        if column.of not in episode.samples:
            raise DatasetError(
                f"column {column.key} tells of a source or camera that the recording does not have",
                where=f"profile {profile.name}",
                got=column.of,
                valid=episode.samples,
                hint="name it so in the session's configuration (--config), or take another profile",
            )
        _check_sampled(episode, column.of)
        return (episode.samples[column.of].stamp_ns / _NS_PER_S)[:, None]
    if column.value in ("reward", "done"):
        last = (np.arange(length) == length - 1)[:, None]
        success = episode.provenance.get("outcome") == _SUCCESS and episode.part == episode.parts - 1
        return np.asarray(last if column.value == "done" else (last & success).astype(np.float64))
    task, *validity = task_strings(episode, profile)
    line = tasks.index(task if column.value == "task" else validity[0])
    return np.full((length, 1), line, dtype=np.int64)


def _check_ticks(episode: Episode) -> None:
    if episode.length == 0:
        raise DatasetError("the episode has no rows", where=episode.name)
    if episode.tick_ns.ndim != 1 or episode.tick_ns.dtype != np.int64:
        raise DatasetError(
            "the ticks are not int64 nanoseconds", where=episode.name, got=episode.tick_ns.dtype
        )
    if episode.tick_ns[0] < episode.t0_ns or np.any(np.diff(episode.tick_ns) <= 0):
        raise DatasetError("the ticks do not increase from T0", where=episode.name)


def _source_column(episode: Episode, column: ColumnSpec) -> FloatArray:
    where = f"{episode.name}, column {column.key}"
    if column.source not in episode.columns:
        raise DatasetError(
            "the episode lacks a source", where=where, got=column.source, valid=sorted(episode.columns)
        )
    values = episode.columns[column.source]
    expected = (episode.length, column.width)
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
        _check_rotations(values, where)
    return values


def _check_rotations(values: FloatArray, where: str) -> None:
    norm = np.linalg.norm(values[:, -4:], axis=1)
    bad = np.flatnonzero(np.abs(norm - 1.0) > _UNIT_TOLERANCE)
    if bad.size:
        raise DatasetError(
            f"{bad.size} rows are no unit quaternions",
            where=f"{where}, row {bad[0]}",
            expected="norm 1",
            got=f"norm {norm[bad[0]]:.6g}",
        )
