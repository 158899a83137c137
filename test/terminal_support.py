"""A program in a terminal of its own, as a person sees it and types into it."""

import contextlib
import fcntl
import os
import signal
import struct
import subprocess
import sys
import termios
import threading
import time

from ros_support import DEADLINE_S, ROOT, RosRun
from screen import Screen

# makes the pseudo-terminal the controlling one, as a login does, and becomes the program; it hears when
# the terminal is closed even where the tests themselves do not (nohup)
_LOGIN = """\
import fcntl, os, signal, sys, termios
signal.signal(signal.SIGHUP, signal.SIG_DFL)
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execvp(sys.argv[1], sys.argv[1:])
"""


class TerminalProcess:
    """A process with a pseudo-terminal, which it is the session leader of."""

    def __init__(
        self, run: RosRun, name: str, command: list[str], *, width: int = 160, **changes: str | None
    ) -> None:
        self.name, self._run = name, run
        self.may_end = True
        self.screen = Screen(width)
        self.raw = b""
        self._master, self._slave = os.openpty()
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
        self.settings_before = self._settings_at_end = self.settings()
        changes = {"TERM": "xterm-256color", "NO_COLOR": None, "COLUMNS": None, "LINES": None, **changes}
        self._popen = subprocess.Popen(
            [sys.executable, "-c", _LOGIN, *command],
            env=run.environment(**changes),
            cwd=ROOT,
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            start_new_session=True,
        )
        self.pid = self._popen.pid
        self._lock = threading.Lock()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def settings(self) -> list:
        """The terminal's settings now, or when it was given back."""
        return termios.tcgetattr(self._slave) if self._slave >= 0 else self._settings_at_end

    def reads_keys(self) -> bool:
        """Whether the terminal gives single keys, unechoed."""
        return not self.settings()[3] & (termios.ICANON | termios.ECHO)

    def type(self, keys: str) -> None:
        """Press keys, all in one moment."""
        os.write(self._master, keys.encode())

    def log(self) -> str:
        """What is on the screen."""
        with self._lock:
            return "\n".join(row.rstrip() for row in self.screen.rows)

    def line(self) -> str:
        """The last row of the screen."""
        with self._lock:
            return self.screen.last.rstrip()

    def shows(self, text: str) -> bool:
        """Whether the screen shows ``text``, in the last row or above."""
        return text in self.log()

    def until(self, holds, what: str) -> None:
        """Wait until ``holds()``."""
        deadline = time.monotonic() + DEADLINE_S
        while not holds():
            assert self.exit_code() is None, f"{what}: it ended ({self.exit_code()})\n{self.log()}"
            assert time.monotonic() < deadline, f"{what}: not in time\n{self.log()}"
            self._run.alive()
            time.sleep(0.02)

    def until_state(self, banner: str) -> None:
        """Wait until the last row begins with that state."""
        self.until(lambda: self.line().startswith(f" {banner} "), f"it never shows {banner}")

    def until_line(self, text: str) -> None:
        """Wait until the last row contains ``text``."""
        self.until(lambda: text in self.line(), f"the last line never says {text!r}")

    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._popen.poll()

    def send(self, number: signal.Signals) -> None:
        """Send a signal to this process alone."""
        self._run.alive()
        self._popen.send_signal(number)

    def wait(self, seconds: float = DEADLINE_S) -> int:
        """Its exit code, once it ended and all it wrote was read."""
        deadline = time.monotonic() + seconds
        while self._popen.poll() is None:
            assert time.monotonic() < deadline, f"{self.name} has not ended:\n{self.log()}"
            self._run.alive()
            time.sleep(0.05)
        time.sleep(0.1)
        return self._popen.returncode

    def hang_up(self) -> None:
        """Close the terminal's window."""
        os.close(self._slave)
        os.close(self._master)
        self._slave = self._master = -1

    def end(self) -> None:
        """End it, gently if it lets us, and give the terminal back."""
        for number, seconds in ((signal.SIGINT, 60.0), (signal.SIGKILL, 30.0)):
            if self._popen.poll() is None:
                self.send(signal.SIGCONT)
                self.send(number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._popen.wait(seconds)
        if self._slave >= 0:
            self._settings_at_end = self.settings()
            os.close(self._slave)
            self._reader.join(5.0)
            os.close(self._master)
            self._slave = -1

    def _read(self) -> None:
        while True:
            try:
                got = os.read(self._master, 65536)
            except OSError:
                return
            with self._lock:
                self.raw += got
                self.screen.feed(got.decode("utf-8", "replace"))
