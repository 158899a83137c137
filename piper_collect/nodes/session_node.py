"""Owns the operator's actions: buttons come in, recorder services and homing go out."""

from std_srvs.srv import Trigger

from piper_collect.core.operator_actions import Action, ButtonState, Request, button_step, request_for
from piper_collect.msg import QuestInput, RecorderStatus
from piper_collect.nodes.convert import quest_sample
from piper_collect.nodes.qos import LATCHED_QOS, STREAM_QOS
from piper_collect.nodes.runtime import SessionNode, run_node
from piper_collect.srv import StartEpisode

PATIENCE_S = 30.0
"""After this long without an answer a request is given up: its server has died."""


class ActionNode(SessionNode):
    """One request at a time; every answer is told."""

    def __init__(self) -> None:
        super().__init__("session")
        self._buttons = ButtonState()
        self._recording = False
        self._waiting: Request | None = None
        self._asked_ns = 0
        self._service_clients = {
            request: self.create_client(StartEpisode if request is Request.START else Trigger, request.value)
            for request in Request
        }
        self.create_subscription(QuestInput, "quest/input", self._take_input, STREAM_QOS)
        self.create_subscription(RecorderStatus, "recorder/status", self._take_status, LATCHED_QOS)

    def _take_status(self, status: RecorderStatus) -> None:
        self._recording = status.state == RecorderStatus.STATE_RECORDING

    def _take_input(self, message: QuestInput) -> None:
        self._buttons, actions = button_step(self._buttons, quest_sample(message), self.config.teleop.hand)
        for action in actions:
            self._act(action)

    def _act(self, action: Action) -> None:
        request = request_for(action, recording=self._recording)
        log = self.get_logger()
        if request is None:
            log.info(f"{action.value}: no episode is running")
            return
        if self._waiting is not None and self.now_ns() - self._asked_ns < PATIENCE_S * 1e9:
            log.warning(f"{action.value}: ignored, {self._waiting.value} has not answered yet")
            return
        client = self._service_clients[request]
        if not client.service_is_ready():
            log.error(f"{action.value}: nobody serves {request.value}")
            return
        self._waiting, self._asked_ns = request, self.now_ns()
        client.call_async(client.srv_type.Request()).add_done_callback(self._answered)

    def _answered(self, future) -> None:
        request, self._waiting = self._waiting, None
        answer = future.result()
        if answer.success and request in (Request.START, Request.STOP, Request.DISCARD):
            self._recording = request is Request.START
        log = self.get_logger()
        (log.debug if answer.success else log.error)(answer.message)


def main(arguments: list[str] | None = None) -> int:
    """Turn the operator's buttons into episodes until told to stop."""
    return run_node(ActionNode, arguments)
