"""From one episode as measured to what the page shows of it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict

import numpy as np

from piper_collect.core.findings import Finding
from piper_collect.core.survey import CameraSurvey, ColumnSurvey, EpisodeSurvey
from piper_collect.core.types import FloatArray
from piper_collect.report.plots import COLOURS, Histogram, LinePlot, Series
from piper_collect.report.tally import Tally
from piper_collect.report.views import EpisodeView, FilmStrip, PlotGroup, Still

_OBSERVATION, _ACTION = "observation.", "action."
_MOST_MOTION_PLOTS = 16
_LEAST_POINTS = 3
_GAP_STEPS = 1.5
"""A step this many times the median is marked."""
_COMMANDED, _MEASURED = "commanded", "measured"


def episode_view(survey: EpisodeSurvey, findings: Iterable[Finding] = ()) -> EpisodeView:
    """What the page shows of one episode."""
    ages = {**survey.age_ms, "skew of a row": survey.skew_ms}
    groups = (
        motion_group("Motion", survey.columns, survey.row_s),
        PlotGroup(title="Time", plots=_timing(survey)),
        PlotGroup(title="Pictures", plots=_brightness(survey.cameras.values())),
        PlotGroup(title="Age of what the rows show", plots=age_histograms(ages)),
    )
    return EpisodeView(
        label=f"episode {survey.index}",
        anchor=f"episode-{survey.index}",
        task=survey.task,
        line=f"{survey.rows} rows, {survey.duration_s:.1f} s",
        size=survey.duration_s,
        findings=tuple(findings),
        strips=tuple(_strip(camera) for camera in survey.cameras.values()),
        groups=groups,
        facts=_facts(survey),
    )


def short_name(key: str) -> str:
    """A camera's name out of its feature key."""
    return key.removeprefix("observation.images.")


def spoken_duration(seconds: float) -> str:
    """Seconds, minutes or hours."""
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.2f} h"


def _facts(survey: EpisodeSurvey) -> dict[str, object]:
    facts: dict[str, object] = {}
    if survey.lag is not None:
        facts["commanded to measured"] = asdict(survey.lag)
    if survey.kinematics is not None:
        facts["pose against joints"] = asdict(survey.kinematics)
    facts["frames"] = {short_name(key): len(camera.pts_s) for key, camera in survey.cameras.items()}
    if survey.origin:
        facts["origin"] = dict(survey.origin)
    if survey.counts:
        facts["counted at export"] = dict(survey.counts)
    return facts


def _strip(camera: CameraSurvey) -> FilmStrip:
    pictures = camera.pictures
    frames = f"{len(camera.pts_s)} frames"
    if pictures is None:
        return FilmStrip(camera=short_name(camera.key), note=f"{frames}, not decoded", stills=())
    height, width = pictures.size
    return FilmStrip(
        camera=short_name(camera.key),
        note=f"{width} × {height}, {frames}",
        stills=tuple(Still(time_s=t.time_s, pixels=t.pixels) for t in pictures.thumbnails),
    )


def _steps_too_long(times_s: FloatArray) -> tuple[tuple[float, float], ...]:
    """(from, to) of the steps far above the median."""
    if len(times_s) < 3:
        return ()
    steps = np.diff(times_s)
    long = np.flatnonzero(steps > _GAP_STEPS * np.median(steps))
    return tuple((float(times_s[k]), float(times_s[k + 1])) for k in long)


def motion_group(title: str, columns: Mapping[str, ColumnSurvey], row_s: FloatArray) -> PlotGroup:
    """Commanded over measured where a column has both; other columns as they are.

    Of too many the first that move are drawn, and the title says how many there are.

    Args:
        title: Of the group.
        columns: By key, ``observation.…`` and ``action…``; others are not drawn.
        row_s: float64 [T] time of each row; where it is of another length, rows are counted instead.
    """
    plots = _motion(_parts(columns), row_s)
    if len(plots) <= _MOST_MOTION_PLOTS:
        return PlotGroup(title=title, plots=tuple(plots))
    chosen = sorted(plots, key=_stands_still)[:_MOST_MOTION_PLOTS]
    kept = tuple(plot for plot in plots if any(plot is one for one in chosen))
    return PlotGroup(title=f"{title} ({len(kept)} of {len(plots)} plots)", plots=kept)


def _stands_still(plot: LinePlot) -> bool:
    """Whether nothing in it changes."""
    return not any(np.any(np.diff(series.y) != 0) for series in plot.series)


def _motion(columns: Mapping[str, ColumnSurvey], row_s: FloatArray) -> list[LinePlot]:
    measured = {k.removeprefix(_OBSERVATION): c for k, c in columns.items() if k.startswith(_OBSERVATION)}
    commanded = {
        k.removeprefix(_ACTION.rstrip(".")).lstrip("."): c for k, c in columns.items() if _is_action(k)
    }
    if "" in commanded and "state" in measured and commanded[""].names == measured["state"].names:
        commanded["state"] = commanded.pop("")
    plots: list[LinePlot] = []
    for name in (*[n for n in commanded if n in measured], *[n for n in measured if n not in commanded]):
        plots += _column_plots(name, row_s, commanded.get(name), measured[name])
    for name, column in commanded.items():
        if name not in measured:
            plots += _lines_together(f"{_COMMANDED} {name}".strip(), row_s, column)
    return plots


def _parts(columns: Mapping[str, ColumnSurvey]) -> dict[str, ColumnSurvey]:
    """Observations and actions that can be drawn, without those made of others."""
    wanted = {
        k: c
        for k, c in columns.items()
        if (k.startswith(_OBSERVATION) or _is_action(k)) and c.values.ndim == 2 and c.values.size
    }
    whole = (_OBSERVATION + "state", "action")
    parts = {k: c for k, c in wanted.items() if k not in whole}
    return parts if any(_is_action(k) for k in parts) else wanted


