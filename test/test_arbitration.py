"""The rules between operators and recorder: a literal table, and laws for every sequence of inputs."""

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from piper_collect.core.arbitration import (
    END_IT_FIRST,
    MOMENT_S,
    MOVING_HOME,
    NOTHING_RUNS,
    PATIENCE_S,
    RUNS_ALREADY,
    STILL_SAVING,
    Standing,
    answered,
    ask,
    gave_up,
    hear,
)
from piper_collect.core.operator_actions import Action, Request

S = 1_000_000_000
NOW = 10**18
START, STOP, DISCARD, DELETE, HOME = Request

TABLE = {
    #             START         STOP          TOGGLE_EPISODE DISCARD     DISCARD_OR_DELETE HOME
    "not_ready": (START, NOTHING_RUNS, START, NOTHING_RUNS, DELETE, HOME),
    "ready": (START, NOTHING_RUNS, START, NOTHING_RUNS, DELETE, HOME),
    "fault": (START, NOTHING_RUNS, START, NOTHING_RUNS, DELETE, HOME),
    "homing": (MOVING_HOME, NOTHING_RUNS, MOVING_HOME, NOTHING_RUNS, DELETE, MOVING_HOME),
    "recording": (RUNS_ALREADY, STOP, STOP, DISCARD, DISCARD, END_IT_FIRST),
    "saving": (STILL_SAVING,) * 6,
}


@pytest.mark.parametrize("shown", TABLE)
@pytest.mark.parametrize("action", Action)
def test_each_state_and_action_has_one_outcome(shown, action):
    expected = TABLE[shown][list(Action).index(action)]
    settled = hear(Standing(), shown, NOW)
    after, decision = ask(settled, action, shown, NOW)
    assert decision == expected
    if isinstance(expected, Request):
        assert after == replace(settled, pending=expected, asked_ns=NOW)
    else:
        assert after == settled


# -- one thing at a time ------------------------------------------------------------------------


def test_while_a_request_waits_for_its_answer_nothing_else_is_done():
    waiting, _ = ask(Standing(), Action.START, "ready", NOW)
    for action in Action:
        assert ask(waiting, action, "ready", NOW + 5 * S) == (waiting, "an episode is being started")
    after = answered(waiting, START, NOW + 6 * S, success=False)
    assert after.pending is None
    assert ask(after, Action.START, "ready", NOW + 6 * S)[1] is START


def test_a_request_that_nobody_answers_is_given_up():
    waiting, _ = ask(Standing(), Action.STOP, "recording", NOW)
    just_before, then = NOW + round(PATIENCE_S * S) - 1, NOW + round(PATIENCE_S * S)
    assert not gave_up(waiting, just_before)
    assert ask(waiting, Action.HOME, "ready", just_before)[1] == STILL_SAVING
    assert gave_up(waiting, then)
    again, decision = ask(waiting, Action.HOME, "ready", then)
    assert decision is HOME
    assert answered(again, STOP, then + 1, success=True).pending is HOME  # the late answer is another's


# -- two sources in one moment ------------------------------------------------------------------


def test_the_second_of_two_presses_does_not_undo_the_first():
    """Headset and key in the same moment: one starts, the other must not stop what it wanted to start."""
    asked, decision = ask(hear(Standing(), "ready", NOW), Action.TOGGLE_EPISODE, "ready", NOW)
    assert decision is START
    begun = answered(asked, START, NOW + 20_000_000, success=True)
    for shown in ("ready", "recording"):  # whether the report has come already or not
        assert ask(begun, Action.START, shown, NOW + 30_000_000)[1] == RUNS_ALREADY
        assert "started this very moment" in ask(begun, Action.TOGGLE_EPISODE, shown, NOW + 30_000_000)[1]
        assert "started this very moment" in ask(begun, Action.DISCARD_OR_DELETE, shown, NOW + 30_000_000)[1]
        assert ask(begun, Action.STOP, shown, NOW + 30_000_000)[1] is STOP
        assert ask(begun, Action.HOME, shown, NOW + 30_000_000)[1] == END_IT_FIRST
    later = NOW + 20_000_000 + round(MOMENT_S * S)
    assert ask(begun, Action.TOGGLE_EPISODE, "recording", later)[1] is STOP


