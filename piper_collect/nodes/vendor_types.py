"""Message and service types of packages that are there on some machines only."""

from importlib import import_module
from typing import Literal

from piper_collect.core.arm_report import ArmReport
from piper_collect.core.kinematics import JOINT_NAMES


def vendor_type(kind: Literal["msg", "srv"], name: str) -> type | None:
    """The class of ``package/Name``; None where the package is not installed, or has no such type."""
    package, _, leaf = name.partition("/")
    try:
        found: type = getattr(import_module(f"{package}.{kind}"), leaf)
    except (ImportError, AttributeError):
        return None
    return found


def vendor_report(message: object) -> ArmReport:
    """A PiperStatusMsg, or an AgxArmStatus, which has its flags in two lists and no error code, as a report.

    Neither says anything of the motors' drivers.
    """
    limits = getattr(message, "joint_angle_limit", None)
    failed = getattr(message, "communication_status_joint", None)
    joints = range(1, len(JOINT_NAMES) + 1)
    if limits is None or failed is None:
        limits = [getattr(message, f"joint_{n}_angle_limit") for n in joints]
        failed = [getattr(message, f"communication_status_joint_{n}") for n in joints]
    error_code = getattr(message, "err_code", 0) & 0xFFFF
    for flags, first_bit in ((failed, 0), (limits, 8)):
        error_code |= sum(bool(flag) << (first_bit + index) for index, flag in enumerate(flags))
    return ArmReport(
        control_mode=message.ctrl_mode,
        arm_status=message.arm_status,
        move_mode=message.mode_feedback,
        error_code=error_code,
        motor_flags=(0,) * len(JOINT_NAMES),
        gripper_flags=0,
    )
