"""What a Piper says of itself, in plain words, and whether it still obeys.

Codes and bits are those of ``piper_sdk`` 0.6.2 (``arm_feedback_status.py``, ``arm_feedback_low_spd.py``,
``arm_feedback_gripper.py``). The low byte of the error code is the joints' communication and the high byte
their angle limits, as the SDK decodes it; the comments there say the opposite.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from piper_collect.core.kinematics import GRIPPER_NAME, JOINT_NAMES

ControlMode: TypeAlias = Literal["standby", "position", "impedance", "teach", "unknown"]
MotorPower: TypeAlias = Literal["unknown", "off", "on"]

CAN_CONTROL = 1
MOVE_J = 1
MOVE_M = 4
EMERGENCY_STOP = 1
ENABLED_BIT = 6

HOLDING = ": holding"
"""Ends every reason for which a driver makes the arm stand still."""

_STANDBY = 0
_TEACH_MODE = 2
_CONTROL_MODES = {
    _STANDBY: "standby",
    CAN_CONTROL: "CAN control",
    _TEACH_MODE: "teach mode",
    3: "Ethernet control",
    4: "Wi-Fi control",
    5: "remote control",
    6: "linked teaching",
    7: "offline trajectory",
}
_ARM_STATUS = {
    EMERGENCY_STOP: "emergency stop",
    2: "no solution for the target",
    3: "singularity",
    4: "target beyond the joint limits",
    5: "joint communication failed",
    6: "a joint's brake is not released",
    7: "collision",
    8: "too fast while it was dragged",
    9: "a joint is in a wrong state",
    10: "other error",
    14: "main controller too hot",
    15: "release resistor too hot",
}
# said of a target, or of where the arm stands, also at rest just outside a limit: the way out is to move
_OF_TARGETS = frozenset({2, 3, 4})
_TEACHING = frozenset({11, 12, 13})
_MOTOR_BITS = {
    0: "voltage too low",
    1: "motor too hot",
    2: "driver over current",
    3: "driver too hot",
    4: "collision protection",
    5: "driver error",
    7: "stalled",
}
_GRIPPER_BITS = {**{bit: _MOTOR_BITS[bit] for bit in (0, 1, 2, 3, 5)}, 4: "sensor error"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmReport:
    """The arm's own account.

    Attributes:
        control_mode: Who commands it (CAN id 2A1, byte 0).
        arm_status: What state it is in (byte 1).
        move_mode: How it takes commands (byte 2).
        error_code: Sixteen error bits (bytes 6 and 7).
        motor_flags: Status bits of each joint's driver (CAN ids 261 to 266).
        gripper_flags: Status bits of the gripper's driver (CAN id 2A8).
    """

    control_mode: int
    arm_status: int
    move_mode: int
    error_code: int
    motor_flags: tuple[int, ...]
    gripper_flags: int

    @property
    def enabled(self) -> tuple[bool, ...]:
        """For each joint whether its motor is powered."""
        return tuple(bool(flags >> ENABLED_BIT & 1) for flags in self.motor_flags)

    @property
    def controlled(self) -> ControlMode:
        """How the arm is controlled now."""
        if self.control_mode == CAN_CONTROL:
            return "impedance" if self.move_mode == MOVE_M else "position"
        if self.control_mode == _STANDBY:
            return "standby"
        return "teach" if self.control_mode == _TEACH_MODE else "unknown"


def fault_words(report: ArmReport) -> tuple[str, ...]:
    """All that is wrong, each in a few words; empty when nothing is."""
    return tuple(words for words, _ in _faults(report))


def driven_fault_words(report: ArmReport) -> tuple[str, ...]:
    """The same of an arm that is driven: a fault on which it must stand still says so."""
    return tuple(f"{words}{HOLDING}" if holds else words for words, holds in _faults(report))


def holding_fault(report: ArmReport) -> str:
    """The first fault on which the arm must stand still; empty if there is none."""
    return next((words for words, holds in _faults(report) if holds), "")


def lost_control(report: ArmReport, move_mode: int) -> str:
    """Why commands in ``move_mode`` no longer move the arm; empty if they do."""
    off = [name for name, on in zip(JOINT_NAMES, report.enabled, strict=True) if not on]
    if off:
        return f"motors off: {', '.join(off)}"
    if report.arm_status == EMERGENCY_STOP:
        return _ARM_STATUS[EMERGENCY_STOP]
    if report.control_mode != CAN_CONTROL:
        return f"the arm is in {_mode_words(report.control_mode)}"
    if report.move_mode != move_mode:
        return f"the arm is in move mode {report.move_mode}, not {move_mode}: another program commands it"
    return ""


def taken(report: ArmReport) -> str:
    """Why the arm must not be switched on over CAN now: somebody else has it; empty if nobody does."""
    if report.arm_status == EMERGENCY_STOP:
        return _ARM_STATUS[EMERGENCY_STOP]
    if report.control_mode not in (_STANDBY, CAN_CONTROL):
        return f"the arm is in {_mode_words(report.control_mode)}"
    return ""


def _mode_words(mode: int) -> str:
    return _CONTROL_MODES.get(mode, f"control mode {mode}")


def _faults(report: ArmReport) -> Iterator[tuple[str, bool]]:
    """Words, and whether the arm must stand still on it."""
    status = report.arm_status
    if status and status not in _TEACHING:
        yield _ARM_STATUS.get(status, f"arm status {status}"), status not in _OF_TARGETS
    for index, name in enumerate(JOINT_NAMES):
        if report.error_code >> index & 1:
            yield f"{name}: communication failed", True
        if report.error_code >> (8 + index) & 1:
            yield f"{name}: beyond its angle limit", False
    for name, flags in zip(JOINT_NAMES, report.motor_flags, strict=True):
        yield from ((f"{name}: {words}", True) for bit, words in _MOTOR_BITS.items() if flags >> bit & 1)
    for bit, words in _GRIPPER_BITS.items():
        if report.gripper_flags >> bit & 1:
            yield f"{GRIPPER_NAME}: {words}", False
