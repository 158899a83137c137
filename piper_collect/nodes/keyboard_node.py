"""The keyboard of a terminal: keys come in, calls of the session's services and one live line go out."""

import os
import signal
import sys

from std_srvs.srv import Trigger

from piper_collect.config.names import SESSION_SERVICES
from piper_collect.core.keys import HELP, HELP_ELSEWHERE, KeyState, Wish, key_press, key_tick, prompt
from piper_collect.core.operator_actions import Action
from piper_collect.core.session_status import SILENT_S, SessionView
from piper_collect.core.status_line import ENDING, STARTING, Figures, status_line
from piper_collect.devices.terminal import KeyReader, LineFollower, suspend_self
from piper_collect.errors import SessionError
from piper_collect.msg import RecorderStatus, SessionStatus
from piper_collect.nodes import signals
from piper_collect.nodes.convert import session_view_of
from piper_collect.nodes.qos import LATCHED_QOS
from piper_collect.nodes.runtime import SessionNode, parent_pid, run_node
from piper_collect.report.live_line import LiveLine

TICK_S = 0.05


class KeyboardNode(SessionNode):
    """Keys of the terminal that it was started in, and the session's state in one line of it.

    With the parameter ``log_fd`` it belongs to the program that started it: what comes out of that file
    scrolls by above the line, quitting interrupts the program, and it stays until the program ends it.
    """

    def __init__(self) -> None:
        super().__init__("keyboard", extra_parameters=("log_fd",))
        log_fd = self.extra["log_fd"]
        self._log = LineFollower(log_fd) if isinstance(log_fd, int) else None
        self._parent = parent_pid() if self._log is not None else None
        self._reader = KeyReader(sys.stdin.fileno())
        self._line = LiveLine(sys.stdout)
        self._keys = KeyState()
        self._view = SessionView(state="not_ready")
        self._heard_ns = 0
        self._figures: Figures | None = None
        self._ending = False
        self._callers = {
            action: self.create_client(Trigger, name) for action, name in SESSION_SERVICES.items()
        }
        self.create_subscription(SessionStatus, "session/status", self._take_status, LATCHED_QOS)
        self.create_subscription(RecorderStatus, "recorder/status", self._take_recorder, LATCHED_QOS)

    def start(self) -> None:
        """Take the terminal, and begin to read keys.

        Raises:
            SessionError: There is no terminal to read them from.
        """
        if signals.stop_asked():
            return
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise SessionError(
                "keys are read from a terminal only, and this is none",
                where="keyboard",
                hint="start it in a terminal, without pipes",
            )
        sys.stdout.reconfigure(errors="replace")
        signal.signal(signal.SIGTSTP, lambda _number, _frame: self._suspend())
        signal.signal(signal.SIGCONT, lambda _number, _frame: self._reader.forget())
        self.create_timer(TICK_S, self._tick)
        if self._log is None:
            self._help()

    def stop(self) -> bool:
        """Leave the terminal as it was; not before the program that it belongs to has nothing more to say."""
        self._ending = True
        if self._parent == os.getppid() and not signals.was_asked(signal.SIGTERM):
            return False
        if self._log is not None:
            self._line.print(self._log.rest())
        self._leave()
        return True

    def destroy_node(self) -> None:
        """End, whatever happened, with the terminal as it was."""
        self._leave()
        super().destroy_node()

    # -- what comes in -------------------------------------------------------------------------

    def _take_status(self, status: SessionStatus) -> None:
        self._heard_ns = self.steady_ns()
        self._view = session_view_of(status, self._heard_ns)

    def _take_recorder(self, status: RecorderStatus) -> None:
        lost = sum(topic.lost for topic in status.topics)
        self._figures = Figures(lost=lost, bytes_free=status.bytes_free)

    def _tick(self) -> None:
        now_ns = self.steady_ns()
        if self._log is not None and (lines := self._log.lines()):
            self._line.print(lines)
        if not self._reader.enter():
            self._line.forget()
            return
        if typed := self._reader.read():
            self._keys, wish = key_press(
                self._keys, typed, self._view, now_ns, ends_session=self._parent is not None
            )
            self._carry_out(wish)
        self._keys, wish = key_tick(self._keys, self._view, now_ns)
        self._carry_out(wish)
        self._draw(now_ns)

    def _suspend(self) -> None:
        self._leave()
        suspend_self()

    # -- what goes out -------------------------------------------------------------------------

    def _carry_out(self, wish: Wish | None) -> None:
        if self._ending or wish is None:
            return
        if wish == "help":
            self._help()
        elif wish == "quit":
            self._ending = True
            if self._parent is None:
                self.finished = True
            elif self._parent == os.getppid():
                os.kill(self._parent, signal.SIGINT)
        else:
            self._call(wish)

    def _call(self, action: Action) -> None:
        caller = self._callers[action]
        if not caller.service_is_ready():
            self._refused(f"nobody serves {caller.srv_name}")
            return
        future = caller.call_async(Trigger.Request())
        future.add_done_callback(lambda done: self._answered(done.result()))

    def _answered(self, answer: Trigger.Response) -> None:
        if not answer.success:
            self._refused(answer.message)
        elif self._log is None:
            self._line.print([answer.message])

    def _refused(self, why: str) -> None:
        self._line.bell()
        if self._log is None:
            self._line.print([f"not done: {why}"])

    def _help(self) -> None:
        keys = HELP if self._parent is not None else HELP_ELSEWHERE
        self._line.print([f"  {key:7}{text}" for key, text in keys])

    def _draw(self, now_ns: int) -> None:
        if self._ending:
            self._line.draw(ENDING)
            return
        if self._log is not None and not self._heard_ns:
            self._line.draw(STARTING)
            return
        heard = self._heard_ns > 0 and now_ns - self._heard_ns < SILENT_S * 1e9
        elapsed_s = (now_ns - self._view.start_ns) / 1e9 if self._view.start_ns else 0.0
        view = self._view if heard else None
        self._line.draw(status_line(view, self._figures, elapsed_s, prompt(self._keys, now_ns)))

    def _leave(self) -> None:
        self._line.hide()
        self._reader.leave()


def main(arguments: list[str] | None = None) -> int:
    """Read keys until told to stop."""
    return run_node(KeyboardNode, arguments)
