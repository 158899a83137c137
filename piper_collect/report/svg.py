"""Plots as inline SVG: lines over time, histograms, bars. Colours come from the page's style sheet."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from piper_collect.core.types import FloatArray
from piper_collect.report.markup import Markup, element, join
from piper_collect.report.plots import COLOURS, Bar, Histogram, LinePlot

_BUCKETS = 150
"""Columns that a long line is reduced to; each keeps its least and greatest value."""

PLOT_WIDTH, PLOT_HEIGHT = 720, 300
_BROAD_WIDTH, _BROAD_HEIGHT, _LEAST_BARS = 2400, 240, 24
_LEFT, _RIGHT, _TOP, _BOTTOM = 84, 12, 14, 40
_TEXT_DROP = 7  # from the middle of a line of text to its baseline
_CHARACTER = 13  # width of a digit
_MOST_BANDS = 40


def ticks(low: float, high: float, about: int) -> list[float]:
    """Round numbers from ``low`` to ``high``, some ``about`` of them (1, 2 or 5 times a power of ten)."""
    if not high > low:
        return [low]
    raw = (high - low) / max(about, 1)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(s * power for s in (1, 2, 5, 10) if s * power >= raw * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [k * step for k in range(first, last + 1)]


def reduce_points(x: FloatArray, y: FloatArray, buckets: int = _BUCKETS) -> tuple[FloatArray, FloatArray]:
    """At most ``2 * buckets`` points with the same outline: the least and greatest of each stretch.

    A stretch without any value gives one NaN, so that the line breaks there too.
    """
    count = len(y)
    if count <= 2 * buckets:
        return x, y
    size = math.ceil(count / buckets)
    padded = np.full(size * math.ceil(count / size), np.nan)
    padded[:count] = y
    cells = padded.reshape(-1, size)
    starts = np.arange(len(cells)) * size
    low = np.argmin(np.where(np.isnan(cells), np.inf, cells), axis=1)
    high = np.argmax(np.where(np.isnan(cells), -np.inf, cells), axis=1)
    picked = np.unique(np.concatenate((starts + low, starts + high)))
    return x[picked], y[picked]


def line_plot(plot: LinePlot) -> Markup:
    """A figure with its legend, axes and lines."""
    legend = [
        element("span", series.name, class_=f"key s{number % COLOURS}")
        for number, series in enumerate(plot.series)
        if series.name
    ]
    return _figure(plot.title, plot.unit, legend, line_drawing(plot))


def line_drawing(plot: LinePlot, **place: int) -> Markup:
    """Axes and lines of a plot as an SVG element, with the attributes that place it in another."""
    frame = _Frame.around(plot)
    parts = [_title(_said(plot)), *_bands(plot, frame), *frame.grid(plot.x_unit)]
    for number, series in enumerate(plot.series):
        x, y = reduce_points(series.x, series.y)
        drawn = _points(frame, x, y) if plot.style == "points" else _line(frame, x, y, plot.bands)
        kind = "dot" if plot.style == "points" else "line"
        if drawn:
            parts.append(element("path", class_=f"{kind} s{number % COLOURS}", d=drawn))
    return _svg(parts, plot.title, frame, place=place)


def histogram(chart: Histogram) -> Markup:
    """A figure of bars over evenly spaced bins."""
    top = int(chart.counts.max()) if len(chart.counts) else 0
    frame = _Frame(
        x=(float(chart.edges[0]), float(chart.edges[-1])), y=(0.0, max(top, 1) * 1.05), width=PLOT_WIDTH // 2
    )
    parts = [_title(_histogram_said(chart)), *frame.grid(chart.unit, x_ticks=4, whole=True)]
    base = frame.py(0.0)
    for count, left, right in zip(chart.counts, chart.edges[:-1], chart.edges[1:], strict=True):
        if count:
            x0, x1 = frame.px(left), frame.px(right)
            y = min(frame.py(float(count)), base - 2)
            said = f"{left:g} to {right:g} {chart.unit}: {count}"
            rect = element("rect", x=x0, y=y, width=max(x1 - x0 - 1, 1), height=base - y, class_="bin")
            parts.append(element("g", _title(said), rect))
    notes = [chart.note] if chart.note else []
    if chart.above:
        notes.append(f"{chart.above} beyond {chart.edges[-1]:g} {chart.unit}")
    return _figure(
        chart.title, "", [element("span", n, class_="note") for n in notes], _svg(parts, chart.title, frame)
    )


def bar_chart(title: str, unit: str, bars: Sequence[Bar]) -> Markup:
    """A figure of one bar an item, each a link."""
    top = max((bar.value for bar in bars), default=0.0)
    wide = (0.0, float(max(len(bars), _LEAST_BARS)))
    frame = _Frame(x=wide, y=(0.0, (top or 1.0) * 1.08), width=_BROAD_WIDTH, height=_BROAD_HEIGHT)
    parts = [_title(f"{title}: {len(bars)} bars, the highest {top:.4g} {unit}"), *frame.grid("", x_ticks=0)]
    base = frame.py(0.0)
    for number, bar in enumerate(bars):
        x0, x1 = frame.px(float(number)), frame.px(float(number + 1))
        y = min(frame.py(bar.value), base - 3)
        width = max(x1 - x0 - (2 if x1 - x0 > 6 else 0), 1)
        rect = element("rect", x=x0, y=y, width=width, height=base - y, class_=f"bar {bar.kind}")
        parts.append(element("a", _title(bar.title), rect, href=bar.href))
    return _figure(title, unit, [], _svg(parts, title, frame, role=None))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Frame:
    """From values to whole units of the drawing."""

    x: tuple[float, float]
    y: tuple[float, float]
    width: int = PLOT_WIDTH
    height: int = PLOT_HEIGHT

    @classmethod
    def around(cls, plot: LinePlot) -> "_Frame":
        x = _extent([s.x for s in plot.series], 0.0)
        y = _extent([s.y for s in plot.series], 0.06)
        if plot.floor is not None and y[0] > plot.floor - 0.1 * abs(y[1]):
            y = (plot.floor, y[1])
        if plot.ceiling is not None and y[1] < plot.ceiling:
            y = (y[0], plot.ceiling)
        return cls(x=x, y=y)

    def px(self, x: float) -> int:
        return round(_LEFT + (x - self.x[0]) / (self.x[1] - self.x[0]) * (self.width - _LEFT - _RIGHT))

    def py(self, y: float) -> int:
        return round(self.height - _BOTTOM - (y - self.y[0]) / (self.y[1] - self.y[0]) * self.inner_height)

    @property
    def inner_height(self) -> int:
        return self.height - _TOP - _BOTTOM

    def grid(self, x_unit: str, *, x_ticks: int = 6, whole: bool = False) -> list[Markup]:
        """Horizontal lines with their values, and the values along x."""
        right, base = self.width - _RIGHT, self.height - _BOTTOM
        parts = []
        rows = [t for t in ticks(*self.y, 4) if not whole or t == round(t)]
        for tick, said in zip(rows, _labels(rows), strict=True):
            y = self.py(tick)
            parts.append(element("path", class_="rule", d=f"M{_LEFT} {y}H{right}"))
            parts.append(element("text", said, x=_LEFT - 10, y=y + _TEXT_DROP, class_="end"))
        columns = ticks(*self.x, x_ticks) if x_ticks else []
        free = right - _CHARACTER * (len(x_unit) + 1) if x_unit else self.width
        for tick, said in zip(columns, _labels(columns), strict=True):
            if self.px(tick) + _CHARACTER * len(said) / 2 <= free:
                parts.append(element("text", said, x=self.px(tick), y=base + 28, class_="mid"))
        if x_unit:
            parts.append(element("text", x_unit, x=right, y=base + 28, class_="end"))
        return parts


def _extent(arrays: Sequence[FloatArray], margin: float) -> tuple[float, float]:
    """The finite range of all values with some room; never empty."""
    finite = [a[np.isfinite(a)] for a in arrays]
    finite = [a for a in finite if len(a)]
    if not finite:
        return 0.0, 1.0
    low, high = min(float(a.min()) for a in finite), max(float(a.max()) for a in finite)
    room = (high - low) * margin
    if not high > low or not math.isfinite(high - low):
        room = max(abs(low) * 0.05, 1e-3) if math.isfinite(high - low) else 0.0
    return low - room, high + room


def _labels(values: Sequence[float]) -> list[str]:
    """Numbers of one axis with the digits that tell them apart."""
    step = abs(values[1] - values[0]) if len(values) > 1 else abs(values[0]) if values else 1.0
    if step and not 1e-4 <= step < 1e6:
        return [f"{v:.3g}" for v in values]
    digits = max(0, -math.floor(math.log10(step) + 1e-9)) if step else 0
    return [f"{0.0 if abs(v) < step * 1e-6 else v:.{digits}f}" for v in values]


def _line(frame: _Frame, x: FloatArray, y: FloatArray, bands: Sequence[tuple[float, float]]) -> str:
    """Relative steps in whole units; a new stroke after each break."""
    strokes: list[str] = []
    breaks = np.searchsorted(x, [start + 1e-9 for start, _ in bands]) if bands else np.empty(0, np.int64)
    broken = {int(b) for b in breaks}
    at: tuple[int, int] | None = None
    for k, (value_x, value_y) in enumerate(zip(x.tolist(), y.tolist(), strict=True)):
        if not math.isfinite(value_y) or not math.isfinite(value_x):
            at = None
            continue
        point = (frame.px(value_x), frame.py(value_y))
        if at is None or k in broken:
            strokes.append(f"M{point[0]} {point[1]}l0 0")
        elif point != at:
            strokes.append(f" {point[0] - at[0]} {point[1] - at[1]}")
        at = point
    return "".join(strokes)


def _points(frame: _Frame, x: FloatArray, y: FloatArray) -> str:
    """Strokes of no length, which round caps make dots."""
    good = np.isfinite(x) & np.isfinite(y)
    where = {(frame.px(a), frame.py(b)) for a, b in zip(x[good].tolist(), y[good].tolist(), strict=True)}
    return "".join(f"M{a} {b}h0" for a, b in sorted(where))


def _bands(plot: LinePlot, frame: _Frame) -> list[Markup]:
    parts = []
    for start, end in sorted(plot.bands, key=lambda band: band[0] - band[1])[:_MOST_BANDS]:
        x0, x1 = frame.px(max(start, frame.x[0])), frame.px(min(end, frame.x[1]))
        said = _title(f"{plot.bands_name} from {start:.3f} to {end:.3f} {plot.x_unit}")
        rect = element("rect", x=x0, y=_TOP, width=max(x1 - x0, 2), height=frame.inner_height, class_="band")
        parts.append(element("g", said, rect))
    return parts


def _said(plot: LinePlot) -> str:
    """The plot in a sentence, for those who do not see it."""
    parts = []
    for series in plot.series:
        finite = series.y[np.isfinite(series.y)]
        span = f"{finite.min():.4g} to {finite.max():.4g} {plot.unit}" if len(finite) else "no values"
        parts.append(f"{series.name} {span}".strip())
    marked = f"; marked: {len(plot.bands)} × {plot.bands_name}" if plot.bands else ""
    return f"{plot.title}: {', '.join(parts)}{marked}"


def _histogram_said(chart: Histogram) -> str:
    total = int(chart.counts.sum()) + chart.above
    if not total or not chart.counts.any():
        return f"{chart.title}: {total} values, {chart.above} beyond {chart.edges[-1]:g} {chart.unit}"
    top = int(np.argmax(chart.counts))
    most = f"most from {chart.edges[top]:g} to {chart.edges[top + 1]:g} {chart.unit}"
    return f"{chart.title}: {total} values, {most}" + (f", {chart.note}" if chart.note else "")


def _title(text: str) -> Markup:
    return element("title", text)


def _svg(
    parts: Sequence[Markup],
    label: str,
    frame: _Frame,
    *,
    role: str | None = "img",
    place: Mapping[str, int] | None = None,
) -> Markup:
    box = f"0 0 {frame.width} {frame.height}"
    return element("svg", *parts, viewBox=box, role=role, aria_label=label, **(place or {}))


def _figure(title: str, unit: str, legend: Sequence[Markup], drawing: Markup) -> Markup:
    heading = join(element("b", title), element("span", unit, class_="unit") if unit else None)
    return element("figure", element("figcaption", heading, *legend), drawing, class_="plot")
