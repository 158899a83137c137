"""Looks at a whole LeRobot v3.0 dataset, one episode at a time."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from piper_collect.core.findings import Findings
from piper_collect.core.pairing import gaps_ms, newest_frames
from piper_collect.core.survey import (
    CameraSurvey,
    ConsumerOutlook,
    EpisodeSurvey,
)
from piper_collect.core.types import FloatArray
from piper_collect.dataset.v3.layout import video_prefix
from piper_collect.dataset.v3.reader import LeRobotV3Reader, open_v3
from piper_collect.dataset.v3.tables import episode_tables, stats_of
from piper_collect.errors import DatasetError
from piper_collect.pipelines.validate import EpisodeTaker, Progress, Validation
from piper_collect.pipelines.validate_outlook import verdict
from piper_collect.pipelines.validation.episode_survey import episode_survey
from piper_collect.pipelines.validation.json_values import as_object
from piper_collect.pipelines.validation.provenance import check_losses
from piper_collect.pipelines.validation.row_images import check_images
from piper_collect.pipelines.validation.v3 import (
    AllStats,
    VideoFiles,
    check_episode_stats,
    check_metadata,
    decoded,
    read_episode,
    row_times,
)

CONSUMER = "LeRobot 0.4.x, torchcodec"


def validate_v3(
    root: Path,
    *,
    decode: bool = True,
    on_episode: EpisodeTaker | None = None,
    on_progress: Progress | None = None,
) -> Validation:
    """Look at everything in a v3.0 dataset; arguments and errors as ``validate_dataset``."""
    findings, reader = Findings(), open_v3(root)
    check_metadata(reader, findings)
    run = _Run(reader, findings, decode)
    rows = (row for _, table in episode_tables(root, statistics=True) for row in table.to_pylist())
    for done, row in enumerate(rows):
        index, told = int(row["episode_index"]), stats_of(row)
        if on_progress is not None:
            on_progress(done, len(reader.episodes))
        start = len(findings)
        survey = run.episode(index, told)
        if survey is not None and on_episode is not None:
            on_episode(survey, findings.since(start))
    return run.finish()


class _Run:
    def __init__(self, reader: LeRobotV3Reader, findings: Findings, decode: bool) -> None:
        self._reader, self._findings, self._decode = reader, findings, decode
        self._stats, self._files = AllStats(reader), {key: VideoFiles() for key in reader.video_keys}
        self._rows, self._duration_s, self._worst_s = 0, 0.0, 0.0
        self._refusals: list[str] = []

    def episode(self, index: int, told: Mapping[str, Mapping[str, Any]]) -> EpisodeSurvey | None:
        """Look at one episode; None where its rows cannot be read."""
        reader, where = self._reader, f"episode {index}"
        table = read_episode(reader, index, self._findings)
        if table is None:
            self._refusals.append(f"{where}: its rows cannot be read")
            return None
        self._stats.add(table)
        row_s = row_times(table)
        self._rows += len(table)
        self._duration_s += float(row_s[-1]) if len(row_s) else 0.0
        if np.any(np.diff(row_s) <= 0):
            self._findings.add("error", "timestamps", where, "timestamp does not increase")
        cameras, pictures = {}, {}
        for key in reader.video_keys:
            try:
                cameras[key] = self._camera(index, key, row_s)
                if self._decode:
                    pictures[key] = decoded(reader, index, key)
            except DatasetError as err:
                self._findings.add("error", "video", f"{where}, {key}", str(err))
                self._refusals.append(f"{where}, {key}: {err.what}")
        for key in (k for k in reader.picture_keys if k not in reader.video_keys):
            images = check_images(reader, index, key, self._findings) if self._decode else None
            if images is not None:
                pictures[key] = images
        check_episode_stats(told, table, pictures, reader.info["features"], where, self._findings)
        check_losses(len(table), where, as_object(reader.sources.get(index)), self._findings)
        return episode_survey(reader, index, table, row_s, cameras)

    def _camera(self, index: int, key: str, row_s: FloatArray) -> CameraSurvey:
        reader = self._reader
        pts_s = reader.frame_times(index, key)
        begin_s = float(reader.episodes[index][f"{video_prefix(key)}/from_timestamp"])
        refusal, worst_s = self._files[key].refusal(reader.video_path(index, key), begin_s, row_s)
        self._worst_s = max(self._worst_s, worst_s)
        if refusal:
            self._refusals.append(f"episode {index}, {key}: {refusal}")
        if len(pts_s) != len(row_s):
            text = f"{len(pts_s)} frames for {len(row_s)} rows"
            self._findings.add("warning", "frames", f"episode {index}, {key}", text)
        newest = newest_frames(row_s, pts_s)
        return CameraSurvey(key=key, pts_s=pts_s, newest=newest, gap_ms=gaps_ms(row_s, pts_s, newest))

    def finish(self) -> Validation:
        """Say what only the whole can tell."""
        reader, findings = self._reader, self._findings
        if reader.episodes:
            self._stats.finish(findings)
        return verdict(
            reader,
            findings,
            self._outlook,
            rows=self._rows,
            duration_s=self._duration_s,
            decoded=self._decode,
        )

    def _outlook(self) -> ConsumerOutlook:
        findings = self._findings
        stops = [f.text for f in findings.listed if f.code in ("cells", "columns", "dtype", "row-range")]
        reasons = list(dict.fromkeys([*self._refusals, *stops]))
        outlook = ConsumerOutlook(
            consumer=CONSUMER,
            loads=not reasons,
            reason=reasons[0] + (f" (and {len(reasons) - 1} more)" if reasons[1:] else "") if reasons else "",
            worst_ms=self._worst_s * 1e3,
        )
        text = "loads it" if outlook.loads else f"refuses it: {outlook.reason}"
        findings.add("info" if outlook.loads else "error", "consumer", CONSUMER, text)
        return outlook
