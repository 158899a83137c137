"""Keys of a terminal: what each does, what needs a second press, and what a held key never does."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from piper_collect.core.keys import (
    AGAIN_S,
    CHANGED,
    HELD,
    HELP,
    HELP_ELSEWHERE,
    NOTHING_SAVED,
    QUIET_S,
    RESTS,
    SEVERAL,
    UNKNOWN,
    KeyState,
    key_press,
    key_tick,
    prompt,
)
from piper_collect.core.operator_actions import Action
from piper_collect.core.session_status import SessionView

S = 1_000_000_000
NOW = 10**18
READY = SessionView(state="ready", episode_index=3, saved=3)
RECORDING = SessionView(state="recording", episode_index=3, saved=3)


class Typist:
    """A pair of hands at a terminal that is looked at every 20 ms."""

    def __init__(self, view: SessionView = READY, *, ends_session: bool = True) -> None:
        self.view, self.ends_session = view, ends_session
        self.state, self.now_ns, self.wishes = KeyState(), NOW, []

    def press(self, keys: str, view: SessionView | None = None) -> "Typist":
        self.view = view or self.view
        self.state, wish = key_press(self.state, keys, self.view, self.now_ns, ends_session=self.ends_session)
        self.wishes += [wish] if wish is not None else []
        return self

    def wait(self, seconds: float, view: SessionView | None = None) -> "Typist":
        self.view = view or self.view
        end_ns = self.now_ns + round(seconds * S)
        while True:
            self.state, wish = key_tick(self.state, self.view, self.now_ns)
            self.wishes += [wish] if wish is not None else []
            if self.now_ns >= end_ns:
                return self
            self.now_ns = min(end_ns, self.now_ns + S // 50)

    @property
    def prompt(self) -> str:
        return prompt(self.state, self.now_ns)


@pytest.mark.parametrize(
    ("key", "view", "wish"),
    [
        (" ", READY, Action.START),
        (" ", replace(READY, state="not_ready"), Action.START),
        (" ", replace(READY, state="fault"), Action.START),
        (" ", RECORDING, Action.STOP),
        (" ", replace(READY, state="saving"), Action.STOP),
        ("d", RECORDING, Action.DISCARD),
        ("D", RECORDING, Action.DISCARD),
        ("h", READY, Action.HOME),
        ("?", READY, "help"),
        ("q", READY, "quit"),
        ("Q", READY, "quit"),
    ],
)
def test_what_a_key_does_at_once(key, view, wish):
    assert Typist(view).press(key).wait(3.0).wishes == [wish]


def test_other_keys_do_nothing_and_say_so():
    typist = Typist().press("j")
    assert (typist.wishes, typist.prompt) == ([], UNKNOWN)
    assert typist.wait(4.0).prompt == ""
    for key in "\r\n":
        assert Typist().press(key).prompt == ""


def test_x_twice_deletes_the_last_or_discards_the_running_episode():
    typist = Typist().press("x").wait(1.0)
    assert (typist.wishes, typist.prompt) == ([], "x again deletes the last saved episode (3 saved)")
    assert typist.press("x").wait(QUIET_S).wishes == [Action.DISCARD_OR_DELETE]
    assert typist.prompt == ""
    running = Typist(RECORDING).press("x")
    assert running.prompt == "x again discards episode 3"
    assert running.wait(0.12).press("x").wait(QUIET_S).wishes == [Action.DISCARD]


def test_the_second_press_must_come_in_time():
    typist = Typist().press("x").wait(AGAIN_S)
    assert typist.prompt == ""
    typist.press("x").wait(AGAIN_S)
    assert typist.wishes == []
    assert typist.press("x").wait(AGAIN_S - 0.1).press("x").wait(1.0).wishes == [Action.DISCARD_OR_DELETE]


def test_another_key_takes_the_question_back():
    typist = Typist().press("x").wait(0.5).press("j").wait(0.5).press("x").wait(1.0)
    assert typist.wishes == []


def test_nothing_saved_is_nothing_to_delete():
    typist = Typist(replace(READY, saved=0, episode_index=0)).press("x")
    assert (typist.prompt, typist.state.question) == (NOTHING_SAVED, None)


@pytest.mark.parametrize(
    "after", [READY, replace(RECORDING, episode_index=4), replace(READY, saved=4, episode_index=4)]
)
def test_what_was_asked_of_one_episode_is_not_done_to_another(after):
    """The episode that was to be discarded was stopped and saved by somebody else meanwhile."""
    asked_before = Typist(RECORDING).press("x").wait(0.5)
    anew = asked_before.press("x", after)
    assert anew.wait(1.0).wishes == []
    pressed_twice = Typist(RECORDING).press("x").wait(0.5).press("x").wait(0.1)
    pressed_twice.wait(1.0, after)
    assert (pressed_twice.wishes, pressed_twice.prompt) == ([], CHANGED)


def test_quitting_asks_again_only_where_it_cuts_an_episode_short():
    typist = Typist(RECORDING).press("q").wait(0.5)
    assert typist.prompt == "q again ends the session: episode 3 is saved as interrupted"
    assert typist.press("q").wait(QUIET_S).wishes == ["quit"]
    assert Typist(RECORDING).press("q").wait(5.0).wishes == []
    assert Typist(RECORDING, ends_session=False).press("q").wishes == ["quit"]
    assert Typist(RECORDING).press("q").wait(0.5).press("q", READY).wishes == ["quit"]


def test_a_key_that_was_acted_on_rests_before_it_acts_again():
    typist = Typist().press(" ").wait(0.9).press(" ")
    assert (typist.wishes, typist.prompt) == ([Action.START], RESTS)
    assert typist.wait(0.6).press(" ", RECORDING).wishes == [Action.START, Action.STOP]
    other = Typist().press(" ").wait(0.3).press("d", RECORDING)
    assert other.wishes == [Action.START, Action.DISCARD]  # another key need not wait


def test_pasted_text_is_not_typed():
    for text in ("xx", "xdq", " x", "hello world"):
        typist = Typist().press(text).wait(3.0)
        assert (typist.wishes, text) == ([], text)
    assert Typist().press("xx").prompt == SEVERAL
    assert Typist().press("x").wait(0.3).press("xx").wait(2.0).wishes == []


def held(key: str, view: SessionView, delay_s: float, every_s: float, repeats: int, stall: int) -> Typist:
    """Hold a key: it comes again after ``delay_s``, then every ``every_s``; some come all at once."""
    typist = Typist(view).press(key).wait(delay_s)
    typist.view = RECORDING if key == " " else view
    while repeats:
        at_once = min(repeats, stall)
        typist.press(key * at_once).wait(every_s * at_once)
        repeats -= at_once
    return typist.wait(3.0)


@settings(max_examples=200, deadline=None)
@given(
    key=st.sampled_from(" dh"),
    delay_s=st.floats(0.15, 0.8),
    every_s=st.floats(0.01, 0.15),
    repeats=st.integers(1, 200),
    stall=st.integers(1, 3),
)
def test_a_held_key_acts_once(key, delay_s, every_s, repeats, stall):
    assert len(held(key, READY, delay_s, every_s, repeats, stall).wishes) == 1


@settings(max_examples=200, deadline=None)
@given(
    key=st.sampled_from("xq"),
    delay_s=st.floats(0.15, 0.8),
    every_s=st.floats(0.01, 0.15),
    repeats=st.integers(2, 200),
    stall=st.integers(1, 3),
)
def test_a_held_key_never_answers_its_own_question(key, delay_s, every_s, repeats, stall):
    assert held(key, RECORDING, delay_s, every_s, repeats, stall).wishes == []


def test_that_a_held_key_did_nothing_is_told():
    typist = Typist().press("x").wait(0.5).press("x").wait(0.03).press("x")
    assert typist.prompt == HELD


PRESSES = st.lists(
    st.tuples(st.sampled_from([*" dhxq?j", "xx"]), st.floats(0.02, 3.0), st.sampled_from([READY, RECORDING])),
    max_size=30,
)


@settings(max_examples=200, deadline=None)
@given(PRESSES)
def test_nothing_is_undone_by_one_press(presses):
    """Whatever is typed: what cannot be undone follows two presses of its key, with nothing between them."""
    typist, typed = Typist(), []
    for keys, pause_s, view in presses:
        before = len(typist.wishes)
        typed.append(keys)
        typist.press(keys, view).wait(pause_s)
        new = typist.wishes[before:]
        assert len(new) <= 1
        if new == [Action.DISCARD_OR_DELETE] or (new == [Action.DISCARD] and keys != "d"):
            assert typed[-2:] == ["x", "x"]
        if new == ["quit"] and view is RECORDING:
            assert typed[-2:] == ["q", "q"]


def test_help_names_every_key():
    assert [key for key, _ in HELP] == ["space", "d", "x x", "h", "q", "?"]
    assert dict(HELP_ELSEWHERE)["q"] == "leave; the session goes on"
