"""A scripted operator with a Quest: records episodes by pressing buttons and moving the hand.

It does what a person does: waits until the recorder is ready, presses A/X, waits to see it recording, moves
with the clutch, and presses A/X to save or B/Y to discard. The same plan and the same recorder give the same
samples.
"""

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from piper_collect.core.arbitration import MOMENT_S
from piper_collect.core.hand_path import SHORTEST_EPISODE_S, HandPose, hand_at, resting_hand
from piper_collect.core.quest import (
    BUTTON_COUNT,
    PRIMARY,
    SECONDARY,
    SQUEEZE,
    TRIGGER,
    Hand,
    QuestController,
    QuestSample,
    XrPose,
)
from piper_collect.errors import ConfigError

RecorderWord: TypeAlias = Literal["unknown", "idle", "recording", "saving", "fault"]
Outcome: TypeAlias = Literal["save", "discard"]
Phase: TypeAlias = Literal["settle", "start", "move", "end", "done"]

PRESS_S = 0.15
RETRY_S = 5.0
PRESSES = 5
SETTLE_S = MOMENT_S + 0.2
"""A press in the moment after an episode ended would be refused."""

_PROFILES = ("meta-quest-touch-plus", "oculus-touch-v3", "generic-trigger-squeeze-thumbstick")
_TOUCHED_AT = 0.02
_PRESSED_AT = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorPlan:
    """What to record.

    Attributes:
        seed: Decides the moves.
        episodes: Seconds of recording and what becomes of it, for each episode.
        rate_hz: Sample rate of the headset.
        hand: Controller that drives the arm and the buttons.
    """

    seed: int
    episodes: tuple[tuple[float, Outcome], ...]
    rate_hz: float = 72.0
    hand: Hand = "right"

    def __post_init__(self) -> None:
        """Refuse a plan that cannot be acted out.

        Raises:
            ConfigError: No episodes, too short ones, an unknown outcome, a negative seed or no rate.
        """
        if self.seed < 0 or not self.rate_hz > 0.0 or self.hand not in ("left", "right"):
            got = (self.seed, self.rate_hz, self.hand)
            raise ConfigError(
                "no such plan", expected="a seed from 0, a rate above 0, left or right", got=got
            )
        if not self.episodes:
            raise ConfigError("a plan without episodes", where="episodes")
        for duration_s, outcome in self.episodes:
            if not SHORTEST_EPISODE_S <= duration_s < float("inf"):
                expected = f"at least {SHORTEST_EPISODE_S:g} s"
                raise ConfigError("an episode too short", where="episodes", expected=expected, got=duration_s)
            if outcome not in ("save", "discard"):
                raise ConfigError("unknown outcome", where="episodes", got=outcome, valid=("save", "discard"))


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorState:
    """Where the operator is in the plan.

    Attributes:
        phase: ``settle`` (waits for ready), ``start`` (pressed, waits for recording), ``move``, ``end``
            (pressed, waits for idle) or ``done``.
        episode: Index into the plan's episodes.
        since_ns: When the phase began.
        began_ns: When recording of this episode was first seen.
        pressed_ns: When the button last went down.
        button: Which one that was; None before the first press.
        presses: How often it was pressed in this phase.
        saved_before: Saved episodes as the recorder counted them at the start of this one.
        first_ns: Time of the first sample; None before it.
        sequence: Number of the next sample.
        failure: Why the plan was given up; empty otherwise.
    """

    phase: Phase = "settle"
    episode: int = 0
    since_ns: int = 0
    began_ns: int = 0
    pressed_ns: int = 0
    button: int | None = None
    presses: int = 0
    saved_before: int | None = None
    first_ns: int | None = None
    sequence: int = 0
    failure: str = ""

    @property
    def done(self) -> bool:
        """The plan is over, by success or failure."""
        return self.phase == "done"


def operator_step(
    plan: OperatorPlan,
    state: OperatorState,
    now_ns: int,
    recorder: RecorderWord,
    *,
    ready: bool,
    saved: int | None = None,
) -> tuple[OperatorState, QuestSample]:
    """Give the next sample of the headset; call it at ``plan.rate_hz``.

    Args:
        plan: What to record.
        state: From the last step; ``OperatorState()`` at the start.
        now_ns: Now, by a clock that nobody sets; the stamp of the sample too.
        recorder: What the recorder last said it does.
        ready: Whether it said that an episode can start.
        saved: Whole episodes in its session; None where it is not known, then it is not checked.
    """
    if state.first_ns is None:
        state = replace(state, first_ns=now_ns, since_ns=now_ns)
    if recorder == "fault" and not state.done:
        state = _give_up(state, "the recorder reports a fault")
    state = _advance(plan, state, now_ns, recorder, ready, saved)
    sample = _sample(plan, state, now_ns)
    return replace(state, sequence=state.sequence + 1), sample


