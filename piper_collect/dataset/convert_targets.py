"""What stages a converted dataset, by the format it gets."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from piper_collect.config.profile import DATA_FILE_MB, VIDEO_FILE_MB
from piper_collect.core.running_stats import RunningStats
from piper_collect.dataset import metadata
from piper_collect.dataset.convert import (
    Convertible,
    Part,
    TargetFormat,
    count_pictures,
    depth_features,
    flat_features,
    flat_notes,
    with_flat_cells,
    write_json_lines,
)
from piper_collect.dataset.episode_stats import Entry, episode_stats_line, with_episode
from piper_collect.dataset.hdf5.layout import VERSION as CASES_VERSION
from piper_collect.dataset.hdf5.target import ToHDF5Cases, case_folders
from piper_collect.dataset.layout import (
    DATA_PATH,
    EPISODES,
    EPISODES_STATS,
    INFO,
    META,
    STATS,
    STATS_STATE,
    TASKS,
    VIDEO_PATH,
    data_path,
    video_path,
)
from piper_collect.dataset.meta_files import write_meta
from piper_collect.dataset.parquet import BOOKKEEPING, column_values, is_list, write_table
from piper_collect.dataset.remux import clip_facts, join_clips
from piper_collect.dataset.running import state_bytes, stats_cells
from piper_collect.dataset.transaction import Transaction
from piper_collect.dataset.v3 import layout as v3
from piper_collect.dataset.v3.fold import Fold
from piper_collect.dataset.v3.reader import LeRobotV3Reader
from piper_collect.dataset.v3.rewrite import stage_stats
from piper_collect.dataset.v3.shards import Limits
from piper_collect.dataset.v3.statistics import GrowingStats, array_shapes, episode_entries, with_pictures
from piper_collect.dataset.v3.tables import tasks_table
from piper_collect.errors import DatasetError

_CHUNKS_SIZE = 1000
_V2_STATS = ("mean", "std", "min", "max", "q01", "q99", "count")
_LISTS_OF_ONE = "cells of one element are numbers now, not lists of one ({}): LeRobot 0.4 takes nothing else"


def _numeric(source: Convertible) -> list[str]:
    features = source.info["features"]
    return [k for k, f in features.items() if f["dtype"] not in ("video", "image", "string")]


def _rows_of(source: Convertible) -> int:
    return sum(line.length for line in source.lines.values())


class ToV3:
    """Stages v3.0 (see ``Target``)."""

    def __init__(self, change: Transaction, source: Convertible, out: Path) -> None:
        self.lost: list[str] = []
        self._change, self._source = change, source
        info = source.info
        self._info = {
            "codebase_version": v3.VERSION,
            "robot_type": info.get("robot_type"),
            "total_episodes": 0,
            "total_frames": 0,
            "total_tasks": 0,
            "chunks_size": _CHUNKS_SIZE,
            "data_files_size_in_mb": DATA_FILE_MB,
            "video_files_size_in_mb": VIDEO_FILE_MB,
            "fps": info["fps"],
            "splits": {},
            "data_path": v3.DATA_PATH,
            "video_path": v3.VIDEO_PATH if source.video_keys else None,
            "features": info["features"],
        }
        self._fold = Fold(change, out, Limits.of(self._info), source.video_keys, [], 0)
        self._columns, self._rows = _numeric(source), _rows_of(source)
        self._growing, self._pictures = GrowingStats(), dict[str, Entry]()
        self._shapes = array_shapes(info["features"])
        self._last: Mapping[str, Any] = {}

    def add(self, part: Part) -> None:
        """Take an episode more."""
        table = self._as_scalars(part.table)
        cells = stats_cells(table, self._columns)
        entries = {**episode_entries(cells, {}, self._shapes), **self._picture_entries(part)}
        self._last = self._fold.add(table, part.clips, part.tasks, entries)
        self._growing = self._growing.added(cells, of_rows=self._rows)
        for key in part.clips:
            self._pictures[key] = with_pictures(self._pictures.get(key), entries[key])

    def _as_scalars(self, table: pa.Table) -> pa.Table:
        lists = [
            key
            for key, f in self._source.info["features"].items()
            if list(f["shape"]) == [1] and f["dtype"] != "video" and is_list(table.schema.field(key).type)
        ]
        for key in lists:
            at = table.schema.get_field_index(key)
            table = table.set_column(at, key, pa.array(column_values(table, key)[:, 0]))
        note = _LISTS_OF_ONE.format(", ".join(lists))
        if lists and note not in self.lost:
            self.lost.append(note)
        return table

    def _picture_entries(self, part: Part) -> dict[str, Entry]:
        """What the source tells, and what it does not, counted from the frames."""
        old = list(self._source.episodes)[part.index]
        entries: dict[str, Entry] = {}
        for key in part.clips:
            counted = episode_entries({}, {key: count_pictures(self._source, old, key)})[key]
            entries[key] = {**counted, **part.pictures.get(key, {})}
        return entries

    def finish(self, tasks: Sequence[str]) -> None:
        """Stage what tells of all episodes."""
        self._fold.finish()
        episodes = len(self._source.episodes)
        totals = {
            "total_episodes": episodes,
            "total_frames": self._growing.outer.rows,
            "total_tasks": len(tasks),
            "splits": {"train": f"0:{episodes}"},
        }
        write_meta(self._change, INFO, {**self._info, **totals})
        write_table(tasks_table(tasks), self._change.path(v3.TASKS))
        if episodes:
            stats = {**self._growing.entries(self._shapes), **self._pictures}
            stage_stats(self._change, self._growing, stats, self._last)


class ToV2:
    """Stages v2.0 or v2.1 (see ``Target``)."""

    def __init__(self, change: Transaction, source: Convertible, version: str) -> None:
        self.lost: list[str] = []
        self._change, self._source, self._version = change, source, version
        self._columns, self._rows = _numeric(source), _rows_of(source)
        self._lines: list[Mapping[str, Any]] = []
        self._stats_lines: list[Mapping[str, Any]] = []
        self._stats, self._pictures = RunningStats(), dict[str, Entry]()
        if source.info["codebase_version"] == v3.VERSION:
            self.lost.append("quantiles q10, q50 and q90: v2 has q01 and q99")
        self._flat, self._arrays = flat_features(source.info["features"])
        self.lost += flat_notes(source.info["features"], self._arrays)
        is_v3 = isinstance(source, LeRobotV3Reader)
        self._depths = depth_features(source.info["features"]) if is_v3 else ()
        images = [k for k, f in source.info["features"].items() if f["dtype"] == "image"]
        if set(images) - set(self._depths):
            raise DatasetError("pictures in rows cannot be converted to v2", where=source.root)
        self.lost += [f"{key}: v2 datasets hold no depth images" for key in self._depths]

    def add(self, part: Part) -> None:
        """Take an episode more."""
        index, table = part.index, with_flat_cells(part.table, self._arrays)
        write_table(table, self._change.path(data_path(index, _CHUNKS_SIZE)))
        frames = {}
        for key, clip in part.clips.items():
            frames[key] = clip_facts(clip).frames
            join_clips([clip], self._change.path(video_path(index, _CHUNKS_SIZE, key)))
        task_index = int(table["task_index"][0].as_py())
        task = self._source.tasks[sorted(self._source.tasks)[task_index]]
        line = metadata.episode_line(index, len(table), task, task_index, {})
        if frames:
            line["video_frame_length"] = min(frames.values())
            line["video_frame_lengths"] = frames
        self._lines.append(line)
        cells = stats_cells(table, self._columns)
        self._stats = self._stats.added(cells, of_rows=self._rows)
        pictures = {key: self._entry(part, key) for key in part.clips}
        stats = {**episode_stats_line(index, cells, {})["stats"], **pictures}
        self._stats_lines.append({"episode_index": index, "stats": stats})
        for key, entry in pictures.items():
            self._pictures[key] = with_episode(self._pictures.get(key), entry)

    def _entry(self, part: Part, key: str) -> Entry:
        told = part.pictures.get(key)
        if told is None:
            old = list(self._source.episodes)[part.index]
            told = episode_entries({}, {key: count_pictures(self._source, old, key)})[key]
        return {name: told[name] for name in _V2_STATS if name in told}

    def finish(self, tasks: Sequence[str]) -> None:
        """Stage what tells of all episodes."""
        change, source, episodes = self._change, self._source, len(self._lines)
        write_json_lines(change, EPISODES, self._lines)
        write_json_lines(change, TASKS, metadata.task_lines(tasks))
        stats = metadata.stats_json(self._stats.result()) if episodes else {}
        if episodes:
            change.write(STATS_STATE, state_bytes(self._stats, self._lines[-1]))
        if self._version == "v2.1" or self._source_has_episode_stats():
            write_json_lines(change, EPISODES_STATS, self._stats_lines)
        write_meta(change, STATS, stats if self._version == "v2.1" else {**stats, **self._pictures})
        info: dict[str, Any] = {
            "codebase_version": self._version,
            "robot_type": source.info.get("robot_type"),
            "fps": source.info["fps"],
            "data_path": DATA_PATH,
            "video_path": VIDEO_PATH,
            "chunks_size": _CHUNKS_SIZE,
            "total_episodes": episodes,
            "total_frames": self._stats.rows,
            "total_tasks": len(tasks),
            **metadata.stock_totals(episodes, len(source.video_keys), _CHUNKS_SIZE),
            "splits": {"train": f"0:{episodes}"},
            "features": self._features(),
        }
        write_meta(change, INFO, info)

    def _source_has_episode_stats(self) -> bool:
        """Whether the source tells statistics of each episode: then v2.0 has them too, though it need not."""
        source = self._source
        return source.info["codebase_version"] == v3.VERSION or (source.root / META / EPISODES_STATS).exists()

    def _features(self) -> dict[str, Any]:
        """Those that are held, bookkeeping last."""
        features = {k: f for k, f in self._flat.items() if k not in self._depths}
        return {k: f for k, f in features.items() if k not in BOOKKEEPING} | {
            k: f for k, f in features.items() if k in BOOKKEEPING
        }


TARGETS: Mapping[str, TargetFormat] = {
    "lerobot-v2.0": TargetFormat(version="v2.0", make=lambda change, source, _: ToV2(change, source, "v2.0")),
    "lerobot-v2.1": TargetFormat(version="v2.1", make=lambda change, source, _: ToV2(change, source, "v2.1")),
    "lerobot-v3.0": TargetFormat(version=v3.VERSION, make=ToV3),
    "hdf5-cases": TargetFormat(version=CASES_VERSION, make=ToHDF5Cases, folders=case_folders),
}
"""By the name of the dialect."""
