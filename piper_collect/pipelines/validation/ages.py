"""How old what each row shows is, and how far apart in time its parts are.

The stamps of the samples are in columns ``source_timestamp.<name>`` (seconds since T0), or beside the rows in
``extras/episode_000000.samples.parquet`` (ns: ``tick_ns``, then one column a source).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from piper_collect.core.findings import Findings
from piper_collect.core.survey import CameraSurvey
from piper_collect.core.types import FloatArray
from piper_collect.dataset.columns import SOURCE_STATE, SOURCE_TIMESTAMP
from piper_collect.dataset.layout import samples_path
from piper_collect.dataset.parquet import read_table
from piper_collect.errors import DatasetError
from piper_collect.pipelines.validation.json_values import as_int, as_number, as_object
from piper_collect.pipelines.validation.metadata import Metadata
from piper_collect.pipelines.validation.rows import EpisodeRows

TICKS = "tick_ns"

_OLD_MS = 500.0
_AGE_TOLERANCE_MS = 0.01
_FRAME_TOLERANCE_S = 0.002
_TICK_S = 0.001
_GRID_TOLERANCE_S = 1e-4
_STATES = (0, 1, 2)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ages:
    """What the rows of an episode show, by source or camera name.

    Attributes:
        sample_s: float64 [T] stamp of the sample in seconds since T0; NaN where there is none.
        age_ms: float64 [T] row time minus that.
        skew_ms: float64 [T] newest minus oldest sample of a row; empty where there are fewer than two.
    """

    sample_s: Mapping[str, FloatArray] = field(default_factory=dict)
    age_ms: Mapping[str, FloatArray] = field(default_factory=dict)
    skew_ms: FloatArray = field(default_factory=lambda: np.empty(0))


def survey_ages(meta: Metadata, rows: EpisodeRows, source: Mapping[str, Any], findings: Findings) -> Ages:
    """Stamps of what the rows show, wherever the dataset tells them; empty where it does not."""
    row_s = rows.row_s
    if row_s is None:
        return Ages()
    sample_s = _from_columns(rows)
    if sample_s:
        row_s = _exact(row_s, meta.fps)
    else:
        sample_s, row_s = _from_extras(meta, rows, row_s, source, findings)
    if not sample_s:
        return Ages()
    age_ms = {name: (row_s - stamps) * 1e3 for name, stamps in sample_s.items()}
    stacked = np.stack(list(sample_s.values()))
    whole = np.isfinite(stacked).all(axis=0)
    skew_ms = np.full(len(row_s), np.nan)
    skew_ms[whole] = np.ptp(stacked[:, whole], axis=0) * 1e3
    for name, age in age_ms.items():
        known = age[np.isfinite(age)]
        if known.size and known.max() > _OLD_MS:
            worst = int(np.nanargmax(age))
            text = f"a row shows a sample of {name} that is {age[worst]:.0f} ms old (row {worst})"
            findings.add("warning", "age", rows.where, text)
    _check_states(rows, findings)
    _check_told(rows, age_ms, source, findings)
    return Ages(sample_s=sample_s, age_ms=age_ms, skew_ms=skew_ms if len(sample_s) > 1 else np.empty(0))


def _exact(row_s: FloatArray, fps: float) -> FloatArray:
    """Rows on the grid k/fps as the grid has them, without the rounding of float32."""
    grid = np.arange(len(row_s)) / fps
    return grid if np.all(np.abs(row_s - grid) < _GRID_TOLERANCE_S) else row_s


def _from_columns(rows: EpisodeRows) -> dict[str, FloatArray]:
    found = {}
    for key, cells in rows.cells.items():
        if key.startswith(SOURCE_TIMESTAMP) and cells.shape[1] == 1 and cells.dtype.kind == "f":
            stamps = cells[:, 0].astype(np.float64)
            stamps[~np.isfinite(stamps)] = np.nan
            found[key.removeprefix(SOURCE_TIMESTAMP)] = stamps
    return found


def _from_extras(
    meta: Metadata, rows: EpisodeRows, row_s: FloatArray, source: Mapping[str, Any], findings: Findings
) -> tuple[dict[str, FloatArray], FloatArray]:
    """Stamps and ticks in seconds since T0, with the ticks in place of float32 row times."""
    path = meta.root / samples_path(rows.index)
    t0_ns = as_int(source.get("t0_ns"))
    if not path.is_file() or t0_ns is None:
        return {}, row_s
    where = samples_path(rows.index)
    try:
        table = read_table(path)
    except DatasetError as err:
        findings.add("error", "samples", where, str(err))
        return {}, row_s
    ints = [key for key in table.column_names if pa.types.is_int64(table.schema.field(key).type)]
    if TICKS not in ints or len(table) != rows.length or len(set(ints)) != len(table.column_names):
        text = f"holds {len(table)} rows of {', '.join(table.column_names[:8])} for {rows.length} rows"
        findings.add("error", "samples", where, f"{text}; {TICKS} and int64 stamps are expected")
        return {}, row_s
    seconds = {key: _seconds(table[key], t0_ns) for key in ints}
    ticks_s = seconds.pop(TICKS)
    rounding = np.spacing(row_s.astype(np.float32)).astype(np.float64) + 1e-9
    off = np.flatnonzero(~(np.abs(ticks_s - row_s) <= rounding))
    if off.size:
        text = (
            f"{TICKS} and t0_ns give {ticks_s[off[0]]:.6f} s for row {off[0]}, "
            f"the row's timestamp is {row_s[off[0]]:.6f} s ({off.size} rows)"
        )
        findings.add("error", "samples", where, text)
        return {}, row_s
    return seconds, ticks_s


def _seconds(column: pa.ChunkedArray, t0_ns: int) -> FloatArray:
    """Stamps less T0 in seconds, the difference taken in int64; NaN where there is none."""
    known = np.asarray(column.is_valid().combine_chunks().to_numpy(zero_copy_only=False), dtype=np.bool_)
    stamps = np.asarray(column.fill_null(t0_ns).combine_chunks().to_numpy(), dtype=np.int64)
    seconds = (stamps - t0_ns) / 1e9
    seconds[~known] = np.nan
    return seconds


def _check_states(rows: EpisodeRows, findings: Findings) -> None:
    for key, cells in rows.cells.items():
        if not key.startswith(SOURCE_STATE):
            continue
        strange = np.flatnonzero(~np.isin(cells, _STATES).all(axis=1))
        if strange.size:
            text = f"{strange.size} rows have another state than 0, 1 or 2, first row {strange[0]}"
            findings.add("error", "source-state", f"{rows.where}, column {key}", text)
            continue
        stamps = rows.cells.get(SOURCE_TIMESTAMP + key.removeprefix(SOURCE_STATE))
        if stamps is None or stamps.shape != cells.shape or not np.isfinite(stamps).all():
            continue
        same, told = np.diff(stamps[:, 0]) == 0, cells[1:, 0]
        wrong = np.flatnonzero((same & (told == 0)) | (~same & (told == 1)))
        if wrong.size:
            text = f"{wrong.size} rows call a sample new that is the one before, or the other way, first row "
            findings.add("error", "source-state", f"{rows.where}, column {key}", f"{text}{wrong[0] + 1}")


def _check_told(
    rows: EpisodeRows, age_ms: Mapping[str, FloatArray], source: Mapping[str, Any], findings: Findings
) -> None:
    """The ages that the export counted are those of the stamps that it wrote; a part of a split episode
    has the counts of the whole."""
    if as_int(source.get("parts")) not in (None, 1):
        return
    told = as_object(as_object(source.get("counts")).get("age_ms"))
    for name, age in age_ms.items():
        most, known = as_number(as_object(told.get(name)).get("max")), age[np.isfinite(age)]
        if most is not None and known.size and abs(known.max() - most) > _AGE_TOLERANCE_MS + 1e-6 * abs(most):
            text = (
                f"the oldest sample of {name} is {known.max():.3f} ms old, the export counted {most:.3f} ms"
            )
            findings.add("warning", "age", rows.where, text)


def check_frame_stamps(
    rows: EpisodeRows, ages: Ages, cameras: Mapping[str, CameraSurvey], findings: Findings
) -> None:
    """With capture times as PTS, the frame that a row shows is the one whose stamp was written beside it.

    Videos on an even grid say nothing about capture and are left alone, as are frames before T0. A frame
    taken less than a tick of the video after the row has a PTS that is not: then the one before is right,
    also where that one was taken before T0.
    """
    row_s = rows.row_s
    if row_s is None:
        return
    for key, camera in cameras.items():
        stamps = ages.sample_s.get(key.rpartition(".")[2])
        if stamps is None or not len(camera.pts_s) or any(k.startswith(SOURCE_TIMESTAMP) for k in rows.cells):
            continue
        shown = (camera.newest >= 0) & np.isfinite(stamps)
        newest = camera.newest[shown]
        away = np.abs(stamps[shown] - camera.pts_s[newest])
        # before the first frame of the video there may be one, left out, of before T0
        earlier = np.where(newest > 0, camera.pts_s[newest - 1], np.minimum(stamps[shown], 0.0))
        before = np.abs(stamps[shown] - earlier)
        at_once = row_s[shown] - camera.pts_s[newest] < _TICK_S
        off = np.flatnonzero(np.where(at_once, np.minimum(away, before), away) > _FRAME_TOLERANCE_S)
        if off.size:
            row = int(np.flatnonzero(shown)[off[0]])
            text = (
                f"{off.size} rows show another frame than the stamps beside them say, first row {row}: "
                f"the frame is of {camera.pts_s[camera.newest[row]]:.4f} s, the stamp of {stamps[row]:.4f} s"
            )
            findings.add("error", "frame-stamps", f"{rows.where}, {key}", text)
