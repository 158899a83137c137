"""The one seam through which everything that moves an arm goes.

``motion_step`` takes a goal that may be anything and gives joint commands that are always finite, inside
the limits and no faster than allowed. In order: finite check, workspace box, flange speed from the last
commanded pose, nearest inverse solution inside the joint limits, joint speed by one common factor. What
comes out as the commanded pose is the forward kinematics of the commanded joints, so the two never part.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from piper_collect.core.clutch import TeleopGoal
from piper_collect.core.kinematics import (
    GRIPPER_WIDTH_M,
    JOINT_LIMITS_RAD,
    JOINT_NAMES,
    JOINT_SPEED_RAD_S,
    TOOL_TIP_M,
    WORKING_POSE_RAD,
    DhVariant,
    Joints,
    PiperKinematics,
    Pose7,
)
from piper_collect.core.motion_limits import (
    MIN_JERK_PEAK,
    flange_step,
    into_box,
    joint_share,
    joints_between,
    min_jerk,
    shift_at_most,
    turn_at_most,
)
from piper_collect.errors import ConfigError, SessionError

Mode: TypeAlias = Literal["wait", "follow", "home", "hold"]

_UNIT_TOLERANCE = 1e-2
_POSTURE_JUMP_RAD = 0.5  # a larger move of joints 1 to 3 in one step is another posture, not a motion
_WRIST_NEAR_STRETCHED_RAD = 0.15  # joints 4 and 6 may turn against each other inside this
_FLOOR_SLACK_M = 0.005
_PATH_POINTS = 50
_SPEED_SLACK = 1e-3
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class MotionConfig:
    """What the arm may do.

    Attributes:
        dh_offset: DH variant of the arm's firmware.
        limit_margin_rad: Kept away from each of the SDK's joint limits.
        start_tolerance_rad: How far outside those limits the arm may stand at the start.
        joint_speed_scale: Fraction of JOINT_SPEED_RAD_S allowed.
        workspace_min_m: Lowest flange x, y, z in base_link.
        workspace_max_m: Highest flange x, y, z in base_link.
        max_linear_m_s: Flange speed.
        max_angular_rad_s: Flange turning speed.
        gripper_width_m: Least and greatest width.
        max_gripper_m_s: Speed of the width.
        control_period_s: Nominal step; a later step counts as two of them at most.
        home_q: Joints of the home pose.
        home_speed_rad_s: Peak joint speed of the way home.
        max_deviation_rad: How far a moving joint may be from its command.
    """

    dh_offset: DhVariant = "s_v1_6_3"
    limit_margin_rad: float = 0.01
    start_tolerance_rad: float = 0.1
    joint_speed_scale: float = 0.6
    workspace_min_m: tuple[float, float, float] = (0.05, -0.45, 0.02)
    workspace_max_m: tuple[float, float, float] = (0.60, 0.45, 0.65)
    max_linear_m_s: float = 0.5
    max_angular_rad_s: float = 2.0
    gripper_width_m: tuple[float, float] = GRIPPER_WIDTH_M
    max_gripper_m_s: float = 0.2
    control_period_s: float = 0.005
    home_q: Joints = WORKING_POSE_RAD
    home_speed_rad_s: float = 0.5
    max_deviation_rad: float = 0.5
    kinematics: PiperKinematics = field(init=False, repr=False, compare=False)
    limits_rad: tuple[tuple[float, float], ...] = field(init=False, repr=False, compare=False)
    speeds_rad_s: tuple[float, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Derive limits and speeds.

        Raises:
            ConfigError: A value is not finite, out of range, or the home pose is not allowed.
        """
        for name in (
            "joint_speed_scale",
            "max_linear_m_s",
            "max_angular_rad_s",
            "max_gripper_m_s",
            "control_period_s",
            "home_speed_rad_s",
            "max_deviation_rad",
        ):
            _check(name, getattr(self, name), 0.0 < getattr(self, name) < math.inf, "above 0")
        _check("joint_speed_scale", self.joint_speed_scale, self.joint_speed_scale <= 1.0, "at most 1")
        for name in ("limit_margin_rad", "start_tolerance_rad"):
            _check(name, getattr(self, name), 0.0 <= getattr(self, name) <= 0.3, "0 to 0.3 rad")
        box = list(zip(self.workspace_min_m, self.workspace_max_m, strict=True))
        _check("workspace_min_m", box, all(-math.inf < a < b < math.inf for a, b in box), "min < max")
        low, high = self.gripper_width_m
        _check("gripper_width_m", (low, high), 0.0 <= low < high < math.inf, "0 <= min < max")
        margin = self.limit_margin_rad
        limits = tuple((a + margin, b - margin) for a, b in JOINT_LIMITS_RAD)
        speeds = tuple(self.joint_speed_scale * speed for speed in JOINT_SPEED_RAD_S)
        inside = all(a <= q <= b for q, (a, b) in zip(self.home_q, limits, strict=True))
        _check("home_q", self.home_q, inside, f"inside {limits}")
        _check(
            "home_speed_rad_s", self.home_speed_rad_s, self.home_speed_rad_s <= min(speeds), f"<= {speeds}"
        )
        object.__setattr__(self, "kinematics", PiperKinematics(self.dh_offset))
        object.__setattr__(self, "limits_rad", limits)
        object.__setattr__(self, "speeds_rad_s", speeds)


