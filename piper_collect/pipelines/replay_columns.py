"""The recorded motion of an episode, and which columns hold it: ours, or what modality.json describes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from piper_collect.config.profile import load_profile
from piper_collect.core.kinematics import PiperKinematics
from piper_collect.core.se3 import check_unit
from piper_collect.core.tracks import MotionTrack, motion_track
from piper_collect.core.types import FloatArray
from piper_collect.dataset.dialect import EpisodeReader
from piper_collect.dataset.json_files import read_json
from piper_collect.dataset.layout import META, MODALITY, samples_path
from piper_collect.dataset.parquet import TIMESTAMP, column_values, read_table
from piper_collect.errors import DatasetError, KinematicsError

Group = Literal["state", "action"]

_OURS: Mapping[Group, tuple[str, str, str]] = {
    "state": ("observation.arm_joint", "observation.arm_eef", "observation.gripper"),
    "action": ("", "action.arm_eef", "action.gripper"),
}
"""Columns of the joints, the flange pose and the gripper's width."""
_CONCATENATED: Mapping[Group, str] = {"state": "observation.state", "action": "action"}
_WXYZ = ("quat_wxyz", "quaternion")
_WIDEST_M = 0.2
"""A number above this is no gripper width in metres."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slice:
    """Elements ``start`` to ``end`` of a column."""

    column: str
    start: int
    end: int

    def __str__(self) -> str:
        return f"{self.column}[{self.start}:{self.end}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    """Where a group's parts are: a pose in one slice or two, or joints; then the gripper."""

    pose: tuple[_Slice, ...]
    joints: _Slice | None
    width: _Slice | None

    @property
    def first(self) -> str:
        """Column whose times count."""
        parts = self.pose or ((self.joints,) if self.joints else ())
        return parts[0].column

    def __str__(self) -> str:
        motion = self.pose or ((self.joints,) if self.joints else ())
        return ", ".join(map(str, (*motion, *([self.width] if self.width else []))))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ObservedMotion:
    """What was measured when an episode was recorded.

    Attributes:
        time_s: float64 [T] times of the samples, not decreasing, from the first target on.
        pose7: float64 [T, 7] flange poses in base_link.
        width_m: float64 [T] gripper widths, or None.
        joints: float64 [T, 6] in rad, or None.
    """

    time_s: FloatArray
    pose7: FloatArray
    width_m: FloatArray | None
    joints: FloatArray | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordedEpisode:
    """One episode as it is replayed.

    Attributes:
        index: Its number.
        task: Its task string.
        targets: What was commanded; times from 0.
        start_s: When the first target was, in seconds since T0.
        rows: int64 [N] row of each target.
        observed: What was measured, or None where the dataset does not say.
        sources: What each of it was read from, in words.
        notes: What is to be said of it.
    """

    index: int
    task: str
    targets: MotionTrack
    start_s: float
    rows: NDArray[np.int64]
    observed: ObservedMotion | None
    sources: Mapping[str, str]
    notes: tuple[str, ...] = ()


def recorded_episode(reader: EpisodeReader, index: int, kinematics: PiperKinematics) -> RecordedEpisode:
    """Read the motion of an episode.

    Args:
        reader: The dataset.
        index: Number of the episode.
        kinematics: For datasets that have joints and no poses.

    Raises:
        DatasetError: There is no such episode, or its columns do not say the motion.
    """
    episodes = reader.lines
    if index not in episodes:
        known = f"{min(episodes)} to {max(episodes)}" if episodes else "none"
        raise DatasetError("no such episode", where=reader.root, expected=known, got=index)
    action = _layout(reader, "action")
    if action is None:
        raise DatasetError(
            "nothing says which columns command the arm",
            where=reader.root,
            expected=f"action.arm_eef, or {META}/{MODALITY} with action slices of a position and a"
            " quaternion, or of six joints",
            got=sorted(k for k in reader.info["features"] if k.startswith("action")),
        )
    try:
        return _read(reader, index, action, kinematics)
    except KinematicsError as err:
        where = reader.data_path(index)
        raise DatasetError(f"not a motion to replay: {err}", where=where) from err


