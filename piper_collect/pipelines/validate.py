"""Judges a dataset: the rules of the format, the demands of its consumers, and what its numbers say."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np

from piper_collect.core.consumers import LEROBOT_PYAV, LEROBOT_TORCHCODEC, TimingTally
from piper_collect.core.findings import Finding, Findings, Report
from piper_collect.core.survey import CameraSurvey, ConsumerOutlook, DatasetSurvey, EpisodeSurvey
from piper_collect.pipelines.validation.ages import check_frame_stamps, survey_ages
from piper_collect.pipelines.validation.columns import (
    check_columns,
    check_command,
    check_kinematics,
    survey_columns,
)
from piper_collect.pipelines.validation.consumers import needed_tolerance_s, openers, predict
from piper_collect.pipelines.validation.demands import consumer_notes, metadata_demands
from piper_collect.pipelines.validation.empty import tell_empty
from piper_collect.pipelines.validation.extras import check_action_stats, check_extras
from piper_collect.pipelines.validation.format import check_format, is_ours
from piper_collect.pipelines.validation.json_values import as_int, as_list, as_object, as_text
from piper_collect.pipelines.validation.metadata import Metadata, read_metadata
from piper_collect.pipelines.validation.modality import check_modality
from piper_collect.pipelines.validation.provenance import check_origin, check_sessions, check_sources
from piper_collect.pipelines.validation.row_demands import RowDemands
from piper_collect.pipelines.validation.rows import EpisodeRows, check_images, check_numbers, read_rows
from piper_collect.pipelines.validation.stats import DatasetStats, check_episode_stats, check_stats_files
from piper_collect.pipelines.validation.summary import Summary
from piper_collect.pipelines.validation.times import check_times
from piper_collect.pipelines.validation.totals import Missing, check_totals
from piper_collect.pipelines.validation.videos import check_least_count, survey_video

EpisodeTaker: TypeAlias = Callable[[EpisodeSurvey, tuple[Finding, ...]], None]
Progress: TypeAlias = Callable[[int, int], None]
"""``progress(episodes done, episodes)``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """The verdict on a dataset.

    Attributes:
        report: Findings and facts.
        dataset: What was measured of it as a whole.
    """

    report: Report
    dataset: DatasetSurvey


def validate_dataset(
    root: Path,
    *,
    decode: bool = True,
    on_episode: EpisodeTaker | None = None,
    on_progress: Progress | None = None,
) -> Validation:
    """Look at a whole dataset, one episode at a time.

    Args:
        root: The dataset, ours or another tool's.
        decode: Decode every frame; otherwise the videos' headers and packets are read only.
        on_episode: Given each episode as it was measured, with the findings on it.
        on_progress: Told how far it is.

    Raises:
        DatasetError: It cannot be opened at all.
    """
    findings = Findings()
    meta = read_metadata(root, findings)
    run = _Run(meta, findings, decode)
    for done, index in enumerate(meta.episodes.offsets):
        if on_progress is not None:
            on_progress(done, len(meta.episodes.offsets))
        start = len(findings)
        survey = run.episode(index)
        if survey is not None and on_episode is not None:
            on_episode(survey, findings.since(start))
    return run.finish()


