"""The teleoperation clutch: from headset samples to a goal for the flange, one pure step at a time.

Squeezing the grip ties the flange to the hand. At the press the hand (P0, R0) and the flange *command*
(E0, Q0) are remembered; while squeezed the flange follows the world-frame difference, turned by the
operator's yaw and scaled: ``p = E0 + s*Y(P - P0)``, ``R = (Y R R0^-1 Y^-1) Q0``. Whenever the clutch is
open the goal is the command itself, so releasing it stops the arm where it is.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from piper_collect.core import se3
from piper_collect.core.kinematics import Pose7
from piper_collect.core.quest import Hand, QuestController, QuestSample
from piper_collect.core.types import FloatArray
from piper_collect.errors import ConfigError

OPEN = "clutch open"
FOLLOWING = "following"
NO_INPUT = "no input from the headset yet"
AGAIN = "; open the grip, then squeeze"

_UNIT_TOLERANCE = 1e-2


@dataclass(frozen=True, slots=True, kw_only=True)
class ClutchConfig:
    """How the hand moves the flange.

    Attributes:
        hand: Controller that drives the arm.
        scale: Metres of the flange for a metre of the hand.
        yaw_rad: Turn about z from the operator's forward to the arm's forward.
        squeeze_on: Squeeze at and above which the clutch closes.
        squeeze_off: Squeeze below which it opens.
        jump_m: Largest move between successive samples that is believed.
        jump_rad: Largest turn between successive samples that is believed.
        stale_s: Age of the newest sample at which the clutch opens.
        gripper_open_m: Width of the open gripper.
        gripper_inverted: False: the pressed trigger closes; True: it opens.
        allow_emulated: Follow positions that the headset only guesses.
    """

    hand: Hand = "right"
    scale: float = 1.0
    yaw_rad: float = 0.0
    squeeze_on: float = 0.6
    squeeze_off: float = 0.4
    jump_m: float = 0.05
    jump_rad: float = math.radians(35.0)
    stale_s: float = 0.5
    gripper_open_m: float = 0.07
    gripper_inverted: bool = False
    allow_emulated: bool = False

    def __post_init__(self) -> None:
        """Refuse values that no clutch can work with.

        Raises:
            ConfigError: A value is not finite or out of its range.
        """
        if self.hand not in ("left", "right"):
            raise ConfigError("unknown hand", where="hand", got=self.hand, valid=("left", "right"))
        if not 0.0 < self.squeeze_off < self.squeeze_on <= 1.0:
            got = f"{self.squeeze_off}, {self.squeeze_on}"
            raise ConfigError(
                "squeeze thresholds", where="squeeze_off", expected="0 < off < on <= 1", got=got
            )
        for name in ("scale", "jump_m", "jump_rad", "stale_s", "gripper_open_m"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0.0):
                raise ConfigError("not a usable number", where=name, expected="above 0", got=value)
        if not math.isfinite(self.yaw_rad):
            raise ConfigError("not a usable number", where="yaw_rad", expected="finite", got=self.yaw_rad)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClutchState:
    """What the clutch remembers between steps.

    Attributes:
        engaged: The hand moves the flange.
        armed: The grip was seen open since the clutch last opened, so a squeeze may close it.
        hand_origin: Hand pose (FLU) at the press.
        flange_origin: Flange command at the press.
        hand: Last believed hand pose (FLU), for the jump guard.
        target: Goal of the last step while engaged.
        width_m: Gripper goal of the last step while engaged.
        stamp_ns: Stamp of the newest sample taken.
        sequence: Sequence number of the newest sample taken.
        reason: Why the clutch is as it is, in words.
    """

    engaged: bool = False
    armed: bool = False
    hand_origin: Pose7 | None = None
    flange_origin: Pose7 | None = None
    hand: Pose7 | None = None
    target: Pose7 | None = None
    width_m: float = 0.0
    stamp_ns: int | None = None
    sequence: int = 0
    reason: str = NO_INPUT


@dataclass(frozen=True, slots=True, kw_only=True)
class TeleopGoal:
    """Where the flange and the gripper should go; what the motion layer takes.

    Attributes:
        pose7: Flange pose in base_link.
        width_m: Gripper width.
        engaged: Whether to move at all; False holds the command.
        reason: Why, in words.
    """

    pose7: Pose7
    width_m: float
    engaged: bool
    reason: str = ""


def clutch_step(
    config: ClutchConfig,
    state: ClutchState,
    sample: QuestSample | None,
    now_ns: int,
    commanded_pose7: Sequence[float] | FloatArray,
    commanded_width_m: float,
) -> tuple[ClutchState, TeleopGoal]:
    """Take the newest sample (or none, or one already taken) and give the goal.

    A sample counts once: one with a stamp or sequence number not above the last is no new input, except
    that the sequence may start again after the stream was silent for ``stale_s``. Anything that makes
    the hand unbelievable opens the clutch, and the grip must be opened and squeezed again.

    Args:
        config: The clutch.
        state: From the last step; ``ClutchState()`` at the start.
        sample: Newest sample at hand.
        now_ns: Host time on the timeline of the stamps.
        commanded_pose7: Flange pose last commanded to the arm, base_link.
        commanded_width_m: Gripper width last commanded.
    """
    command = _pose_tuple(commanded_pose7)
    stale_ns = round(config.stale_s * 1e9)
    if state.stamp_ns is not None and state.stamp_ns - now_ns > stale_ns:
        state = replace(_open(state, "the clock went back"), stamp_ns=None)
    if sample is not None and _is_newer(state, sample, now_ns, stale_ns):
        state = _take(config, state, sample, command)
    if state.stamp_ns is not None and now_ns - state.stamp_ns > stale_ns:
        state = _open(state, f"no sample from the headset for more than {config.stale_s:g} s")
    if state.engaged and state.target is not None:
        return state, TeleopGoal(pose7=state.target, width_m=state.width_m, engaged=True, reason=state.reason)
    return state, TeleopGoal(pose7=command, width_m=commanded_width_m, engaged=False, reason=state.reason)


def clutch_steps(
    config: ClutchConfig,
    state: ClutchState,
    samples: Sequence[QuestSample],
    now_ns: int,
    commanded_pose7: Sequence[float] | FloatArray,
    commanded_width_m: float,
) -> tuple[ClutchState, TeleopGoal]:
    """``clutch_step`` with all samples that came since the last tick, and the goal after the last of them.

    None is left out: a hand that went far in a stall went there in steps that each can be believed.
    """
    goals = []
    for sample in samples or (None,):
        state, goal = clutch_step(config, state, sample, now_ns, commanded_pose7, commanded_width_m)
        goals.append(goal)
    return state, goals[-1]


def _is_newer(state: ClutchState, sample: QuestSample, now_ns: int, stale_ns: int) -> bool:
    if sample.stamp_ns - now_ns > stale_ns:
        return False
    if state.stamp_ns is None:
        return True
    silence_ns = sample.stamp_ns - state.stamp_ns
    return silence_ns > 0 and (sample.sequence > state.sequence or silence_ns > stale_ns)


def _take(config: ClutchConfig, state: ClutchState, sample: QuestSample, command: Pose7) -> ClutchState:
    controller = sample.controller(config.hand)
    silent = state.stamp_ns is not None and sample.stamp_ns - state.stamp_ns > config.stale_s * 1e9
    if silent:
        state = replace(_open(state, "the headset was silent"), hand=None)
    hand, fault = _believed_hand(config, state.hand, sample, controller)
    state = replace(state, stamp_ns=sample.stamp_ns, sequence=sample.sequence, hand=hand)
    squeeze = controller.squeeze
    if fault:
        # a controller that cannot be seen has no grip that could be open
        seen = controller.connected and sample.visibility == "visible"
        return replace(_open(state, fault), armed=seen and squeeze < config.squeeze_off)
    if squeeze < config.squeeze_off:
        return replace(_open(state, OPEN), armed=True)
    if hand is None:
        return state
    if state.engaged:
        return _follow(config, state, hand, controller.trigger)
    if state.armed and squeeze >= config.squeeze_on:
        pressed = replace(state, engaged=True, armed=False, hand_origin=hand, flange_origin=command)
        return _follow(config, pressed, hand, controller.trigger)
    if not state.armed and not state.reason.endswith(AGAIN):
        return replace(state, reason=state.reason + AGAIN)
    return state


def _believed_hand(
    config: ClutchConfig, last: Pose7 | None, sample: QuestSample, controller: QuestController
) -> tuple[Pose7 | None, str]:
    """The hand pose (FLU), and what is wrong if the clutch must open."""
    side = f"{config.hand} controller"
    if sample.visibility != "visible":
        return None, f"headset session {sample.visibility}"
    if not controller.connected:
        return None, f"{side} not connected"
    if not controller.pose_valid:
        return None, f"{side} not tracked"
    if controller.pose_emulated and not config.allow_emulated:
        return None, f"{side} position only guessed by the headset"
    pose = controller.grip_pose
    numbers = (*pose.position_m, *pose.orientation_xyzw, controller.squeeze, controller.trigger)
    if not all(math.isfinite(number) for number in numbers):
        return None, f"{side} sent a number that is not finite"
    if abs(math.hypot(*pose.orientation_xyzw) - 1.0) > _UNIT_TOLERANCE:
        return None, f"{side} sent a quaternion without unit norm"
    hand = pose.flu()
    if last is not None:
        metres, radians = (float(error) for error in se3.pose_error(last, hand))
        if metres > config.jump_m or radians > config.jump_rad:
            jump = f"{metres * 100:.0f} cm, {math.degrees(radians):.0f} deg"
            return _pose_tuple(hand), f"{side} jumped ({jump} between two samples)"
    return _pose_tuple(hand), ""


def _follow(config: ClutchConfig, state: ClutchState, hand: Pose7, trigger: float) -> ClutchState:
    if state.hand_origin is None or state.flange_origin is None:
        return _open(state, OPEN)
    origin, flange = np.array(state.hand_origin), np.array(state.flange_origin)
    yaw = se3.yaw_quat(config.yaw_rad)
    shift = config.scale * se3.quat_rotate(yaw, np.array(hand[:3]) - origin[:3])
    turn = se3.quat_multiply(hand[3:], se3.quat_conjugate(origin[3:]))
    turn = se3.quat_multiply(se3.quat_multiply(yaw, turn), se3.quat_conjugate(yaw))
    quat = se3.quat_normalize_wxyz(se3.quat_multiply(turn, flange[3:]))
    pulled = min(max(trigger, 0.0), 1.0)
    width = config.gripper_open_m * (pulled if config.gripper_inverted else 1.0 - pulled)
    target = _pose_tuple(np.concatenate((flange[:3] + shift, quat)))
    return replace(state, target=target, width_m=width, reason=FOLLOWING)


def _open(state: ClutchState, reason: str) -> ClutchState:
    return replace(
        state,
        engaged=False,
        armed=False,
        hand_origin=None,
        flange_origin=None,
        target=None,
        reason=reason,
    )


def _pose_tuple(pose7: Sequence[float] | FloatArray) -> Pose7:
    x, y, z, qw, qx, qy, qz = (float(value) for value in pose7)
    return x, y, z, qw, qx, qy, qz
