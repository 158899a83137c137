"""A motion over time: flange poses and gripper widths at their own times, and anything between them."""

import math
from dataclasses import dataclass

import numpy as np

from piper_collect.core.kinematics import Pose7
from piper_collect.core.motion_limits import rotation_between, shift_at_most, turn_at_most
from piper_collect.core.se3 import check_unit, continuous_sign, quat_normalize_wxyz, slerp
from piper_collect.core.types import FloatArray
from piper_collect.errors import KinematicsError


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MotionTrack:
    """Poses and widths in the order of time.

    Attributes:
        time_s: float64 [N], strictly increasing.
        pose7: float64 [N, 7] in base_link, unit quaternions wxyz that keep their sign from row to row.
        width_m: float64 [N] gripper widths; None where nobody says any.
    """

    time_s: FloatArray
    pose7: FloatArray
    width_m: FloatArray | None = None

    @property
    def duration_s(self) -> float:
        """From the first time to the last."""
        return float(self.time_s[-1] - self.time_s[0])


def motion_track(time_s: FloatArray, pose7: FloatArray, width_m: FloatArray | None = None) -> MotionTrack:
    """A checked track.

    Args:
        time_s: [N], at least one.
        pose7: [N, 7]; quaternions may be off unit norm by 1e-3, and of either sign.
        width_m: [N], or None.

    Raises:
        KinematicsError: A number is not finite, times do not increase, or a quaternion has not unit norm;
            names the row.
    """
    if len(time_s) == 0 or pose7.shape != (len(time_s), 7):
        raise KinematicsError("no motion", expected="[N] times and [N, 7] poses, N > 0", got=pose7.shape)
    parts = (time_s[:, None], pose7, *([] if width_m is None else [width_m[:, None]]))
    wrong = np.flatnonzero(~np.isfinite(np.hstack(parts)).all(axis=1))
    if len(wrong):
        raise KinematicsError("a number is not finite", where=f"row {wrong[0]}", got=pose7[wrong[0]].tolist())
    back = np.flatnonzero(np.diff(time_s) <= 0)
    if len(back):
        got = f"{time_s[back[0] + 1]:.6f} s after {time_s[back[0]]:.6f} s"
        raise KinematicsError("times do not increase", where=f"row {back[0] + 1}", got=got)
    check_unit(pose7[:, 3:])
    quats = continuous_sign(quat_normalize_wxyz(pose7[:, 3:]))
    return MotionTrack(time_s=time_s, pose7=np.hstack([pose7[:, :3], quats]), width_m=width_m)


def track_at(track: MotionTrack, time_s: FloatArray) -> tuple[FloatArray, FloatArray | None]:
    """Poses [M, 7] and widths [M] at times [M]: positions and widths straight, rotations by slerp.

    Before the first and after the last time it is the first and the last.
    """
    times = track.time_s
    inside = np.clip(time_s, times[0], times[-1])
    after = np.clip(np.searchsorted(times, inside, side="right"), 1, max(len(times) - 1, 1))
    before = after - 1
    after = np.minimum(after, len(times) - 1)
    step = times[after] - times[before]
    share = np.where(step > 0, (inside - times[before]) / np.where(step > 0, step, 1.0), 0.0)
    position = _between(track.pose7[before, :3], track.pose7[after, :3], share[:, None])
    quat = slerp(track.pose7[before, 3:], track.pose7[after, 3:], share)
    width = None
    if track.width_m is not None:
        width = _between(track.width_m[before], track.width_m[after], share)
    return np.hstack([position, quat]), width


def pose_at(track: MotionTrack, time_s: float) -> tuple[Pose7, float | None]:
    """``track_at`` of one time in plain floats: the path for control loops."""
    times = track.time_s
    after = min(max(int(np.searchsorted(times, time_s, side="right")), 1), len(times) - 1)
    before = max(after - 1, 0)
    start, end = float(times[before]), float(times[after])
    share = min(max((time_s - start) / (end - start), 0.0), 1.0) if end > start else 0.0
    x0, y0, z0, *quat0 = track.pose7[before].tolist()
    x1, y1, z1, *quat1 = track.pose7[after].tolist()
    position = shift_at_most((x0, y0, z0), (x1, y1, z1), math.dist((x0, y0, z0), (x1, y1, z1)) * share)
    first, second = (quat0[0], quat0[1], quat0[2], quat0[3]), (quat1[0], quat1[1], quat1[2], quat1[3])
    quat = turn_at_most(first, second, rotation_between(first, second) * share)
    width = None
    if track.width_m is not None:
        width = float(track.width_m[before] + share * (track.width_m[after] - track.width_m[before]))
    return (*position, *quat), width


def _between(a: FloatArray, b: FloatArray, share: FloatArray) -> FloatArray:
    """Exact at both ends, which ``a + share * (b - a)`` is not."""
    mixed: FloatArray = np.where(share == 1.0, b, a + share * (b - a))
    return mixed
