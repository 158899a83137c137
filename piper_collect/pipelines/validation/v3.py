"""Judges LeRobot v3.0 datasets: the table of episodes against the files, rows, times, videos, statistics."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from piper_collect.core.findings import Findings, Level
from piper_collect.core.image_stats import ImageHistogram, sample_rows, thin
from piper_collect.core.pairing import VideoTiming, choose_by_rate, distance_s
from piper_collect.core.stats_check import StatsCheck
from piper_collect.core.types import FloatArray
from piper_collect.dataset.layout import INFO, META, SOURCES, STAGING, STATS
from piper_collect.dataset.metadata import ZERO_FILLED
from piper_collect.dataset.parquet import BOOKKEEPING, TIMESTAMP, cell_shapes, column_values, is_list
from piper_collect.dataset.probe import probe_video
from piper_collect.dataset.v3.layout import EPISODES_FOLDER, TASKS, video_prefix
from piper_collect.dataset.v3.reader import LeRobotV3Reader
from piper_collect.dataset.v3.statistics import array_shapes, episode_entries
from piper_collect.errors import DatasetError

TOLERANCE_S = 1e-4
"""LeRobot's default ``tolerance_s``."""
_INFO = f"{META}/{INFO}"
_NEEDED_STATS = ("min", "max", "mean", "std", "count", "q01", "q10", "q50", "q90", "q99")
_PICTURE_TOLERANCE = 0.02  # of the range 0..1
_COLOURS = (3, 1, 1)


def check_metadata(reader: LeRobotV3Reader, findings: Findings) -> None:
    """What can be said before a file of rows or a video is opened."""
    info, episodes = reader.info, reader.episodes
    if (reader.root / STAGING).exists():
        text = "an interrupted save was left here; the next command that changes the dataset repairs it"
        findings.add("error", "interrupted-save", STAGING, text)
    totals = {
        "total_episodes": len(episodes),
        "total_frames": sum(int(line["length"]) for line in episodes.values()),
        "total_tasks": len(reader.tasks),
    }
    for key, count in totals.items():
        if info.get(key) != count:
            text = f"{key} is {info.get(key)}, the other files say {count}"
            findings.add("error", "totals", _INFO, text)
    for key in ("data_path", "chunks_size", *(("video_path",) if reader.video_keys else ())):
        if not info.get(key):
            findings.add("error", "info", _INFO, f"has no {key}")
    if list(reader.tasks) != list(range(len(reader.tasks))):
        findings.add("error", "tasks", TASKS, "the task indexes do not go from 0 without a gap")
    if list(episodes) != list(range(len(episodes))):
        findings.add("error", "episode-numbers", EPISODES_FOLDER, "the episode numbers have gaps")
    if reader.sources and list(reader.sources) != list(episodes):
        text = f"{len(reader.sources)} lines for {len(episodes)} episodes"
        findings.add("error", "sources", f"{META}/{SOURCES}", text)
    for key in (k for k in info["features"] if "/" in k):
        findings.add("error", "features", _INFO, f"LeRobot allows no / in a feature's name: {key}")
    for key, feature in info["features"].items():
        zeros = zero_filled_names(feature)
        if zeros:
            text = f"{len(zeros)} numbers of {key} are zeros by the layout, and nothing measured"
            findings.add("info", "zero-filled", _INFO, f"{text}: {', '.join(zeros)}")
    missing = [k for k in BOOKKEEPING if k not in info["features"]]
    if missing:
        findings.add("error", "features", _INFO, f"has no feature {', '.join(missing)}")
    _check_ranges(reader, findings)
    _check_stats_keys(reader, findings)


def _check_ranges(reader: LeRobotV3Reader, findings: Findings) -> None:
    rows, ends = 0, dict[tuple[str, Path], float]()
    for index, line in reader.episodes.items():
        where = f"{EPISODES_FOLDER}, episode {index}"
        told = (int(line["dataset_from_index"]), int(line.get("dataset_to_index") or -1))
        if told != (rows, rows + int(line["length"])):
            text = f"rows {told[0]} to {told[1]}, expected {rows} to {rows + int(line['length'])}"
            findings.add("error", "row-range", where, text)
        rows = max(rows, told[1])
        for task in line.get("tasks") or ():
            if task not in reader.tasks.values():
                findings.add("error", "tasks", where, f"{task!r} is not in {TASKS}")
        for key in reader.video_keys:
            begin, end = (float(line[f"{video_prefix(key)}/{n}_timestamp"]) for n in ("from", "to"))
            before = ends.get((key, reader.video_path(index, key)), 0.0)
            if not before - TOLERANCE_S <= begin < end:
                text = f"{key} lies from {begin:g} to {end:g} s, the episode before it ends at {before:g} s"
                findings.add("error", "video-range", where, text)
            ends[key, reader.video_path(index, key)] = end


