"""One owner of the session: what fits its state is done, one thing at a time; the rest is refused, with why.

Headset, keys and programs all ask here. Two of them may ask in the same moment, and what the recorder and the
arm report is always a little old, so an action that could mean two things waits until the state is settled.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from piper_collect.core.operator_actions import Action, Request
from piper_collect.core.session_status import SessionState

MOMENT_S = 1.0
"""For so long after an episode began or ended nothing is done that means another thing before than after."""

PATIENCE_S = 30.0
"""After this long without an answer a request is given up: its server has died."""

_SURE_S = 1.0  # reports that contradict an answer are older than it for at most so long

NOTHING_RUNS = "no episode is running"
RUNS_ALREADY = "an episode is running already"
END_IT_FIRST = "an episode is running; stop or discard it first"
STILL_SAVING = "the episode is still being saved"
MOVING_HOME = "the arm is moving home; wait until it is there"

_BETWEEN: dict[Action, Request | str] = {
    Action.START: Request.START,
    Action.STOP: NOTHING_RUNS,
    Action.TOGGLE_EPISODE: Request.START,
    Action.DISCARD: NOTHING_RUNS,
    Action.DISCARD_OR_DELETE: Request.DELETE_LAST,
    Action.HOME: Request.HOME,
}

RULES: Mapping[SessionState, Mapping[Action, Request | str]] = {
    "not_ready": _BETWEEN,  # the recorder says best itself what it waits for
    "ready": _BETWEEN,
    "fault": _BETWEEN,
    "homing": {
        **_BETWEEN,
        Action.START: MOVING_HOME,
        Action.TOGGLE_EPISODE: MOVING_HOME,
        Action.HOME: MOVING_HOME,
    },
    "recording": {
        Action.START: RUNS_ALREADY,
        Action.STOP: Request.STOP,
        Action.TOGGLE_EPISODE: Request.STOP,
        Action.DISCARD: Request.DISCARD,
        Action.DISCARD_OR_DELETE: Request.DISCARD,
        Action.HOME: END_IT_FIRST,
    },
    "saving": dict.fromkeys(Action, STILL_SAVING),
}
"""State and action → the service to call, or why not."""

_AMBIGUOUS = (Action.TOGGLE_EPISODE, Action.DISCARD_OR_DELETE)
_ENDS_OR_BEGINS = {Request.START: True, Request.STOP: False, Request.DISCARD: False}
_DOING = {
    Request.START: "an episode is being started",
    Request.STOP: STILL_SAVING,
    Request.DISCARD: "the episode is being discarded",
    Request.DELETE_LAST: "the last episode is being deleted",
    Request.HOME: "the arm is asked to move home",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What was asked for, and what is known of it.

    Attributes:
        running: Whether an episode runs; None before anybody said so.
        changed_ns: When one last began or ended; None while that is not known.
        sure_until_ns: Until then ``running`` is from an answer, and reports that say otherwise are older.
        homing_until_ns: Until then the arm counts as moving home, whether it has reported it yet or not.
        pending: The request that was not answered yet.
        asked_ns: When it was sent.
    """

    running: bool | None = None
    changed_ns: int | None = None
    sure_until_ns: int = 0
    homing_until_ns: int = 0
    pending: Request | None = None
    asked_ns: int = 0


def hear(standing: Standing, shown: SessionState, now_ns: int) -> Standing:
    """Take note of the session's state as recorder and arm report it."""
    running = shown == "recording"
    if standing.running is None:
        return replace(standing, running=running)
    if running == standing.running or now_ns < standing.sure_until_ns:
        return standing
    return replace(standing, running=running, changed_ns=now_ns)


def ask(
    standing: Standing, action: Action, shown: SessionState, now_ns: int, hindrance: str = ""
) -> tuple[Standing, Request | str]:
    """Decide what to do about an action.

    Args:
        standing: From the step before.
        action: What somebody wants.
        shown: The session's state as reported.
        now_ns: Now, never before the times given earlier.
        hindrance: What must be mended before an episode can be any good; empty when nothing.

    Returns:
        The service to call, which then is pending; or why nothing is done, in words.
    """
    if standing.pending is not None and not gave_up(standing, now_ns):
        return standing, _DOING[standing.pending]
    changed_ns = standing.changed_ns
    if action in _AMBIGUOUS and changed_ns is not None and now_ns - changed_ns < MOMENT_S * 1e9:
        what = "started" if standing.running else "ended"
        return standing, f"an episode was {what} this very moment; ask again"
    decision = RULES[_believed(standing, shown, now_ns)][action]
    if isinstance(decision, str):
        return standing, decision
    if decision is Request.START and hindrance:
        return standing, hindrance
    return replace(standing, pending=decision, asked_ns=now_ns), decision


def answered(standing: Standing, request: Request, now_ns: int, *, success: bool) -> Standing:
    """Take the answer to a request; it counts for more than reports, which may be older."""
    if standing.pending is request:
        standing = replace(standing, pending=None)
    if not success:
        return standing
    sure_until_ns = now_ns + round(_SURE_S * 1e9)
    if request is Request.HOME:
        return replace(standing, homing_until_ns=sure_until_ns)
    if request not in _ENDS_OR_BEGINS:
        return standing
    running = _ENDS_OR_BEGINS[request]
    changed_ns = standing.changed_ns if running == standing.running else now_ns
    return replace(standing, running=running, changed_ns=changed_ns, sure_until_ns=sure_until_ns)


def gave_up(standing: Standing, now_ns: int) -> bool:
    """Whether a request waits that nobody will answer any more."""
    return standing.pending is not None and now_ns - standing.asked_ns >= PATIENCE_S * 1e9


def _believed(standing: Standing, shown: SessionState, now_ns: int) -> SessionState:
    """The state, with what the answers said where the reports may not know it yet."""
    if now_ns < standing.sure_until_ns:
        if standing.running and shown != "saving":
            return "recording"
        if not standing.running and shown == "recording":
            return "ready"
    if now_ns < standing.homing_until_ns and shown in ("not_ready", "ready", "fault"):
        return "homing"
    return shown