def _advance(
    plan: OperatorPlan,
    state: OperatorState,
    now_ns: int,
    recorder: RecorderWord,
    ready: bool,
    saved: int | None,
) -> OperatorState:
    if state.phase == "settle":
        if recorder == "idle" and ready and now_ns - state.since_ns >= SETTLE_S * 1e9:
            return _press(replace(state, phase="start", saved_before=saved, button=PRIMARY), now_ns)
        return state
    if state.phase == "start":
        if recorder == "recording":
            return replace(state, phase="move", since_ns=now_ns, began_ns=now_ns, presses=0)
        return _press_again(state, now_ns, recorder == "idle", "the recorder does not start")
    if state.phase == "move":
        if recorder != "recording":
            return _give_up(state, f"somebody else ended the episode: the recorder is {recorder}")
        if now_ns - state.began_ns >= plan.episodes[state.episode][0] * 1e9:
            button = PRIMARY if plan.episodes[state.episode][1] == "save" else SECONDARY
            return _press(replace(state, phase="end", since_ns=now_ns, button=button), now_ns)
        return state
    if state.phase == "end":
        if recorder == "idle":
            return _next(plan, state, now_ns, saved)
        return _press_again(state, now_ns, recorder == "recording", "the recorder does not stop")
    return state


def _press(state: OperatorState, now_ns: int) -> OperatorState:
    return replace(state, pressed_ns=now_ns, presses=state.presses + 1)


def _press_again(state: OperatorState, now_ns: int, ignored: bool, failure: str) -> OperatorState:
    """Press once more if the last press was ignored for RETRY_S; give up after PRESSES."""
    if not ignored or now_ns - state.pressed_ns < RETRY_S * 1e9:
        return state
    if state.presses >= PRESSES:
        return _give_up(state, f"{failure} after {PRESSES} presses")
    return _press(state, now_ns)


def _next(plan: OperatorPlan, state: OperatorState, now_ns: int, saved: int | None) -> OperatorState:
    outcome = plan.episodes[state.episode][1]
    if saved is not None and state.saved_before is not None:
        added = saved - state.saved_before
        if added != (1 if outcome == "save" else 0):
            return _give_up(state, f"episode {state.episode} was to {outcome}, the recorder added {added}")
    last = state.episode + 1 == len(plan.episodes)
    return replace(
        state, phase="done" if last else "settle", episode=state.episode + 1, since_ns=now_ns, presses=0
    )


def _give_up(state: OperatorState, failure: str) -> OperatorState:
    return replace(state, phase="done", failure=failure)


def _sample(plan: OperatorPlan, state: OperatorState, now_ns: int) -> QuestSample:
    pose = resting_hand(plan.hand)
    if state.phase in ("move", "end") and state.began_ns:
        duration_s = plan.episodes[state.episode][0]
        time_s = (now_ns - state.began_ns) / 1e9
        pose = hand_at(plan.seed, state.episode, duration_s, time_s, plan.hand)
    pressing = now_ns - state.pressed_ns < PRESS_S * 1e9
    driving = _controller(pose, state.button if pressing else None)
    idle = _controller(resting_hand("left" if plan.hand == "right" else "right"), None)
    return QuestSample(
        stamp_ns=now_ns,
        headset_time_ms=(now_ns - (state.first_ns or now_ns)) / 1e6,
        sequence=state.sequence,
        visibility="visible",
        head_valid=True,
        head_pose=XrPose(position_m=(0.0, 1.6, 0.0)),
        left=driving if plan.hand == "left" else idle,
        right=driving if plan.hand == "right" else idle,
    )


def _controller(pose: HandPose, button: int | None) -> QuestController:
    values = [0.0] * BUTTON_COUNT
    values[TRIGGER], values[SQUEEZE] = pose.trigger, pose.squeeze
    if button is not None:
        values[button] = 1.0
    return QuestController(
        connected=True,
        pose_valid=True,
        grip_pose=pose.grip_pose,
        aim_valid=True,
        aim_pose=pose.grip_pose,
        profiles=_PROFILES,
        button_values=tuple(values),
        button_pressed=tuple(value >= _PRESSED_AT for value in values),
        button_touched=tuple(value >= _TOUCHED_AT for value in values),
        axes=(0.0, 0.0, 0.0, 0.0),
    )
