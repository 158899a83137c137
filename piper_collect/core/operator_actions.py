"""From the headset's buttons to what the operator wants done with the episode and the arm."""

from dataclasses import dataclass, replace
from enum import Enum

from piper_collect.core.quest import Hand, QuestController, QuestSample

HOLD_S = 1.0
"""How long the other hand's buttons must be held: they undo or move, so a touch must not do it."""


class Action(Enum):
    """What the operator asks for."""

    TOGGLE_EPISODE = "start an episode, or stop and save it"
    DISCARD = "discard the running episode"
    DISCARD_OR_DELETE = "discard the running episode, or delete the last of this session"
    HOME = "move the arm home"


@dataclass(frozen=True, slots=True, kw_only=True)
class ButtonState:
    """Which buttons were down, since when, and whether their hold was acted on already.

    Attributes:
        primary: The driving hand's A/X.
        secondary: The driving hand's B/Y.
        home_since_ns: When the other hand's B/Y went down; 0 while it is up.
        delete_since_ns: When the other hand's A/X went down; 0 while it is up.
        home_done: The running hold has asked for home already.
        delete_done: The running hold has asked for deletion already.
        seen: Whether any sample was seen; buttons that are down in the first one count as held before.
    """

    primary: bool = False
    secondary: bool = False
    home_since_ns: int = 0
    delete_since_ns: int = 0
    home_done: bool = False
    delete_done: bool = False
    seen: bool = False


def button_step(
    state: ButtonState, sample: QuestSample, hand: Hand = "right"
) -> tuple[ButtonState, tuple[Action, ...]]:
    """Take one sample and give the actions that its buttons begin.

    A press of the driving hand's A/X starts an episode or stops and saves it, its B/Y discards. The
    other hand's B/Y held for a second moves the arm home, its A/X held for a second discards the
    running episode or deletes the last one.

    Args:
        state: From the step before.
        sample: The newest sample, each given once and in order.
        hand: The hand that drives.
    """
    driving, other = (sample.right, sample.left) if hand == "right" else (sample.left, sample.right)
    if not state.seen:
        return _first(driving, other), ()
    actions = []
    if driving.primary and not state.primary:
        actions.append(Action.TOGGLE_EPISODE)
    if driving.secondary and not state.secondary:
        actions.append(Action.DISCARD)
    home_since, home_done, home = _hold(
        other.secondary, state.home_since_ns, state.home_done, sample.stamp_ns
    )
    delete_since, delete_done, delete = _hold(
        other.primary, state.delete_since_ns, state.delete_done, sample.stamp_ns
    )
    if home:
        actions.append(Action.HOME)
    if delete:
        actions.append(Action.DISCARD_OR_DELETE)
    after = replace(
        state,
        primary=driving.primary,
        secondary=driving.secondary,
        home_since_ns=home_since,
        home_done=home_done,
        delete_since_ns=delete_since,
        delete_done=delete_done,
    )
    return after, tuple(actions)


def _first(driving: QuestController, other: QuestController) -> ButtonState:
    return ButtonState(
        primary=driving.primary,
        secondary=driving.secondary,
        home_since_ns=1 if other.secondary else 0,
        delete_since_ns=1 if other.primary else 0,
        home_done=other.secondary,
        delete_done=other.primary,
        seen=True,
    )


def _hold(down: bool, since_ns: int, done: bool, now_ns: int) -> tuple[int, bool, bool]:
    """The time the button went down, whether its hold was acted on, and whether to act now."""
    if not down:
        return 0, False, False
    if not since_ns:
        return now_ns, False, False
    act = not done and now_ns - since_ns >= HOLD_S * 1e9
    return since_ns, done or act, act


class Request(Enum):
    """The service that an action calls; relative names."""

    START = "recorder/start_episode"
    STOP = "recorder/stop_episode"
    DISCARD = "recorder/discard_episode"
    DELETE_LAST = "recorder/delete_last_episode"
    HOME = "arm/home"


def request_for(action: Action, *, recording: bool) -> Request | None:
    """The service to call for ``action``; None when there is nothing to do it to.

    Args:
        action: What the operator asked for.
        recording: Whether an episode runs.
    """
    if action is Action.HOME:
        return Request.HOME
    if action is Action.TOGGLE_EPISODE:
        return Request.STOP if recording else Request.START
    if recording:
        return Request.DISCARD
    return Request.DELETE_LAST if action is Action.DISCARD_OR_DELETE else None