@dataclass(frozen=True, slots=True, kw_only=True)
class MotionState:
    """What has been commanded so far.

    Attributes:
        q_cmd: Joints in rad.
        width_cmd: Gripper width in m.
        pose_cmd: Flange pose of ``q_cmd`` in base_link.
        mode: ``wait`` (never moved), ``follow``, ``home`` or ``hold``.
        fault: Why it holds although it was asked to move; empty otherwise.
        engaged: Whether the last goal was engaged.
        needs_release: An engaged goal is not followed until one that is not engaged was seen.
        home_from: Joints where the way home began.
        home_elapsed_s: Time on the way home.
    """

    q_cmd: Joints
    width_cmd: float
    pose_cmd: Pose7
    mode: Mode = "wait"
    fault: str = ""
    engaged: bool = False
    needs_release: bool = False
    home_from: Joints | None = None
    home_elapsed_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MotionResult:
    """One command to the arm.

    Attributes:
        q_cmd: Joints in rad.
        pose7: Flange pose of ``q_cmd`` in base_link.
        width_m: Gripper width.
        limited: What kept it from the goal: ``not finite``, ``workspace``, ``linear speed``,
            ``angular speed``, ``no IK``, ``joint limits``, ``posture``, ``joint speed``,
            ``gripper range``, ``gripper speed``, ``release first``.
    """

    q_cmd: Joints
    pose7: Pose7
    width_m: float
    limited: tuple[str, ...] = ()


def start_motion(config: MotionConfig, q: Sequence[float], width_m: float) -> MotionState:
    """The state that commands what was measured.

    Args:
        config: What the arm may do.
        q: Measured joints [6] in rad.
        width_m: Measured gripper width.

    Raises:
        SessionError: A value is not finite, or a joint stands further outside its limits than
            ``start_tolerance_rad``.
    """
    if len(q) != 6 or not all(math.isfinite(value) for value in (*q, width_m)):
        raise SessionError(
            "measured joints unusable", expected="6 finite joints and a width", got=(*q, width_m)
        )
    for name, angle, (low, high) in zip(JOINT_NAMES, q, JOINT_LIMITS_RAD, strict=True):
        if not low - config.start_tolerance_rad <= angle <= high + config.start_tolerance_rad:
            raise SessionError(
                "the arm stands outside its joint limits",
                where=name,
                expected=f"{low:g} to {high:g} rad within {config.start_tolerance_rad:g}",
                got=f"{angle:.4f} rad",
                hint="move the arm by hand in teach mode, then start again",
            )
    joints = _joints(q)
    return MotionState(
        q_cmd=joints, width_cmd=float(width_m), pose_cmd=config.kinematics.forward_scalar(joints)
    )


def start_home(config: MotionConfig, state: MotionState) -> MotionState:
    """Begin the way home: straight in joint space, minimum jerk, never faster than ``home_speed_rad_s``.

    Raises:
        SessionError: The clutch is engaged, or the way would dip under the workspace floor.
    """
    if state.engaged:
        raise SessionError("homing refused: the clutch is engaged", hint="release the grip, then ask again")
    shares = [i / _PATH_POINTS for i in range(_PATH_POINTS + 1)]
    heights = [_lowest(config, joints_between(state.q_cmd, config.home_q, share)) for share in shares]
    floor = min(config.workspace_min_m[2], heights[0], heights[-1]) - _FLOOR_SLACK_M
    if min(heights) < floor:
        raise SessionError(
            "homing refused: the way home dips under the workspace floor",
            expected=f"flange and gripper above {floor:.3f} m",
            got=f"{min(heights):.3f} m",
            hint="lift the arm by teleoperation first",
        )
    return replace(state, mode="home", home_from=state.q_cmd, home_elapsed_s=0.0, fault="")


