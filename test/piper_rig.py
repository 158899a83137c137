"""The real piper_sdk and an emulated arm on one virtual CAN bus; importing this skips where they are not."""

import time
from contextlib import contextmanager

import pytest

can = pytest.importorskip("can", reason="python-can is not installed: pip install 'piper_collect[can]'")
piper_sdk = pytest.importorskip(
    "piper_sdk", reason="piper_sdk is not installed: pip install 'piper_collect[can]'"
)

from can_sessions import can_session  # noqa: E402
from piper_emulator import PiperEmulator  # noqa: E402

from piper_collect.devices.piper_can import PiperCan  # noqa: E402
from piper_collect.devices.piper_setup import piper_control  # noqa: E402

DEADLINE_S = 30.0
WIDTH_M = 0.05


def until(holds, what):
    """Wait until it holds."""
    end_s = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < end_s, what
        time.sleep(0.005)


@contextmanager
def emulated(channel, **settings):
    """An arm on a virtual bus."""
    with PiperEmulator(can.Bus(interface="virtual", channel=channel), **settings) as arm:
        yield arm
    _rest(channel)


def _rest(channel):
    """End the threads that the SDK leaves running for a channel; a test run has many channels."""
    sdk = piper_sdk.C_PiperInterface_V2._instances.pop(channel, None)
    if sdk is not None:
        sdk._C_PiperInterface_V2__can_monitor_stop_event.set()
        sdk._C_PiperInterface_V2__fps_counter.stop()


@contextmanager
def connected(channel, **settings):
    """A driver, and all readings it has given."""
    device, heard = PiperCan(channel=channel, interface="virtual", **settings), []
    device.open(heard.append)
    try:
        yield device, heard
    finally:
        device.close()


@contextmanager
def driving(channel, **settings):
    """An arm under control, and all its readings."""
    control, heard = piper_control(can_session(channel=channel, interface="virtual", **settings)), []
    try:
        control.start(heard.append)
        yield control, heard
    finally:
        control.stop()


def drive(control, holds, what, *, q=None, width_m=WIDTH_M):
    """Step at about 200 Hz, commanding ``q`` if it is given, until something holds."""
    end_s = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < end_s, (what, control.condition())
        if q is not None:
            control.command(q, width_m, 0.0)
        control.step()
        time.sleep(0.004)


def drive_for(control, arm, ticks, **command):
    """Step for so many periods of the arm."""
    end = arm.ticks + ticks
    drive(control, lambda: arm.ticks > end, "the arm stands still", **command)
