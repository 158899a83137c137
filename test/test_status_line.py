"""The session in one line: what is shown in which state, and how it is drawn below what scrolls by."""

import io
from dataclasses import replace

import pytest
from screen import Screen

from piper_collect.core.session_status import SessionView
from piper_collect.core.status_line import Figures, Span, clock, status_line
from piper_collect.report.live_line import LiveLine

READY = SessionView(state="ready", episode_index=3, saved=2, task="stack the cups", text="episode 2 saved")
FIGURES = Figures(lost=0, bytes_free=812 * 10**9)


def words(*args, **kwargs):
    return "".join(span.text for span in status_line(*args, **kwargs))


def tones(*args, **kwargs):
    return {span.text.strip(): span.tone for span in status_line(*args, **kwargs) if span.tone != "plain"}


def test_the_line_of_each_state():
    rest = "2 saved · 812 GB free · stack the cups"
    assert words(READY, FIGURES, 0.0) == f" READY  episode 3 next · {rest} · episode 2 saved"
    recording = replace(READY, state="recording", text="recording: stack the cups")
    assert words(recording, FIGURES, 83.9) == f" REC 01:23  episode 3 · 0 lost · {rest}"
    lossy = replace(FIGURES, lost=7)
    assert "episode 3 · 7 lost · 2 saved" in words(replace(READY, state="saving"), lossy, 3600.0)
    assert words(replace(READY, state="saving"), lossy, 3600.0).startswith(" SAVING 1:00:00 ")
    waiting = replace(READY, state="not_ready", text="/cam: silent for 2.0 s")
    assert words(waiting, FIGURES, 0.0) == (
        " NOT READY  episode 3 next · 2 saved · 812 GB free · /cam: silent for 2.0 s · stack the cups"
    )
    assert words(replace(READY, state="homing"), FIGURES, 0.0).startswith(" HOMING  episode 3 next")
    fault = replace(READY, state="fault", faults=("arm: stall", "no way there"))
    assert words(fault, FIGURES, 0.0) == (
        " FAULT  episode 3 next · 2 saved · 812 GB free · arm: stall; no way there · stack the cups"
    )
    assert words(None, None, 0.0) == " NO SESSION  no session is heard"
    unknown = SessionView(state="not_ready", text="waiting for the recorder")
    assert words(unknown, None, 0.0) == " NOT READY  0 saved · waiting for the recorder · no task"


def test_what_the_keys_say_comes_first():
    assert words(READY, FIGURES, 0.0, "x again").startswith(" READY  x again · episode 3 next")


def test_what_is_bad_stands_out():
    running = replace(READY, state="recording")
    assert tones(running, replace(FIGURES, lost=1), 0.0) == {"REC 00:00": "record", "1 lost": "bad"}
    assert tones(READY, Figures(lost=0, bytes_free=3_200_000_000), 0.0) == {
        "READY": "good",
        "3.2 GB free": "bad",
    }
    fault = replace(READY, state="fault", faults=("arm: stall",))
    assert tones(fault, FIGURES, 0.0) == {"FAULT": "bad", "arm: stall": "bad"}


def test_text_of_others_keeps_to_its_line_and_steers_nothing():
    evil = replace(READY, task="a\nb\x1b[2Jc\x07", text="")
    assert words(evil, FIGURES, 0.0).endswith("· a b [2Jc")


@pytest.mark.parametrize(
    ("seconds", "text"), [(-1.0, "00:00"), (59.9, "00:59"), (600, "10:00"), (3723, "1:02:03")]
)
def test_the_clock_counts_whole_seconds(seconds, text):
    assert clock(seconds) == text


# -- drawn --------------------------------------------------------------------------------------


class Tty(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    """A live line in a terminal of 40 columns, and the screen that it draws on."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream, screen = Tty(), Screen(40)

    def shown():
        screen.feed(stream.getvalue())
        stream.seek(0)
        stream.truncate()
        return [row.rstrip() for row in screen.rows]

    return LiveLine(stream), shown


def spans(*texts):
    return tuple(Span(text=text) for text in texts)


def test_the_line_stays_the_last_one_and_lines_scroll_above_it(terminal):
    line, shown = terminal
    assert shown() == [""]
    line.draw(spans("one", " two"))
    assert shown() == ["one two"]
    line.draw(spans("three"))
    assert shown() == ["three"]
    line.print(["a log", "\x1b[33ma warning\x1b[0m"])
    assert shown() == ["a log", "a warning", "three"]
    line.print(["x" * 50])
    assert shown() == ["a log", "a warning", "x" * 40, "x" * 10, "three"]
    line.hide()
    assert shown()[-1] == ""
    line.print(["after"])
    assert shown()[-2:] == ["after", ""]


def test_the_line_is_cut_to_the_width_and_never_wraps(terminal):
    line, shown = terminal
    line.draw(spans("y" * 38, "zzz"))
    assert shown() == ["y" * 38 + "…"]
    line.draw(spans("杯" * 30))  # two columns each
    line.print(["a log"])
    assert shown()[0] == "a log"
    assert len(shown()) == 2


def test_the_line_is_written_again_only_when_it_changes(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    stream = Tty()
    line = LiveLine(stream)
    line.draw(spans("one"))
    once = stream.getvalue()
    line.draw(spans("one"))
    assert stream.getvalue() == once


def test_a_dumb_terminal_gets_lines_only(monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    stream = Tty()
    line = LiveLine(stream)
    line.draw(spans("one"))
    line.print(["a log"])
    line.hide()
    assert stream.getvalue() == "a log\n"
