"""From keys in a terminal to what the operator wants; what cannot be undone is asked for twice.

A terminal tells of keys that go down, over and over while one is held, and never that one comes up. So a key
that was acted on does nothing more until it has rested, and what is asked for twice is done when the second
press is followed by silence, not by a third.
"""

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from piper_collect.core.operator_actions import Action
from piper_collect.core.session_status import SessionView

AGAIN_S = 2.0
"""How long a question waits for the second press."""

QUIET_S = 0.2
"""Silence after the second press; a held key repeats faster."""

LOCK_S = 1.0
"""How long a key that was acted on does nothing more; a held one begins to repeat within that."""

HELD_S = 0.5
"""A press that follows the one before sooner than this, after the lock, is the key still held."""

NOTE_S = 3.0
"""How long a note is shown."""

Wish: TypeAlias = Action | Literal["quit", "help"]

HELP = (
    ("space", "start an episode; stop and save it"),
    ("d", "discard the running episode"),
    ("x x", "discard the running episode, or delete the last one of this session"),
    ("h", "move the arm home (between episodes)"),
    ("q", "quit (twice while an episode is running: it is saved as interrupted)"),
    ("?", "show this"),
)
"""Key and meaning, in the terminal of the session."""

HELP_ELSEWHERE = tuple((key, "leave; the session goes on" if key == "q" else text) for key, text in HELP)
"""The same in another terminal."""

SEVERAL = "several keys at once: nothing is done"
RESTS = "a key that has acted rests for a second"
HELD = "held down: nothing is done"
CHANGED = "not done: the session has changed since it was asked for"
UNKNOWN = "no such key; ? shows them"
NOTHING_SAVED = "this session has no saved episode to delete"

_AT_ONCE: dict[str, Wish] = {"d": Action.DISCARD, "h": Action.HOME, "?": "help"}
_NO_KEYS = "\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What was asked for once.

    Attributes:
        key: The key that must be pressed again.
        about: Whether an episode ran, its number, and how many were saved, when it was asked.
        asked_ns: When.
        again_ns: When it was pressed again; 0 before that.
    """

    key: str
    about: tuple[bool, int, int]
    asked_ns: int
    again_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyState:
    """What the keys before mean for the next one.

    Attributes:
        key: The last key.
        pressed_ns: When it last came.
        locked: It was acted on and has not rested since.
        acted_ns: When it was acted on.
        question: What waits for a second press.
        note: Something to tell about the keys themselves.
        note_ns: Since when.
    """

    key: str = ""
    pressed_ns: int = 0
    locked: bool = False
    acted_ns: int = 0
    question: Question | None = None
    note: str = ""
    note_ns: int = 0


def key_press(
    state: KeyState, keys: str, view: SessionView, now_ns: int, *, ends_session: bool
) -> tuple[KeyState, Wish | None]:
    """Take what was typed since the last call.

    Args:
        state: From the step before.
        keys: The keys, not empty; more than one at once were pasted, or came while the machine stood still,
            and none of them is acted on.
        view: The session as it is shown to whoever presses.
        now_ns: Now.
        ends_session: Whether quitting ends the session, so that an episode would be cut short.
    """
    key = keys[0].lower()
    same = key == state.key and keys.lower() == key * len(keys)
    if same and state.locked and _is_held(state, now_ns):
        return _noted(replace(state, pressed_ns=now_ns), RESTS, now_ns), None
    if len(keys) > 1:
        asked = state.question is not None
        return _locked(state, key, now_ns, note=HELD if same and asked else SEVERAL), None
    fresh = replace(state, key=key, pressed_ns=now_ns, locked=False, note="")
    if key == "x" or (key == "q" and ends_session and view.state == "recording"):
        return _twice(fresh, key, view, now_ns), None
    fresh = replace(fresh, question=None)
    wish = _wish(key, view)
    if wish is not None:
        return _locked(fresh, key, now_ns), wish
    return fresh if key in _NO_KEYS else _noted(fresh, UNKNOWN, now_ns), None


def key_tick(state: KeyState, view: SessionView, now_ns: int) -> tuple[KeyState, Wish | None]:
    """Let time pass: questions end, and what was asked for twice is done after a short silence."""
    question = state.question
    if question is None:
        return state, None
    if question.again_ns:
        if now_ns - question.again_ns < QUIET_S * 1e9:
            return state, None
        if question.about != _about(view):
            return _locked(state, question.key, now_ns, note=CHANGED), None
        done = _locked(state, question.key, now_ns)
        if question.key == "q":
            return done, "quit"
        return done, Action.DISCARD if question.about[0] else Action.DISCARD_OR_DELETE
    if now_ns - question.asked_ns >= AGAIN_S * 1e9:
        return replace(state, question=None), None
    return state, None


def prompt(state: KeyState, now_ns: int) -> str:
    """What the keys have to say now: the question that waits, or a note; often nothing."""
    question = state.question
    if question is not None:
        recording, index, saved = question.about
        if question.key == "q":
            return f"q again ends the session: episode {index} is saved as interrupted"
        if recording:
            return f"x again discards episode {index}"
        return f"x again deletes the last saved episode ({saved} saved)"
    return state.note if now_ns - state.note_ns < NOTE_S * 1e9 else ""


def _wish(key: str, view: SessionView) -> Wish | None:
    if key == " ":
        return Action.STOP if view.state in ("recording", "saving") else Action.START
    return "quit" if key == "q" else _AT_ONCE.get(key)


def _twice(state: KeyState, key: str, view: SessionView, now_ns: int) -> KeyState:
    question, about = state.question, _about(view)
    if question is None or question.key != key or question.about != about:
        if key == "x" and view.state != "recording" and not view.saved:
            return _noted(replace(state, question=None), NOTHING_SAVED, now_ns)
        return replace(state, question=Question(key=key, about=about, asked_ns=now_ns))
    if question.again_ns:
        return _locked(state, key, now_ns, note=HELD)
    return replace(state, question=replace(question, again_ns=now_ns))


def _about(view: SessionView) -> tuple[bool, int, int]:
    return view.state == "recording", view.episode_index, view.saved


def _is_held(state: KeyState, now_ns: int) -> bool:
    return now_ns - state.acted_ns < LOCK_S * 1e9 or now_ns - state.pressed_ns < HELD_S * 1e9


def _locked(state: KeyState, key: str, now_ns: int, note: str = "") -> KeyState:
    after = replace(state, key=key, pressed_ns=now_ns, locked=True, acted_ns=now_ns, question=None)
    return _noted(after, note, now_ns) if note else after


def _noted(state: KeyState, note: str, now_ns: int) -> KeyState:
    return replace(state, note=note, note_ns=now_ns)