def _read(reader: EpisodeReader, index: int, action: _Layout, kinematics: PiperKinematics) -> RecordedEpisode:
    table = reader.rows(index)
    times = RowTimes(reader, index, table)
    target_s, said = times.of(action.first)
    newest = _increasing(target_s)
    start_s = float(target_s[newest[0]])
    pose7, width, _ = _values(table, action, kinematics)
    targets = motion_track(
        target_s[newest] - start_s, pose7[newest], None if width is None else width[newest]
    )
    observed, observed_said = _observed(reader, table, times, start_s, kinematics)
    tasks = reader.lines[index].tasks or ("",)
    return RecordedEpisode(
        index=index,
        task=str(tasks[0]),
        targets=targets,
        start_s=start_s,
        rows=newest,
        observed=observed,
        sources={"targets": str(action), "times": said, **observed_said},
        notes=_notes(targets, width, observed, repeated=len(target_s) - len(newest)),
    )


class RowTimes:
    """When what each row shows was taken: the samples' own stamps where the dataset has them."""

    def __init__(self, reader: EpisodeReader, index: int, table: pa.Table) -> None:
        if TIMESTAMP not in table.column_names:
            raise DatasetError("rows have no times", where=reader.data_path(index), expected=TIMESTAMP)
        self._table = table
        self._row_s = column_values(table, TIMESTAMP)[:, 0].astype(np.float64)
        self._sources = {c.key: c.source for c in load_profile("train").columns if c.source}
        for group, column in _CONCATENATED.items():
            self._sources[column] = self._sources[_OURS[group][1]]
        self._samples: pa.Table | None = None
        self._t0_ns = reader.sources.get(index, {}).get("t0_ns")
        samples = reader.root / samples_path(index)
        if self._t0_ns is not None and samples.is_file():
            self._samples = read_table(samples)

    def stamped(self, source: str) -> FloatArray | None:
        """float64 [T] seconds since T0 of the samples of a source or camera that the rows show.

        None where the rows do not have them in a column of their own.
        """
        key = f"source_timestamp.{source}"
        if key not in self._table.column_names:
            return None
        return column_values(self._table, key)[:, 0].astype(np.float64)

    def of(self, column: str) -> tuple[FloatArray, str]:
        """float64 [T] seconds since T0, and the column that they are from."""
        source = self._sources.get(column, "")
        stamped = self.stamped(source)
        if stamped is not None:
            return stamped, f"source_timestamp.{source}"
        samples = self._samples
        if samples is not None and source in samples.column_names and len(samples) == len(self._row_s):
            stamps = samples[source]
            if not stamps.null_count and self._t0_ns is not None:
                offsets = stamps.to_numpy() - int(self._t0_ns)
                return offsets.astype(np.float64) / 1e9, f"the stamps of {source} in extras"
        return self._row_s, TIMESTAMP


def _observed(
    reader: EpisodeReader, table: pa.Table, times: RowTimes, start_s: float, kinematics: PiperKinematics
) -> tuple[ObservedMotion | None, dict[str, str]]:
    layout = _layout(reader, "state")
    if layout is None:
        return None, {}
    pose7, width, joints = _values(table, layout, kinematics)
    observed_s, said = times.of(layout.first)
    finite = np.isfinite(pose7).all(axis=1) & np.isfinite(observed_s)
    if not finite.all():
        where = f"row {int(np.flatnonzero(~finite)[0])}"
        raise KinematicsError("an observation is not finite", where=where)
    check_unit(pose7[:, 3:])
    observed = ObservedMotion(time_s=observed_s - start_s, pose7=pose7, width_m=width, joints=joints)
    return observed, {"observations": str(layout), "their times": said}


def _increasing(time_s: FloatArray) -> NDArray[np.int64]:
    """Rows whose time is newer than all before: a row that repeats a sample commands nothing new."""
    if not len(time_s) or not np.isfinite(time_s).all():
        raise DatasetError("the times of the targets are not finite, or there are none", got=len(time_s))
    newer = np.ones(len(time_s), dtype=bool)
    newer[1:] = time_s[1:] > np.maximum.accumulate(time_s)[:-1]
    return np.flatnonzero(newer)


