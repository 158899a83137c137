"""How every node of this package runs: start, spin, stop cleanly on a signal, leave nothing behind."""

import ctypes
import faulthandler
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import rclpy
from rclpy._rclpy_pybind11 import RCLError, UnknownROSArgsError
from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from rclpy.timer import Timer

from piper_collect.config.load import session_from_parameters
from piper_collect.config.schema import SessionConfig
from piper_collect.errors import ConfigError
from piper_collect.nodes import signals
from piper_collect.nodes.executor import make_executor
from piper_collect.pipelines.node_processes import PARENT_VARIABLE, STARTED_VARIABLE

# every node has these, the session file does not name them
_ROS_PARAMETERS = ("use_sim_time", "start_type_description_service", "qos_overrides")
_PR_SET_PDEATHSIG = 1
_SPIN_S = 0.1
LEAVE_S = 5.0


class SessionNode(Node):
    """A node whose parameters are the session configuration.

    Args:
        name: Default node name.
        extra_parameters: Parameters of this node beside the session's.
    """

    def __init__(self, name: str, *, extra_parameters: tuple[str, ...] = ()) -> None:
        super().__init__(name, automatically_declare_parameters_from_overrides=True)
        self._steady_clock = Clock(clock_type=ClockType.STEADY_TIME)
        given = {key: value.value for key, value in self.get_parameters_by_prefix("").items()}
        self.extra = {key: given.pop(key, "") for key in extra_parameters}
        ours = {key: value for key, value in given.items() if key.split(".")[0] not in _ROS_PARAMETERS}
        self.config: SessionConfig = session_from_parameters(ours, extra_parameters)
        self.finished = False
        self.exit_code = 0

    def create_timer(self, timer_period_sec: float, callback: Callable[[], None], **known: Any) -> Timer:
        """A timer by a clock that nobody sets: by the node's own, a clock that is set back stops them all."""
        return super().create_timer(timer_period_sec, callback, clock=self._steady_clock, **known)

    def now_ns(self) -> int:
        """Now on the node's ROS clock, ns since the epoch."""
        return self.get_clock().now().nanoseconds

    def steady_ns(self) -> int:
        """Now on a clock that nobody sets, in ns: for how long something lasts or is silent; no stamp."""
        return time.monotonic_ns()

    def start(self) -> None:
        """Begin work; called once, after construction."""

    def stop(self) -> bool:
        """Called between spins once an end is asked for, until it returns True."""
        return True


def run_node(factory: Callable[[], SessionNode], arguments: list[str] | None = None) -> int:
    """Run one node until it finishes or SIGINT or SIGTERM asks for its end; its exit code.

    A second signal does not cut the clean-up short: only SIGKILL does, or that ROS hangs when all is done.
    """
    signals.listen()
    _die_with_parent()
    _init(arguments)
    node: SessionNode | None = None
    try:
        node = factory()
        with make_executor() as executor:
            executor.add_node(node)
            node.start()
            _tell_parent()
            while not signals.stop_asked() and not node.finished and rclpy.ok():
                executor.spin_once(timeout_sec=_SPIN_S)
            while not node.stop():
                executor.spin_once(timeout_sec=_SPIN_S)
            executor.remove_node(node)
        return node.exit_code
    finally:
        with at_most(LEAVE_S):
            if node is not None:
                node.destroy_node()
            rclpy.try_shutdown()


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """End the process with exit code 1 if the block takes longer, whatever it hangs in.

    Fast DDS 2.14 can lock itself up for good, with Python's own lock held, when a participant is destroyed
    while another one's leaving arrives.
    """
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        faulthandler.dump_traceback_later(seconds, exit=True, file=nowhere)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()


def _init(arguments: list[str] | None) -> None:
    try:
        rclpy.init(args=arguments, signal_handler_options=SignalHandlerOptions.NO)
    except (RCLError, UnknownROSArgsError) as err:
        reason = str(err).partition(", at ")[0]
        raise ConfigError(f"the ROS arguments cannot be used: {reason}", where="--ros-args") from err


def parent_pid() -> int | None:
    """The program that started us and that we end with; None when we were started on our own."""
    parent = os.environ.get(PARENT_VARIABLE)
    return None if parent is None else int(parent)


def _tell_parent() -> None:
    """Tell whoever waits for it that the node has started."""
    if path := os.environ.get(STARTED_VARIABLE):
        Path(path).touch()


def _die_with_parent() -> None:
    """End when the process that started us does, however it ends (Linux)."""
    parent = parent_pid()
    if parent is None or sys.platform != "linux":
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGINT)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGINT)
