"""What a replay came to: its distance from the recording and the commands, as a table, a page, a plot."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from piper_collect import __version__
from piper_collect.core.findings import Finding, Findings, Report
from piper_collect.core.lag import estimate_lag
from piper_collect.core.path_errors import PathErrors, path_errors
from piper_collect.core.replay_log import ReplayLog, commanded_track, measured_track
from piper_collect.core.tracks import MotionTrack, track_at
from piper_collect.core.types import FloatArray
from piper_collect.pipelines.replay import Replay
from piper_collect.report.page import PageWriter
from piper_collect.report.plots import LinePlot, Series
from piper_collect.report.svg_sheet import write_svg_sheet
from piper_collect.report.views import PageView, PlotGroup

AGAINST_RECORDING = "measured, against what was recorded"
AGAINST_COMMANDS = "measured, against the commands"
SENT = "commands sent, against the recorded ones"
IN_THE_RECORDING = "in the recording: measured, against the commands"

COLUMNS = (
    "compared",
    "times",
    "position RMS mm",
    "max mm",
    "rotation RMS deg",
    "max deg",
    "gripper RMS mm",
    "max mm",
)

_LATE_S, _SILENT_S = 0.01, 0.02
_ASIDE_S = 0.1  # shown of what was before and after the episode
_COMMANDED, _RECORDED, _REPLAYED = "commanded", "recorded", "replayed"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReplayReport:
    """What a replay came to.

    Attributes:
        replay: What was replayed.
        log: What was done.
        simulated: Whether nothing was done, and the motion layer and the arm were simulated.
        measured: The measured motion by the episode's time; None where the episode never ran.
        errors: Comparison → distances.
    """

    replay: Replay
    log: ReplayLog
    simulated: bool
    measured: MotionTrack | None
    errors: Mapping[str, PathErrors]

    @property
    def title(self) -> str:
        """What it is a report of."""
        what = "Dry run" if self.simulated else "Replay"
        return f"{what} of episode {self.replay.episode.index}, {self.replay.root.resolve().name}"

    @property
    def verdict(self) -> str:
        """One line: how well the recording was reproduced, or how far the replay came."""
        duration_s = self.replay.episode.targets.duration_s
        done = f"all of {duration_s:.2f} s replayed"
        if self.log.phase != "done":
            clock_s = float(self.log.clock_s[self.log.running].max(initial=0.0))
            done = f"stopped after {clock_s:.2f} of {duration_s:.2f} s: {self.log.reason}"
        against = self.errors.get(AGAINST_RECORDING)
        if against is None:
            return done
        return (
            f"{done}; reproduced within {against.position_rms_mm:.2f} mm RMS, {against.position_max_mm:.2f}"
            f" mm at most, {against.rotation_rms_deg:.2f} deg RMS, {against.rotation_max_deg:.2f} deg at most"
        )

    def table(self) -> list[tuple[object, ...]]:
        """Rows of ``COLUMNS``."""
        return [(name, *_numbers(errors).values()) for name, errors in self.errors.items()]


def replay_report(replay: Replay, log: ReplayLog, *, simulated: bool) -> ReplayReport:
    """Compare what was done with what was recorded and commanded, each at its own times."""
    measured = measured_track(log, replay.plan.motion.kinematics, replay.plan.speed)
    commanded = commanded_track(log)
    errors: dict[str, PathErrors | None] = {}
    if measured is not None and commanded is not None:
        errors = _errors(replay, measured, commanded)
    return ReplayReport(
        replay=replay,
        log=log,
        simulated=simulated,
        measured=measured,
        errors={name: found for name, found in errors.items() if found is not None},
    )


def _errors(replay: Replay, measured: MotionTrack, commanded: MotionTrack) -> dict[str, PathErrors | None]:
    targets, observed = replay.episode.targets, replay.episode.observed
    end_s = float(measured.time_s[-1])
    target_s = targets.time_s[targets.time_s <= end_s]
    found: dict[str, PathErrors | None] = {}
    if observed is not None:
        inside = (observed.time_s >= measured.time_s[0]) & (observed.time_s <= end_s)
        at_s = observed.time_s[inside]
        width = None if observed.width_m is None else observed.width_m[inside]
        found[AGAINST_RECORDING] = _distance(measured, at_s, observed.pose7[inside], width)
    wanted, width = track_at(targets, target_s)
    found[AGAINST_COMMANDS] = _distance(measured, target_s, wanted, width)
    lag = estimate_lag(target_s, wanted[:, :3], track_at(measured, target_s)[0][:, :3])
    if lag is not None and abs(lag.lag_ms) >= 1.0:
        late_s = target_s + lag.lag_ms / 1e3
        inside = (late_s >= measured.time_s[0]) & (late_s <= end_s)
        errors = _distance(measured, late_s[inside], wanted[inside], None if width is None else width[inside])
        found[f"{AGAINST_COMMANDS}, with {lag.lag_ms:.0f} ms of lag taken off"] = errors
    found[SENT] = _distance(commanded, target_s, wanted, width)
    if observed is not None:
        was, was_width = track_at(targets, observed.time_s)
        found[IN_THE_RECORDING] = path_errors(
            observed.time_s, observed.pose7, was, observed.width_m, was_width
        )
    return found


def _distance(
    track: MotionTrack, at_s: FloatArray, pose7: FloatArray, width_m: FloatArray | None
) -> PathErrors | None:
    got, got_width = track_at(track, at_s)
    return path_errors(at_s, got, pose7, got_width, width_m)


def _numbers(errors: PathErrors) -> dict[str, object]:
    return {
        "times": errors.count,
        "position RMS mm": errors.position_rms_mm,
        "position max mm": errors.position_max_mm,
        "rotation RMS deg": errors.rotation_rms_deg,
        "rotation max deg": errors.rotation_max_deg,
        "gripper RMS mm": errors.width_rms_mm,
        "gripper max mm": errors.width_max_mm,
    }


def write_plot(path: Path, report: ReplayReport) -> None:
    """Write the plots as one SVG file.

    Raises:
        ConfigError: It cannot be written.
    """
    lines = [report.verdict]
    if report.simulated:
        lines.append("simulated: the motion layer is the real one, the arm a model of it")
    write_svg_sheet(path, report.title, lines, _plots(report))


def write_page(path: Path, report: ReplayReport) -> None:
    """Write the report as one HTML file.

    Raises:
        ConfigError: It cannot be written.
    """
    replay = report.replay
    facts: dict[str, object] = {name: _numbers(errors) for name, errors in report.errors.items()}
    with PageWriter(path) as page:
        page.finish(
            PageView(
                title="Dry run of a replay" if report.simulated else "Replay",
                report=Report(
                    subject=f"of episode {replay.episode.index} of {replay.root}",
                    findings=_findings(report),
                    facts={"distances": facts} if facts else {},
                ),
                about=(
                    ("result", report.verdict),
                    ("task", replay.episode.task),
                    *((what, column) for what, column in replay.episode.sources.items()),
                ),
                tiles=_tiles(report),
                groups=(PlotGroup(title="Motion and distance", plots=_plots(report)),),
                made_by=f"piper_collect {__version__}",
            )
        )


def _tiles(report: ReplayReport) -> tuple[tuple[str, str], ...]:
    against = report.errors.get(AGAINST_RECORDING) or report.errors.get(AGAINST_COMMANDS)
    tiles = [("length of the episode", f"{report.replay.episode.targets.duration_s:.2f} s")]
    tiles.append(("speed", f"{report.replay.plan.speed:g}"))
    if against is None:
        return tuple(tiles)
    what = "recording" if AGAINST_RECORDING in report.errors else "commands"
    return (
        (f"RMS from the {what}", f"{against.position_rms_mm:.2f} mm"),
        (f"at most from the {what}", f"{against.position_max_mm:.2f} mm"),
        (f"RMS rotation from the {what}", f"{against.rotation_rms_deg:.2f}°"),
        (f"at most rotation from the {what}", f"{against.rotation_max_deg:.2f}°"),
        *tiles,
    )


def _findings(report: ReplayReport) -> tuple[Finding, ...]:
    found = Findings()
    where = f"episode {report.replay.episode.index}"
    if report.log.phase != "done":
        found.add("error", "stopped", where, report.verdict)
    for pair in report.replay.binding.changed:
        found.add("warning", "binding", where, f"{pair.key} was {pair.old}, is {pair.new}")
    for note in report.replay.notes:
        found.add("warning", "note", where, note)
    for limit, ticks in report.log.limits.items():
        found.add("info", "limit", where, f"{limit} kept {ticks} commands from their targets")
    for text in lateness(report.log):
        found.add("info", "late", where, text)
    return found.listed


def lateness(log: ReplayLog) -> list[str]:
    """What is said of a computer that did not keep up."""
    said = []
    if log.waited_s >= _LATE_S:
        said.append(
            f"the computer was late: the episode's time waited {log.waited_s:.2f} s in all,"
            " and the arm never hurried"
        )
    ticks = log.command_ns[log.running]
    if len(ticks):
        inside = log.measured_ns[(log.measured_ns >= ticks[0]) & (log.measured_ns <= ticks[-1])]
        silent_s = float(np.diff(inside).max(initial=0)) / 1e9
        if silent_s >= _SILENT_S:
            said.append(f"the arm said nothing for up to {silent_s:.2f} s")
    return said


def _plots(report: ReplayReport) -> tuple[LinePlot, ...]:
    return (*_motion_plots(report), *_error_plots(report))


def _motion_plots(report: ReplayReport) -> tuple[LinePlot, ...]:
    targets, observed, measured = (
        report.replay.episode.targets,
        report.replay.episode.observed,
        report.measured,
    )
    plots = []
    for axis, name in enumerate("xyz"):
        series = [Series(name=_COMMANDED, x=targets.time_s, y=targets.pose7[:, axis])]
        if observed is not None:
            series.append(_series(_RECORDED, observed.time_s, observed.pose7[:, axis]))
        if measured is not None:
            series.append(_replayed(measured, measured.pose7[:, axis], targets))
        plots.append(LinePlot(title=f"flange {name}", unit="m", series=tuple(series)))
    series = []
    if targets.width_m is not None:
        series.append(Series(name=_COMMANDED, x=targets.time_s, y=targets.width_m * 1e3))
    if observed is not None and observed.width_m is not None:
        series.append(_series(_RECORDED, observed.time_s, observed.width_m * 1e3))
    if measured is not None and measured.width_m is not None:
        series.append(_replayed(measured, measured.width_m * 1e3, targets))
    if series:
        plots.append(LinePlot(title="gripper", unit="mm", series=tuple(series), floor=0.0))
    return tuple(plots)


def _error_plots(report: ReplayReport) -> tuple[LinePlot, ...]:
    shown = {
        "from the commands": report.errors.get(AGAINST_COMMANDS),
        "from the recording": report.errors.get(AGAINST_RECORDING),
    }
    known = {name: errors for name, errors in shown.items() if errors is not None}
    if not known:
        return ()
    position = [_series(name, e.time_s, e.position_m * 1e3) for name, e in known.items()]
    rotation = [_series(name, e.time_s, np.degrees(e.rotation_rad)) for name, e in known.items()]
    return (
        LinePlot(title="distance", unit="mm", series=tuple(position), floor=0.0),
        LinePlot(title="rotation", unit="deg", series=tuple(rotation), floor=0.0),
    )


def _replayed(measured: MotionTrack, values: FloatArray, targets: MotionTrack) -> Series:
    inside = (measured.time_s >= -_ASIDE_S) & (measured.time_s <= targets.duration_s + _ASIDE_S)
    return Series(name=_REPLAYED, x=measured.time_s[inside], y=values[inside])


def _series(name: str, time_s: FloatArray, values: FloatArray) -> Series:
    """Repeated samples are shown once, so that x increases."""
    newer = np.ones(len(time_s), dtype=bool)
    newer[1:] = time_s[1:] > np.maximum.accumulate(time_s)[:-1]
    return Series(name=name, x=time_s[newer], y=values[newer])
