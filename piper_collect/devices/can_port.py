"""A SocketCAN interface before it is opened: what is wrong with it, and the command that puts it right."""

import json
import shutil
import subprocess
from pathlib import Path

from piper_collect.errors import ArmError

SYS_CLASS_NET = Path("/sys/class/net")
_PATIENCE_S = 5.0
_CAN_LINK = "280"
"""``ARPHRD_CAN`` of Linux, as ``/sys/class/net/<name>/type`` has it."""


def check_can_port(channel: str, bitrate: int, sys_class_net: Path = SYS_CLASS_NET) -> int | None:
    """Refuse an interface that is missing, no CAN interface, down, or at another bitrate.

    Args:
        channel: Interface name, e.g. ``can0``.
        bitrate: Expected bit/s; interfaces without one (vcan, vxcan) are taken as they are.
        sys_class_net: Where the kernel lists its interfaces.

    Returns:
        The bitrate; None where it cannot be told.

    Raises:
        ArmError: With the command to run.
    """
    up = f"sudo ip link set {channel} down; sudo ip link set {channel} up type can bitrate {bitrate}"
    folder = sys_class_net / channel
    there = sorted(path.name for path in sys_class_net.glob("*") if _read(path / "type") == _CAN_LINK)
    if channel not in there:
        what = "is no CAN interface" if folder.exists() else "there is no such interface"
        raise ArmError(
            what,
            where=channel,
            got=f"CAN interfaces: {', '.join(there) or 'none'}",
            hint="plug the USB-CAN adapter in (kernel module gs_usb), then set can.channel",
        )
    if _read(folder / "operstate") not in ("up", "unknown"):  # vcan says unknown when it is up
        raise ArmError("the CAN interface is down", where=channel, hint=up)
    actual = _bitrate(channel)
    if actual is not None and actual != bitrate:
        raise ArmError(
            "the CAN interface has another bitrate", where=channel, expected=bitrate, got=actual, hint=up
        )
    return actual


def _bitrate(channel: str) -> int | None:
    """What ``ip`` says; None where it does not say in time, or is not installed."""
    ip = shutil.which("ip")
    if ip is None:
        return None
    try:
        done = subprocess.run(
            [ip, "-details", "-json", "link", "show", channel],
            capture_output=True,
            text=True,
            check=False,
            timeout=_PATIENCE_S,
        )
        bitrate = json.loads(done.stdout)[0]["linkinfo"]["info_data"]["bittiming"]["bitrate"]
    except (OSError, subprocess.TimeoutExpired, ValueError, LookupError, TypeError):
        return None
    return int(bitrate)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
