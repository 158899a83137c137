"""Sessions with a Piper on a CAN bus, and the one bus between processes that a machine has."""

import fcntl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from piper_collect.config.schema import (
    CanSettings,
    ControlSettings,
    DeviceSettings,
    ImpedanceSettings,
    SessionConfig,
)

GROUP = "239.74.163.2"
SPRINGS = ImpedanceSettings(kp=(10.0,) * 6, kd=(0.8,) * 6)
"""AgileX's example gains."""


def can_session(*, impedance=None, dh_offset="s_v1_6_3", firmware="", **can) -> SessionConfig:
    """A session with a Piper on CAN, in position control unless impedance gains are given."""
    base = SessionConfig()
    backend = "position" if impedance is None else "impedance"
    return replace(
        base,
        devices=DeviceSettings(arm="can"),
        arm=replace(base.arm, dh_offset=dh_offset, firmware=firmware),
        control=ControlSettings(backend=backend, impedance=impedance or ImpedanceSettings()),
        can=CanSettings(**can),
    )


@contextmanager
def multicast_group() -> Iterator[str]:
    """A multicast address to itself: all multicast CAN buses of a machine share one port."""
    with Path(tempfile.gettempdir(), "piper_collect_udp_can.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _multicast_works():
            pytest.skip("UDP multicast does not work on this machine's loopback")
        yield GROUP


def _multicast_works() -> bool:
    can = pytest.importorskip("can", reason="python-can is not installed: pip install 'piper_collect[can]'")
    try:
        with (
            can.Bus(interface="udp_multicast", channel=GROUP, fd=False) as one,
            can.Bus(interface="udp_multicast", channel=GROUP, fd=False) as other,
        ):
            one.send(can.Message(arbitration_id=0x7F0, data=bytes(8), is_extended_id=False))
            return other.recv(2.0) is not None
    except (can.CanError, OSError):
        return False