def _check_stats_keys(reader: LeRobotV3Reader, findings: Findings) -> None:
    where = f"{META}/{STATS}"
    if reader.stats is None:
        findings.add("error", "stats", where, "the file is missing; LeRobot's trainer needs it")
        return
    features = [k for k, f in reader.info["features"].items() if f["dtype"] != "string"]
    for key in features if reader.episodes else ():
        missing = [n for n in _NEEDED_STATS if n not in reader.stats.get(key, {})]
        if missing:
            level: Level = "warning" if missing != list(_NEEDED_STATS) else "error"
            findings.add(level, "stats", where, f"{key} has no {', '.join(missing)}")


def read_episode(reader: LeRobotV3Reader, index: int, findings: Findings) -> pa.Table | None:
    """The rows of an episode, held against info.json, without pictures; None where they cannot be read."""
    where, images = f"episode {index}", set(reader.picture_keys) - set(reader.video_keys)
    try:
        names = reader.columns(index)
        table = reader.rows(index, [name for name in names if name not in images])
    except DatasetError as err:
        findings.add("error", "rows-unreadable", where, str(err))
        return None
    features = reader.info["features"]
    declared = {k for k, f in features.items() if f["dtype"] != "video"}
    for key in sorted(declared ^ set(names)):
        there = "is not in the file" if key in declared else "is in the file and not in info.json"
        findings.add("error", "columns", where, f"column {key} {there}")
    for key in (k for k in table.column_names if k in declared):
        _check_column(table, key, features[key], where, findings)
    first = int(reader.episodes[index]["dataset_from_index"])
    expected = {
        "frame_index": np.arange(len(table)),
        "episode_index": np.full(len(table), index),
        "index": np.arange(first, first + len(table)),
    }
    for key, numbers in expected.items():
        if key in table.column_names and not np.array_equal(column_values(table, key)[:, 0], numbers):
            findings.add("error", "index", where, f"{key} is not what the table of episodes says")
    if "task_index" in table.column_names:
        used = {reader.tasks.get(int(i)) for i in column_values(table, "task_index")[:, 0]}
        if not used <= set(reader.episodes[index].get("tasks") or ()):
            findings.add("error", "tasks", where, "rows have another task than the table of episodes says")
    return table


def _check_column(
    table: pa.Table, key: str, feature: Mapping[str, Any], where: str, findings: Findings
) -> None:
    column, shape = table[key], tuple(feature["shape"])
    at = f"{where}, column {key}"
    if column.null_count:
        findings.add("error", "null", at, f"{column.null_count} values are missing")
        return
    if not shape:
        return
    if len(shape) > 1:
        found = cell_shapes(table, key)
        if tuple(extents == {n} for extents, n in zip(found, shape, strict=False)) != (True,) * len(shape):
            text = f"the cells are no arrays of {list(shape)}, as info.json says"
            findings.add("error", "shape", at, text)
            return
    if shape == (1,) and is_list(column.type):
        findings.add("error", "cells", at, "LeRobot 0.4 refuses lists of one: scalars are asked for")
    if pa.types.is_string(column.type):
        return
    values = column_values(table, key)
    if values.shape[1] != math.prod(shape):
        findings.add("error", "shape", at, f"{values.shape[1]} elements, info.json says {list(shape)}")
    if str(values.dtype) != feature["dtype"] and not (feature["dtype"] == "bool" and values.dtype == bool):
        findings.add("error", "dtype", at, f"{values.dtype}, info.json says {feature['dtype']}")
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        rows = int(np.count_nonzero(~np.isfinite(values).all(axis=1)))
        findings.add("error", "not-finite", at, f"{rows} rows are not finite")
    for name in zero_filled_names(feature):
        names = feature.get("names") or ()
        element = list(names).index(name) if name in names else values.shape[1]
        if element >= values.shape[1] or np.any(values[:, element]):
            findings.add("error", "zero-filled", at, f"{name} is said to be zeros by the layout, and is not")


def zero_filled_names(feature: Mapping[str, Any]) -> list[str]:
    """Elements of a feature that info.json says are zeros by the layout, and nothing measured."""
    info = feature.get("info")
    names = info.get(ZERO_FILLED) if isinstance(info, Mapping) else None
    return [str(name) for name in names] if isinstance(names, list) else []


def row_times(table: pa.Table) -> FloatArray:
    """``timestamp`` as a loader sees it, float64 [T] of float32 values; empty where there is none."""
    if TIMESTAMP not in table.column_names:
        return np.empty(0)
    return column_values(table, TIMESTAMP)[:, 0].astype(np.float32).astype(np.float64)


