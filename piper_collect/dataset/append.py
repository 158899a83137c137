"""One episode more at the end of a dataset, at a cost that does not grow with the dataset."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from piper_collect.core.camera_history import merged_cameras
from piper_collect.core.running_stats import RunningStats
from piper_collect.core.types import Episode
from piper_collect.dataset import metadata
from piper_collect.dataset.columns import task_strings
from piper_collect.dataset.episode_stats import episode_stats_line, with_episode
from piper_collect.dataset.json_files import json_bytes, jsonl_bytes, read_json
from piper_collect.dataset.layout import (
    CAMERAS,
    EPISODES,
    EPISODES_STATS,
    INFO,
    LATEST_SESSION,
    META,
    SESSIONS,
    SOURCES,
    STATS,
    TASKS,
    video_key,
)
from piper_collect.dataset.meta_files import stage_description, write_meta, write_stats
from piper_collect.dataset.running import carried_stats, counted_stats, state_is_due, stats_cells, table_of
from piper_collect.dataset.stage import (
    EpisodeExtras,
    EpisodeIdentity,
    EpisodeStager,
    Progress,
    StagedEpisode,
    episode_files,
    extra_files,
)
from piper_collect.dataset.state import DatasetState
from piper_collect.dataset.transaction import Transaction
from piper_collect.errors import DatasetError


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """Stages an episode after the last one.

    Attributes:
        root: The dataset.
        stager: Stages the episode's own files.
        robot_type: As info.json names it.
        state: What the dataset holds.
    """

    root: Path
    stager: EpisodeStager
    robot_type: str
    state: DatasetState

    def stage(
        self,
        change: Transaction,
        episode: Episode,
        identity: EpisodeIdentity,
        record: Mapping[str, Any] | None,
        extras: EpisodeExtras,
        progress: Progress | None,
    ) -> tuple[DatasetState, StagedEpisode]:
        """Stage ``episode``, and ``record`` if its session is a new one.

        Returns:
            What the dataset then holds, and the episode.
        """
        index = len(self.state.episodes)
        for file in (*self._files(index), *extra_files(index)):
            self._refuse_orphan(file)
        tasks = tuple(dict.fromkeys((*self.state.tasks, *task_strings(episode, self.stager.profile))))
        staged = self.stager.stage(
            change,
            episode,
            identity,
            index=index,
            first_index=self.state.frames,
            tasks=tasks,
            extras=extras,
            progress=progress,
        )
        stats, is_counted = self._all_stats(staged)
        state = DatasetState(
            episodes=(*self.state.episodes, staged.line),
            tasks=tasks,
            sources=(*self.state.sources, staged.source),
            sessions=self.state.sessions if record is None else (*self.state.sessions, record),
            stats=stats,
        )
        pictures = self._stage_episode_stats(change, staged)
        write_stats(change, stats, pictures, staged.line, state=is_counted or state_is_due(index + 1))
        self._stage_lines(change, staged, record)
        self._stage_files(change, state, extras)
        return state, staged

    @property
    def _columns(self) -> tuple[str, ...]:
        return metadata.stats_columns(self.stager.profile, list(self.stager.cameras))

    def _files(self, index: int) -> list[str]:
        keys = [video_key(c) for c in self.stager.cameras]
        return episode_files(index, self.stager.profile.chunks_size, keys)

    def _refuse_orphan(self, file: str) -> None:
        if (self.root / file).exists():
            raise DatasetError(
                "a file that no episode names is in the way",
                where=self.root / file,
                hint="move it out of the dataset",
            )

    def _all_stats(self, staged: StagedEpisode) -> tuple[RunningStats, bool]:
        """Of all rows, the staged ones too; and whether all had to be read again for it."""
        columns, state = self._columns, self.state
        stats = state.stats or carried_stats(self.root, state.episodes, columns)
        is_counted = stats is None
        if stats is None:
            stats = counted_stats(self._tables(), columns, state.frames)
        since = (read() for read in self._tables(stats.episodes))
        try:
            for table in chain(since, [staged.table]):
                stats = stats.added(stats_cells(table, columns))
        except ValueError as err:
            raise DatasetError(f"no statistics: {err}") from err
        if stats.needs_rebuild:
            return counted_stats([*self._tables(), lambda: staged.table], columns, stats.rows), True
        return stats, is_counted

    def _tables(self, first: int = 0) -> Sequence[Callable[[], pa.Table]]:
        """Those of the episodes from ``first`` on."""
        columns = self._columns
        paths = [self.root / self._files(i)[0] for i in range(first, len(self.state.episodes))]
        return [table_of(path, columns) for path in paths]

    def _stage_episode_stats(self, change: Transaction, staged: StagedEpisode) -> dict[str, Any]:
        """Stage the episode's line of episodes_stats.jsonl; gives stats.json's entries of all pictures.

        Only v2.0 readers look for pictures in stats.json, and GR00T n1.5 makes that file anew where it does
        not know the quantiles of an entry, as nobody does for all pictures together.
        """
        is_kept = self._keeps_episode_stats
        if not (is_kept or self.stager.profile.episodes_stats):
            return {}
        pictures = staged.pictures()
        cells = stats_cells(staged.table, self._columns)
        line = episode_stats_line(len(self.state.episodes), cells, pictures)
        if is_kept:
            change.append(f"{META}/{EPISODES_STATS}", json_bytes(line, EPISODES_STATS, indent=None))
        if not pictures or self.stager.profile.dialect != "lerobot-v2.0":
            return {}
        before = read_json(self.root / META / STATS) if self.state.episodes else {}
        return {key: with_episode(before.get(key), line["stats"][key]) for key in pictures}

    @property
    def _keeps_episode_stats(self) -> bool:
        """Whether episodes have a line of statistics each: those that are there decide, then the profile."""
        if self.state.episodes:
            return (self.root / META / EPISODES_STATS).exists()
        return self.stager.profile.episodes_stats

    def _stage_lines(
        self, change: Transaction, staged: StagedEpisode, record: Mapping[str, Any] | None
    ) -> None:
        for name, line in ((EPISODES, staged.line), (SOURCES, staged.source)):
            change.append(f"{META}/{name}", json_bytes(line, name, indent=None))
        if record is not None:
            stage_session(change, record)

    def _stage_files(self, change: Transaction, state: DatasetState, extras: EpisodeExtras) -> None:
        if state.tasks != self.state.tasks:
            change.write(f"{META}/{TASKS}", jsonl_bytes(metadata.task_lines(state.tasks), TASKS))
        stager = self.stager
        stage_description(change, self.root, stager.profile, list(stager.cameras), self.robot_type)
        stage_cameras(change, self.root, len(self.state.episodes), extras.cameras)
        write_meta(change, INFO, dataset_info(self.stager, self.robot_type, state))


def stage_session(change: Transaction, record: Mapping[str, Any]) -> None:
    """Stage a session's record as one line more, and as the latest one."""
    change.append(f"{META}/{SESSIONS}", json_bytes(record, SESSIONS, indent=None))
    write_meta(change, LATEST_SESSION, record)


def stage_cameras(
    change: Transaction, root: Path, index: int, cameras: Mapping[str, Mapping[str, object]]
) -> None:
    """Stage the calibration by camera of episode ``index``, which comes after all others."""
    if cameras or (root / CAMERAS).exists():
        known = read_json(root / CAMERAS) if (root / CAMERAS).exists() else None
        change.write(CAMERAS, json_bytes(merged_cameras(known, index, cameras), CAMERAS))


def dataset_info(stager: EpisodeStager, robot_type: str, state: DatasetState) -> dict[str, Any]:
    """info.json of a dataset that holds ``state``."""
    return metadata.info_json(
        stager.profile,
        stager.features,
        robot_type=robot_type,
        fps=stager.fps,
        episodes=len(state.episodes),
        frames=state.frames,
        tasks=len(state.tasks),
    )
