"""The session node: buttons and calls become calls of services; its answers are shown and felt."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from ros_support import Rig

from piper_collect.config.schema import SessionConfig
from piper_collect.core.arbitration import END_IT_FIRST, MOMENT_S, MOVING_HOME, NOTHING_RUNS, RUNS_ALREADY
from piper_collect.core.operator_actions import HOLD_S
from piper_collect.core.quest import BUTTON_COUNT, PRIMARY, SECONDARY, QuestController, QuestSample

HEADSET_S = 1.0 / 72.0
TRIES = 5


class Desk:
    """The session node, stand-ins for what it talks to, and a pair of hands."""

    def __init__(self, rig: Rig, hand: str = "right") -> None:
        from piper_collect.msg import (
            ArmStatus,
            HapticPulse,
            QuestInput,
            RecorderStatus,
            SessionStatus,
            TeleopStatus,
        )
        from piper_collect.srv import StartEpisode
        from rclpy.callback_groups import ReentrantCallbackGroup
        from std_srvs.srv import Trigger

        from piper_collect.nodes.qos import LATCHED_QOS

        waits = ReentrantCallbackGroup()
        self.rig = rig
        self.calls: list[str] = []
        self.success = True
        self.slow = None
        self.changed_ns = 0
        self.down: set[tuple[str, int]] = set()
        self.sequence = 0
        self.states = SessionStatus
        base = SessionConfig()
        rig.start("session_node", replace(base, teleop=replace(base.teleop, hand=hand)))
        self.shown = rig.listen(SessionStatus, "/session/status", LATCHED_QOS)
        self.felt = rig.listen(HapticPulse, "/session/haptics")
        self.recorder = RecorderStatus(
            state=RecorderStatus.STATE_READY, episode_index=4, episodes_saved=4, task="stack"
        )
        self.teleop = TeleopStatus(state=TeleopStatus.STATE_HOLDING, text="clutch open")
        self.arm = ArmStatus(power=ArmStatus.POWER_ON)
        self._input = rig.publisher(QuestInput, "/quest/input")
        self._recorder = rig.publisher(RecorderStatus, "/recorder/status", LATCHED_QOS)
        self._teleop = rig.publisher(TeleopStatus, "/teleop/status", LATCHED_QOS)
        self._arm = rig.publisher(ArmStatus, "/arm/status")
        services = [("start", "begun"), ("stop", "kept"), ("discard", "gone"), ("delete_last", "deleted")]
        for name, word in (*services, ("home", "moving home")):
            kind = StartEpisode if name == "start" else Trigger
            path = "/arm/home" if name == "home" else f"/recorder/{name}_episode"
            rig.node.create_service(kind, path, self._serve(name, word), callback_group=waits)
        rig.every(HEADSET_S, self._send)
        rig.every(0.2, self.report)
        rig.until(lambda: self.shown and self.shown[-1].teleop == "clutch open", "teleoperation is not heard")
        rig.until(lambda: self.shown[-1].state == SessionStatus.STATE_READY, "it is never ready")
        rig.until(lambda: self._input.get_subscription_count(), "nobody listens to the hands")

    def report(self) -> None:
        from piper_collect.nodes.convert import stamp_msg

        for publisher, message in (
            (self._recorder, self.recorder),
            (self._teleop, self.teleop),
            (self._arm, self.arm),
        ):
            message.header.stamp = stamp_msg(self.rig.now_ns())
            publisher.publish(message)

    def _serve(self, name: str, word: str):
        async def serve(_request, response):
            self.calls.append(name)
            if self.slow is not None:
                await self.slow
            response.success = self.success
            if self.success and name != "delete_last":
                self.changed_ns = self.rig.now_ns()
            response.message = word if self.success else f"not {word}"
            if self.success and name in ("start", "stop", "discard"):
                states = type(self.recorder)
                self.recorder.state = states.STATE_RECORDING if name == "start" else states.STATE_READY
            return response

        return serve

    def _send(self) -> None:
        from piper_collect.nodes.convert import quest_input_msg

        def controller(hand: str) -> QuestController:
            pressed = tuple((hand, k) in self.down for k in range(BUTTON_COUNT))
            return QuestController(connected=True, button_pressed=pressed)

        sample = QuestSample(
            stamp_ns=self.rig.now_ns(),
            headset_time_ms=self.sequence * 1e3 * HEADSET_S,
            sequence=self.sequence,
            visibility="visible",
            left=controller("left"),
            right=controller("right"),
        )
        self._input.publish(quest_input_msg(sample))
        self.sequence += 1

    def settle(self) -> None:
        """Let the moment pass in which what was begun or ended must not be undone."""
        until_ns = self.changed_ns + round(MOMENT_S * 1e9) + 300_000_000
        self.rig.until(lambda: self.rig.now_ns() > until_ns, "time stands still")

    def call(self, name: str) -> tuple[bool, str]:
        """Call one of the session's services: success and message."""
        from std_srvs.srv import Trigger

        answer = self.rig.call(Trigger, f"session/{name}")
        return answer.success, answer.message

    def show(self, state: str) -> None:
        """Wait until the session is shown in a state."""
        wanted = getattr(self.states, f"STATE_{state}")
        self.rig.until(lambda: self.shown[-1].state == wanted, f"it is not shown {state}")

    def press(self, hand: str, button: int, call: str) -> list:
        """Hold a button until its service was called and answered; the pulses that were felt from then on."""
        self.settle()
        before, told = len(self.calls), self.shown[-1].text
        felt = self.hold(hand, button, lambda: len(self.calls) > before, f"{call} is not called")
        assert self.calls[before:] == [call]
        self.rig.until(lambda: self.shown[-1].text != told, "the answer is not shown")
        self.let_go()
        assert self.calls[before:] == [call]  # once, however long it is held
        return self.felt[felt:]

    def hold(self, hand: str, button: int, done: Callable[[], object], what: str) -> int:
        """Hold a button until it has worked; how much had been felt before.

        What is down after a silence counts as held before and does nothing; then it is pressed once more.
        """
        for _ in range(TRIES):
            felt, sent = len(self.felt), self.sequence
            self.down = {(hand, button)}
            self.rig.until(lambda sent=sent: done() or self.sequence > sent + 3 * HOLD_S / HEADSET_S, what)
            if not done():
                shown = len(self.shown)
                self.let_go()
                self.rig.until(lambda shown=shown: len(self.shown) > shown + 3, "the session is silent")
            if done():
                return felt
        raise AssertionError(what)

    def let_go(self) -> None:
        """Let all buttons go, for longer than a moment."""
        self.down = set()
        sent = self.sequence
        self.rig.until(lambda: self.sequence > sent + 10, "no hands")