class _Run:
    """One pass over a dataset."""

    def __init__(self, meta: Metadata, findings: Findings, decode: bool) -> None:
        self._meta, self._findings, self._decode = meta, findings, decode
        self._is_empty = not meta.episodes.offsets and not as_int(meta.info.get("total_episodes"))
        if self._is_empty:
            tell_empty(findings)
        self._missing: Missing = check_totals(meta, findings)
        check_format(meta, findings)
        check_modality(meta, findings)
        check_sources(meta, findings)
        check_sessions(meta, findings)
        check_stats_files(meta, findings)
        check_action_stats(meta, findings)
        check_extras(meta, findings)
        self._stats = DatasetStats(meta, findings)
        self._tally = TimingTally(fps=meta.fps)
        self._demands = RowDemands()
        self._summary = Summary()
        self._rows_before = 0

    def episode(self, index: int) -> EpisodeSurvey | None:
        """Look at one episode; None where its rows cannot be read."""
        meta, findings, line = self._meta, self._findings, self._meta.episodes.get(index)
        self._summary.episodes += 1
        rows = None
        if (index, "") not in self._missing:
            rows = read_rows(meta, index, line, self._rows_before, findings)
        self._rows_before += rows.length if rows is not None else as_int(line.get("length")) or 0
        if rows is None:
            self._stats.skip()
            if (index, "") not in self._missing:
                self._demands.add(meta, None)
            return None
        self._demands.add(meta, rows)
        check_numbers(meta, rows, findings)
        check_times(rows, meta.fps, findings)
        check_images(meta, rows, findings)
        cameras = self._cameras(rows)
        survey = self._measure(rows, cameras)
        self._stats.add(rows)
        check_episode_stats(meta, rows, cameras, findings)
        self._summary.add(survey)
        return survey

    def _cameras(self, rows: EpisodeRows) -> dict[str, CameraSurvey]:
        cameras = {}
        if rows.row_s is not None:
            self._tally.add_rows(rows.index, rows.row_s)
        for key in self._meta.video_keys:
            if (rows.index, key) in self._missing:
                continue
            seen = survey_video(self._meta, rows, key, decode=self._decode, findings=self._findings)
            if seen is None:
                self._demands.unreadable += 1
                continue
            cameras[key], probe = seen
            self._stats.add_video(cameras[key])
            if rows.row_s is not None:
                who = openers(self._meta, key)
                self._tally.add_video(rows.index, key, rows.row_s, probe.timing, who)
        check_least_count(rows, bool(cameras) and is_ours(self._meta), self._findings)
        return cameras

    def _measure(self, rows: EpisodeRows, cameras: dict[str, CameraSurvey]) -> EpisodeSurvey:
        meta, findings = self._meta, self._findings
        source = meta.sources.get(rows.index) if meta.sources is not None else {}
        columns = survey_columns(meta, rows)
        check_columns(meta, rows, columns, findings)
        ages = survey_ages(meta, rows, source, findings)
        check_frame_stamps(rows, ages, cameras, findings)
        if source:
            check_origin(rows, source, cameras, findings)
        row_s = rows.row_s if rows.row_s is not None else np.empty(0)
        return EpisodeSurvey(
            index=rows.index,
            task=next((as_text(t) for t in as_list(rows.line.get("tasks"))), ""),
            row_s=row_s,
            step_ms=np.diff(row_s) * 1e3,
            columns=columns,
            cameras=cameras,
            age_ms=ages.age_ms,
            skew_ms=ages.skew_ms,
            lag=check_command(rows, columns, findings),
            kinematics=check_kinematics(rows, columns, findings),
            counts=as_object(source.get("counts")),
            origin={key: source[key] for key in ("session", "bag", "t0_ns") if key in source},
        )

    def finish(self) -> Validation:
        """Say what only the whole can tell."""
        meta, tally = self._meta, self._tally
        self._stats.finish()
        demands = metadata_demands(meta, self._missing, self._demands, _strays(meta))
        outlooks: tuple[ConsumerOutlook, ...] = ()
        if not self._is_empty:
            outlooks = predict(meta, tally, demands, consumer_notes(meta), self._findings)
        dataset = self._dataset(outlooks)
        tolerances = {
            o.consumer: needed_tolerance_s(o.consumer, tally, demands)
            for o in outlooks
            if o.consumer in (LEROBOT_PYAV, LEROBOT_TORCHCODEC)
        }
        facts = {
            "episodes": dataset.episodes,
            "rows": dataset.rows,
            "cameras": list(dataset.cameras),
            "tasks": len(dataset.tasks),
            "version": dataset.version,
            "fps": dataset.fps,
            "decoded": self._decode,
            **self._summary.to_json(),
            "tolerance_s": {name: _rounded(value) for name, value in tolerances.items()},
            "consumers": {o.consumer: "loads" if o.loads else "refuses" for o in outlooks},
        }
        report = Report(
            subject=str(meta.root),
            findings=self._findings.listed,
            facts=facts,
            unlisted=self._findings.unlisted,
        )
        return Validation(report=report, dataset=dataset)

    def _dataset(self, outlooks: tuple[ConsumerOutlook, ...]) -> DatasetSurvey:
        meta = self._meta
        sessions = (as_text(record.get("session")) for record in meta.sessions or ())
        return DatasetSurvey(
            root=str(meta.root),
            version=meta.version,
            robot_type=as_text(meta.info.get("robot_type")),
            fps=meta.fps,
            episodes=self._summary.episodes,
            rows=self._summary.rows,
            duration_s=self._summary.duration_s,
            cameras=meta.video_keys,
            tasks=tuple(meta.tasks.values()),
            sessions=tuple(name for name in sessions if name),
            outlooks=outlooks,
        )


def _strays(meta: Metadata) -> int:
    """Files under ``data/`` that are not parquet."""
    return sum(p.is_file() and p.suffix != ".parquet" for p in (meta.root / "data").rglob("*"))


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 9)
