"""What the arm's vendor nodes publish, to what it means: joints in true radians, of a known moment, once.

``piper_ros`` (AgileX, node ``piper_ctrl_single_node``) and its successor ``agx_arm_ros`` publish 200 times a
second whether or not anything is new, stamped with the arrival of the arm's last frame: stamps come twice,
and are zero before the first frame. ``piper_ros`` turns degrees into radians with 0.017444 and the radians of
a command into degrees with 57.324840764, so what it reports is 0.053 % small and what it executes 0.051 %
large: at 150 degrees both are more than a milliradian off, and hide each other.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from piper_collect.core.kinematics import GRIPPER_NAME, JOINT_NAMES, Joints

PIPER_ROS_RAD_PER_DEG = 0.017444
PIPER_ROS_DEG_PER_RAD = 57.324840764

REPORTED_FACTOR = math.radians(1.0) / PIPER_ROS_RAD_PER_DEG
"""Radians that ``piper_ros`` reports, times this, are the joint's."""

COMMANDED_FACTOR = math.degrees(1.0) / PIPER_ROS_DEG_PER_RAD
"""Radians that a joint shall take, times this, are what ``piper_ros`` must be told."""

OLDER_NAMES = tuple(f"joint{number}" for number in range(7))
"""Of the branches before 2025: the six joints from zero on, then the gripper."""

UNSET = "the stamp is unset"
REPEATED = "the stamp came before"
EARLIER = "the stamp lies before the one before it"
CLOCK_SET_BACK = "the clock was set back"
UNNAMED = "it does not name six joints and the gripper"
NOT_FINITE = "a position is not a finite number"
UNMEASURED = "all is zero: the arm has not been heard yet"

_CLOCK_SET_NS = 1_000_000_000
"""A stamp further back than this is another clock's, not a late message's."""


class StampFilter:
    """Lets every stamp of a stream through once, in order.

    Attributes:
        dropped: How many were not, by reason; a clock that was set back is counted too, and followed.
    """

    def __init__(self) -> None:
        self.dropped: Counter[str] = Counter()
        self._newest_ns = 0

    def refusal(self, stamp_ns: int) -> str:
        """Why a message of this stamp is left out; empty when it is not."""
        back_ns = self._newest_ns - stamp_ns
        if stamp_ns <= 0:
            return self.drop(UNSET)
        if back_ns == 0:
            return self.drop(REPEATED)
        if 0 < back_ns <= _CLOCK_SET_NS:
            return self.drop(EARLIER)
        if back_ns > 0:
            self.drop(CLOCK_SET_BACK)
        self._newest_ns = stamp_ns
        return ""

    def drop(self, reason: str) -> str:
        """Count one message that is left out for ``reason``."""
        self.dropped[reason] += 1
        return reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmSample:
    """One measurement of the arm.

    Attributes:
        stamp_ns: Of the arm's last frame, as the vendor's node says.
        q: Joints in rad.
        width_m: Full opening of the gripper.
        velocity: Joints in rad/s, then the gripper: NaN, nobody measures it. Empty where none is given.
        effort: Joints and gripper in N·m as reported (N for the gripper of ``agx_arm_ros``); may be empty.
    """

    stamp_ns: int
    q: Joints
    width_m: float
    velocity: tuple[float, ...] = ()
    effort: tuple[float, ...] = ()


class JointFeedback:
    """Takes the vendor's joint states apart, and leaves out what says nothing new or nothing true.

    Args:
        joint_factor: Turns reported radians into true ones.
        width_factor: Turns the reported gripper position into the full opening in m; negative turns the sign.

    Attributes:
        dropped: Messages left out, by reason.
    """

    def __init__(self, *, joint_factor: float = 1.0, width_factor: float = 1.0) -> None:
        self._joint_factor = joint_factor
        self._width_factor = width_factor
        self._stamps = StampFilter()
        self._heard = False
        self.dropped = self._stamps.dropped

    def take(
        self,
        *,
        names: Sequence[str],
        position: Sequence[float],
        velocity: Sequence[float] = (),
        effort: Sequence[float] = (),
        stamp_ns: int,
    ) -> ArmSample | str:
        """One message: the measurement, or why it is left out.

        Args:
            names: Of the joints, in any order; ``joint1`` to ``joint6`` and ``gripper``, or ``joint0`` to
                ``joint6``, where the last is the gripper.
            position: rad, and m for the gripper.
            velocity: May be shorter than ``names``, or empty.
            effort: Likewise.
            stamp_ns: Header stamp; 0 when it is unset.
        """
        index = _joint_index(names)
        if index is None or max(index) >= len(position):
            return self._stamps.drop(UNNAMED)
        cells = [float(position[i]) for i in index]
        if not all(map(math.isfinite, cells)):
            return self._stamps.drop(NOT_FINITE)
        refusal = self._stamps.refusal(stamp_ns)
        if refusal:
            return refusal
        if not self._heard and not any(cells):
            return self._stamps.drop(UNMEASURED)
        self._heard = True
        q1, q2, q3, q4, q5, q6 = (self._joint_factor * cell for cell in cells[:6])
        speeds = [_cell(velocity, i) for i in index[:6]]
        return ArmSample(
            stamp_ns=stamp_ns,
            q=(q1, q2, q3, q4, q5, q6),
            width_m=self._width_factor * cells[6],
            velocity=(*speeds, math.nan) if len(velocity) else (),
            effort=tuple(_cell(effort, i) for i in index) if len(effort) else (),
        )


def _joint_index(names: Sequence[str]) -> list[int] | None:
    wanted = OLDER_NAMES if OLDER_NAMES[0] in names else (*JOINT_NAMES, GRIPPER_NAME)
    places = {name: place for place, name in enumerate(names)}
    return [places[name] for name in wanted] if all(name in places for name in wanted) else None


def _cell(cells: Sequence[float], index: int) -> float:
    return float(cells[index]) if index < len(cells) else math.nan
