"""LeRobot v3.0, written from the aligned episode itself (see ``Store``)."""

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from piper_collect.dataset import metadata
from piper_collect.dataset.append import stage_cameras, stage_session
from piper_collect.dataset.columns import task_strings
from piper_collect.dataset.depth import depth_column, depth_key
from piper_collect.dataset.dialect import DatasetKind, FreshEpisode, Staged, VideoClip
from piper_collect.dataset.json_files import json_bytes, read_json
from piper_collect.dataset.layout import (
    INFO,
    META,
    SOURCES,
    STATS,
    video_key,
)
from piper_collect.dataset.meta_files import drop_finalized, stage_description, write_meta
from piper_collect.dataset.parquet import PICTURES, TIMESTAMP, write_table
from piper_collect.dataset.rewrite import Kept
from piper_collect.dataset.running import state_is_due, stats_cells
from piper_collect.dataset.stage import StagedEpisode, extra_files
from piper_collect.dataset.state import DatasetState
from piper_collect.dataset.transaction import LEROBOT_FOLDERS, Transaction
from piper_collect.dataset.v3.fold import Fold
from piper_collect.dataset.v3.layout import (
    DATA_PATH,
    TASK_SOURCES,
    TASKS,
    VERSION,
    VIDEO_PATH,
)
from piper_collect.dataset.v3.made import MadeEpisode
from piper_collect.dataset.v3.reader import open_v3
from piper_collect.dataset.v3.rewrite import Remade, RewriteV3, stage_stats
from piper_collect.dataset.v3.shards import Limits
from piper_collect.dataset.v3.state import V3State, load_v3_state
from piper_collect.dataset.v3.statistics import (
    Cells,
    GrowingStats,
    array_shapes,
    carried,
    episode_entries,
    with_pictures,
)
from piper_collect.dataset.v3.tables import task_sources_table, tasks_table
from piper_collect.errors import DatasetError

_EACH = 8
"""Saves between two that write what the statistics go on from, which is megabytes, once there are as many."""