def test_who_wants_to_discard_does_not_delete_the_one_before():
    """The episode is stopped and saved by one, while another asks to discard it."""
    running = hear(Standing(), "recording", NOW)
    saved = answered(ask(running, Action.STOP, "recording", NOW)[0], STOP, NOW + S, success=True)
    decision = ask(saved, Action.DISCARD_OR_DELETE, "ready", NOW + S + 1)[1]
    assert decision == "an episode was ended this very moment; ask again"
    assert ask(saved, Action.DISCARD_OR_DELETE, "ready", NOW + 2 * S)[1] is DELETE


def test_a_change_that_others_made_counts_too():
    running = hear(hear(Standing(), "ready", NOW), "recording", NOW + S)
    assert isinstance(ask(running, Action.TOGGLE_EPISODE, "recording", NOW + S)[1], str)
    saving = hear(running, "saving", NOW + 9 * S)
    assert isinstance(ask(saving, Action.DISCARD_OR_DELETE, "ready", NOW + 9 * S)[1], str)
    assert ask(saving, Action.TOGGLE_EPISODE, "ready", NOW + 10 * S)[1] is START


def test_a_report_that_is_older_than_the_answer_does_not_count():
    begun = answered(hear(Standing(), "ready", NOW), START, NOW, success=True)
    assert hear(begun, "ready", NOW + 100_000_000) == begun
    assert hear(begun, "ready", NOW + 2 * S).running is False  # it has ended since
    stopped = answered(hear(Standing(), "recording", NOW), STOP, NOW, success=True)
    assert ask(stopped, Action.STOP, "recording", NOW + 100_000_000)[1] == NOTHING_RUNS


def test_no_episode_starts_before_the_arm_has_said_that_it_moves_home():
    asked, _ = ask(hear(Standing(), "ready", NOW), Action.HOME, "ready", NOW)
    homing = answered(asked, HOME, NOW, success=True)
    assert ask(homing, Action.START, "ready", NOW + 1)[1] == MOVING_HOME
    assert ask(homing, Action.START, "homing", NOW + 5 * S)[1] == MOVING_HOME
    assert ask(homing, Action.START, "ready", NOW + 5 * S)[1] is START
    assert answered(asked, HOME, NOW, success=False).homing_until_ns == 0


def test_a_fault_hinders_a_start_and_nothing_else():
    fault = "arm: the motors are off"
    ready = hear(Standing(), "fault", NOW)
    assert ask(ready, Action.START, "fault", NOW, fault)[1] == fault
    assert ask(ready, Action.TOGGLE_EPISODE, "fault", NOW, fault)[1] == fault
    assert ask(ready, Action.HOME, "fault", NOW, fault)[1] is HOME
    running = hear(Standing(), "recording", NOW)
    assert ask(running, Action.TOGGLE_EPISODE, "recording", NOW, fault)[1] is STOP


# -- laws ---------------------------------------------------------------------------------------

REPORT_NS, CALL_NS, SAVE_NS, WAY_HOME_NS = 900_000_000, 20 * S, 300_000_000, 3 * S
"""No report is older than that, no call takes longer; how long saving and the way home take."""


