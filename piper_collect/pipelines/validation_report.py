"""From what was measured of a dataset to the page that shows it, one episode at a time."""

from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from piper_collect import __version__
from piper_collect.core.findings import Finding, Report
from piper_collect.core.survey import DatasetSurvey, EpisodeSurvey
from piper_collect.report.episode_view import episode_view, short_name, spoken_duration
from piper_collect.report.page import PageWriter
from piper_collect.report.plots import Histogram
from piper_collect.report.tally import Tally
from piper_collect.report.views import PageView, PlotGroup

_MOST_TASKS = 5


class ValidationPage:
    """The page of one dataset, written while its episodes are looked at.

    Used as a context manager: ``add`` each episode, then ``finish``; otherwise nothing is left behind.

    Args:
        path: The HTML file.

    Raises:
        ConfigError: Nothing can be written there.
    """

    def __init__(self, path: Path) -> None:
        self._writer = PageWriter(path)
        self._ages: dict[str, Tally] = {}
        self._gaps: dict[str, Tally] = {}
        self._skew = Tally()

    def add(self, survey: EpisodeSurvey, findings: Iterable[Finding] = ()) -> None:
        """Append an episode with the findings that concern it."""
        for name, age_ms in survey.age_ms.items():
            self._ages.setdefault(name, Tally()).add(age_ms)
        for key, camera in survey.cameras.items():
            self._gaps.setdefault(short_name(key), Tally()).add(camera.gap_ms)
        self._skew.add(survey.skew_ms)
        self._writer.add_episode(episode_view(survey, findings))

    def finish(self, report: Report, dataset: DatasetSurvey) -> None:
        """Write the whole page."""
        self._writer.finish(
            PageView(
                title="Dataset",
                report=report,
                about=_about(dataset),
                tiles=_tiles(dataset),
                outlooks=dataset.outlooks,
                groups=(PlotGroup(title="Timing of all episodes", plots=self._histograms()),),
                made_by=f"piper_collect {__version__}",
            )
        )

    def _histograms(self) -> tuple[Histogram, ...]:
        tallies = {f"row to newest frame, {name}": tally for name, tally in self._gaps.items()}
        tallies |= {f"age of {name}": tally for name, tally in self._ages.items()}
        tallies["skew of the samples of a row"] = self._skew
        return tuple(tally.histogram(title) for title, tally in tallies.items() if tally.total)

    def __enter__(self) -> "ValidationPage":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.__exit__(kind, err, trace)


def _about(dataset: DatasetSurvey) -> tuple[tuple[str, str], ...]:
    tasks = [f"“{task}”" for task in dataset.tasks[:_MOST_TASKS]]
    if len(dataset.tasks) > _MOST_TASKS:
        tasks.append(f"and {len(dataset.tasks) - _MOST_TASKS} more")
    cameras = ", ".join(short_name(key) for key in dataset.cameras) or "no cameras"
    kind = f"LeRobot {dataset.version}, robot {dataset.robot_type or 'unknown'}, {cameras}"
    return (("what", kind), ("tasks" if len(dataset.tasks) > 1 else "task", ", ".join(tasks) or "none"))


def _tiles(dataset: DatasetSurvey) -> tuple[tuple[str, str], ...]:
    return (
        ("episodes", f"{dataset.episodes:,}"),
        ("rows", f"{dataset.rows:,}"),
        ("duration", spoken_duration(dataset.duration_s)),
        ("rows a second", f"{dataset.fps:g}"),
        ("cameras", str(len(dataset.cameras))),
    )
