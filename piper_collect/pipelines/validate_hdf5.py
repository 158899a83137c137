"""Looks at a whole dataset of HDF5 cases, one episode at a time."""

from pathlib import Path

import pyarrow as pa

from piper_collect.core.findings import Findings
from piper_collect.core.pairing import gaps_ms, newest_frames
from piper_collect.core.survey import CameraSurvey, ConsumerOutlook, EpisodeSurvey
from piper_collect.core.types import FloatArray
from piper_collect.dataset.columns import SOURCE_STATE
from piper_collect.dataset.hdf5.reader import HDF5CasesReader, open_cases
from piper_collect.dataset.layout import META, SOURCES
from piper_collect.dataset.parquet import column_values
from piper_collect.errors import DatasetError
from piper_collect.pipelines.validate import EpisodeTaker, Progress, Validation
from piper_collect.pipelines.validate_outlook import verdict
from piper_collect.pipelines.validation.episode_survey import episode_survey
from piper_collect.pipelines.validation.hdf5 import check_fields, check_lists, check_rows, check_video
from piper_collect.pipelines.validation.json_values import as_object
from piper_collect.pipelines.validation.provenance import check_losses, check_marked

CONSUMER = "h5py, a frame a row"


def validate_hdf5_cases(
    root: Path,
    *,
    decode: bool = True,
    on_episode: EpisodeTaker | None = None,
    on_progress: Progress | None = None,
) -> Validation:
    """Look at everything in a dataset of HDF5 cases; arguments and errors as ``validate_dataset``."""
    findings, reader = Findings(), open_cases(root)
    check_lists(reader, findings)
    if reader.episodes and not reader.sources:
        text = "missing or empty: what was lost, left out or too old cannot be told from the files alone"
        findings.add("warning", "no-sources", f"{META}/{SOURCES}", text)
    run = _Run(reader, findings, decode)
    for index in reader.episodes:
        if on_progress is not None:
            on_progress(index, len(reader.episodes))
        start = len(findings)
        survey = run.episode(index)
        if survey is not None and on_episode is not None:
            on_episode(survey, findings.since(start))
    return run.finish()


class _Run:
    def __init__(self, reader: HDF5CasesReader, findings: Findings, decode: bool) -> None:
        self._reader, self._findings, self._decode = reader, findings, decode
        self._rows, self._duration_s = 0, 0.0

    def episode(self, index: int) -> EpisodeSurvey | None:
        """Look at one episode; None where its rows cannot be read."""
        reader, where = self._reader, f"episode {index}"
        try:
            table = reader.rows(index)
        except DatasetError as err:
            self._findings.add("error", "rows-unreadable", where, str(err))
            return None
        row_s = check_rows(reader, index, table, self._findings)
        self._check_fields(index, table)
        self._check_source(index, table)
        self._rows += len(table)
        self._duration_s += float(row_s[-1])
        cameras = {}
        for key in reader.video_keys:
            try:
                cameras[key] = self._camera(index, key, row_s)
            except DatasetError as err:
                self._findings.add("error", "video", f"{where}, {key}", str(err))
        return episode_survey(reader, index, table, row_s, cameras)

    def _check_source(self, index: int, table: pa.Table) -> None:
        """What the export says was lost or too old, and the rows that it is said of."""
        where, source = f"episode {index}", as_object(self._reader.sources.get(index))
        check_losses(len(table), where, source, self._findings)
        states = {k: column_values(table, k) for k in table.column_names if k.startswith(SOURCE_STATE)}
        check_marked(states, where, as_object(source.get("marked_rows")), self._findings)

    def _check_fields(self, index: int, table: pa.Table) -> None:
        try:
            check_fields(self._reader, index, table, self._findings)
        except DatasetError as err:
            self._findings.add("error", "fields", f"episode {index}", str(err))

    def _camera(self, index: int, key: str, row_s: FloatArray) -> CameraSurvey:
        pts_s = check_video(self._reader, index, key, row_s, self._findings, decode=self._decode)
        newest = newest_frames(row_s, pts_s)
        return CameraSurvey(key=key, pts_s=pts_s, newest=newest, gap_ms=gaps_ms(row_s, pts_s, newest))

    def finish(self) -> Validation:
        """Say what only the whole can tell."""
        return verdict(
            self._reader,
            self._findings,
            self._outlook,
            rows=self._rows,
            duration_s=self._duration_s,
            decoded=self._decode,
        )

    def _outlook(self) -> ConsumerOutlook:
        findings = self._findings
        errors = [f for f in findings.listed if f.level == "error"]
        outlook = ConsumerOutlook(
            consumer=CONSUMER,
            loads=not errors,
            reason=f"{errors[0].where}: {errors[0].text}" if errors else "",
            worst_ms=0.0,
        )
        text = "reads it" if outlook.loads else f"is misled: {outlook.reason}"
        findings.add("info" if outlook.loads else "error", "consumer", CONSUMER, text)
        return outlook