def _values(
    table: pa.Table, layout: _Layout, kinematics: PiperKinematics
) -> tuple[FloatArray, FloatArray | None, FloatArray | None]:
    """Poses [T, 7], widths [T] or None, joints [T, 6] or None."""
    joints = _cells(table, layout.joints) if layout.joints is not None else None
    if layout.pose:
        pose7 = np.hstack([_cells(table, part) for part in layout.pose])
    elif joints is not None:
        pose7 = kinematics.forward(joints)
    width = _cells(table, layout.width)[:, 0] if layout.width is not None else None
    if width is not None and not np.all(np.abs(width) <= _WIDEST_M):
        raise KinematicsError(
            "the gripper's values are no widths in metres",
            where=str(layout.width),
            expected=f"at most {_WIDEST_M:g} m",
            got=float(np.nanmax(np.abs(width))),
        )
    return pose7, width, joints


def _cells(table: pa.Table, part: _Slice) -> FloatArray:
    if part.column not in table.column_names:
        raise KinematicsError("a column is missing", where=part.column)
    values = column_values(table, part.column)
    if values.shape[1] < part.end:
        raise KinematicsError(
            "a column is too narrow", where=str(part), expected=part.end, got=values.shape[1]
        )
    return np.asarray(values[:, part.start : part.end], dtype=np.float64)


def _layout(reader: EpisodeReader, group: Group) -> _Layout | None:
    """Our columns where they are, else what modality.json says; None where neither tells the motion."""
    features = reader.info["features"]
    joints, pose, width = _OURS[group]
    if pose in features:
        return _Layout(
            pose=(_Slice(column=pose, start=0, end=7),),
            joints=_Slice(column=joints, start=0, end=6) if joints in features else None,
            width=_Slice(column=width, start=0, end=1) if width in features else None,
        )
    path = reader.root / META / MODALITY
    if not path.is_file():
        return None
    entries = read_json(path).get(group)
    return _described(entries, group) if isinstance(entries, dict) else None


def _described(entries: Mapping[str, Any], group: Group) -> _Layout | None:
    """The layout that modality.json describes: a position before a quaternion, or six joints; one width."""
    position, rotation, joints, width = None, None, None, None
    for name, entry in entries.items():
        part = _slice(entry, group)
        if part is None or entry.get("absolute") is False:
            continue
        count, word = part.end - part.start, str(name).lower()
        if entry.get("rotation_type") in _WXYZ and count == 4:
            rotation = rotation or part
        elif count == 3 and "pos" in word:
            position = position or part
        elif count == 6 and ("joint" in word or "arm" in word):
            joints = joints or part
        elif count == 1 and "gripper" in word:
            width = width or part
    pose = (position, rotation) if position is not None and rotation is not None else ()
    if not pose and joints is None:
        return None
    return _Layout(pose=pose, joints=joints, width=width)


def _slice(entry: object, group: Group) -> _Slice | None:
    if not isinstance(entry, Mapping):
        return None
    start, end = entry.get("start"), entry.get("end")
    if not isinstance(start, int) or not isinstance(end, int) or not 0 <= start < end:
        return None
    return _Slice(column=str(entry.get("original_key") or _CONCATENATED[group]), start=start, end=end)


def _notes(
    targets: MotionTrack, width: FloatArray | None, observed: ObservedMotion | None, *, repeated: int
) -> tuple[str, ...]:
    notes = []
    if repeated:
        notes.append(f"{repeated} rows repeat a target and command nothing new")
    if len(targets.time_s) > 1:
        steps = np.diff(targets.time_s)
        longest, usual = float(steps.max()), float(np.median(steps))
        if longest > max(3 * usual, 0.1):
            begin_s = float(targets.time_s[steps.argmax()])
            notes.append(
                f"no target for {longest:.2f} s from {begin_s:.2f} s on: the arm crosses it straight"
            )
    if width is None:
        notes.append("nothing says the gripper's width: it stays as it is")
    if observed is None:
        notes.append(
            "the dataset has no observations of the arm: there is nothing to compare the replay with"
        )
    return tuple(notes)
