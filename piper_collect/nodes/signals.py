"""Signals that ask a node to end; heard from the first moment, before ROS is even imported."""

import signal
from types import FrameType

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)

_asked: list[int] = []


def listen() -> None:
    """From now on SIGINT and SIGTERM are noted and cut nothing short."""
    for number in STOP_SIGNALS:
        signal.signal(number, _note)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)


def stop_asked() -> bool:
    """Whether one of them has come."""
    return bool(_asked)


def _note(number: int, _frame: FrameType | None) -> None:
    _asked.append(number)
