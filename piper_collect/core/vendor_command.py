"""A joint command of ours as the arm's vendor node must get it.

``piper_ros`` takes the joints by name and sends a joint that is not named to zero; it takes the gripper from
the seventh place, whatever its name, makes a negative width positive, and reads the speed from the seventh
velocity and the gripper's torque from the seventh effort. Its older branch takes all by place. So all seven
go out, always, in one order.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from piper_collect.core.kinematics import GRIPPER_NAME, GRIPPER_WIDTH_M, JOINT_LIMITS_RAD, JOINT_NAMES, Joints
from piper_collect.errors import KinematicsError

EFFORT_N_M = (0.5, 3.0)
"""Gripper torques that ``piper_ros`` lets through."""

SPEED_PERCENT = (1, 100)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRules:
    """What may be sent, and in which terms.

    Attributes:
        joint_factor: Turns true radians into those that the vendor's node must be told.
        width_multiple: What that node multiplies a width by.
        max_width_m: Greatest opening.
        max_step_rad: Furthest that a joint may be sent from where it is measured.
        speed_percent: Share of the arm's speed, 1 to 100; None to say nothing of speed and torque.
        effort_n_m: Gripper torque.
        limits_rad: Joint limits.
    """

    joint_factor: float = 1.0
    width_multiple: float = 1.0
    max_width_m: float = GRIPPER_WIDTH_M[1]
    max_step_rad: float = 0.5
    speed_percent: int | None = 100
    effort_n_m: float = 1.0
    limits_rad: tuple[tuple[float, float], ...] = JOINT_LIMITS_RAD


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorCommand:
    """A JointState for the vendor's node: seven names, seven positions, seven of the rest or none."""

    position: tuple[float, ...]
    velocity: tuple[float, ...] = ()
    effort: tuple[float, ...] = ()
    names: tuple[str, ...] = (*JOINT_NAMES, GRIPPER_NAME)


def vendor_command(
    rules: CommandRules, q: Sequence[float], width_m: float, measured_q: Joints
) -> VendorCommand:
    """The command that moves joints to ``q`` and the gripper to ``width_m``.

    Joints beyond a limit are sent to the limit, widths into the gripper's range.

    Args:
        rules: What may be sent.
        q: Six joints in rad.
        width_m: Full opening.
        measured_q: Where the joints are.

    Raises:
        KinematicsError: A number is not finite, or a joint would be sent too far from where it is.
    """
    if len(q) != len(JOINT_NAMES) or not all(map(math.isfinite, (*q, width_m))):
        raise KinematicsError("a joint command is six finite angles and a width", got=[*q, width_m])
    joints = [
        min(max(float(wanted), low), high) for wanted, (low, high) in zip(q, rules.limits_rad, strict=True)
    ]
    for name, wanted, there in zip(JOINT_NAMES, joints, measured_q, strict=True):
        if abs(wanted - there) > rules.max_step_rad:
            raise KinematicsError(
                "a joint is commanded too far from where it is",
                where=name,
                expected=f"at most {rules.max_step_rad:g} rad from {there:.3f}",
                got=f"{wanted:.3f}",
            )
    width = min(max(float(width_m), 0.0), rules.max_width_m) / rules.width_multiple
    position = (*(rules.joint_factor * joint for joint in joints), width)
    if rules.speed_percent is None:
        return VendorCommand(position=position)
    return VendorCommand(
        position=position,
        velocity=(*(0.0 for _ in JOINT_NAMES), float(_into(rules.speed_percent, *SPEED_PERCENT))),
        effort=(*(0.0 for _ in JOINT_NAMES), _into(rules.effort_n_m, *EFFORT_N_M)),
    )


def _into(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)