def _lowest(config: MotionConfig, q: Joints) -> float:
    """Height of the flange or of the gripper on it, whichever is lower."""
    *_, z, _, qx, qy, _ = config.kinematics.forward_scalar(q)
    return min(z, z + TOOL_TIP_M * (1.0 - 2.0 * (qx * qx + qy * qy)))


def stop_motion(state: MotionState, reason: str) -> MotionState:
    """Hold where the command is; an engaged clutch must be released before it moves the arm again."""
    return replace(state, mode="hold", fault=reason, home_from=None, home_elapsed_s=0.0, needs_release=True)


def motion_step(
    config: MotionConfig, state: MotionState, goal: TeleopGoal | None, dt_s: float
) -> tuple[MotionState, MotionResult]:
    """Move the command towards the goal as far as is allowed in ``dt_s``.

    Without a goal, or with one that is not engaged, the command stays exactly where it is (or goes on
    along the way home). An engaged goal stops the way home and is followed only after a goal that is not.

    Args:
        config: What the arm may do.
        state: From the last step.
        goal: Anything at all; numbers that are not finite are refused.
        dt_s: Time since the last step; counts as 2 control periods at most, and as 0 if not positive.
    """
    engaged = goal is not None and goal.engaged
    dt = min(dt_s, 2 * config.control_period_s) if dt_s > 0.0 else 0.0
    if not engaged:
        if state.engaged:
            state = replace(state, engaged=False, fault="")
        if goal is not None:
            state = replace(state, needs_release=False)
        if state.mode == "home":
            return _home_step(config, state, dt)
        if state.mode == "follow":
            state = replace(state, mode="hold")
        return state, _result(state)
    if state.mode == "home":
        state = stop_motion(state, "homing stopped: the clutch was engaged")
    state = replace(state, engaged=True)
    if state.needs_release or goal is None:
        return state, _result(state, "release first")
    return _follow_step(config, state, goal, dt)


def _follow_step(
    config: MotionConfig, state: MotionState, goal: TeleopGoal, dt: float
) -> tuple[MotionState, MotionResult]:
    target = _finite_pose(goal)
    if target is None:
        state = replace(state, mode="hold", fault="the goal is not a finite pose: holding")
        return state, _result(state, "not finite")
    width, gripper_words = _gripper(config, state, goal.width_m, dt)
    target, words = _clamp_pose(config, state.pose_cmd, target, dt)
    limits = tuple((min(a, q), max(b, q)) for q, (a, b) in zip(state.q_cmd, config.limits_rad, strict=True))
    solution = config.kinematics.inverse_near(target, state.q_cmd, limits)
    fault = ""
    if solution is None:
        fault = "joint limits" if config.kinematics.inverse(target) else "no IK"
    elif is_posture_jump(state.q_cmd, solution):
        fault = "posture"
    if solution is None or fault:
        fault_text = f"no way to the goal ({fault}): holding"
        state = replace(state, mode="hold", fault=fault_text, width_cmd=width)
        return state, _result(state, *words, fault, *gripper_words)
    share = joint_share(state.q_cmd, solution, [speed * dt for speed in config.speeds_rad_s])
    q, pose = _move(config, state, solution, share, dt)
    if share < 1.0 or q != solution:
        words = (*words, "joint speed")
    state = replace(state, q_cmd=q, pose_cmd=pose, width_cmd=width, mode="follow", fault="")
    return state, _result(state, *words, *gripper_words)


def _finite_pose(goal: TeleopGoal) -> Pose7 | None:
    """The goal with unit quaternion; None if a number is not finite or the quaternion far from unit."""
    x, y, z, qw, qx, qy, qz = goal.pose7
    norm = math.hypot(qw, qx, qy, qz)
    if not all(map(math.isfinite, (x, y, z, norm, goal.width_m))) or abs(norm - 1.0) > _UNIT_TOLERANCE:
        return None
    return x, y, z, qw / norm, qx / norm, qy / norm, qz / norm


