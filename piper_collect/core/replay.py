"""Replaying recorded targets: slowly to the first of them, then each at its time, through the motion layer.

Everything that is commanded comes out of ``motion_step``. The way to the first pose is that of homing, from
where the arm is measured, at a speed of its own; then the targets follow at their recorded times, divided by
the speed. Any doubt ends in ``stopped``: the command stays where it is (where the arm is, if something holds
it), and nothing starts again by itself.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from piper_collect.core.clutch import TeleopGoal
from piper_collect.core.kinematics import JOINT_NAMES, Joints, Pose7
from piper_collect.core.motion import (
    MotionConfig,
    MotionResult,
    MotionState,
    motion_step,
    start_home,
    start_motion,
    stop_motion,
)
from piper_collect.core.motion_limits import MIN_JERK_PEAK, flange_step
from piper_collect.core.replay_settings import ReplaySettings
from piper_collect.core.tether import hold_at
from piper_collect.core.tracks import MotionTrack, pose_at
from piper_collect.errors import ConfigError, SessionError

Phase: TypeAlias = Literal["approach", "settle", "replay", "finish", "done", "stopped"]

_LATE_PERIODS = 2
"""A later step counts as so many control periods, as in the motion layer."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReplayPlan:
    """What is replayed, and under which limits.

    Attributes:
        motion: What the arm may do; its home is the first pose, its homing speed that of the approach.
        targets: What was commanded; times from 0.
        speed: Seconds of the episode that pass in a second.
        settings: Approach and tethers.
    """

    motion: MotionConfig
    targets: MotionTrack
    speed: float
    settings: ReplaySettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayState:
    """How far a replay is.

    Attributes:
        motion: What has been commanded.
        phase: ``approach`` the first pose, ``settle`` there, ``replay``, ``finish`` at the last pose,
            ``done``; or ``stopped`` before that.
        phase_s: Time in the phase.
        clock_s: Time in the episode; runs in ``replay`` and ``finish``.
        waited_s: What the clock waited for steps that came late, so that the arm never hurries after it.
        reason: Why it stopped.
    """

    motion: MotionState
    phase: Phase = "approach"
    phase_s: float = 0.0
    clock_s: float = 0.0
    waited_s: float = 0.0
    reason: str = ""


def plan_replay(
    motion: MotionConfig, targets: MotionTrack, speed: float, settings: ReplaySettings, first_q: Joints
) -> ReplayPlan:
    """A plan.

    Args:
        motion: What the arm may do.
        targets: What was commanded.
        speed: Seconds of the episode that pass in a second.
        settings: Approach and tethers.
        first_q: Joints of the first target.

    Raises:
        ConfigError: The approach is faster than the joints may be, or its end is not allowed.
    """
    fastest = min(motion.speeds_rad_s)
    if settings.approach_rad_s > fastest:
        raise ConfigError(
            "the approach is faster than the joints may be",
            where="replay.approach_rad_s",
            expected=f"at most {fastest:g} rad/s, with this teleop.joint_speed_scale",
            got=settings.approach_rad_s,
        )
    limited = replace(motion, home_q=first_q, home_speed_rad_s=settings.approach_rad_s)
    return ReplayPlan(motion=limited, targets=targets, speed=speed, settings=settings)


def begin_replay(plan: ReplayPlan, q: Sequence[float], width_m: float) -> ReplayState:
    """Begin where the arm is: nothing has moved yet.

    Args:
        plan: What is replayed.
        q: Measured joints [6] in rad.
        width_m: Measured gripper width.

    Raises:
        SessionError: The arm stands outside its limits, or the way dips under the workspace floor.
    """
    motion = start_motion(plan.motion, q, width_m)
    try:
        return ReplayState(motion=start_home(plan.motion, motion))
    except SessionError as err:
        raise SessionError(
            "the way to the first pose dips under the workspace floor",
            expected=err.expected,
            got=err.got,
            hint=err.hint,
        ) from err


def stop_replay(state: ReplayState, reason: str) -> ReplayState:
    """Stop for good; what was commanded last stays commanded."""
    if state.phase in ("done", "stopped"):
        return state
    return replace(state, motion=stop_motion(state.motion, reason), phase="stopped", reason=reason)