class VideoFiles:
    """What the headers of videos say, each read once for all the episodes that it holds."""

    def __init__(self) -> None:
        self._path = Path()
        self._timing: VideoTiming | None = None

    def refusal(self, path: Path, begin_s: float, row_s: FloatArray) -> tuple[str, float]:
        """Why LeRobot 0.4 with torchcodec could not decode these rows, and else its largest distance in s.

        Raises:
            DatasetError: It is no readable video.
        """
        if path != self._path or self._timing is None:
            self._timing, self._path = probe_video(path).timing, path
        asked = begin_s + row_s
        choice = choose_by_rate(asked, self._timing)
        if choice.refusal:
            return choice.refusal, 0.0
        away = distance_s(asked, self._timing.pts_s, choice.frame)
        far = np.flatnonzero(~(away < TOLERANCE_S))
        worst = float(away.max(initial=0.0))
        if far.size:
            return (
                f"{far.size} rows lie {TOLERANCE_S:g} s or more from their frame, at worst {worst:g} s",
                worst,
            )
        return "", worst


def decoded(reader: LeRobotV3Reader, index: int, key: str) -> ImageHistogram:
    """Decode every frame of an episode's video; the pixels of those that LeRobot looks at are counted.

    Raises:
        DatasetError: A frame cannot be decoded, or has another size than info.json says.
    """
    length = int(reader.episodes[index]["length"])
    looked, histogram, count = frozenset(sample_rows(length).tolist()), ImageHistogram.empty(), 0
    shape = tuple(reader.info["features"][key]["shape"])
    for number, (_, picture) in enumerate(reader.frames(index, key)):
        count += 1
        if picture.shape != shape:
            raise DatasetError("a picture has another size", expected=shape, got=picture.shape)
        if number in looked:
            histogram = histogram.added(thin(picture))
    if not count:
        raise DatasetError("no frame can be decoded")
    return histogram


def check_episode_stats(
    told: Mapping[str, Mapping[str, Any]],
    table: pa.Table,
    pictures: Mapping[str, ImageHistogram],
    features: Mapping[str, Mapping[str, Any]],
    where: str,
    findings: Findings,
) -> None:
    """The statistics in the table of episodes against the rows, and the decoded pictures."""
    keys = [k for k in told if k in table.column_names and _is_numeric(table, k)]
    cells = {key: column_values(table, key) for key in keys}
    finite = {key: v for key, v in cells.items() if v.dtype.kind != "f" or np.isfinite(v).all()}
    known = {key: h for key, h in pictures.items() if h.frames and key in told}
    found = episode_entries(finite, known, array_shapes(features))
    for key, entry in found.items():
        is_video = key in known and features[key]["dtype"] == "video"
        if key in known and not is_video and np.shape(told[key].get("mean") or 0) == _COLOURS:
            text = f"those of {key} are of three channels, as LeRobot counts pictures, not of millimetres"
            findings.add("warning", "depth-stats", where, f"{text}: nothing is to be scaled by them")
            continue
        for name, value in entry.items():
            claimed = told[key].get(name)
            # of videos the frames before encoding were counted: the outermost values are others
            if claimed is None or (is_video and name not in ("mean", "std")):
                continue
            a, b = np.array(claimed, np.float64), np.array(value, np.float64)
            spread = np.abs(np.array(entry["max"], np.float64) - np.array(entry["min"], np.float64)).max()
            # LeRobot's own quantiles come from histograms of 5000 bins
            slack = _PICTURE_TOLERANCE if is_video else 1e-5 + spread * (1e-3 if name[0] == "q" else 1e-5)
            if a.shape != b.shape or not np.allclose(a, b, rtol=1e-5, atol=slack):
                text = f"{name} of {key} is not that of its rows"
                findings.add("error", "episode-stats", where, text)


class AllStats:
    """stats.json against all rows, an episode at a time."""

    def __init__(self, reader: LeRobotV3Reader) -> None:
        self._checks: dict[str, StatsCheck] = {}
        for key, feature in reader.info["features"].items():
            entry = (reader.stats or {}).get(key)
            if entry and feature["dtype"] not in ("video", "image", "string"):
                told = {n: np.array(v, np.float64).reshape(-1) for n, v in entry.items() if n != "count"}
                self._checks[key] = StatsCheck(told)

    def add(self, table: pa.Table) -> None:
        """Take the rows of an episode."""
        for key, check in self._checks.items():
            if key in table.column_names:
                values = column_values(table, key).astype(np.float64)
                if values.shape[1] == check.size and np.isfinite(values).all():
                    check.add(values)

    def finish(self, findings: Findings) -> None:
        """Say what is not the statistic of the rows."""
        for key, check in self._checks.items():
            for wrong in check.mismatches():
                text = f"{wrong.name} of {key}[{wrong.element}] is {wrong.told:g}, the rows say {wrong.found}"
                findings.add("error", "stats", f"{META}/{STATS}", text)


def _is_numeric(table: pa.Table, key: str) -> bool:
    kind = table.schema.field(key).type
    while is_list(kind):
        kind = kind.value_type
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))
