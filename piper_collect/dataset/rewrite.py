"""A dataset with other episodes than before: the files, numbers and metadata that follow.

The result is what an export of the same recordings in the same order would have made, but for the
record of sessions, to which lines are only ever added.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyarrow import Table

from piper_collect.core.camera_history import cameras_content, infos_by_episode
from piper_collect.core.running_stats import RunningStats
from piper_collect.dataset import metadata
from piper_collect.dataset.episode_stats import episode_stats_line, over_episodes
from piper_collect.dataset.json_files import json_bytes, jsonl_bytes, read_json, read_jsonl
from piper_collect.dataset.layout import (
    CAMERAS,
    EPISODES,
    EPISODES_STATS,
    INFO,
    META,
    SOURCES,
    STATS,
    STATS_STATE,
    TASKS,
)
from piper_collect.dataset.meta_files import drop_finalized, write_meta, write_stats
from piper_collect.dataset.parquet import write_table
from piper_collect.dataset.reader import DatasetReader
from piper_collect.dataset.renumber import (
    picture_keys,
    recounted,
    renumbered,
    renumbered_line,
    used_tasks,
    with_totals,
)
from piper_collect.dataset.running import counted_stats, stats_cells, table_of
from piper_collect.dataset.stage import StagedEpisode, extra_files
from piper_collect.dataset.transaction import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """An episode that stays, by its number before."""

    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fresh:
    """An episode that is made anew.

    Attributes:
        tasks: The lines of tasks.jsonl that its rows point at.
        stage: ``stage(index, first_index, tasks)`` stages its files.
        cameras: Calibration by camera.
    """

    tasks: Sequence[str]
    stage: Callable[[int, int, Sequence[str]], StagedEpisode]
    cameras: Mapping[str, Mapping[str, object]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """What a dataset holds once a rewrite is committed.

    Attributes:
        episodes: Lines of episodes.jsonl.
        sources: Lines of episode_sources.jsonl.
        tasks: Task strings by task_index.
        stats: Of all rows; None where there was no stats.json, or there is no episode.
        fresh: The episodes that were made anew.
        notes: What was taken out besides, for people.
    """

    episodes: tuple[Mapping[str, Any], ...]
    sources: tuple[Mapping[str, Any], ...]
    tasks: tuple[str, ...]
    stats: RunningStats | None
    fresh: tuple[StagedEpisode, ...]
    notes: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class _Outcome:
    """What the metadata are made from, episode by episode."""

    lines: list[Mapping[str, Any]] = field(default_factory=list)
    sources: list[Mapping[str, Any]] = field(default_factory=list)
    stats_lines: list[Mapping[str, Any]] = field(default_factory=list)
    tables: list[Callable[[], Table]] = field(default_factory=list)
    fresh: list[StagedEpisode] = field(default_factory=list)


class Rewrite:
    """Stages a dataset that consists of ``order``.

    Args:
        change: Where to.
        dataset: As it is.
        order: Its new episodes.
    """

    def __init__(self, change: Transaction, dataset: DatasetReader, order: Sequence[Kept | Fresh]) -> None:
        self._change = change
        self._dataset = dataset
        self._order = order
        self._root = dataset.root
        self._stats_lines = self._read_stats_lines()
        old = dataset.stats or {}
        features = dataset.info["features"]
        self._picture_keys = picture_keys(dataset)
        self._numeric = [k for k in old if k in features and k not in self._picture_keys]
        self._pictures = [k for k in old if k in self._picture_keys]
        self._notes: list[str] = []
        self._used = [self._task_strings(entry) for entry in order]
        self.tasks = tuple(dict.fromkeys(task for used in self._used for task in used))

    def stage(self) -> Rewritten:
        """Stage everything."""
        self._remove_moved()
        outcome, first_index = _Outcome(), 0
        for index, entry in enumerate(self._order):
            if isinstance(entry, Kept):
                length = self._keep(outcome, index, first_index, entry.index)
            else:
                length = self._make(outcome, index, first_index, entry)
            first_index += length
        stats = self._stage_meta(outcome, first_index)
        self._notes += drop_finalized(self._root, self._change)
        return Rewritten(
            episodes=tuple(outcome.lines),
            sources=tuple(outcome.sources),
            tasks=self.tasks,
            stats=stats,
            fresh=tuple(outcome.fresh),
            notes=tuple(self._notes),
        )

    def _task_strings(self, entry: Kept | Fresh) -> tuple[str, ...]:
        return tuple(entry.tasks) if isinstance(entry, Fresh) else used_tasks(self._dataset, entry.index)

    def _files(self, index: int) -> list[str]:
        dataset = self._dataset
        paths = [dataset.data_path(index), *(dataset.video_path(index, k) for k in dataset.video_keys)]
        return [p.relative_to(self._root).as_posix() for p in paths] + extra_files(index)

    def _remove_moved(self) -> None:
        staying = {e.index for i, e in enumerate(self._order) if isinstance(e, Kept) and e.index == i}
        for index in self._dataset.episodes:
            for file in self._files(index) if index not in staying else ():
                if (self._root / file).exists():
                    self._change.remove(file)

    def _keep(self, outcome: _Outcome, index: int, first_index: int, old: int) -> int:
        dataset, table = self._dataset, self._dataset.rows(old)
        new = renumbered(table, index, first_index, dataset.tasks, self.tasks)
        table_file, *others = self._files(index)
        if new is table:
            outcome.tables.append(table_of(self._root / table_file))
        else:
            write_table(new, self._change.path(table_file))
            outcome.tables.append(table_of(self._change.path(table_file)))
        if index != old:
            for was, now in zip(self._files(old)[1:], others, strict=True):
                if (self._root / was).exists():
                    self._change.take(was, now)
        outcome.lines.append(renumbered_line(dataset.episodes[old], index, new))
        if old in dataset.sources:
            outcome.sources.append({**dataset.sources[old], "episode_index": index})
        if old in self._stats_lines:
            before = self._stats_lines[old]
            outcome.stats_lines.append(
                before if new is table else recounted(before, index, new, self._picture_keys)
            )
        return len(new)

    def _make(self, outcome: _Outcome, index: int, first_index: int, fresh: Fresh) -> int:
        staged = fresh.stage(index, first_index, self.tasks)
        outcome.fresh.append(staged)
        outcome.lines.append(staged.line)
        outcome.sources.append(staged.source)
        outcome.tables.append(lambda: staged.table)
        if self._has_stats_lines:
            pictures = staged.pictures()
            cells = stats_cells(staged.table, self._numeric)
            outcome.stats_lines.append(episode_stats_line(index, cells, pictures))
        return len(staged.table)

    def _stage_meta(self, outcome: _Outcome, rows: int) -> RunningStats | None:
        change, root = self._change, self._root
        write_lines: dict[str, Sequence[Mapping[str, Any]]] = {
            EPISODES: outcome.lines,
            TASKS: metadata.task_lines(self.tasks),
        }
        if (root / META / SOURCES).exists():
            write_lines[SOURCES] = outcome.sources
        if self._has_stats_lines:
            write_lines[EPISODES_STATS] = outcome.stats_lines
        for name, lines in write_lines.items():
            change.write(f"{META}/{name}", jsonl_bytes(lines, name))
        self._stage_cameras()
        write_meta(change, INFO, self._info(rows))
        if self._dataset.stats is None:
            change.remove(STATS_STATE)
            return None
        if not outcome.tables:
            write_meta(change, STATS, {})
            change.remove(STATS_STATE)
            return None
        stats = counted_stats(outcome.tables, self._numeric, rows)
        write_stats(change, stats, self._picture_stats(outcome), outcome.lines[-1])
        return stats

    def _picture_stats(self, outcome: _Outcome) -> dict[str, Any]:
        """What stats.json says of pictures; a camera of which the episodes have no lines leaves it."""
        entries = {k: [line["stats"].get(k) for line in outcome.stats_lines] for k in self._pictures}
        known = {k: e for k, e in entries.items() if len(e) == len(outcome.lines) and all(e)}
        gone = [k for k in entries if k not in known]
        if gone:
            self._notes.append(
                f"{self._root}: {STATS} no longer has {', '.join(gone)}: no {EPISODES_STATS} tells of the "
                "pictures that are left"
            )
        return {k: over_episodes(e) for k, e in known.items()}

    def _stage_cameras(self) -> None:
        path = self._root / CAMERAS
        before = read_json(path) if path.exists() else None
        known = infos_by_episode(before, len(self._dataset.episodes))
        infos = [known[e.index] if isinstance(e, Kept) else e.cameras for e in self._order]
        content = cameras_content(infos)
        if content:
            self._change.write(CAMERAS, json_bytes(content, CAMERAS))
        elif path.exists():
            self._change.remove(CAMERAS)

    def _info(self, rows: int) -> dict[str, Any]:
        info, episodes = self._dataset.info, len(self._order)
        size, cameras = int(info.get("chunks_size", 1000)), len(self._dataset.video_keys)
        totals = metadata.stock_totals(episodes, cameras, size)
        return with_totals(info, totals, episodes=episodes, rows=rows, tasks=len(self.tasks))

    def _read_stats_lines(self) -> dict[int, Mapping[str, Any]]:
        path = self._root / META / EPISODES_STATS
        self._has_stats_lines = path.exists()
        return {line["episode_index"]: line for line in read_jsonl(path)} if path.exists() else {}
