"""Buttons to actions: edges for the driving hand, one-second holds for the other."""

from piper_collect.core.operator_actions import Action, ButtonState, Request, button_step, request_for
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


def test_the_other_hand_must_hold_for_a_second() -> None:
    assert actions(sample(0), sample(10, Y), sample(1000, Y)) == []
    assert actions(sample(0), sample(10, Y), sample(1010, Y), sample(5000, Y)) == [Action.HOME]
    assert actions(sample(0), sample(10, X), sample(1010, X)) == [Action.DISCARD_OR_DELETE]
    assert actions(sample(0), sample(10, Y), sample(500), sample(600, Y), sample(1100, Y)) == []


def test_the_hands_change_places_for_a_left_handed_operator() -> None:
    assert actions(sample(0), sample(10, X), hand="left") == [Action.TOGGLE_EPISODE]
    assert actions(sample(0), sample(10, B), sample(1010, B), hand="left") == [Action.HOME]


def test_each_action_has_its_service() -> None:
    expected = {
        (Action.TOGGLE_EPISODE, False): Request.START,
        (Action.TOGGLE_EPISODE, True): Request.STOP,
        (Action.DISCARD, True): Request.DISCARD,
        (Action.DISCARD, False): None,
        (Action.DISCARD_OR_DELETE, True): Request.DISCARD,
        (Action.DISCARD_OR_DELETE, False): Request.DELETE_LAST,
        (Action.HOME, False): Request.HOME,
        (Action.HOME, True): Request.HOME,
    }
    assert {key: request_for(key[0], recording=key[1]) for key in expected} == expected