class LeRobotV3:
    """A v3.0 dataset.

    Args:
        root: The dataset.
        kind: What its episodes have in common.

    Raises:
        DatasetError: The columns or picture sizes cannot be those of a dataset.
    """

    folders: tuple[str, ...] = LEROBOT_FOLDERS

    def __init__(self, root: Path, kind: DatasetKind) -> None:
        self.stager = kind.stager()
        self._root = root
        self._robot_type = kind.robot_type
        self._columns = metadata.stats_columns(kind.profile, list(kind.cameras), list(kind.depths))
        info = self.info(V3State())
        self._limits, self._shapes = Limits.of(info), array_shapes(info["features"])
        self._keys = {camera: video_key(camera) for camera in kind.cameras}
        self._depth_keys = {name: depth_key(name) for name in kind.depths}

    def info(self, state: DatasetState) -> dict[str, Any]:
        """info.json of a dataset that holds ``state``."""
        profile, episodes = self.stager.profile, len(state.episodes)
        return {
            "codebase_version": VERSION,
            "robot_type": self._robot_type,
            "total_episodes": episodes,
            "total_frames": state.frames,
            "total_tasks": len(state.tasks),
            "chunks_size": profile.chunks_size,
            "data_files_size_in_mb": profile.data_file_mb,
            "video_files_size_in_mb": profile.video_file_mb,
            "fps": metadata.whole(self.stager.fps),
            "splits": {"train": f"0:{episodes}"},
            "data_path": DATA_PATH,
            "video_path": VIDEO_PATH,
            "features": metadata.features_json(self.stager.features, profile, self.stager.fps),
        }

    def empty(self) -> V3State:
        """What a dataset without episodes holds."""
        return V3State()

    def load(self) -> V3State:
        """What the dataset holds, checked before it is continued."""
        return load_v3_state(self._root, self.info(V3State()))

    def append(self, change: Transaction, state: V3State, fresh: FreshEpisode) -> Staged:
        """Stage one episode more; of the files that are there, the last of each kind is written anew."""
        index = len(state.episodes)
        self._refuse_orphans(index)
        tasks = tuple(dict.fromkeys((*state.tasks, *task_strings(fresh.episode, self.stager.profile))))
        made = self.make(change, fresh, index=index, first_index=state.frames, tasks=tasks)
        fold = Fold(change, self._root, self._limits, list(self._keys.values()), state.episodes, index)
        line = fold.add(made.table, made.clips, [fresh.episode.task], made.entries)
        fold.finish()
        growing, is_counted = self._grown(state, made.table)
        new = V3State(
            episodes=(*state.episodes, line),
            tasks=tasks,
            sources=(*state.sources, made.source),
            sessions=state.sessions if fresh.record is None else (*state.sessions, fresh.record),
            growing=growing,
        )
        before = read_json(self._root / META / STATS) if index else {}
        pictures = {k: with_pictures(before.get(k), dict(made.entries[k])) for k in made.picture_keys}
        is_due = is_counted or (state_is_due(index + 1) and (index < _EACH or (index + 1) % _EACH == 0))
        stats = {**growing.entries(self._shapes), **pictures}
        stage_stats(change, growing, stats, line if is_due else None)
        change.append(f"{META}/{SOURCES}", json_bytes(made.source, SOURCES, indent=None))
        if fresh.record is not None:
            stage_session(change, fresh.record)
        if tasks != state.tasks:
            write_table(tasks_table(tasks), change.path(TASKS))
        stage_description(change, self._root, self.stager.profile, list(self._keys), self._robot_type)
        if self.stager.profile.collection:
            fps, method = self.stager.fps, self.stager.profile.collection
            table = task_sources_table(new.episodes, new.sources, fps, method)
            write_table(table, change.path(TASK_SOURCES))
        stage_cameras(change, self._root, index, fresh.extras.cameras)
        write_meta(change, INFO, self.info(new))
        episode = StagedEpisode(table=made.table, line=line, source=made.source, videos=made.videos)
        return Staged(state=new, episode=episode, notes=drop_finalized(self._root, change))

    def make(
        self,
        change: Transaction,
        fresh: FreshEpisode,
        *,
        index: int,
        first_index: int,
        tasks: Sequence[str],
    ) -> MadeEpisode:
        """Make rows, videos and statistics of an episode as number ``index``, and stage its extras."""
        table = self.stager.table(fresh.episode, index=index, first_index=first_index, tasks=tasks)
        paths = {name: change.scratch(file) for name, file in self.stager.files().items()}
        videos = self.stager.videos(fresh.episode, paths, fresh.extras, fresh.progress)
        for name, key in self._depth_keys.items():
            at = table.schema.get_field_index(TIMESTAMP)
            table = table.add_column(at, key, depth_column(paths[name]))
        self.stager.stage_extras(change, fresh.episode, fresh.extras, index)
        found = {f.key: videos[f.source].pictures for f in self.stager.features if f.dtype in PICTURES}
        looked = {key: histogram for key, histogram in found.items() if histogram is not None}
        try:
            entries = episode_entries(stats_cells(table, self._columns), looked, self._shapes)
        except ValueError as err:
            raise DatasetError(f"no statistics: {err}", where=fresh.episode.name) from err
        return MadeEpisode(
            table=table,
            clips={key: VideoClip(source=paths[camera]) for camera, key in self._keys.items()},
            videos=videos,
            entries=entries,
            source=self.stager.source_line(index, fresh.episode, fresh.identity, videos),
            picture_keys=tuple(looked),
        )

    def replace(self, change: Transaction, state: V3State, index: int, fresh: FreshEpisode) -> Staged:
        """Stage ``fresh`` in the place of episode ``index``; files from there on are written anew."""
        made: list[MadeEpisode] = []

        def make(at: int, first_index: int, tasks: Sequence[str]) -> MadeEpisode:
            made.append(self.make(change, fresh, index=at, first_index=first_index, tasks=tasks))
            return made[0]

        order: list[Kept | Remade] = [Kept(index=i) for i in range(len(state.episodes))]
        used = task_strings(fresh.episode, self.stager.profile)
        order[index] = Remade(tasks=used, make=make, cameras=fresh.extras.cameras)
        new = RewriteV3(change, open_v3(self._root), order).stage()
        if fresh.record is not None:
            stage_session(change, fresh.record)
        after = V3State(
            episodes=new.episodes,
            tasks=new.tasks,
            sources=new.sources,
            sessions=state.sessions if fresh.record is None else (*state.sessions, fresh.record),
            growing=new.growing,
        )
        episode = StagedEpisode(
            table=made[0].table,
            line=new.episodes[index],
            source=made[0].source,
            videos=made[0].videos,
        )
        return Staged(state=after, episode=episode, notes=new.notes)

    def _refuse_orphans(self, index: int) -> None:
        for file in extra_files(index):
            if (self._root / file).exists():
                raise DatasetError(
                    "a file that no episode names is in the way",
                    where=self._root / file,
                    hint="move it out of the dataset",
                )

    def _grown(self, state: V3State, table: pa.Table) -> tuple[GrowingStats, bool]:
        """Statistics of all rows, those of ``table`` too; and whether all had to be read again for it."""
        columns, known = self._columns, state.growing
        known = known or carried(self._root, state.episodes, columns)
        last = stats_cells(table, columns)
        try:
            if known is not None:
                for cells in chain(self._cells(state, known.outer.episodes), [last]):
                    known = known.added(cells)
            if known is not None and not known.outer.needs_rebuild:
                return known, False
            rows = state.frames + len(table)
            return GrowingStats.of(chain(self._cells(state), [last]), rows=rows), True
        except ValueError as err:
            raise DatasetError(f"no statistics: {err}", where=self._root) from err

    def _cells(self, state: V3State, first: int = 0) -> Iterator[Cells]:
        """Those of the episodes from ``first`` on."""
        if first < len(state.episodes):
            reader = open_v3(self._root)
            for index in range(first, len(state.episodes)):
                yield stats_cells(reader.rows(index, self._columns), self._columns)
