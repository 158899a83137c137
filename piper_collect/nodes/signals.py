"""Signals that ask a node to end; heard from the first moment, before ROS is even imported."""

import atexit
import signal
from types import FrameType

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)

_asked: list[int] = []


def listen() -> None:
    """From now on SIGINT and SIGTERM are noted and cut nothing short."""
    for number in STOP_SIGNALS:
        signal.signal(number, _note)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    atexit.register(_rest)


def stop_asked() -> bool:
    """Whether one of them has come."""
    return bool(_asked)


def was_asked(number: int) -> bool:
    """Whether that one has come."""
    return number in _asked


def _rest() -> None:
    """Let a SIGINT that comes too late do nothing; Python would end with its default, which kills.

    A launch and its terminal may both send one. SIGTERM stays deadly, for a process that hangs at its end.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _note(number: int, _frame: FrameType | None) -> None:
    _asked.append(number)
