"""The last check before a real arm: what is sent is finite, allowed, near where the arm is, and never old.

The motion layer already keeps to limits and speeds. The guard trusts nobody: a command may come from
anywhere and may be anything. While it holds, the same joints are sent again and again; a command is followed
only if it begins where the arm stands.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from piper_collect.core.arm_report import HOLDING
from piper_collect.core.kinematics import (
    GRIPPER_WIDTH_M,
    JOINT_LIMITS_RAD,
    JOINT_NAMES,
    JOINT_SPEED_RAD_S,
    Joints,
)
from piper_collect.errors import ConfigError

GuardMode: TypeAlias = Literal["hold", "follow"]

_LATE_PERIODS = 2
"""A later step counts as so many control periods: no catching up in one stride."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardConfig:
    """What may be sent to the arm.

    Attributes:
        max_step_rad: How far from its measured angle a joint is ever sent, and how far a command may jump.
        watchdog_s: A command older than this is not followed.
        control_period_s: Nominal time between steps.
        limits_rad: Joint limits.
        speeds_rad_s: How fast a joint's command may move.
        width_m: Least and greatest gripper width.
    """

    max_step_rad: float
    watchdog_s: float
    control_period_s: float
    limits_rad: tuple[tuple[float, float], ...] = JOINT_LIMITS_RAD
    speeds_rad_s: tuple[float, ...] = JOINT_SPEED_RAD_S
    width_m: tuple[float, float] = GRIPPER_WIDTH_M

    def __post_init__(self) -> None:
        for name in ("max_step_rad", "watchdog_s", "control_period_s"):
            if not 0.0 < getattr(self, name) < math.inf:
                raise ConfigError(
                    "not a usable setting", where=name, expected="above 0", got=getattr(self, name)
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmCommand:
    """A joint command as it came.

    Attributes:
        q: Joints in rad.
        width_m: Gripper width.
        age_s: Since it was sent.
    """

    q: Sequence[float]
    width_m: float
    age_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardState:
    """What is sent to the arm now.

    Attributes:
        q: Joints in rad.
        width_m: Gripper width.
        mode: ``hold`` or ``follow``.
        followed: Whether a command has ever been followed.
        commanded: The last command that was followed; None while holding.
        reason: Why it holds, or what it keeps from the command; empty when all is well.
    """

    q: Joints
    width_m: float
    mode: GuardMode = "hold"
    followed: bool = False
    commanded: Joints | None = None
    reason: str = ""


def guard_hold(config: GuardConfig, q: Joints, width_m: float) -> GuardState:
    """Begin with holding what was measured: joints in rad, and the width, inside the gripper's range."""
    return GuardState(q=q, width_m=_clamp(width_m, *config.width_m))


def guard_step(
    config: GuardConfig,
    state: GuardState,
    measured: Joints,
    command: ArmCommand | None,
    fault: str,
    dt_s: float,
) -> GuardState:
    """What to send next.

    Args:
        config: What may be sent.
        state: What was sent last.
        measured: Joints as they are, in rad.
        command: The newest command there is, however old; None before the first.
        fault: Why the arm must stand still; empty if it need not.
        dt_s: Time since the last step.
    """
    if fault:
        return _hold(state, measured, f"{fault}{HOLDING}")
    if command is None or command.age_s > config.watchdog_s:
        silent = f"no joint command for {config.watchdog_s:g} s: holding" if state.followed else ""
        return _hold(state, measured, silent)
    refusal = _refusal(config, state, measured, command)
    if refusal:
        return _hold(state, measured, refusal)
    return _follow(config, state, measured, command, dt_s)


def _hold(state: GuardState, measured: Joints, reason: str) -> GuardState:
    """Stand where the arm is now, or go on standing; the gripper keeps its last width, and so its grasp."""
    q = measured if state.mode == "follow" else state.q
    return replace(state, q=q, mode="hold", commanded=None, reason=reason)


def _refusal(config: GuardConfig, state: GuardState, measured: Joints, command: ArmCommand) -> str:
    if len(command.q) != len(JOINT_NAMES) or not all(map(math.isfinite, (*command.q, command.width_m))):
        return "the joint command is not six finite angles and a width: holding"
    begin, words = (
        (measured, "where it stands") if state.commanded is None else (state.commanded, "its last command")
    )
    for name, wanted, from_rad in zip(JOINT_NAMES, command.q, begin, strict=True):
        if abs(wanted - from_rad) > config.max_step_rad:
            return f"{name} is commanded more than {config.max_step_rad:g} rad from {words}: holding"
    return ""


def _follow(
    config: GuardConfig, state: GuardState, measured: Joints, command: ArmCommand, dt_s: float
) -> GuardState:
    dt = _clamp(dt_s, 0.0, _LATE_PERIODS * config.control_period_s)
    reason = ""
    joints = []
    for index, (name, wanted, last, now) in enumerate(
        zip(JOINT_NAMES, command.q, state.q, measured, strict=True)
    ):
        low, high = config.limits_rad[index]
        step = config.speeds_rad_s[index] * dt
        slow = _clamp(wanted, last - step, last + step)
        near = _clamp(slow, now - config.max_step_rad, now + config.max_step_rad)
        # an arm that stands outside its limits may stay there or come back, not go further
        inside = _clamp(near, min(low, now), max(high, now))
        if inside != near:
            reason = f"{name} is commanded beyond its limit: kept at it"
        elif near != slow:
            reason = f"{name} does not follow its command"
        joints.append(inside)
    q1, q2, q3, q4, q5, q6 = joints
    c1, c2, c3, c4, c5, c6 = command.q
    return GuardState(
        q=(q1, q2, q3, q4, q5, q6),
        width_m=_clamp(command.width_m, *config.width_m),
        mode="follow",
        followed=True,
        commanded=(c1, c2, c3, c4, c5, c6),
        reason=reason,
    )


def _clamp(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)
