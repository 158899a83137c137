"""What the Piper's firmware versions do differently, by version.

Sources: ``piper_sdk`` 0.6.2 (``dh_is_offset``), ``piper_control`` 1.5.0 (``piper_control.py`` for the signs,
``gravity_compensation.py`` for the torque), which names AgileX's Q&A for the latter.
"""

import re
from dataclasses import dataclass
from typing import TypeAlias

from piper_collect.errors import ConfigError

FirmwareVersion: TypeAlias = tuple[int, int, int]
Six: TypeAlias = tuple[float, float, float, float, float, float]

ZEROS_MOVED: FirmwareVersion = (1, 6, 3)
"""From here on the zeros of joints 2 and 3 lie two degrees elsewhere."""

MIT_SIGNS_FIXED: FirmwareVersion = (1, 7, 3)
"""Before it, MIT commands of joints 1, 2, 4 and 6 count the other way round: position, speed and torque."""

MIT_TORQUE_AMPLIFIED_TO: FirmwareVersion = (1, 8, 2)
"""Up to and with it, joints 1 to 3 execute four times the torque that an MIT command names."""

_FLIPPED: Six = (-1.0, -1.0, 1.0, -1.0, 1.0, -1.0)
_AMPLIFIED: Six = (4.0, 4.0, 4.0, 1.0, 1.0, 1.0)
_AS_NAMED: Six = (1.0, 1.0, 1.0, 1.0, 1.0, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class MitQuirks:
    """How a firmware reads MIT commands.

    Attributes:
        signs: Per joint, 1 or -1: by what position, speed and torque are multiplied before they are sent.
        torque_gain: Per joint, how many times the sent torque the motor executes.
    """

    signs: Six = _AS_NAMED
    torque_gain: Six = _AS_NAMED


def firmware_version(firmware: str) -> FirmwareVersion | None:
    """The numbers of a firmware as the arm reports it, e.g. ``S-V1.8-5``; None if it is unreadable."""
    match = re.fullmatch(r"S-V(\d+)\.(\d+)-(\d+)", firmware.strip())
    if match is None:
        return None
    major, minor, patch = map(int, match.groups())
    return major, minor, patch


def mit_quirks(firmware: str) -> MitQuirks:
    """How ``firmware`` reads MIT commands.

    Raises:
        ConfigError: The firmware is not known; a guess could turn a joint the wrong way.
    """
    version = firmware_version(firmware)
    if version is None:
        raise ConfigError(
            "impedance control needs to know the firmware: older ones turn signs and amplify torques",
            where="arm.firmware",
            expected="a version such as S-V1.8-5",
            got=firmware or "nothing",
            hint="set arm.firmware to what AgileX's own tool shows, or use control.backend: position",
        )
    return MitQuirks(
        signs=_FLIPPED if version < MIT_SIGNS_FIXED else _AS_NAMED,
        torque_gain=_AMPLIFIED if version <= MIT_TORQUE_AMPLIFIED_TO else _AS_NAMED,
    )
