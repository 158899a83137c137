"""Owns the operator's actions: buttons and calls come in; services, status and haptics go out."""

import time
from dataclasses import replace
from functools import partial

from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.task import Future
from std_srvs.srv import Trigger

from piper_collect.config.names import QUEST_INPUT_TOPIC, SESSION_SERVICES
from piper_collect.core import haptics
from piper_collect.core.arbitration import PATIENCE_S, Standing, answered, ask, gave_up, hear
from piper_collect.core.clutch import OPEN
from piper_collect.core.operator_actions import (
    Action,
    ButtonState,
    Request,
    button_step,
    hand_of,
    hold_began,
)
from piper_collect.core.quest import Hand
from piper_collect.core.sent_age import SentAge
from piper_collect.core.session_status import (
    ArmReport,
    RecorderReport,
    SessionView,
    TeleopReport,
    same_start,
    session_view,
    start_hindrance,
)
from piper_collect.msg import ArmStatus, HapticPulse, QuestInput, RecorderStatus, SessionStatus, TeleopStatus
from piper_collect.nodes.company import several
from piper_collect.nodes.convert import (
    arm_report,
    pulse_msg,
    quest_sample,
    recorder_report,
    session_status_msg,
    teleop_report,
)
from piper_collect.nodes.qos import LATCHED_QOS, STREAM_QOS
from piper_collect.nodes.runtime import SessionNode, run_node
from piper_collect.srv import StartEpisode

STATUS_S = 0.2
ANSWER_S = 10.0
"""How long an answer is shown before what the recorder says takes its place again."""


