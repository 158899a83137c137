"""What a page shows, as plain values: nothing here knows a dataset, a bag or HTML."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from piper_collect.core.findings import Finding, Report
from piper_collect.core.survey import ConsumerOutlook
from piper_collect.report.plots import Histogram, LinePlot


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Still:
    """One picture of a film strip: its time and uint8 [H, W, 3] RGB."""

    time_s: float
    pixels: NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FilmStrip:
    """Some pictures of one camera, in order of time, with what is to be said of the camera."""

    camera: str
    note: str
    stills: tuple[Still, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlotGroup:
    """Plots under one heading; histograms are drawn smaller."""

    title: str
    plots: tuple[LinePlot | Histogram, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EpisodeView:
    """One episode of the page.

    Attributes:
        label: How it is called, e.g. ``episode 3``.
        anchor: Name of its place in the page; letters, digits and dashes.
        task: Task string.
        line: What its folded line says, e.g. ``122 rows, 4.0 s``.
        size: What the bar chart of all episodes shows of it.
        findings: Those of this episode.
        strips: One a camera.
        groups: Plots.
        facts: What else was counted (JSON values).
    """

    label: str
    anchor: str
    task: str
    line: str
    size: float
    findings: tuple[Finding, ...] = ()
    strips: tuple[FilmStrip, ...] = ()
    groups: tuple[PlotGroup, ...] = ()
    facts: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PageView:
    """The page but for its episodes.

    Attributes:
        title: What kind of thing was looked at, e.g. ``Dataset``.
        report: Findings and facts.
        about: (what, text), said under the verdict.
        tiles: (what, how much), the numbers that come first.
        outlooks: What each consumer will do; empty where none was asked.
        groups: Plots over all episodes.
        episodes_title: What the parts of the page are.
        size_title: What the bars of the episodes show.
        size_unit: Their unit.
        made_by: Tool and version.
    """

    title: str
    report: Report
    about: tuple[tuple[str, str], ...] = ()
    tiles: tuple[tuple[str, str], ...] = ()
    outlooks: tuple[ConsumerOutlook, ...] = ()
    groups: tuple[PlotGroup, ...] = ()
    episodes_title: str = "Episodes"
    size_title: str = "Length of the episodes"
    size_unit: str = "s"
    made_by: str = "piper_collect"
