"""The clock of this machine as nodes see it, which a test sets: time, stamps, and when DDS took a message."""

from pathlib import Path

SITE = """\
import time

import rclpy.clock
import rclpy.node
import rclpy.time

_wall_ns = time.time_ns
_now = rclpy.clock.Clock.now
_subscribe = rclpy.node.Node.create_subscription


def _set():
    try:
        with open({file!r}, encoding="ascii") as file:
            return int(file.read() or 0)
    except FileNotFoundError:
        return 0


def now(clock):
    shown = _now(clock)
    if clock.clock_type == rclpy.clock.ClockType.STEADY_TIME:
        return shown
    return rclpy.time.Time(nanoseconds=shown.nanoseconds + _set(), clock_type=clock.clock_type)


def create_subscription(node, kind, topic, callback, *more, raw=False, **known):
    def received(payload, info):
        times = ("received_timestamp", "source_timestamp")
        callback(payload, {{**info, **{{name: info[name] + _set() for name in times if info.get(name)}}}})

    return _subscribe(node, kind, topic, received if raw else callback, *more, raw=raw, **known)


time.time_ns = lambda: _wall_ns() + _set()
rclpy.clock.Clock.now = now
rclpy.node.Node.create_subscription = create_subscription
"""
"""A wall clock that a file sets, for the processes that have this on their Python path."""

CAN_SITE = """
import can.interfaces.udp_multicast.bus as bus

_receive = bus.GeneralPurposeUdpMulticastBus.recv


def receive(socket, timeout=None):
    came = _receive(socket, timeout)
    return came and (came[0], came[1], came[2] + _set() / 1e9)


bus.GeneralPurposeUdpMulticastBus.recv = receive
"""
"""The same for when the machine took a frame from a CAN bus."""


class SetClock:
    """Sets the clock of the nodes that are started with ``site`` on their path, and of what the test stamps.

    Attributes:
        site: A folder for the path.
        ahead_ns: How far that clock is ahead of this machine's.
    """

    def __init__(self, folder: Path, *, can: bool = False) -> None:
        self._file = folder / "ahead_ns"
        self.site, self.ahead_ns = folder / "site", 0
        self.site.mkdir()
        (self.site / "sitecustomize.py").write_text(SITE.format(file=str(self._file)) + CAN_SITE * can)

    def set(self, ahead_ns: int) -> None:
        """Set it, for all at once."""
        fresh = self._file.with_suffix(".new")
        fresh.write_text(str(ahead_ns))
        fresh.rename(self._file)
        self.ahead_ns = ahead_ns
