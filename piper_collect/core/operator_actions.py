"""From the headset's buttons to what the operator wants done with the episode and the arm."""

from dataclasses import dataclass, replace
from enum import Enum

from piper_collect.core.quest import Hand, QuestController, QuestSample

HOLD_S = 1.0
"""How long the other hand's buttons must be held: they undo or move, so a touch must not do it."""

GAP_S = 0.5
"""After a silence this long nobody knows what the fingers did: buttons that are down count as held before."""

_BEFORE_NS = 1  # a hold that began before we looked


class Action(Enum):
    """What the operator asks for."""

    START = "start an episode"
    STOP = "stop and save the running episode"
    TOGGLE_EPISODE = "start an episode, or stop and save it"
    DISCARD = "discard the running episode"
    DISCARD_OR_DELETE = "discard the running episode, or delete the last of this session"
    HOME = "move the arm home"


class Request(Enum):
    """The service that does what an action asks for; relative names."""

    START = "recorder/start_episode"
    STOP = "recorder/stop_episode"
    DISCARD = "recorder/discard_episode"
    DELETE_LAST = "recorder/delete_last_episode"
    HOME = "arm/home"


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
        stamp_ns: Stamp of the newest sample taken.
    """

    primary: bool = False
    secondary: bool = False
    home_since_ns: int = 0
    delete_since_ns: int = 0
    home_done: bool = False
    delete_done: bool = False
    seen: bool = False
    stamp_ns: int = 0


def button_step(
    state: ButtonState, sample: QuestSample, hand: Hand = "right"
) -> tuple[ButtonState, tuple[Action, ...]]:
    """Take one sample and give the actions that its buttons begin.

    A press of the driving hand's A/X starts an episode or stops and saves it, its B/Y discards. The
    other hand's B/Y held for a second moves the arm home, its A/X held for a second discards the
    running episode or deletes the last one. What was pressed while nobody could see it (before the
    first sample, during a silence, with the session hidden, on a controller that was not connected)
    does nothing until it is let go.

    Args:
        state: From the step before.
        sample: The newest sample, each given once and in order.
        hand: The hand that drives.
    """
    if sample.visibility != "visible":
        return ButtonState(), ()
    driving, other = (sample.right, sample.left) if hand == "right" else (sample.left, sample.right)
    if not state.seen or not 0 <= sample.stamp_ns - state.stamp_ns <= GAP_S * 1e9:
        return _first(driving, other, sample.stamp_ns), ()
    actions = []
    primary, secondary = _down(driving)
    if driving.primary and not state.primary:
        actions.append(Action.TOGGLE_EPISODE)
    if driving.secondary and not state.secondary:
        actions.append(Action.DISCARD)
    if not other.connected:
        after = _first(driving, other, sample.stamp_ns)
        return replace(after, primary=primary, secondary=secondary), tuple(actions)
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
        primary=primary,
        secondary=secondary,
        home_since_ns=home_since,
        home_done=home_done,
        delete_since_ns=delete_since,
        delete_done=delete_done,
        stamp_ns=sample.stamp_ns,
    )
    return after, tuple(actions)


def hold_began(before: ButtonState, after: ButtonState) -> bool:
    """Whether a button of the other hand that must be held was pressed between the two states."""
    starts = (
        (before.home_since_ns, after.home_since_ns),
        (before.delete_since_ns, after.delete_since_ns),
    )
    return any(not was and since > _BEFORE_NS for was, since in starts)


def hand_of(action: Action, driving: Hand) -> Hand:
    """The hand whose button asks for ``action``, and that feels the answer."""
    if action not in (Action.HOME, Action.DISCARD_OR_DELETE):
        return driving
    return "left" if driving == "right" else "right"


def _down(controller: QuestController) -> tuple[bool, bool]:
    """The two buttons; a controller that is not there counts as holding both: it must let go first."""
    if not controller.connected:
        return True, True
    return controller.primary, controller.secondary


def _first(driving: QuestController, other: QuestController, stamp_ns: int) -> ButtonState:
    primary, secondary = _down(driving)
    delete, home = _down(other)
    return ButtonState(
        primary=primary,
        secondary=secondary,
        home_since_ns=_BEFORE_NS if home else 0,
        delete_since_ns=_BEFORE_NS if delete else 0,
        home_done=home,
        delete_done=delete,
        seen=True,
        stamp_ns=stamp_ns,
    )


def _hold(down: bool, since_ns: int, done: bool, now_ns: int) -> tuple[int, bool, bool]:
    """The time the button went down, whether its hold was acted on, and whether to act now."""
    if not down:
        return 0, False, False
    if not since_ns:
        return now_ns, False, False
    act = not done and now_ns - since_ns >= HOLD_S * 1e9
    return since_ns, done or act, act
