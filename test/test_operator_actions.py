"""Buttons to actions: edges for the driving hand, one-second holds for the other."""

from dataclasses import replace

from piper_collect.core.operator_actions import (
    Action,
    ButtonState,
    button_step,
    hand_of,
    hold_began,
)
from piper_collect.core.quest import BUTTON_COUNT, PRIMARY, SECONDARY, QuestController, QuestSample

A, B, X, Y = ("right", PRIMARY), ("right", SECONDARY), ("left", PRIMARY), ("left", SECONDARY)


def sample(ms: int, *down: tuple[str, int]) -> QuestSample:
    def controller(hand: str) -> QuestController:
        pressed = tuple((hand, k) in down for k in range(BUTTON_COUNT))
        return QuestController(connected=True, button_pressed=pressed)

    return QuestSample(
        stamp_ns=10**18 + ms * 10**6, headset_time_ms=float(ms), sequence=ms, visibility="visible",
        left=controller("left"), right=controller("right"),
    )  # fmt: skip


def actions(*samples: QuestSample, hand: str = "right") -> list[Action]:
    state, found = ButtonState(), []
    for each in samples:
        state, new = button_step(state, each, hand)
        found += new
    return found


def test_a_press_acts_once_however_long_it_is() -> None:
    assert actions(sample(0), sample(10, A), sample(20, A), sample(900, A), sample(910)) == [
        Action.TOGGLE_EPISODE
    ]
    assert actions(sample(0), sample(10, A), sample(20), sample(30, A)) == [Action.TOGGLE_EPISODE] * 2
    assert actions(sample(0), sample(10, B)) == [Action.DISCARD]


def test_a_button_that_is_down_at_the_first_sample_does_nothing() -> None:
    assert actions(sample(0, A, Y), sample(10, A, Y), sample(2000, A, Y)) == []


def held(first_ms: int, last_ms: int, *down: tuple[str, int]) -> list[QuestSample]:
    """A sample every tenth of a second, and one at the very end."""
    return [sample(ms, *down) for ms in (*range(first_ms, last_ms, 100), last_ms)]


def test_the_other_hand_must_hold_for_a_second() -> None:
    assert actions(sample(0), *held(10, 1009, Y)) == []
    assert actions(sample(0), *held(10, 1010, Y)) == [Action.HOME]
    assert actions(sample(0), *held(10, 5000, Y)) == [Action.HOME]
    assert actions(sample(0), *held(10, 1010, X)) == [Action.DISCARD_OR_DELETE]
    assert actions(sample(0), *held(10, 500, Y), sample(550), *held(600, 1590, Y)) == []


def test_the_hands_change_places_for_a_left_handed_operator() -> None:
    assert actions(sample(0), sample(10, X), hand="left") == [Action.TOGGLE_EPISODE]
    assert actions(sample(0), *held(10, 1010, B), hand="left") == [Action.HOME]


def test_a_hold_that_nobody_watched_does_not_count() -> None:
    """The stream stalls while a finger is down: what it did meanwhile is not known."""
    assert actions(sample(0), sample(10, Y), sample(1400, Y), *held(1500, 4000, Y)) == []
    assert actions(sample(0), sample(10), sample(1400, A), sample(1410, A)) == []
    assert actions(sample(0), sample(10), sample(1400, A), sample(1410), sample(1420, A)) == [
        Action.TOGGLE_EPISODE
    ]
    assert actions(sample(1000), sample(500, A)) == []  # the clock went back


def test_what_is_pressed_while_the_session_is_hidden_does_nothing() -> None:
    for visibility in ("hidden", "visible-blurred"):
        away = [replace(sample(ms, A, Y), visibility=visibility) for ms in range(100, 2000, 100)]
        assert actions(sample(0), *away, *held(2000, 4000, A, Y)) == []
        assert actions(sample(0), *away, sample(2000), sample(2010, A)) == [Action.TOGGLE_EPISODE]


def test_a_controller_that_comes_back_must_first_let_go() -> None:
    gone = [replace(sample(ms), left=QuestController(), right=QuestController()) for ms in (10, 20)]
    assert actions(sample(0), *gone, *held(30, 3000, A, B, X, Y)) == []
    assert actions(sample(0), *gone, sample(30), *held(40, 1040, Y)) == [Action.HOME]
    assert actions(sample(0), *gone, sample(30), sample(40, A)) == [Action.TOGGLE_EPISODE]
    one_handed = [replace(sample(ms, *down), left=QuestController()) for ms, down in ((10, ()), (20, (A,)))]
    assert actions(sample(0), *one_handed) == [Action.TOGGLE_EPISODE]


def test_the_beginning_of_a_hold_is_told_once() -> None:
    states, state = [], ButtonState()
    for each in (sample(0), sample(10), sample(20, Y), sample(30, Y), sample(40, Y, X)):
        before, (state, _) = state, button_step(state, each)
        states.append(hold_began(before, state))
    assert states == [False, False, True, False, True]
    first, _ = button_step(ButtonState(), sample(0, X, Y))
    assert not hold_began(ButtonState(), first)


def test_each_action_belongs_to_a_hand() -> None:
    for driving, other in (("right", "left"), ("left", "right")):
        hands = {action: hand_of(action, driving) for action in Action}
        assert hands == {
            Action.START: driving,
            Action.STOP: driving,
            Action.TOGGLE_EPISODE: driving,
            Action.DISCARD: driving,
            Action.HOME: other,
            Action.DISCARD_OR_DELETE: other,
        }