def _is_action(key: str) -> bool:
    return key == "action" or key.startswith(_ACTION)


def _column_plots(
    name: str, row_s: FloatArray, commanded: ColumnSurvey | None, measured: ColumnSurvey
) -> list[LinePlot]:
    """One plot an element where there are two to compare; positions of poses only."""
    if commanded is None or commanded.values.shape != measured.values.shape:
        plots = _lines_together(name, row_s, measured)
        return plots + (_lines_together(f"{_COMMANDED} {name}", row_s, commanded) if commanded else [])
    width = measured.values.shape[1]
    elements = range(3) if {"x", "y", "z"} <= set(measured.names[:3]) else range(width)
    both = ((_COMMANDED, commanded), (_MEASURED, measured))
    return [
        _over_rows(
            f"{name} {element_name(measured, k)}" if width > 1 else name,
            _unit(name, element_name(measured, k)),
            row_s,
            [(said, column.values[:, k]) for said, column in both],
        )
        for k in elements
    ]


def _lines_together(name: str, row_s: FloatArray, column: ColumnSurvey) -> list[LinePlot]:
    """The elements of a column in plots of a few lines each."""
    count = column.values.shape[1]
    plots = []
    for first in range(0, count, COLOURS):
        elements = range(first, min(first + COLOURS, count))
        title = name if count <= COLOURS else f"{name} {first} to {elements[-1]}"
        lines = [(element_name(column, k), column.values[:, k]) for k in elements]
        plots.append(_over_rows(title, _unit(name, element_name(column, first)), row_s, lines))
    return plots


def _over_rows(title: str, unit: str, row_s: FloatArray, lines: Sequence[tuple[str, FloatArray]]) -> LinePlot:
    """Lines over the rows' times, with the gaps between rows marked; over their numbers without times."""
    count = len(lines[0][1])
    timed = len(row_s) == count
    x = row_s if timed else np.arange(count, dtype=np.float64)
    return LinePlot(
        title=title,
        unit=unit,
        series=tuple(Series(name=name, x=x, y=y) for name, y in lines),
        bands=_steps_too_long(row_s) if timed else (),
        bands_name="no rows",
        x_unit="s" if timed else "rows",
    )


def element_name(column: ColumnSurvey, number: int) -> str:
    """Name of one element; its number where it has none."""
    return column.names[number] if number < len(column.names) else str(number)


def _unit(name: str, element: str) -> str:
    """Unit where the name settles it, as in our own columns."""
    if name == "arm_joint":
        return "rad"
    return "m" if name == "gripper" or (name == "arm_eef" and element in ("x", "y", "z")) else ""


def _timing(survey: EpisodeSurvey) -> tuple[LinePlot, ...]:
    gaps = _steps_too_long(survey.row_s)
    cameras = list(survey.cameras.values())
    shown = [(short_name(c.key), survey.row_s, c.gap_ms) for c in cameras]
    frames = [(short_name(c.key), c.pts_s[1:], np.diff(c.pts_s) * 1e3) for c in cameras]
    late = tuple(band for c in cameras for band in _steps_too_long(c.pts_s))
    rows = [("", survey.row_s[1:], survey.step_ms)]
    plots = (
        step_plot("row to newest frame", shown, gaps, "no rows"),
        step_plot("from frame to frame", frames, late, "no frame"),
        step_plot("from row to row", rows, gaps, "no rows"),
    )
    return tuple(plot for plot in plots if plot is not None)


def step_plot(
    title: str,
    values: Iterable[tuple[str, FloatArray, FloatArray]],
    bands: tuple[tuple[float, float], ...] = (),
    bands_name: str = "gap",
) -> LinePlot | None:
    """Times in ms as points from 0 up; None where there is hardly a value.

    Args:
        title: What they are.
        values: (name, seconds, ms) of each series; one whose two arrays differ in length is left out.
        bands: (from, to) in seconds to be marked.
        bands_name: What the bands are.
    """
    series = tuple(
        Series(name=n, x=x, y=y) for n, x, y in values if len(y) >= _LEAST_POINTS and len(x) == len(y)
    )
    if not series:
        return None
    return LinePlot(
        title=title,
        unit="ms",
        series=series,
        style="points",
        bands=bands,
        bands_name=bands_name,
        floor=0.0,
        ceiling=1.0,
    )


def _brightness(cameras: Iterable[CameraSurvey]) -> tuple[LinePlot, ...]:
    mean, change = [], []
    for camera in cameras:
        if camera.pictures is None:
            continue
        name = short_name(camera.key)
        count = min(len(camera.pts_s), len(camera.pictures.mean))
        times = camera.pts_s[:count]
        mean.append(Series(name=name, x=times, y=camera.pictures.mean[:count]))
        change.append(Series(name=name, x=times, y=camera.pictures.change[:count]))
    plots = []
    if mean:
        plots.append(LinePlot(title="brightness", unit="of 255", series=tuple(mean)))
        plots.append(
            LinePlot(title="change from frame to frame", unit="of 255", series=tuple(change), floor=0.0)
        )
    return tuple(plots)


def age_histograms(values_ms: Mapping[str, FloatArray]) -> tuple[Histogram, ...]:
    """How the ages (or other times) of one episode are spread, by name; empty ones are left out."""
    tallies = {name: Tally() for name in values_ms}
    for name, values in values_ms.items():
        tallies[name].add(values)
    return tuple(tally.histogram(name) for name, tally in tallies.items() if tally.total)