def replay_step(
    plan: ReplayPlan, state: ReplayState, measured_q: Sequence[float], fault: str, dt_s: float
) -> tuple[ReplayState, MotionResult]:
    """One control tick.

    Args:
        plan: What is replayed.
        state: From the last step.
        measured_q: Joints as they are, in rad, finite.
        fault: Why the arm must not move; empty if it may.
        dt_s: Time since the last step; a late step counts as two control periods.
    """
    if fault:
        state = stop_replay(state, fault)
    elif state.phase not in ("done", "stopped") and (held := _trailing(plan, state, measured_q)):
        state = stop_replay(replace(state, motion=hold_at(plan.motion, state.motion, measured_q, held)), held)
    dt = min(max(dt_s, 0.0), _LATE_PERIODS * plan.motion.control_period_s)
    if state.phase in ("done", "stopped"):
        motion, result = motion_step(plan.motion, state.motion, None, dt)
        return replace(state, motion=motion), result
    state = replace(state, phase_s=state.phase_s + dt)
    if state.phase == "approach":
        motion, result = motion_step(plan.motion, state.motion, None, dt)
        state = replace(state, motion=motion)
        return (state if motion.mode == "home" else _enter(state, "settle")), result
    return _follow(plan, state, dt, max(dt_s, 0.0) - dt)


def approach_s(plan: ReplayPlan, q: Sequence[float]) -> float:
    """How long the way from joints ``q`` to the first pose takes."""
    longest = max(abs(b - a) for a, b in zip(q, plan.motion.home_q, strict=True))
    return MIN_JERK_PEAK * longest / plan.motion.home_speed_rad_s


def _follow(
    plan: ReplayPlan, state: ReplayState, dt: float, late_s: float
) -> tuple[ReplayState, MotionResult]:
    """Towards the target of this moment."""
    if state.phase != "settle":
        state = replace(state, clock_s=state.clock_s + dt * plan.speed, waited_s=state.waited_s + late_s)
    target, width = _target(plan, state)
    wanted, last = width, state.motion.width_cmd
    if state.phase == "settle":
        most = plan.settings.approach_gripper_m_s * dt
        width = min(max(wanted, last - most), last + most)
    goal = TeleopGoal(pose7=target, width_m=width, engaged=True)
    motion, result = motion_step(plan.motion, state.motion, goal, dt)
    state = replace(state, motion=motion)
    fault = motion.fault or _tethered(plan, target, result.pose7)
    if fault:
        return stop_replay(state, f"{fault} at {state.clock_s:.2f} s of the episode"), result
    return _next_phase(plan, state, arrived=width == wanted), result


def _target(plan: ReplayPlan, state: ReplayState) -> tuple[Pose7, float]:
    pose7, width = pose_at(plan.targets, state.clock_s)
    low, high = plan.motion.gripper_width_m
    return pose7, state.motion.width_cmd if width is None else min(max(width, low), high)


def _next_phase(plan: ReplayPlan, state: ReplayState, *, arrived: bool) -> ReplayState:
    settled = state.phase_s >= plan.settings.settle_s
    if state.phase == "settle":
        return _enter(state, "replay") if settled and arrived else state
    if state.phase == "replay":
        return _enter(state, "finish") if state.clock_s >= plan.targets.duration_s else state
    return _enter(state, "done") if settled else state


def _enter(state: ReplayState, phase: Phase) -> ReplayState:
    return replace(state, phase=phase, phase_s=0.0)


def _trailing(plan: ReplayPlan, state: ReplayState, measured_q: Sequence[float]) -> str:
    for name, wanted, angle in zip(JOINT_NAMES, state.motion.q_cmd, measured_q, strict=True):
        if not abs(wanted - angle) <= plan.settings.trail_rad:
            return f"{name} is {abs(wanted - angle):.2f} rad from its command: something holds it"
    return ""


def _tethered(plan: ReplayPlan, target: Pose7, commanded: Pose7) -> str:
    metres, radians = flange_step(target, commanded)
    if metres > plan.settings.tether_m or radians > plan.settings.tether_rad:
        how = f"{metres * 1e3:.0f} mm and {math.degrees(radians):.0f} deg"
        return f"the limits of the motion layer hold the command {how} behind its target"
    return ""