class ActionNode(SessionNode):
    """One request at a time, whoever asks; every answer is told, shown and felt.

    How long something is silent, held or waited for is counted by a clock that nobody sets.
    """

    def __init__(self) -> None:
        super().__init__("session")
        self._buttons = ButtonState()
        self._ages = SentAge(self.now_ns, time.monotonic_ns)
        self._standing = Standing()
        self._waiting: Future | None = None
        self._answer = ""
        self._answered_ns = 0
        self._recorder: RecorderReport | None = None
        self._arm: ArmReport | None = None
        self._teleop: TeleopReport | None = None
        self._shown: SessionView | None = None
        self._service_clients = {
            request: self.create_client(StartEpisode if request is Request.START else Trigger, request.value)
            for request in Request
        }
        self._status = self.create_publisher(SessionStatus, "session/status", LATCHED_QOS)
        self._haptics = self.create_publisher(HapticPulse, "session/haptics", STREAM_QOS)
        self.create_subscription(QuestInput, QUEST_INPUT_TOPIC, self._take_input, STREAM_QOS)
        self.create_subscription(RecorderStatus, "recorder/status", self._take_recorder, LATCHED_QOS)
        self.create_subscription(TeleopStatus, "teleop/status", self._take_teleop, LATCHED_QOS)
        self.create_subscription(ArmStatus, "arm/status", self._take_arm, STREAM_QOS)
        # in a group of its own: a call waits for the recorder's answer, which the others must go on receiving
        waits = ReentrantCallbackGroup()
        for action, name in SESSION_SERVICES.items():
            self.create_service(Trigger, name, partial(self._serve, action), callback_group=waits)
        self.create_timer(STATUS_S, self._tick)

    # -- what comes in -------------------------------------------------------------------------

    def _take_recorder(self, status: RecorderStatus) -> None:
        report = same_start(self._recorder, recorder_report(status, self.steady_ns()))
        if self._recorder is not None and report.message != self._recorder.message:
            self._answer = ""  # the recorder has something newer to tell
        self._recorder = report
        self._standing = hear(self._standing, self._view().state, self.steady_ns())
        self._show()

    def _take_teleop(self, status: TeleopStatus) -> None:
        before, self._teleop = self._teleop, teleop_report(status, self.steady_ns())
        hand = self.config.teleop.hand
        if before is not None and before.state != self._teleop.state:
            if self._teleop.state == "following":
                self._feel(haptics.tick(hand))
            elif before.state == "following" and self._teleop.text != OPEN:
                self._feel(haptics.let_go(hand))
        self._show()

    def _take_arm(self, status: ArmStatus) -> None:
        self._arm = arm_report(status, self.steady_ns())
        self._show()

    def _take_input(self, message: QuestInput) -> None:
        if several(self, QUEST_INPUT_TOPIC):
            return  # teleoperation says so
        before, hand = self._buttons, self.config.teleop.hand
        sample = quest_sample(message)
        sample = replace(sample, stamp_ns=self._ages.steady_ns(sample.stamp_ns))  # what counts is how long
        self._buttons, actions = button_step(before, sample, hand)
        if hold_began(before, self._buttons):
            self._feel(haptics.tick(hand_of(Action.HOME, hand)))
        for action in actions:
            self._ask(action, by_hand=True)

    async def _serve(
        self, action: Action, _request: Trigger.Request, response: Trigger.Response
    ) -> Trigger.Response:
        asked = self._ask(action, by_hand=False)
        response.success, response.message = (False, asked) if isinstance(asked, str) else await asked
        return response

    # -- what goes out -------------------------------------------------------------------------

    def _ask(self, action: Action, *, by_hand: bool) -> Future | str:
        """Have an action done; its answer (success, message) to come, or why nothing is done.

        What is done the headset's wearer feels whoever asked; what is not, only if he asked.
        """
        hand = hand_of(action, self.config.teleop.hand)
        now_ns = self.steady_ns()
        hindrance = start_hindrance(self._recorder, self._arm, self._teleop, now_ns)
        before = self._standing
        self._standing, decision = ask(before, action, self._view().state, now_ns, hindrance)
        if isinstance(decision, Request) and not self._service_clients[decision].service_is_ready():
            self._standing, decision = before, f"nobody serves {decision.value}"
        if isinstance(decision, str):
            self.get_logger().warning(f"not done: {action.value}: {decision}")
            if by_hand:
                self._feel(haptics.refusal(hand))
            self._say(decision)
            return decision
        self._give_up()
        client = self._service_clients[decision]
        self._waiting = waiting = Future()
        future = client.call_async(client.srv_type.Request())
        future.add_done_callback(
            lambda done: self._answered(decision, done.result(), waiting, hand, by_hand=by_hand)
        )
        return waiting

    def _answered(self, request: Request, answer, waiting: Future, hand: Hand, *, by_hand: bool) -> None:
        self._standing = answered(self._standing, request, self.steady_ns(), success=answer.success)
        if request is Request.HOME and not answer.success:  # the recorder's answers are in its own log
            self.get_logger().warning(answer.message)
        if answer.success or by_hand:
            self._feel(haptics.answer(request, hand, success=answer.success))
        self._say(answer.message)
        if not waiting.done():
            waiting.set_result((answer.success, answer.message))

    def _give_up(self) -> None:
        """Answer the caller of a request that nobody will answer any more."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result((False, f"no answer within {PATIENCE_S:.0f} s"))

    def _tick(self) -> None:
        self._ages.look()
        if gave_up(self._standing, self.steady_ns()):
            self._give_up()
        self._publish_status()

    def _feel(self, pulses: tuple[haptics.Pulse, ...]) -> None:
        for pulse in pulses:
            self._haptics.publish(pulse_msg(pulse, self.now_ns()))

    def _say(self, text: str) -> None:
        self._answer, self._answered_ns = text, self.steady_ns()
        self._show()

    def _view(self) -> SessionView:
        if self.steady_ns() - self._answered_ns > ANSWER_S * 1e9:
            self._answer = ""
        return session_view(self._recorder, self._arm, self._teleop, self.steady_ns(), self._answer)

    def _show(self) -> None:
        """Publish at once when anything that is shown has changed."""
        if self._view() != self._shown:
            self._publish_status()

    def _publish_status(self) -> None:
        self._shown = self._view()
        self._status.publish(session_status_msg(self._shown, self.now_ns(), self.steady_ns()))


def main(arguments: list[str] | None = None) -> int:
    """Turn the operator's buttons into episodes until told to stop."""
    return run_node(ActionNode, arguments)
