"""What can be said of recorded targets before anything moves: whether each can be reached, and how fast."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from piper_collect.core.kinematics import Joints, Pose7
from piper_collect.core.motion import MotionConfig, is_posture_jump
from piper_collect.core.motion_limits import into_box
from piper_collect.core.se3 import pose_error
from piper_collect.core.tracks import MotionTrack
from piper_collect.core.types import FloatArray
from piper_collect.errors import SessionError

ROUNDING_M = 1e-6
"""float32 columns are off by less than that; no target is out of the box for it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reach:
    """How the arm reaches every target.

    Attributes:
        joints: float64 [N, 6] in rad, inside the limits, each in the posture of the one before.
        greatest_speed: Seconds of the episode a second at which a limit begins to act; infinite where
            nothing moves.
        limit: The limit that acts first.
        clamped_widths: Targets whose gripper width is out of the gripper's range.
        clamped_width_m: The furthest of them.
    """

    joints: FloatArray
    greatest_speed: float
    limit: str
    clamped_widths: int = 0
    clamped_width_m: float = 0.0

    @property
    def first_q(self) -> Joints:
        """Joints of the first target."""
        return _joints(self.joints[0])


def check_reach(
    config: MotionConfig, targets: MotionTrack, rows: Sequence[int], near_q: Sequence[float]
) -> Reach:
    """Find the joints of every target.

    Args:
        config: What the arm may do.
        targets: What was commanded.
        rows: [N] row of the dataset that each target comes from, for messages.
        near_q: Joints near those of the first target, which choose its posture.

    Raises:
        SessionError: A target is outside the workspace box or cannot be reached; names row and reason.
    """
    found: list[Joints] = []
    last = _joints(near_q)
    for row, pose7 in zip(rows, targets.pose7.tolist(), strict=True):
        _check_box(config, pose7, row)
        solution = config.kinematics.inverse_near(pose7, last, config.limits_rad)
        if solution is None:
            limits = "outside the joint limits" if config.kinematics.inverse(pose7) else "out of reach"
            raise _refused(row, f"the target is {limits}", pose7)
        if found and is_posture_jump(last, solution):
            raise _refused(row, "the target asks for another posture than the one before", pose7)
        found.append(solution)
        last = solution
    joints = np.array(found)
    speed, limit = _greatest_speed(config, targets, joints)
    beyond = _width_beyond(config, targets)
    return Reach(
        joints=joints,
        greatest_speed=speed,
        limit=limit,
        clamped_widths=int(np.count_nonzero(beyond > ROUNDING_M)),
        clamped_width_m=float(beyond.max(initial=0.0)),
    )


def _check_box(config: MotionConfig, pose7: Sequence[float], row: int) -> None:
    x, y, z = pose7[:3]
    boxed = into_box((x, y, z), config.workspace_min_m, config.workspace_max_m)
    away = math.dist(boxed, (x, y, z))
    if away > ROUNDING_M:
        raise SessionError(
            f"the target is {away * 1e3:.1f} mm outside the workspace box",
            where=f"row {row}",
            expected=f"x, y, z from {config.workspace_min_m} to {config.workspace_max_m} m",
            got=f"{x:.4f}, {y:.4f}, {z:.4f} m",
            hint="if the arm has room there, widen teleop.workspace_min_m and workspace_max_m in --config",
        )


def _refused(row: int, what: str, pose7: Sequence[float]) -> SessionError:
    shown: Pose7 | list[float] = [round(value, 4) for value in pose7]
    return SessionError(what, where=f"row {row}", got=shown, hint="is arm.dh_offset that of this arm?")


def _greatest_speed(config: MotionConfig, targets: MotionTrack, joints: FloatArray) -> tuple[float, str]:
    """The speed at which the first limit acts on the straight ways between targets."""
    step_s = np.diff(targets.time_s)
    metres, radians = pose_error(targets.pose7[:-1], targets.pose7[1:])
    needs = {
        "teleop.max_linear_m_s": metres / config.max_linear_m_s,
        "teleop.max_angular_rad_s": radians / config.max_angular_rad_s,
        "teleop.joint_speed_scale": np.max(np.abs(np.diff(joints, axis=0)) / config.speeds_rad_s, axis=1),
    }
    if targets.width_m is not None:
        low, high = config.gripper_width_m
        moved_m = np.abs(np.diff(np.clip(targets.width_m, low, high)))
        needs["teleop.max_gripper_m_s"] = moved_m / config.max_gripper_m_s
    shares = {name: float((need_s / step_s).max(initial=0.0)) for name, need_s in needs.items()}
    limit = max(shares, key=lambda name: shares[name])
    return (1.0 / shares[limit] if shares[limit] > 0.0 else math.inf), limit


def _width_beyond(config: MotionConfig, targets: MotionTrack) -> FloatArray:
    if targets.width_m is None:
        return np.zeros(0)
    beyond: FloatArray = np.abs(targets.width_m - np.clip(targets.width_m, *config.gripper_width_m))
    return beyond


def _joints(q: Sequence[float] | FloatArray) -> Joints:
    q1, q2, q3, q4, q5, q6 = (float(value) for value in q)
    return q1, q2, q3, q4, q5, q6
