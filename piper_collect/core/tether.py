"""What is commanded stays near the arm: one that does not follow is not led on."""

import math
from collections.abc import Sequence
from dataclasses import replace

from piper_collect.core.kinematics import JOINT_NAMES
from piper_collect.core.motion import MotionConfig, MotionState, stop_motion


def tether(config: MotionConfig, state: MotionState, measured_q: Sequence[float]) -> MotionState:
    """Hold a moving arm where it is when a joint has stayed too far behind its command.

    Args:
        config: What the arm may do.
        state: From the last step.
        measured_q: Joints [6] in rad, finite.
    """
    if state.mode not in ("follow", "home"):
        return state
    for name, told, there in zip(JOINT_NAMES, state.q_cmd, measured_q, strict=True):
        if abs(told - there) > config.max_deviation_rad:
            behind = f"{name} is {math.degrees(abs(told - there)):.0f} deg behind its command: holding"
            return hold_at(config, state, measured_q, behind)
    return state


def hold_at(config: MotionConfig, state: MotionState, q: Sequence[float], reason: str) -> MotionState:
    """Hold at joints ``q`` [6] in rad, where the arm is, and not at the command that it does not reach."""
    q1, q2, q3, q4, q5, q6 = map(float, q)
    there = (q1, q2, q3, q4, q5, q6)
    return stop_motion(replace(state, q_cmd=there, pose_cmd=config.kinematics.forward_scalar(there)), reason)


def under_way(state: MotionState | None) -> str:
    """What moves the arm just now, ``homing`` or ``following``; empty when nothing does."""
    if state is None:
        return ""
    if state.mode == "home":
        return "homing"
    return "following" if state.engaged and not state.needs_release else ""


def agree(config: MotionConfig, before_q: Sequence[float], measured_q: Sequence[float]) -> bool:
    """Whether a measurement is borne out by the one before it.

    A torn or mistaken one would be taken for where the arm stands, and the arm be sent there.

    Args:
        config: What the arm may do.
        before_q: Joints of the measurement before; empty for none.
        measured_q: Joints [6] in rad; one that is not a finite number agrees with nothing.
    """
    return len(before_q) == len(measured_q) and all(
        abs(now - before) <= config.max_deviation_rad
        for before, now in zip(before_q, measured_q, strict=True)
    )
