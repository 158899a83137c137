"""From what was seen of bags to the page that shows it, one bag at a time."""

from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from piper_collect import __version__
from piper_collect.config.profile import Profile
from piper_collect.core.findings import Report
from piper_collect.core.survey import ColumnSurvey
from piper_collect.core.types import NO_SAMPLE, CameraFrame, Episode, FloatArray
from piper_collect.errors import ImageError
from piper_collect.imaging.frames import to_rgb
from piper_collect.pipelines.validate_bag import BagLook
from piper_collect.report.episode_view import age_histograms, motion_group, spoken_duration, step_plot
from piper_collect.report.page import PageWriter
from piper_collect.report.plots import LinePlot
from piper_collect.report.views import EpisodeView, FilmStrip, PageView, PlotGroup, Still

_MOST_TOPICS = 12


class BagPage:
    """The page of one bag or of many, written while they are looked at.

    Used as a context manager: ``add`` each bag, then ``finish``; otherwise nothing is left behind.

    Args:
        path: The HTML file.
        profile: The profile that the bags were looked at for.

    Raises:
        ConfigError: Nothing can be written there.
    """

    def __init__(self, path: Path, profile: Profile) -> None:
        self._writer = PageWriter(path)
        self._profile = profile
        self._count = 0

    def add(self, look: BagLook) -> None:
        """Append a bag."""
        self._writer.add_episode(bag_view(look, self._profile, f"bag-{self._count}"))
        self._count += 1

    def finish(self, report: Report) -> None:
        """Write the whole page."""
        facts: dict[str, Any] = dict(report.facts)
        seconds = sum(float(bag.get("seconds", 0.0)) for bag in facts.pop("by_bag").values())
        self._writer.finish(
            PageView(
                title="Bag" if self._count == 1 else "Bags below",
                report=Report(
                    subject=report.subject, findings=report.findings, facts=facts, unlisted=report.unlisted
                ),
                about=(("looked at as an export would", f"profile {facts['profile']}"),),
                tiles=(
                    ("bags", f"{facts['bags']:,}"),
                    ("messages", f"{facts['messages']:,}"),
                    ("rows an export would make", f"{facts['rows']:,}"),
                    ("recorded", spoken_duration(seconds)),
                ),
                episodes_title="Bags",
                size_title="Length of the bags",
                made_by=f"piper_collect {__version__}",
            )
        )

    def __enter__(self) -> "BagPage":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.__exit__(kind, err, trace)


def bag_view(look: BagLook, profile: Profile, anchor: str) -> EpisodeView:
    """What the page shows of one bag."""
    groups = []
    if look.episode is not None:
        row_s = _seconds(look.episode.tick_ns, look.episode.t0_ns)
        columns = _columns(look.episode, profile)
        ages = age_histograms(_ages(look.episode))
        groups.append(motion_group("Motion, as an export would align it", columns, row_s))
        groups.append(PlotGroup(title="Age of what the rows show", plots=ages))
    groups.append(PlotGroup(title="From stamp to stamp", plots=_steps(look)))
    groups.append(PlotGroup(title="From stamp to receipt", plots=_delays(look)))
    seconds = float(look.facts.get("seconds", 0.0))
    rows = f"{look.episode.length} rows, " if look.episode is not None else "no rows, "
    messages = look.facts.get("messages")
    return EpisodeView(
        label=look.name,
        anchor=anchor,
        task=look.task,
        line=f"{rows}{messages} messages, {seconds:.1f} s" if messages is not None else "cannot be read",
        size=seconds,
        findings=tuple(look.findings),
        strips=tuple(_strip(camera, frames) for camera, frames in sorted(look.pictures.items())),
        groups=tuple(groups),
        facts=look.facts,
    )


def _seconds(stamp_ns: np.ndarray[Any, np.dtype[np.int64]], origin_ns: int) -> FloatArray:
    seconds: FloatArray = (stamp_ns - origin_ns) / 1e9
    return seconds


def _columns(episode: Episode, profile: Profile) -> dict[str, ColumnSurvey]:
    return {
        c.key: ColumnSurvey(key=c.key, names=c.names, values=episode.columns[c.source])
        for c in profile.columns
        if c.source in episode.columns  # an optional one may not be
    }


def _ages(episode: Episode) -> dict[str, FloatArray]:
    ages = {}
    for name, samples in episode.samples.items():
        known = samples.stamp_ns != NO_SAMPLE
        ages[name] = (episode.tick_ns[known] - samples.stamp_ns[known]) / 1e6
    return ages


def _steps(look: BagLook) -> tuple[LinePlot, ...]:
    """The time between stamps, a plot a topic that feeds the dataset."""
    plots = []
    for topic in look.fed[:_MOST_TOPICS]:
        stamps = np.unique(look.surveys[topic].clock.stamp_ns())
        seconds = _seconds(stamps, int(stamps[0]))
        series = [("", seconds[1:], np.diff(seconds) * 1e3)]
        plots.append(step_plot(topic, series))
    return tuple(plot for plot in plots if plot is not None)


def _delays(look: BagLook) -> tuple[LinePlot, ...]:
    """How long after its stamp each message was received, a plot a topic that feeds the dataset."""
    plots = []
    for topic in look.fed[:_MOST_TOPICS]:
        clock = look.surveys[topic].clock
        if clock.source == "header":
            received = clock.receive_ns()[clock.used()]
            delay: FloatArray = (received - clock.stamp_ns()) / 1e6
            series = [("", _seconds(received, int(received[0])), delay)]
            plots.append(step_plot(topic, series))
    return tuple(plot for plot in plots if plot is not None)


def _strip(camera: str, frames: list[CameraFrame]) -> FilmStrip:
    stills = []
    for frame in frames:
        try:
            pixels = to_rgb(frame)
        except ImageError:
            continue  # it is among the findings
        stills.append(Still(time_s=(frame.stamp_ns - frames[0].stamp_ns) / 1e9, pixels=pixels))
    height, width = stills[0].pixels.shape[:2] if stills else (0, 0)
    note = f"{width} × {height}, {frames[0].encoding}" if stills else ""
    return FilmStrip(camera=camera, note=note, stills=tuple(stills))