def _clamp_pose(config: MotionConfig, last: Pose7, target: Pose7, dt: float) -> tuple[Pose7, tuple[str, ...]]:
    """The target inside the box and no further from the last pose than speed allows."""
    words = []
    boxed = into_box(target[:3], config.workspace_min_m, config.workspace_max_m)
    if boxed != target[:3]:
        words.append("workspace")
    position = shift_at_most(last[:3], boxed, config.max_linear_m_s * dt)
    if position != boxed:
        words.append("linear speed")
    quat = turn_at_most(last[3:], target[3:], config.max_angular_rad_s * dt)
    if quat not in (target[3:], tuple(-q for q in target[3:])):
        words.append("angular speed")
    return (*position, *quat), tuple(words)


def is_posture_jump(q: Joints, solution: Joints) -> bool:
    """Whether the way from joints ``q`` to a solution is another posture of the arm, not a motion."""
    moves = [abs(b - a) for a, b in zip(q, solution, strict=True)]
    if max(moves[:3]) > _POSTURE_JUMP_RAD:
        return True
    stretched = max(abs(q[4]), abs(solution[4])) < _WRIST_NEAR_STRETCHED_RAD
    return max(moves[3:]) > _POSTURE_JUMP_RAD and not stretched


def _move(
    config: MotionConfig, state: MotionState, solution: Joints, share: float, dt: float
) -> tuple[Joints, Pose7]:
    """Go that share of the way, or less where the flange would be faster than allowed on it.

    The whole way to the solution keeps the flange's speed; a part of a long joint move (past a stretched
    wrist) need not.
    """
    q = solution if share == 1.0 else joints_between(state.q_cmd, solution, share)
    pose = config.kinematics.forward_scalar(q)
    for _ in range(8):
        excess = _flange_excess(config, state.pose_cmd, pose, dt)
        if excess <= 1.0 + _SPEED_SLACK:
            return q, pose
        share *= 0.95 / excess
        q = joints_between(state.q_cmd, solution, share)
        pose = config.kinematics.forward_scalar(q)
    return state.q_cmd, state.pose_cmd


def _flange_excess(config: MotionConfig, last: Pose7, pose: Pose7, dt: float) -> float:
    """Flange move over the allowed one, the larger of linear and angular."""
    metres, radians = flange_step(last, pose)
    return max(
        metres / (config.max_linear_m_s * dt + _ROUNDING),
        radians / (config.max_angular_rad_s * dt + _ROUNDING),
    )


def _gripper(
    config: MotionConfig, state: MotionState, width_m: float, dt: float
) -> tuple[float, tuple[str, ...]]:
    low, high = config.gripper_width_m
    wanted = min(max(width_m, low), high)
    words = ("gripper range",) if wanted != width_m else ()
    step = config.max_gripper_m_s * dt
    if abs(wanted - state.width_cmd) > step:
        return state.width_cmd + math.copysign(step, wanted - state.width_cmd), (*words, "gripper speed")
    return wanted, words


def _home_step(config: MotionConfig, state: MotionState, dt: float) -> tuple[MotionState, MotionResult]:
    start = state.home_from if state.home_from is not None else state.q_cmd
    longest = max(abs(b - a) for a, b in zip(start, config.home_q, strict=True))
    duration = MIN_JERK_PEAK * longest / config.home_speed_rad_s
    elapsed = state.home_elapsed_s + dt
    u = min(elapsed / duration, 1.0) if duration > 0.0 else 1.0
    q = joints_between(start, config.home_q, min_jerk(u)) if u < 1.0 else config.home_q
    pose = config.kinematics.forward_scalar(q)
    state = replace(state, q_cmd=q, pose_cmd=pose, home_from=start, home_elapsed_s=elapsed)
    if u >= 1.0:
        state = replace(state, mode="hold", home_from=None, home_elapsed_s=0.0)
    return state, _result(state)


def _joints(q: Sequence[float]) -> Joints:
    q1, q2, q3, q4, q5, q6 = (float(value) for value in q)
    return q1, q2, q3, q4, q5, q6


def _result(state: MotionState, *limited: str) -> MotionResult:
    return MotionResult(q_cmd=state.q_cmd, pose7=state.pose_cmd, width_m=state.width_cmd, limited=limited)


def _check(name: str, value: object, holds: bool, expected: str) -> None:
    if not holds:
        raise ConfigError("not a usable setting", where=name, expected=expected, got=value)
