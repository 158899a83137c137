"""One line at the bottom of a terminal that is drawn again and again; everything else scrolls above it."""

from collections.abc import Iterable
from typing import TextIO

from rich.control import Control
from rich.segment import ControlType
from rich.text import Text

from piper_collect.core.status_line import Span, Tone
from piper_collect.report.tables import console_for

_STYLES: dict[Tone, str] = {
    "plain": "",
    "good": "black on green",
    "busy": "black on yellow",
    "record": "bold white on red",
    "bad": "bold red",
    "ask": "bold yellow",
}
_CLEAR = Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2))


class LiveLine:
    """The line; there is none before the first ``draw`` and after ``hide``, nor ever on a dumb terminal.

    Args:
        stream: The terminal.
    """

    def __init__(self, stream: TextIO) -> None:
        self._console = console_for(stream)
        self._spans: tuple[Span, ...] = ()
        self._width = 0

    def draw(self, spans: tuple[Span, ...]) -> None:
        """Show ``spans``, cut to the terminal's width."""
        if self._console.is_dumb_terminal or (spans == self._spans and self._width == self._console.width):
            return
        self._spans, self._width = spans, self._console.width
        with self._console:
            self._console.control(_CLEAR)
            self._draw()

    def print(self, lines: Iterable[str]) -> None:
        """Let lines scroll by above; they may be coloured with ANSI codes."""
        with self._console:
            if self._spans:
                self._console.control(_CLEAR)
            for line in lines:
                self._console.print(Text.from_ansi(line), soft_wrap=True)
            self._draw()

    def bell(self) -> None:
        """Sound the terminal's bell."""
        self._console.bell()

    def hide(self) -> None:
        """Take the line away."""
        if self._spans:
            self._spans = ()
            self._console.control(_CLEAR)

    def forget(self) -> None:
        """There is no line any more: somebody else has the terminal."""
        self._spans = ()

    def _draw(self) -> None:
        line = Text(no_wrap=True, end="")
        for span in self._spans:
            line.append(span.text, style=_STYLES[span.tone])
        line.truncate(self._console.width - 1, overflow="ellipsis")
        self._console.print(line, end="", soft_wrap=True)
