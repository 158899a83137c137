"""The hand of a scripted operator within one episode: a function of seed, episode and time alone.

Shares of the episode: squeeze and move there (0.06 to 0.46, with the gripper closing), release and move the
hand half of the way back, squeeze again and undo the move (0.58 to 0.92, the gripper opening), release and
return. So the flange ends where it began, and every move begins and ends at rest inside a squeeze.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from piper_collect.core import se3
from piper_collect.core.motion_limits import MIN_JERK_PEAK, min_jerk
from piper_collect.core.quest import Hand, XrPose

SHORTEST_EPISODE_S = 2.0
PEAK_M_S = 0.045
PEAK_RAD_S = 0.06
PEAK_TRIGGER_PER_S = 0.9

_MOST_M = 0.05
_MOST_RAD = math.radians(7.0)
_MOST_TRIGGER = 0.9
_LOOP_SHARE = 0.3  # width of the bow beside the straight way, over its length
_SQUEEZE_THERE = (0.06, 0.46)
_SQUEEZE_BACK = (0.58, 0.92)
_MOVE_THERE = (0.10, 0.43)
_MOVE_OPEN = (0.49, 0.56)
_MOVE_BACK = (0.62, 0.89)
_MOVE_HOME = (0.94, 1.0)
_CLOSE = (0.2, 0.44)
_REOPEN = (0.64, 0.88)
_RAMP_SHARE = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class HandPose:
    """What one hand does at one moment.

    Attributes:
        grip_pose: WebXR axes.
        squeeze: 0 to 1.
        trigger: 0 to 1.
    """

    grip_pose: XrPose
    squeeze: float
    trigger: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Amplitudes:
    shift: tuple[float, float, float]
    bow: tuple[float, float, float]
    turn: tuple[float, float, float]
    trigger: float


def resting_hand(hand: Hand) -> HandPose:
    """The hand in front of the body, nothing pressed."""
    side = 0.2 if hand == "right" else -0.2
    return HandPose(grip_pose=XrPose(position_m=(side, 1.1, -0.4)), squeeze=0.0, trigger=0.0)


def hand_at(seed: int, episode: int, duration_s: float, time_s: float, hand: Hand) -> HandPose:
    """The hand ``time_s`` after the episode began; at rest before it and after ``duration_s``."""
    sizes = _amplitudes(seed, episode, duration_s)
    u = min(max(time_s / duration_s, 0.0), 1.0)
    there, back = _ramp(u, _MOVE_THERE), _ramp(u, _MOVE_BACK)
    along = there - 0.5 * _ramp(u, _MOVE_OPEN) - back + 0.5 * _ramp(u, _MOVE_HOME)
    bow = _bump(u, _MOVE_THERE) - _bump(u, _MOVE_BACK)
    rest = resting_hand(hand).grip_pose.position_m
    position = tuple(p + along * s + bow * b for p, s, b in zip(rest, sizes.shift, sizes.bow, strict=True))
    quat = se3.xyzw_from_wxyz(se3.quat_from_rotvec([along * r for r in sizes.turn]))
    pose = XrPose(
        position_m=(position[0], position[1], position[2]),
        orientation_xyzw=(float(quat[0]), float(quat[1]), float(quat[2]), float(quat[3])),
    )
    trigger = sizes.trigger * (_ramp(u, _CLOSE) - _ramp(u, _REOPEN))
    squeeze = max(_held(u, _SQUEEZE_THERE), _held(u, _SQUEEZE_BACK))
    return HandPose(grip_pose=pose, squeeze=squeeze, trigger=trigger)


@lru_cache(maxsize=64)
def _amplitudes(seed: int, episode: int, duration_s: float) -> _Amplitudes:
    rng = np.random.default_rng([seed, episode])
    shift, turn, other = (vector / np.linalg.norm(vector) for vector in rng.normal(size=(3, 3)))
    bow = np.cross(shift, other)
    bow /= np.linalg.norm(bow)
    shortest_s = (_MOVE_BACK[1] - _MOVE_BACK[0]) * duration_s
    # The bow's own peak speed is below pi times its height over the time, so this bounds the sum.
    peak = math.hypot(MIN_JERK_PEAK, math.pi * _LOOP_SHARE)
    metres = min(_MOST_M, PEAK_M_S * shortest_s / peak) * rng.uniform(0.85, 1.0)
    radians = min(_MOST_RAD, PEAK_RAD_S * shortest_s / MIN_JERK_PEAK) * rng.uniform(0.7, 1.0)
    ramp_s = (_CLOSE[1] - _CLOSE[0]) * duration_s
    trigger = min(_MOST_TRIGGER, PEAK_TRIGGER_PER_S * ramp_s / MIN_JERK_PEAK)
    vectors = (metres * shift, metres * _LOOP_SHARE * bow, radians * turn)
    a, b, c = ((float(v[0]), float(v[1]), float(v[2])) for v in vectors)
    return _Amplitudes(shift=a, bow=b, turn=c, trigger=trigger)


def _ramp(u: float, window: tuple[float, float]) -> float:
    return min_jerk((u - window[0]) / (window[1] - window[0]))


def _bump(u: float, window: tuple[float, float]) -> float:
    """0 outside the window and 1 in its middle, without a corner."""
    inside = min(max((u - window[0]) / (window[1] - window[0]), 0.0), 1.0)
    return math.sin(math.pi * inside) ** 2


def _held(u: float, window: tuple[float, float]) -> float:
    rise = min(max((u - window[0]) / _RAMP_SHARE, 0.0), 1.0)
    fall = min(max((window[1] - u) / _RAMP_SHARE, 0.0), 1.0)
    return min(rise, fall)
