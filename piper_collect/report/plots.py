"""What a plot shows, as plain values; ``svg`` draws it."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from piper_collect.core.types import FloatArray

COLOURS = 6
"""Series of one plot that look different."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Series:
    """One line of a plot.

    Attributes:
        name: In the legend.
        x: float64 [N], increasing.
        y: float64 [N]; NaN where there is no value, which breaks the line.
    """

    name: str
    x: FloatArray
    y: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinePlot:
    """Some series over one axis.

    Attributes:
        title: What is shown.
        unit: Of y.
        series: At least one.
        style: ``points`` for values that do not follow from each other.
        bands: (from, to) along x to be marked, and where lines break.
        bands_name: What the bands are.
        floor: Greatest value that the y axis may begin with, None for any.
        ceiling: Least value that it may end with, None for any.
        x_unit: Of x.
    """

    title: str
    unit: str
    series: tuple[Series, ...]
    style: Literal["line", "points"] = "line"
    bands: tuple[tuple[float, float], ...] = ()
    bands_name: str = "gap"
    floor: float | None = None
    ceiling: float | None = None
    x_unit: str = "s"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Histogram:
    """How often values fall into bins.

    Attributes:
        title: What is counted.
        unit: Of the edges.
        edges: float64 [B + 1], increasing, evenly spaced.
        counts: int64 [B].
        above: How many lie beyond the last edge.
        note: What else is to be said, e.g. the greatest value.
    """

    title: str
    unit: str
    edges: FloatArray
    counts: NDArray[np.int64]
    above: int = 0
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar of a bar chart: its height, what it says, its kind (a class of the style sheet), its link."""

    value: float
    title: str
    kind: str
    href: str