@pytest.fixture
def desk(rig: Rig) -> Desk:
    return Desk(rig)


def hands(pulses: list) -> set[str]:
    from piper_collect.msg import HapticPulse

    return {"left" if p.hand == HapticPulse.HAND_LEFT else "right" for p in pulses}


def test_the_buttons_of_a_session_call_its_services_and_each_is_felt(desk: Desk) -> None:
    start = desk.press("right", PRIMARY, "start")
    assert (len(start), hands(start)) == (1, {"right"})
    assert desk.shown[-1].text == "begun"
    desk.show("RECORDING")
    stop = desk.press("right", PRIMARY, "stop")
    assert (len(stop), hands(stop)) == (2, {"right"})
    desk.press("right", PRIMARY, "start")
    assert hands(desk.press("right", SECONDARY, "discard")) == {"right"}
    home = desk.press("left", SECONDARY, "home")
    assert (len(home), hands(home)) == (2, {"left"})  # a tick as the hold begins, and the answer
    assert hands(desk.press("left", PRIMARY, "delete_last")) == {"left"}
    desk.press("right", PRIMARY, "start")
    desk.press("left", PRIMARY, "discard")


def test_a_left_handed_operator_has_the_buttons_on_the_other_side(rig: Rig) -> None:
    desk = Desk(rig, "left")
    assert hands(desk.press("right", SECONDARY, "home")) == {"right"}
    assert hands(desk.press("left", PRIMARY, "start")) == {"left"}


def test_a_refusal_is_shown_and_felt_as_one(desk: Desk) -> None:
    desk.success = False
    pulses = desk.press("right", PRIMARY, "start")
    assert (desk.shown[-1].text, len(pulses)) == ("not begun", 3)
    assert desk.shown[-1].state == desk.states.STATE_READY
    felt = len(desk.felt)  # nothing runs that could be discarded: nobody is called
    desk.hold("right", SECONDARY, lambda: len(desk.felt) >= felt + 3, "the refusal is not felt")
    desk.rig.until(lambda: desk.shown[-1].text == NOTHING_RUNS, "the reason is not shown")
    assert desk.calls == ["start"]


def test_services_do_what_the_buttons_do_and_answer_with_what_the_recorder_said(desk: Desk) -> None:
    assert desk.call("stop") == (False, NOTHING_RUNS)
    assert desk.call("discard") == (False, NOTHING_RUNS)
    assert desk.felt == []  # who wears the headset did not ask
    assert desk.call("start") == (True, "begun")
    desk.show("RECORDING")
    assert desk.shown[-1].text == "begun"
    desk.rig.until(lambda: len(desk.felt) == 1, "that it records is not felt")
    assert desk.call("start") == (False, RUNS_ALREADY)
    assert desk.call("home") == (False, END_IT_FIRST)
    assert desk.call("stop") == (True, "kept")
    desk.show("READY")
    success, why = desk.call("discard_or_delete_last")
    assert (success, "this very moment" in why) == (False, True)
    desk.settle()
    assert desk.call("discard_or_delete_last") == (True, "deleted")
    assert desk.call("home") == (True, "moving home")
    assert desk.call("start") == (False, MOVING_HOME)
    desk.settle()
    desk.success = False
    felt = len(desk.felt)
    assert desk.call("start") == (False, "not begun")
    assert desk.calls == ["start", "stop", "delete_last", "home", "start"]
    assert len(desk.felt) == felt