@dataclass
class World:
    """A recorder and an arm that obey every call, and tell of it late."""

    now_ns: int = NOW
    standing: Standing = field(default_factory=Standing)
    state: str = "ready"
    until_ns: int = 0
    began_ns: int = -NOW
    ended_ns: int = -NOW
    saved: int = 0
    told: int = 0
    shown: str = "ready"
    reports: list = field(default_factory=list)
    call: tuple | None = None
    answer: tuple | None = None

    def become(self, state: str) -> None:
        if self.state == "recording":
            self.ended_ns = self.now_ns
        if state == "recording":
            self.began_ns = self.now_ns
        self.state = state
        self.reports.append((self.now_ns, state))

    def press(self, action: Action) -> None:
        self.standing, decision = ask(self.standing, action, self.shown, self.now_ns)
        if isinstance(decision, str):
            assert decision
            return
        assert self.call is None
        assert self.answer is None, "two requests at a time"
        if action in (Action.TOGGLE_EPISODE, Action.DISCARD_OR_DELETE):
            assert self.now_ns - max(self.began_ns, self.ended_ns) >= MOMENT_S * S
        self.call = (self.now_ns, action, decision)

    def serve(self) -> None:
        """The call arrives and is done, or answered without success where there is nothing to do."""
        if self.call is None:
            return
        _, action, request = self.call
        self.call, success = None, True
        if request is START:
            assert self.state == "ready", f"an episode is started while {self.state}"
            self.become("recording")
        elif request in (STOP, DISCARD):
            assert self.state == "recording", f"{request} while {self.state}"
            self.become("saving" if request is STOP else "ready")
            self.until_ns = self.now_ns + SAVE_NS
            if request is STOP:
                self.answer = (self.now_ns, STOP, None)  # comes when it is saved
                return
        elif request is HOME:
            assert self.state in ("ready", "homing"), f"the arm moves home while {self.state}"
            self.become("homing")
            self.until_ns = self.now_ns + WAY_HOME_NS
        else:
            assert action is Action.DISCARD_OR_DELETE
            assert self.state != "recording"
            success = self.saved > 0
            self.saved -= success
            self.told += success
        self.answer = (self.now_ns, request, success)

    def reply(self) -> None:
        if self.answer is not None and self.answer[2] is not None:
            (_, request, success), self.answer = self.answer, None
            self.standing = answered(self.standing, request, self.now_ns, success=success)

    def report(self) -> None:
        if self.reports:
            _, self.shown = self.reports.pop(0)
            self.standing = hear(self.standing, self.shown, self.now_ns)

    def wait(self, step_ns: int) -> None:
        """Let time pass in small steps; what is late by its limit arrives."""
        end_ns = self.now_ns + step_ns
        while self.now_ns < end_ns:
            self.now_ns = min(end_ns, self.now_ns + 50_000_000)
            if self.state in ("saving", "homing") and self.now_ns >= self.until_ns:
                if self.state == "saving":
                    self.saved += 1
                    self.answer = (self.now_ns, STOP, True)
                self.become("ready")
            while self.reports and self.now_ns - self.reports[0][0] >= REPORT_NS:
                self.report()
            if self.call is not None and self.now_ns - self.call[0] >= CALL_NS:
                self.serve()
            if self.answer is not None and self.now_ns - self.answer[0] >= CALL_NS:
                self.reply()


STEPS = st.one_of(
    st.sampled_from(Action),
    st.sampled_from([("serve",), ("reply",), ("report",), ("serve", "reply"), ("serve", "reply", "report")]),
    st.integers(1, 60).map(lambda n: n * 50_000_000),
)


@settings(max_examples=400, deadline=None)
@given(st.lists(STEPS, max_size=60))
def test_no_sequence_of_inputs_starts_two_episodes_homes_while_recording_or_deletes_unasked(steps):
    world = World()
    world.standing = hear(world.standing, "ready", world.now_ns)
    saved_by_stop = 0
    for step in steps:
        before = world.saved
        if isinstance(step, Action):
            world.press(step)
        elif isinstance(step, int):
            world.wait(step)
        else:
            for name in step:
                getattr(world, name)()
        saved_by_stop += max(0, world.saved - before)
    assert world.saved == saved_by_stop - world.told


def test_the_world_of_the_laws_can_record_discard_delete_and_move_home():
    world = World(standing=hear(Standing(), "ready", NOW))

    def done(action):
        world.press(action)
        world.serve()
        world.wait(S)
        world.reply()
        world.wait(5 * S)
        return world.state, world.saved

    assert done(Action.TOGGLE_EPISODE) == ("recording", 0)
    assert done(Action.TOGGLE_EPISODE) == ("ready", 1)
    assert done(Action.START) == ("recording", 1)
    assert done(Action.HOME) == ("recording", 1)
    assert done(Action.DISCARD) == ("ready", 1)
    assert done(Action.HOME) == ("ready", 1)
    assert done(Action.DISCARD_OR_DELETE) == ("ready", 0)
