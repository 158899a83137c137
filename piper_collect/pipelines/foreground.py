"""The terminal of a session: a keyboard in it, and what the nodes print scrolling by above one line.

What the nodes print goes to a file, never to the terminal or a pipe, so that no node ever waits: not when the
terminal is held with Ctrl-S, nor when our program is suspended. The keyboard shows the file, through
one descriptor with us, so that we can show the rest when it has ended.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType

from piper_collect.config.graph import NodeSpec
from piper_collect.devices.terminal import LineFollower, settings_restored, suspend_self

_SUSPENDED_S = 2.0


class Foreground:
    """Our terminal while a session runs in it.

    Args:
        folder: Where the nodes' log is kept meanwhile.
    """

    def __init__(self, folder: Path) -> None:
        log = folder / "nodes.log"
        self._writing = log.open("ab")
        self._reading = log.open("rb")
        descriptor = self._reading.fileno()
        self._log = LineFollower(descriptor)
        self._keyboard: subprocess.Popen[bytes] | None = None
        self._missed = False
        self.keyboard = NodeSpec(
            executable="keyboard_node", name="keyboard", parameters={"log_fd": str(descriptor)}
        )

    def start_node(self, command: Sequence[str], environment: Mapping[str, str]) -> "subprocess.Popen[bytes]":
        """Start a node that prints into the log."""
        return subprocess.Popen(
            command,
            env={"RCUTILS_COLORIZED_OUTPUT": "1", **environment},
            stdin=subprocess.DEVNULL,
            stdout=self._writing,
            stderr=self._writing if sys.stderr.isatty() else None,
            start_new_session=True,
        )

    def start_keyboard(
        self, command: Sequence[str], environment: Mapping[str, str]
    ) -> "subprocess.Popen[bytes]":
        """Start the keyboard; it stays with us in the terminal's foreground, as a reader of keys must."""
        self._keyboard = subprocess.Popen(command, env=environment, pass_fds=(self._reading.fileno(),))
        return self._keyboard

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        """Have the terminal for the length of the block; afterwards it is as it was before."""
        before = signal.signal(signal.SIGTSTP, self._suspend)
        try:
            with settings_restored(sys.stdin.fileno()):
                yield
        finally:
            signal.signal(signal.SIGTSTP, before)
            self._show(self._log.rest())
            self._writing.close()
            self._reading.close()

    def look(self) -> None:
        """Show what the keyboard does not show because it has ended."""
        if self._keyboard is None or self._keyboard.poll() is None:
            return
        if not self._missed:
            self._missed = True
            how = f"the keyboard has ended with exit code {self._keyboard.returncode}"
            self._show(["", f"{how}: keys do nothing any more, Ctrl-C ends the session"])
        self._show(self._log.lines())

    def _show(self, lines: Sequence[str]) -> None:
        with contextlib.suppress(OSError):  # the terminal has been closed
            for line in lines:
                print(line, file=sys.stderr, flush=True)

    def _suspend(self, _number: int, _frame: FrameType | None) -> None:
        """Ctrl-Z: let the keyboard leave the terminal before the shell takes it. The nodes go on."""
        deadline = time.monotonic() + _SUSPENDED_S
        while time.monotonic() < deadline and not self._keyboard_rests():
            time.sleep(0.01)
        suspend_self()

    def _keyboard_rests(self) -> bool:
        if self._keyboard is None or self._keyboard.poll() is not None:
            return True
        status = os.waitid(os.P_PID, self._keyboard.pid, os.WSTOPPED | os.WNOHANG)
        return status is not None
