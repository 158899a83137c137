"""A v3.0 dataset with other episodes than before: the same as an export of them in this order makes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from piper_collect.core.camera_history import cameras_content, infos_by_episode
from piper_collect.dataset.episode_stats import Entry
from piper_collect.dataset.json_files import json_bytes, jsonl_bytes, read_json
from piper_collect.dataset.layout import CAMERAS, INFO, META, SOURCES, STATS, STATS_STATE
from piper_collect.dataset.meta_files import drop_finalized, write_meta
from piper_collect.dataset.parquet import read_table, write_table
from piper_collect.dataset.renumber import renumbered, used_tasks
from piper_collect.dataset.rewrite import Kept
from piper_collect.dataset.running import state_bytes, stats_cells
from piper_collect.dataset.stage import extra_files
from piper_collect.dataset.transaction import Transaction
from piper_collect.dataset.v3.fold import Fold
from piper_collect.dataset.v3.layout import QUANTILES_STATE, TASK_SOURCES, TASKS
from piper_collect.dataset.v3.made import MadeEpisode
from piper_collect.dataset.v3.reader import LeRobotV3Reader
from piper_collect.dataset.v3.shards import Limits
from piper_collect.dataset.v3.statistics import (
    Cells,
    GrowingStats,
    array_shapes,
    episode_entries,
    over_pictures,
    quantiles_bytes,
)
from piper_collect.dataset.v3.tables import episode_tables, stats_of, task_sources_table, tasks_table


@dataclass(frozen=True, slots=True, kw_only=True)
class Remade:
    """An episode that is made anew.

    Attributes:
        tasks: The task strings that its rows point at.
        make: ``make(index, first_index, tasks)`` makes it.
        cameras: Calibration by camera.
    """

    tasks: Sequence[str]
    make: Callable[[int, int, Sequence[str]], MadeEpisode]
    cameras: Mapping[str, Mapping[str, object]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RewrittenV3:
    """What a dataset holds once a rewrite is committed.

    Attributes:
        episodes: Rows of the table of episodes, statistics left out.
        sources: Lines of episode_sources.jsonl.
        tasks: Task strings by task_index.
        growing: Statistics of all rows; None when there are none.
        notes: What was taken out besides, for people.
    """

    episodes: tuple[Mapping[str, Any], ...]
    sources: tuple[Mapping[str, Any], ...]
    tasks: tuple[str, ...]
    growing: GrowingStats | None
    notes: tuple[str, ...]


class RewriteV3:
    """Stages a dataset that consists of ``order``.

    Args:
        change: Where to.
        dataset: As it is.
        order: Its new episodes.
    """

    def __init__(self, change: Transaction, dataset: LeRobotV3Reader, order: Sequence[Kept | Remade]) -> None:
        self._change = change
        self._dataset = dataset
        self._order = order
        self._root = dataset.root
        self._old = list(dataset.episodes.values())
        self._columns = [k for k in dataset.stats or {} if k not in dataset.picture_keys]
        self._shapes = array_shapes(dataset.info["features"])
        used = [self._task_strings(entry) for entry in order]
        self.tasks = tuple(dict.fromkeys(task for strings in used for task in strings))

    def stage(self) -> RewrittenV3:
        """Stage everything."""
        keep, dataset = self._unchanged(), self._dataset
        limits = Limits.of(dict(dataset.info))
        fold = Fold(self._change, self._root, limits, dataset.video_keys, self._old, keep)
        lines, sources = self._old[:keep], [dataset.sources.get(i, {}) for i in range(keep)]
        old_stats = self._old_stats()
        stats, tables = old_stats[:keep], list[pa.Table]()
        self._remove_extras(keep)
        for index, entry in enumerate(self._order[keep:], start=keep):
            rows = int(lines[-1]["dataset_to_index"]) if lines else 0
            if isinstance(entry, Kept):
                made, tasks = self._kept(entry, index, rows, old_stats), self._old[entry.index]["tasks"]
            else:
                made, tasks = entry.make(index, rows, self.tasks), entry.tasks[:1]
            lines.append(fold.add(made.table, made.clips, tasks, made.entries))
            sources.append(made.source)
            stats.append({k: dict(e) for k, e in made.entries.items()})
            tables.append(made.table.select(self._columns))  # pictures stay where they are
        fold.finish()
        growing = self._stage_meta(keep, lines, sources, stats, tables)
        notes = drop_finalized(self._root, self._change)
        return RewrittenV3(
            episodes=tuple(lines), sources=tuple(sources), tasks=self.tasks, growing=growing, notes=notes
        )

    def _old_stats(self) -> list[dict[str, Entry]]:
        tables = episode_tables(self._root, statistics=True)
        return [stats_of(row) for _, table in tables for row in table.to_pylist()]

    def _unchanged(self) -> int:
        """How many of the first episodes are as they were, to the byte."""
        if self.tasks[: len(self._dataset.tasks)] != tuple(self._dataset.tasks.values())[: len(self.tasks)]:
            return 0
        pairs = enumerate(self._order)
        changed = (i for i, e in pairs if not isinstance(e, Kept) or e.index != i)
        return next(changed, len(self._order))

    def _task_strings(self, entry: Kept | Remade) -> tuple[str, ...]:
        return tuple(entry.tasks) if isinstance(entry, Remade) else used_tasks(self._dataset, entry.index)

    def _remove_extras(self, keep: int) -> None:
        for index in range(keep, len(self._old)):
            for file in extra_files(index):
                if (self._root / file).exists():
                    self._change.remove(file)

    def _kept(
        self, entry: Kept, index: int, rows: int, old_stats: Sequence[Mapping[str, Entry]]
    ) -> MadeEpisode:
        dataset, old = self._dataset, entry.index
        table = renumbered(dataset.rows(old), index, rows, dataset.tasks, self.tasks)
        for was, now in zip(extra_files(old), extra_files(index), strict=True):
            if (self._root / was).exists():
                self._change.take(was, now)
        pictures = {k: e for k, e in old_stats[old].items() if k in dataset.picture_keys}
        return MadeEpisode(
            table=table,
            clips={key: dataset.clip(old, key) for key in dataset.video_keys},
            videos={},
            entries={**episode_entries(stats_cells(table, self._columns), {}, self._shapes), **pictures},
            source=numbered_source(dataset.sources.get(old, {}), index),
        )

    def _stage_meta(
        self,
        keep: int,
        lines: Sequence[Mapping[str, Any]],
        sources: Sequence[Mapping[str, Any]],
        stats: Sequence[Mapping[str, Entry]],
        tables: Sequence[pa.Table],
    ) -> GrowingStats | None:
        change, dataset = self._change, self._dataset
        if any(sources) or dataset.sources:
            change.write(f"{META}/{SOURCES}", jsonl_bytes(sources, SOURCES))
        write_table(tasks_table(self.tasks), change.path(TASKS))
        if (self._root / TASK_SOURCES).exists():
            before = read_table(self._root / TASK_SOURCES)["collection_method"].to_pylist()
            table = task_sources_table(lines, sources, dataset.fps, before[0] if before else "")
            write_table(table, change.path(TASK_SOURCES))
        rows = int(lines[-1]["dataset_to_index"]) if lines else 0
        totals = {
            "total_episodes": len(lines),
            "total_frames": rows,
            "total_tasks": len(self.tasks),
            "splits": {"train": f"0:{len(lines)}"},
        }
        write_meta(change, INFO, {**dataset.info, **totals})
        self._stage_cameras()
        if not lines:
            write_meta(change, STATS, {})
            change.remove(STATS_STATE)
            change.remove(QUANTILES_STATE)
            return None
        growing = GrowingStats.of(self._cells(keep, tables), rows=rows)
        seen = [key for key in dataset.picture_keys if all(key in s for s in stats)]
        pictures = {key: over_pictures(s[key] for s in stats) for key in seen}
        known = {k: p for k, p in pictures.items() if p is not None}
        stage_stats(change, growing, {**growing.entries(self._shapes), **known}, lines[-1])
        return growing

    def _cells(self, keep: int, tables: Sequence[pa.Table]) -> Iterator[Cells]:
        for index in range(keep):
            yield stats_cells(self._dataset.rows(index, self._columns), self._columns)
        for table in tables:
            yield stats_cells(table, self._columns)

    def _stage_cameras(self) -> None:
        path = self._root / CAMERAS
        known = infos_by_episode(read_json(path) if path.exists() else None, len(self._old))
        infos = [known[e.index] if isinstance(e, Kept) else e.cameras for e in self._order]
        content = cameras_content(infos)
        if content:
            self._change.write(CAMERAS, json_bytes(content, CAMERAS))
        elif path.exists():
            self._change.remove(CAMERAS)


def numbered_source(source: Mapping[str, Any], index: int) -> Mapping[str, Any]:
    """The line of episode_sources.jsonl of an episode that is now ``index``; nothing where there is none."""
    return {**source, "episode_index": index} if source else {}


def stage_stats(
    change: Transaction,
    growing: GrowingStats,
    stats: Mapping[str, Entry],
    last_line: Mapping[str, Any] | None,
) -> None:
    """Stage stats.json, and what the next run goes on from.

    Args:
        change: Where to.
        growing: Of all rows.
        stats: The entries of stats.json.
        last_line: That of the last episode; None to let the next run go on from an older state.
    """
    write_meta(change, STATS, stats)
    if last_line is not None:
        change.write(STATS_STATE, state_bytes(growing.outer, last_line))
        change.write(QUANTILES_STATE, quantiles_bytes(growing))
