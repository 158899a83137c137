"""What a replay did: commands sent and joints measured, and both by the time of the episode."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from piper_collect.core.arm_sim import SimArm, SimArmState, sim_arm_step
from piper_collect.core.kinematics import PiperKinematics
from piper_collect.core.motion import MotionResult
from piper_collect.core.replay import ReplayPlan, ReplayState, begin_replay, replay_step
from piper_collect.core.tracks import MotionTrack, motion_track
from piper_collect.core.types import BoolArray, FloatArray, StampArray

RUNNING = ("replay", "finish")
"""Phases in which the episode's time runs."""

COMMAND_COLUMNS = ("stamp_ns", "phase", "clock_s", "x", "y", "z", "qw", "qx", "qy", "qz", "width_m", "limits")
MEASURED_COLUMNS = ("stamp_ns", "joint1", "joint2", "joint3", "joint4", "joint5", "joint6", "width_m")

_BETWEEN_LIMITS = ";"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReplayLog:
    """Commands and measurements of one replay, each in the order of time.

    Attributes:
        command_ns: int64 [C], stamps of the ticks.
        clock_s: float64 [C], time in the episode.
        running: bool [C], whether it ran.
        pose7: float64 [C, 7], commanded flange poses.
        width_m: float64 [C], commanded widths.
        limits: What kept a command from its target while it ran → at how many ticks.
        measured_ns: int64 [S], stamps of the measurements, strictly increasing.
        joints: float64 [S, 6], measured, in rad.
        measured_width_m: float64 [S].
        phase: Where it ended; ``done`` when all of the episode was replayed.
        reason: Why it ended before that.
        waited_s: What the episode's time waited for late ticks.
    """

    command_ns: StampArray
    clock_s: FloatArray
    running: BoolArray
    pose7: FloatArray
    width_m: FloatArray
    limits: Mapping[str, int]
    measured_ns: StampArray
    joints: FloatArray
    measured_width_m: FloatArray
    phase: str
    reason: str = ""
    waited_s: float = 0.0


def command_row(stamp_ns: int, state: ReplayState, result: MotionResult) -> tuple[object, ...]:
    """One tick as a row of ``COMMAND_COLUMNS``."""
    limits = _BETWEEN_LIMITS.join(result.limited)
    return (stamp_ns, state.phase, state.clock_s, *result.pose7, result.width_m, limits)


def replay_log(
    commands: Sequence[Sequence[object]],
    measured: Sequence[Sequence[object]],
    *,
    phase: str,
    reason: str = "",
    waited_s: float = 0.0,
) -> ReplayLog:
    """Put rows together, as they were made or as a file has them.

    Args:
        commands: Rows of ``COMMAND_COLUMNS``.
        measured: Rows of ``MEASURED_COLUMNS``; one that is not newer than those before it,
            or holds what is no number, is left out.
        phase: Where the replay ended.
        reason: Why it ended before the end.
        waited_s: What the episode's time waited.
    """
    numbers = np.array([[*map(_number, row[2:11])] for row in commands]).reshape(-1, 9)
    running = np.array([row[1] in RUNNING for row in commands], dtype=bool)
    limits = Counter(
        word for row in commands if row[1] in RUNNING for word in str(row[11]).split(_BETWEEN_LIMITS) if word
    )
    stamps = np.array([int(str(row[0])) for row in measured], dtype=np.int64)
    values = np.array([[*map(_number, row[1:8])] for row in measured]).reshape(-1, 7)
    kept = np.isfinite(values).all(axis=1)
    kept[1:] &= stamps[1:] > np.maximum.accumulate(stamps)[:-1]
    return ReplayLog(
        command_ns=np.array([int(str(row[0])) for row in commands], dtype=np.int64),
        clock_s=numbers[:, 0],
        running=running,
        pose7=numbers[:, 1:8],
        width_m=numbers[:, 8],
        limits=dict(limits.most_common()),
        measured_ns=stamps[kept],
        joints=values[kept, :6],
        measured_width_m=values[kept, 6],
        phase=phase,
        reason=reason,
        waited_s=waited_s,
    )


def commanded_track(log: ReplayLog) -> MotionTrack | None:
    """What was commanded, by the episode's time; None where it never ran."""
    clock_s = log.clock_s[log.running]
    newer = np.ones(len(clock_s), dtype=bool)
    newer[1:] = np.diff(clock_s) > 0
    if not len(clock_s):
        return None
    return motion_track(clock_s[newer], log.pose7[log.running][newer], log.width_m[log.running][newer])


def measured_track(log: ReplayLog, kinematics: PiperKinematics, speed: float) -> MotionTrack | None:
    """What was measured, by the episode's time; None where it never ran or nothing was measured.

    Between ticks the episode's time runs evenly, and before the first one at ``speed``, so that what was
    measured just before it has a time below 0. Nothing is taken from after the last tick.
    """
    ticks, clock_s = log.command_ns[log.running], log.clock_s[log.running]
    if not len(ticks):
        return None
    inside = log.measured_ns <= ticks[-1]
    if not inside.any():
        return None
    since_s = (log.measured_ns[inside] - ticks[0]) / 1e9
    times = np.interp(since_s, (ticks - ticks[0]) / 1e9, clock_s)
    times = np.where(since_s < 0, clock_s[0] + since_s * speed, times)
    newer = np.ones(len(times), dtype=bool)
    newer[1:] = np.diff(times) > 0
    pose7 = kinematics.forward(log.joints[inside][newer])
    return motion_track(times[newer], pose7, log.measured_width_m[inside][newer])


def simulate_replay(plan: ReplayPlan, arm: SimArm, start: SimArmState) -> ReplayLog:
    """The replay with a simulated arm and no late tick, faster than it would be.

    Raises:
        SessionError: The arm cannot begin from where it is.
    """
    period_s = plan.motion.control_period_s
    state, sim, now_ns = begin_replay(plan, start.q, start.width_m), start, 0
    commands: list[tuple[object, ...]] = []
    measured: list[tuple[object, ...]] = []
    while state.phase not in ("done", "stopped"):
        measured.append((now_ns, *sim.q, sim.width_m))
        state, result = replay_step(plan, state, sim.q, "", period_s)
        commands.append(command_row(now_ns, state, result))
        sim = sim_arm_step(arm, sim, result.q_cmd, result.width_m, period_s)
        now_ns += round(period_s * 1e9)
    return replay_log(commands, measured, phase=state.phase, reason=state.reason)


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else float(str(value))
