"""An arm as the rest of the package knows it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from piper_collect.core.arm_report import ArmReport
from piper_collect.core.kinematics import Joints
from piper_collect.core.mit import MitCommand
from piper_collect.core.piper_firmware import Six


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmSnapshot:
    """One whole reading of the joints: all six of the same moment.

    Attributes:
        stamp_ns: When the last frame of it came from the bus, wall clock.
        q: Joints in rad.
        qdot: Their speeds in rad/s; None where the arm has not said them lately.
        effort_n_m: Their torques as the SDK derives them from the currents, in N·m; None likewise.
        width_m: Gripper width of the newest gripper frame, at most one cycle older.
        gripper_effort_n_m: Gripper torque of the same frame.
    """

    stamp_ns: int
    q: Joints
    qdot: Six | None
    effort_n_m: Six | None
    width_m: float
    gripper_effort_n_m: float


OnSnapshot: TypeAlias = Callable[[ArmSnapshot], None]


class ArmDevice(Protocol):
    """A six-joint arm with a gripper.

    Nothing here checks what is sent: that is ``core.arm_guard``'s part. Sending is from one thread only;
    ``on_snapshot`` is called from another.
    """

    @property
    def firmware(self) -> str:
        """As the arm reports it; empty when it did not."""
        ...

    def open(self, on_snapshot: OnSnapshot) -> None:
        """Connect, wait until every kind of feedback has come, read the firmware.

        Raises:
            ArmError: It cannot be reached.
        """
        ...

    def snapshot(self) -> ArmSnapshot | None:
        """The newest whole reading; None before the first."""
        ...

    def report(self) -> ArmReport | None:
        """The arm's newest account of itself; None before the first."""
        ...

    def silence(self) -> str:
        """Which feedback has stopped, in a few words; empty while all of it comes."""
        ...

    def send_error(self) -> str:
        """What went wrong in sending since the last call; empty if nothing."""
        ...

    def enable(self) -> None:
        """Ask for power to all motors."""
        ...

    def disable(self) -> None:
        """Take the power from all motors: the arm falls."""
        ...

    def set_mode(self, move_mode: int) -> None:
        """Ask for control over the bus, in ``MOVE_J`` or ``MOVE_M``."""
        ...

    def send_position(self, q: Joints) -> None:
        """Command joints in rad, in ``MOVE_J``."""
        ...

    def send_impedance(self, commands: Sequence[MitCommand]) -> None:
        """Command all six joints' springs, in ``MOVE_M``."""
        ...

    def send_width(self, width_m: float) -> None:
        """Command the gripper, and switch it on."""
        ...

    def close(self) -> None:
        """Leave the bus; nothing is sent. May be called at any time, also twice."""
        ...
