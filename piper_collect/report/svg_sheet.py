"""Plots on one sheet as an SVG file of its own, light or dark as the reader's system is."""

from collections.abc import Sequence
from pathlib import Path

from piper_collect.errors import ConfigError
from piper_collect.files import write_atomic
from piper_collect.report.markup import Markup, element, shortened
from piper_collect.report.plots import COLOURS, LinePlot
from piper_collect.report.svg import PLOT_HEIGHT, PLOT_WIDTH, line_drawing

_COLUMNS = 2
_MARGIN, _BETWEEN, _HEAD, _CAPTION = 28, 36, 116, 44
_CHARACTER, _KEY = 12.4, 34  # width of a letter of the captions, and of the stroke before a name

_STYLE = """
svg{--paper:#fff;--ink:#1c2330;--soft:#5b6577;--rule:#e1e5eb;--bad:#b3261e;
--s0:#d9730d;--s1:#2563c9;--s2:#14804a;--s3:#8a4fd0;--s4:#c2305f;--s5:#0b7f93;
font-family:system-ui,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
@media (prefers-color-scheme:dark){svg{--paper:#1a2029;--ink:#e6eaf1;--soft:#9aa6b8;--rule:#2a323f;
--bad:#ff8a80;--s0:#f2a154;--s1:#6ba4ff;--s2:#56cf8b;--s3:#b893f5;--s4:#f27d9f;--s5:#4cc5d6}}
.paper{fill:var(--paper)}
text{font-size:21px;fill:var(--soft)}
.title{font-size:28px;font-weight:700;fill:var(--ink)}
.name{font-size:20px;font-weight:700;fill:var(--ink)}
.said{font-size:20px}
.end{text-anchor:end}.mid{text-anchor:middle}
.rule{stroke:var(--rule);stroke-width:2;fill:none}
path.line,path.dot,path.key{stroke:var(--c);fill:none;stroke-linejoin:round;stroke-linecap:round}
path.line{stroke-width:3.4}path.line.s2{stroke-width:1.8}path.dot{stroke-width:6}path.key{stroke-width:4}
.s0{--c:var(--s0)}.s1{--c:var(--s1)}.s2{--c:var(--s2)}.s3{--c:var(--s3)}.s4{--c:var(--s4)}.s5{--c:var(--s5)}
.band{fill:var(--bad);opacity:.2}
"""


def write_svg_sheet(path: Path, title: str, lines: Sequence[str], plots: Sequence[LinePlot]) -> None:
    """Write plots, two beside each other, under a title and what is to be said of them.

    Raises:
        ConfigError: The file cannot be written.
    """
    try:
        write_atomic(path, svg_sheet(title, lines, plots))
    except OSError as err:
        raise ConfigError(f"the plot cannot be written: {err.strerror}", where=path) from err


def svg_sheet(title: str, lines: Sequence[str], plots: Sequence[LinePlot]) -> str:
    """The text of such a file."""
    head = _HEAD + 28 * max(len(lines) - 1, 0)
    rows = -(-len(plots) // _COLUMNS)
    width = 2 * _MARGIN + _COLUMNS * PLOT_WIDTH + (_COLUMNS - 1) * _BETWEEN
    height = head + rows * (_CAPTION + PLOT_HEIGHT + _BETWEEN)
    parts = [
        element("style", Markup(_STYLE)),
        element("title", title),
        element("rect", class_="paper", width=width, height=height),
        element("text", shortened(title), class_="title", x=_MARGIN, y=48),
        *[
            element("text", shortened(line), class_="said", x=_MARGIN, y=82 + 28 * number)
            for number, line in enumerate(lines)
        ],
    ]
    for number, plot in enumerate(plots):
        x = _MARGIN + number % _COLUMNS * (PLOT_WIDTH + _BETWEEN)
        y = head + number // _COLUMNS * (_CAPTION + PLOT_HEIGHT + _BETWEEN)
        parts += _caption(plot, x, y + 24)
        parts.append(line_drawing(plot, x=x, y=y + _CAPTION, width=PLOT_WIDTH, height=PLOT_HEIGHT))
    box = f"0 0 {width} {height}"
    return element("svg", *parts, xmlns="http://www.w3.org/2000/svg", viewBox=box, width=width, height=height)


def _caption(plot: LinePlot, x: int, y: int) -> list[Markup]:
    """Name, unit, and what each line is."""
    named = f"{plot.title}, {plot.unit}" if plot.unit else plot.title
    parts = [element("text", named, class_="name", x=x + 2, y=y)]
    at = x + 26 + _CHARACTER * 1.06 * len(named)
    for number, series in enumerate(plot.series):
        if series.name:
            parts.append(
                element("path", class_=f"key s{number % COLOURS}", d=f"M{at:.0f} {y - 7}h{_KEY - 12}")
            )
            parts.append(element("text", series.name, class_="said", x=round(at + _KEY - 4), y=y))
            at += _KEY + 20 + _CHARACTER * len(series.name)
    return parts