def test_a_button_and_a_call_in_one_moment_start_one_episode(desk: Desk) -> None:
    """Whichever comes first, the other neither starts a second one nor stops the first."""
    from std_srvs.srv import Trigger

    client = desk.rig.node.create_client(Trigger, "session/start")
    desk.rig.until(client.service_is_ready, "nobody serves session/start")
    futures = [client.call_async(Trigger.Request()) for _ in range(3)]
    desk.down = {("right", PRIMARY)}
    desk.rig.until(lambda: all(f.done() for f in futures), "no answers")
    desk.down = set()
    by_call = sum(f.result().success for f in futures)
    assert by_call in (0, 1)
    pulses = 4 if by_call else 1  # the start, and the refusal of the button where it came later
    desk.rig.until(lambda: len(desk.felt) == pulses, "the button is not answered")
    assert desk.calls == ["start"]
    desk.show("RECORDING")


def test_one_thing_at_a_time_also_where_the_recorder_takes_long(desk: Desk) -> None:
    from rclpy.task import Future
    from std_srvs.srv import Trigger

    assert desk.call("start") == (True, "begun")
    desk.show("RECORDING")
    desk.slow = Future()
    stopping = desk.rig.ask(Trigger, "session/stop")
    desk.rig.until(lambda: desk.calls == ["start", "stop"], "stop is not called")
    for name in ("start", "stop", "discard", "discard_or_delete_last", "home"):
        assert desk.call(name) == (False, "the episode is still being saved")
    assert not stopping.done()
    desk.slow.set_result(None)
    desk.rig.until(stopping.done, "stop is not answered")
    assert (stopping.result().success, stopping.result().message) == (True, "kept")
    assert desk.calls == ["start", "stop"]


def test_no_episode_starts_while_something_must_be_mended(desk: Desk) -> None:
    desk.arm.power = desk.arm.POWER_OFF
    desk.show("FAULT")
    assert desk.call("start") == (False, "arm: the motors are off")
    desk.arm.power = desk.arm.POWER_ON
    desk.show("READY")
    assert desk.call("start") == (True, "begun")
    assert desk.calls == ["start"]


def test_the_status_carries_what_recorder_arm_and_teleoperation_say(desk: Desk) -> None:
    shown = desk.shown[-1]
    assert (shown.episode_index, shown.episodes_saved, shown.task) == (4, 4, "stack")
    assert (shown.teleop, list(shown.faults)) == ("clutch open", [])
    assert (shown.episode_start.sec, shown.episode_start.nanosec) == (0, 0)
    from piper_collect.nodes.convert import duration_msg, stamp_ns

    desk.recorder.state = type(desk.recorder).STATE_RECORDING
    desk.recorder.elapsed = duration_msg(1_500_000_000)
    desk.report()
    desk.rig.until(lambda: desk.shown[-1].state == desk.states.STATE_RECORDING, "it does not show REC")
    last = desk.shown[-1]
    began_s = (stamp_ns(last.header.stamp) - stamp_ns(last.episode_start)) / 1e9
    assert 1.5 <= began_s < 10.0
    desk.recorder.state = type(desk.recorder).STATE_READY
    desk.teleop.state, desk.teleop.text = type(desk.teleop).STATE_HOMING, "moving home"
    desk.rig.until(lambda: desk.shown[-1].state == desk.states.STATE_HOMING, "homing is not shown")
    desk.arm.faults = ["joint 2 stalls"]
    desk.rig.until(lambda: list(desk.shown[-1].faults) == ["arm: joint 2 stalls"], "the fault is not shown")
    assert desk.shown[-1].state == desk.states.STATE_FAULT


def test_the_grip_is_felt_when_it_takes_hold_and_when_the_arm_lets_go_by_itself(desk: Desk) -> None:
    def teleop(state: str, text: str) -> None:
        desk.teleop.state, desk.teleop.text = getattr(type(desk.teleop), state), text
        desk.report()
        desk.rig.until(lambda: desk.shown[-1].teleop == text, f"{text} is not shown")

    teleop("STATE_FOLLOWING", "following")
    desk.rig.until(lambda: len(desk.felt) == 1, "the grip is not felt")
    teleop("STATE_HOLDING", "clutch open")
    teleop("STATE_FOLLOWING", "following")
    desk.rig.until(lambda: len(desk.felt) == 2, "the grip is not felt again")
    teleop("STATE_HOLDING", "right controller not tracked")
    desk.rig.until(lambda: len(desk.felt) == 4, "that the arm let go is not felt")
    assert [p.duration_s for p in desk.felt] == [0.03, 0.03, 0.25, 0.25]
    assert hands(desk.felt) == {"right"}
