"""Looks for faults in a dataset: files against totals, rows, videos, statistics."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from piper_collect.core.findings import Finding, Level, Report
from piper_collect.core.types import FloatArray
from piper_collect.dataset.layout import EPISODES, INFO, META, STAGING, STATS
from piper_collect.dataset.parquet import BOOKKEEPING, TIMESTAMP, column_values, dataset_stats
from piper_collect.dataset.reader import DatasetReader, open_dataset
from piper_collect.errors import DatasetError

_POSE = ("qw", "qx", "qy", "qz")
_NORM_TOLERANCE = 1e-3
_STATS_TOLERANCE = 1e-5


def check_dataset(root: Path) -> Report:
    """Check a dataset and say everything that is wrong with it.

    Args:
        root: The dataset.

    Raises:
        DatasetError: It cannot even be opened.
    """
    dataset = open_dataset(root)
    findings = list(_check_totals(dataset))
    rows = 0
    for index, line in dataset.episodes.items():
        try:
            table = dataset.rows(index)
        except DatasetError as err:
            findings.append(_finding("error", "rows-unreadable", f"episode {index}", str(err)))
            continue
        findings += _check_rows(dataset, index, line, table, rows)
        rows += len(table)
        findings += _check_videos(dataset, index, line, table)
    if dataset.stats is not None:
        findings += _check_stats(dataset)
    elif dataset.info.get("codebase_version") == "v2.0":
        findings.append(_finding("error", "no-stats", f"{META}/{STATS}", "the file is missing"))
    facts = {
        "episodes": len(dataset.episodes),
        "rows": rows,
        "cameras": list(dataset.video_keys),
        "tasks": len(dataset.tasks),
    }
    return Report(subject=str(root), findings=tuple(findings), facts=facts)


def _finding(level: Level, code: str, where: str, text: str) -> Finding:
    return Finding(level=level, code=code, where=where, text=" ".join(text.split()))


def _check_totals(dataset: DatasetReader) -> Iterator[Finding]:
    counted = {
        "total_episodes": len(dataset.episodes),
        "total_frames": sum(int(e.get("length", 0)) for e in dataset.episodes.values()),
        "total_tasks": len(dataset.tasks),
    }
    for key, count in counted.items():
        if dataset.info.get(key) != count:
            text = f"{key} is {dataset.info.get(key)}, the other files say {count}"
            yield _finding("error", "totals", f"{META}/{INFO}", text)
    if list(dataset.episodes) != list(range(len(dataset.episodes))):
        text = f"episode numbers have gaps: {list(dataset.episodes)}"
        yield _finding("error", "episode-numbers", f"{META}/{EPISODES}", text)
    named = {dataset.data_path(i) for i in dataset.episodes}
    named |= {dataset.video_path(i, key) for i in dataset.episodes for key in dataset.video_keys}
    for path in sorted((*dataset.root.glob("data/**/*"), *dataset.root.glob("videos/**/*"))):
        if path.is_file() and path not in named:
            text = "no episode names this file"
            yield _finding("error", "orphan-file", str(path.relative_to(dataset.root)), text)
    if (dataset.root / STAGING).exists():
        text = "an interrupted save was left here; the next export repairs it"
        yield _finding("error", "interrupted-save", STAGING, text)


def _check_rows(
    dataset: DatasetReader, index: int, line: Any, table: pa.Table, first_row: int
) -> Iterator[Finding]:
    where = f"episode {index}"
    if len(table) != line.get("length"):
        yield _finding("error", "length", where, f"{len(table)} rows, {EPISODES} says {line.get('length')}")
    declared = {k for k, f in dataset.info["features"].items() if f["dtype"] != "video"}
    for key in sorted(declared ^ set(table.column_names)):
        there = "is in the file and not in info.json" if key not in declared else "is not in the file"
        yield _finding("error", "columns", where, f"column {key} {there}")
    expected = {"frame_index": 0, "index": first_row}
    for key, start in expected.items():
        if key in table.column_names and len(table):
            values = column_values(table, key)[:, 0]
            if not np.array_equal(values, np.arange(start, start + len(values))):
                text = f"{key} runs from {values[0]} to {values[-1]}, not from {start} by ones"
                yield _finding("error", "row-numbers", where, text)
    if TIMESTAMP in table.column_names:
        stamps = column_values(table, TIMESTAMP)[:, 0].astype(np.float64)
        back = np.flatnonzero(np.diff(stamps) <= 0)
        if back.size:
            text = f"timestamp does not increase at {back.size} rows, first at row {back[0] + 1}"
            yield _finding("error", "timestamps", where, text)
    for key in table.column_names:
        if key not in BOOKKEEPING and key in declared:
            yield from _check_column(dataset, f"{where}, column {key}", key, column_values(table, key))


def _check_column(dataset: DatasetReader, where: str, key: str, values: NDArray[Any]) -> Iterator[Finding]:
    if not np.issubdtype(values.dtype, np.number):
        return
    bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
    if bad.size:
        text = f"{bad.size} rows are not finite, first row {bad[0]}"
        yield _finding("error", "not-finite", where, text)
        return
    names = dataset.info["features"][key].get("names")
    if not isinstance(names, Sequence) or not set(_POSE) <= set(names) or not len(values):
        return
    quats = values[:, [list(names).index(n) for n in _POSE]].astype(np.float64)
    norm = np.sqrt(np.sum(quats**2, axis=1))
    off = np.flatnonzero(np.abs(norm - 1.0) > _NORM_TOLERANCE)
    if off.size:
        text = f"{off.size} quaternions are not unit, first row {off[0]} with norm {norm[off[0]]:.6g}"
        yield _finding("error", "quaternion-norm", where, text)
    flips = np.flatnonzero(np.sum(quats[1:] * quats[:-1], axis=1) < 0)
    if flips.size:
        text = f"the sign of the quaternion flips {flips.size} times, first at row {flips[0] + 1}"
        yield _finding("error", "quaternion-sign", where, text)


def _check_videos(dataset: DatasetReader, index: int, line: Any, table: pa.Table) -> Iterator[Finding]:
    lengths = line.get("video_frame_lengths", {})
    rows_s = column_values(table, TIMESTAMP)[:, 0] if TIMESTAMP in table.column_names and len(table) else None
    for key in dataset.video_keys:
        where = f"episode {index}, {key}"
        try:
            pts_s = dataset.frame_times(index, key)
        except DatasetError as err:
            yield _finding("error", "video-unreadable", where, str(err))
            continue
        if key in lengths and len(pts_s) != lengths[key]:
            text = f"{len(pts_s)} frames in the file, {EPISODES} says {lengths[key]}"
            yield _finding("error", "frame-count", where, text)
        if np.any(np.diff(pts_s) <= 0):
            yield _finding("error", "pts", where, "presentation times do not increase")
        if rows_s is not None and len(pts_s):
            yield from _check_span(where, pts_s, rows_s.astype(np.float64), dataset.fps)
    if lengths and line.get("video_frame_length") != min(lengths.values()):
        text = f"video_frame_length is {line.get('video_frame_length')}, the least is {min(lengths.values())}"
        yield _finding("error", "frame-count", f"episode {index}", text)


def _check_span(where: str, pts_s: FloatArray, rows_s: FloatArray, fps: float) -> Iterator[Finding]:
    """Rows and frames tell the same time: neither goes on long without the other."""
    slack_s = max(5.0 / fps, 0.2)
    late = float(pts_s[0] - rows_s[0])
    short = float(rows_s[-1] - pts_s[-1])
    if abs(late) > slack_s or abs(short) > slack_s:
        text = f"frames span {pts_s[0]:.3f} to {pts_s[-1]:.3f} s, rows {rows_s[0]:.3f} to {rows_s[-1]:.3f} s"
        yield _finding("error", "time-span", where, text)
    if len(pts_s) < 0.8 * len(rows_s):
        text = f"{len(pts_s)} frames for {len(rows_s)} rows"
        yield _finding("warning", "few-frames", where, text)


def _check_stats(dataset: DatasetReader) -> Iterator[Finding]:
    where = f"{META}/{STATS}"
    stats = dataset.stats or {}
    features = dataset.info["features"]
    expected = [k for k, f in features.items() if f["dtype"] == "float32"]
    for key in [k for k in expected if k not in stats]:
        yield _finding("error", "stats", where, f"no statistics of {key}")
    keys = [k for k in stats if k in features and features[k]["dtype"] != "video"]
    try:
        computed = dataset_stats([dataset.data_path(i) for i in dataset.episodes], keys)
    except DatasetError as err:
        yield _finding("error", "stats", where, f"cannot be recomputed: {err}")
        return
    for key in keys:
        for name in ("mean", "std", "min", "max", "q01", "q99"):
            if name not in stats[key]:
                continue
            have = np.asarray(stats[key][name], dtype=np.float64).ravel()
            want = np.asarray(getattr(computed[key], name), dtype=np.float64)
            if have.shape != want.shape:
                text = f"{name} of {key} has {have.size} elements, the rows {want.size}"
                yield _finding("error", "stats", where, text)
                continue
            # other tools sum in float32, which costs digits
            allowed = _STATS_TOLERANCE * (np.abs(want) + computed[key].max - computed[key].min) + 1e-9
            over = np.abs(have - want) / allowed
            if not np.all(over <= 1):
                worst = int(np.argmax(np.nan_to_num(over, nan=np.inf)))
                text = f"{name} of {key}[{worst}] is {have[worst]:.9g}, the rows give {want[worst]:.9g}"
                yield _finding("error", "stats", where, text)
