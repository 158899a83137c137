"""The session in one line of a terminal: what happens, for how long, what is kept, what is wrong."""

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from piper_collect.core.session_status import SessionState, SessionView

Tone: TypeAlias = Literal["plain", "good", "busy", "record", "bad", "ask"]

_BANNERS: dict[SessionState, tuple[str, Tone]] = {
    "not_ready": ("NOT READY", "busy"),
    "ready": ("READY", "good"),
    "recording": ("REC", "record"),
    "saving": ("SAVING", "busy"),
    "homing": ("HOMING", "busy"),
    "fault": ("FAULT", "bad"),
}
_GB = 1e9
_SCARCE_GB = 10.0
_BETWEEN_PARTS = " · "


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A piece of the line."""

    text: str
    tone: Tone = "plain"


STARTING = (Span(text=" STARTING ", tone="busy"), Span(text=" the nodes of the session start"))
"""The line before a session of our own is heard."""

ENDING = (Span(text=" ENDING ", tone="busy"), Span(text=" what is recorded is saved"))
"""The line while the session ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What the recorder counts.

    Attributes:
        lost: Messages lost in the running episode.
        bytes_free: Free disk where the session is written.
    """

    lost: int
    bytes_free: int


def status_line(
    view: SessionView | None, figures: Figures | None, elapsed_s: float, prompt: str = ""
) -> tuple[Span, ...]:
    """The line, the most important first: it is cut at its end where the terminal is narrow.

    Args:
        view: The session; None while it is not heard.
        figures: What the recorder counts; None while it is not heard.
        elapsed_s: Length of the running episode so far.
        prompt: What the keys have to say; empty for nothing.
    """
    banner, *parts = status_parts(view, figures, elapsed_s, prompt)
    return _joined(replace(banner, text=f" {banner.text} "), parts)


def status_parts(
    view: SessionView | None, figures: Figures | None, elapsed_s: float, prompt: str = ""
) -> tuple[Span, ...]:
    """What the line is made of: the banner, then the parts that say something; arguments as there."""
    if view is None:
        parts = [_asked(prompt), _told("no session is heard")]
        return (Span(text="NO SESSION", tone="busy"), *(part for part in parts if part.text))
    banner, tone = _BANNERS[view.state]
    running = view.state in ("recording", "saving")
    if running:
        banner += f" {clock(elapsed_s)}"
    number = f"episode {view.episode_index}" if view.episode_index >= 0 else ""
    parts = [
        _asked(prompt),
        _told(number if running or not number else f"{number} next"),
        *_lost(figures, running=running),
        _told(f"{view.saved} saved"),
        *_disk(figures),
        *([_told("; ".join(view.faults), "bad")] if view.faults else []),
    ]
    task = _told(view.task or "no task")
    text = _told("" if view.faults or view.text == f"recording: {view.task}" else view.text)
    parts += [text, task] if view.state == "not_ready" else [task, text]
    return (Span(text=banner, tone=tone), *(part for part in parts if part.text))


def clock(seconds: float) -> str:
    """``01:23``, from an hour on ``1:02:03``."""
    whole = max(0, int(seconds))
    minutes, hours = whole // 60 % 60, whole // 3600
    return f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes:02d}:{whole % 60:02d}"


def _lost(figures: Figures | None, *, running: bool) -> list[Span]:
    if figures is None or not running:
        return []
    return [_told(f"{figures.lost} lost", "bad" if figures.lost else "plain")]


def _disk(figures: Figures | None) -> list[Span]:
    if figures is None:
        return []
    free_gb = figures.bytes_free / _GB
    text = f"{free_gb:.1f} GB free" if free_gb < _SCARCE_GB else f"{free_gb:.0f} GB free"
    return [_told(text, "bad" if free_gb < _SCARCE_GB else "plain")]


def _asked(prompt: str) -> Span:
    return _told(prompt, "ask")


def _told(text: str, tone: Tone = "plain") -> Span:
    """Text that others wrote keeps to its line and cannot steer the terminal."""
    printable = "".join(letter if letter.isprintable() else " " for letter in text)
    return Span(text=" ".join(printable.split()), tone=tone)


def _joined(banner: Span, parts: list[Span]) -> tuple[Span, ...]:
    line = [banner, Span(text=" ")]
    for part in parts:
        line += [part, Span(text=_BETWEEN_PARTS)]
    return tuple(line[:-1])
