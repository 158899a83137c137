"""The terminal: keys as they are pressed, its settings as they were before, and a log to show in it."""

import contextlib
import os
import select
import signal
import termios
import time
from collections.abc import Iterator
from typing import Any, TypeAlias

_Settings: TypeAlias = list[Any]  # as termios has them

_LOCAL, _CHARACTERS = 3, 6
_ESCAPE = b"\x1b"
_ESCAPE_S = 0.1  # what follows an escape within that belongs to it
_KEYS_AT_ONCE = 1024
_LOG_AT_ONCE = 65536


class KeyReader:
    """Reads single keys of a terminal while this process is in its foreground.

    Lines are not waited for, keys are not echoed, Ctrl-C and Ctrl-Z go on being signals; Ctrl-\\, which would
    end the process with the terminal as it is, is switched off.

    Args:
        descriptor: File descriptor of the terminal.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._original: _Settings | None = None
        self._entered = False
        self._escaped_s = -_ESCAPE_S

    def enter(self) -> bool:
        """Set the terminal if it is ours and was not set yet; whether it is ours."""
        if not in_foreground(self._descriptor):
            self._entered = False
            return False
        if not self._entered:
            settings = _settings(self._descriptor)
            if self._original is None or settings[_LOCAL] & termios.ICANON:
                self._original = _settings(self._descriptor)
            settings[_LOCAL] &= ~(termios.ICANON | termios.ECHO)
            settings[_CHARACTERS][termios.VMIN], settings[_CHARACTERS][termios.VTIME] = 1, 0
            settings[_CHARACTERS][termios.VQUIT] = os.fpathconf(self._descriptor, "PC_VDISABLE")
            termios.tcsetattr(self._descriptor, termios.TCSANOW, settings)
            self._entered = True
        return True

    def forget(self) -> None:
        """Set the terminal again at the next ``enter``: somebody else has had it."""
        self._entered = False

    def leave(self) -> None:
        """Set the terminal as it was; in the background whoever has it now has set it already."""
        if self._original is not None:
            _restore(self._descriptor, self._original)
        self._entered = False

    def read(self) -> str:
        """What was typed since the last call; empty for nothing, and for keys that are no characters."""
        if not self._entered or not select.select([self._descriptor], [], [], 0.0)[0]:
            return ""
        typed = os.read(self._descriptor, _KEYS_AT_ONCE)
        if _ESCAPE in typed:
            self._escaped_s = time.monotonic()
        if time.monotonic() - self._escaped_s < _ESCAPE_S:  # an arrow or a function key, spelled out
            return ""
        return typed.decode("utf-8", "replace")


class LineFollower:
    """The lines that a growing file gets; who shares the descriptor goes on where the other one stopped.

    Args:
        descriptor: File descriptor of the file, for reading.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._begun = b""

    def lines(self) -> list[str]:
        """Whole lines since the last call."""
        *whole, self._begun = (self._begun + os.read(self._descriptor, _LOG_AT_ONCE)).split(b"\n")
        return [line.decode("utf-8", "replace") for line in whole]

    def rest(self) -> list[str]:
        """All there is, also a line that has not ended."""
        lines = self.lines()
        while more := self.lines():
            lines += more
        last, self._begun = self._begun, b""
        return [*lines, last.decode("utf-8", "replace")] if last else lines


def _settings(descriptor: int) -> _Settings:
    return list(termios.tcgetattr(descriptor))


def _restore(descriptor: int, settings: _Settings) -> None:
    """Set the terminal, and forget what was typed, which was no command for a shell."""
    if in_foreground(descriptor):
        with contextlib.suppress(termios.error):
            termios.tcsetattr(descriptor, termios.TCSANOW, settings)
            termios.tcflush(descriptor, termios.TCIFLUSH)


def in_foreground(descriptor: int) -> bool:
    """Whether this process may use the terminal: a shell has it while the process is suspended or behind."""
    try:
        return os.tcgetpgrp(descriptor) == os.getpgrp()
    except OSError:  # hung up, or not our controlling terminal
        return False


@contextlib.contextmanager
def settings_restored(descriptor: int) -> Iterator[None]:
    """Set the terminal as it was when the block ends, whoever has changed it meanwhile."""
    before = _settings(descriptor)
    try:
        yield
    finally:
        _restore(descriptor, before)


def suspend_self() -> None:
    """Stop this process as Ctrl-Z does, until the shell continues it; call it from the signal's handler."""
    handler = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTSTP)
    signal.signal(signal.SIGTSTP, handler)
