"""Episodes put behind the first ones of a dataset: their files, and the table that says where they lie."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa

from piper_collect.dataset.dialect import VideoClip
from piper_collect.dataset.parquet import read_table
from piper_collect.dataset.transaction import Transaction
from piper_collect.dataset.v3.layout import (
    DATA,
    DATA_PATH,
    EPISODES,
    EPISODES_PATH,
    VIDEO_PATH,
    Place,
    place_of,
    video_prefix,
)
from piper_collect.dataset.v3.shards import Limits, TableShards, VideoShards, data_room, line_room
from piper_collect.dataset.v3.tables import episode_row

Line = Mapping[str, Any]
_OVERHEAD = 1 << 20
"""Of a parquet file, at most: one that is larger than this and twice what its rows may be is surely full."""


class Fold:
    """Stages files of a dataset that consists of its first ``keep`` episodes and those that are added.

    The files are the same whether episodes are added one at a time or several at once.

    Args:
        change: Where to.
        root: The dataset.
        limits: How large files become.
        video_keys: Its video features.
        lines: The table of episodes as it is, statistics left out.
        keep: How many of them stay as they are.
    """

    def __init__(
        self,
        change: Transaction,
        root: Path,
        limits: Limits,
        video_keys: Sequence[str],
        lines: Sequence[Line],
        keep: int,
    ) -> None:
        self._lines = lines
        self._limits = limits
        self._keep = keep
        self._root = root
        self._count = keep
        self._rows = int(lines[keep - 1]["dataset_to_index"]) if keep else 0
        size = limits.chunks_size
        self._data = TableShards(
            change,
            lambda place: place.path(DATA_PATH),
            size,
            data_room(limits),
            self._last(DATA),
            self._kept_rows(),
        )
        self._episodes = TableShards(
            change,
            lambda place: place.path(EPISODES_PATH),
            size,
            line_room,
            self._last(EPISODES),
            self._kept_lines(),
        )
        self._videos = {key: self._video_shards(change, limits, key) for key in video_keys}
        if keep < len(lines):
            self._cut(change)

    def add(
        self,
        table: pa.Table,
        clips: Mapping[str, VideoClip],
        tasks: Sequence[str],
        stats: Mapping[str, Mapping[str, Any]],
    ) -> dict[str, Any]:
        """Add an episode.

        Args:
            table: Its rows, numbered as they will be.
            clips: Its videos by key; their files stay until ``finish``.
            tasks: Its task strings.
            stats: Its statistics by feature.

        Returns:
            Its row of the table of episodes, statistics left out.
        """
        line: dict[str, Any] = {
            "episode_index": self._count,
            "tasks": list(tasks),
            "length": len(table),
            **self._data.add(table).columns(DATA),
            "dataset_from_index": self._rows,
            "dataset_to_index": self._rows + len(table),
        }
        for key, shards in self._videos.items():
            place, start_s, end_s = shards.add(clips[key])
            prefix = video_prefix(key)
            line |= place.columns(prefix)
            line |= {f"{prefix}/from_timestamp": float(start_s), f"{prefix}/to_timestamp": float(end_s)}
        row = episode_row(line, stats)
        where = self._episodes.place_for(row).columns(EPISODES)
        for column, number in where.items():
            row = row.append_column(column, pa.array([number], pa.int64()))
        self._episodes.add(row)
        line |= where
        self._count += 1
        self._rows += len(table)
        return line

    def finish(self) -> None:
        """Stage the last file of each kind."""
        self._data.finish()
        self._episodes.finish()
        for shards in self._videos.values():
            shards.finish()

    def _last(self, prefix: str) -> Place | None:
        return place_of(self._lines[self._keep - 1], prefix) if self._keep else None

    def _in_last(self, prefix: str) -> Sequence[Line]:
        """Those of the episodes that stay which lie in the last file."""
        last, first = self._last(prefix), self._keep
        while first > 0 and place_of(self._lines[first - 1], prefix) == last:
            first -= 1
        return self._lines[first : self._keep]

    def _kept_rows(self) -> list[pa.Table]:
        lines, last = self._in_last(DATA), self._last(DATA)
        if last is None:
            return []
        path = self._root / last.path(DATA_PATH)
        full = 2 * self._limits.data_bytes + _OVERHEAD
        if self._keep == len(self._lines) and path.stat().st_size > full:
            return []  # nothing is added to it, and it stays as it is
        rows = sum(int(line["length"]) for line in lines)
        return [read_table(path).slice(0, rows)]

    def _kept_lines(self) -> list[pa.Table]:
        lines, last = self._in_last(EPISODES), self._last(EPISODES)
        if last is None:
            return []
        return [read_table(self._root / last.path(EPISODES_PATH)).slice(0, len(lines))]

    def _video_shards(self, change: Transaction, limits: Limits, key: str) -> VideoShards:
        last, clip = self._last(video_prefix(key)), None
        if last is not None:
            end = self._lines[self._keep - 1][f"{video_prefix(key)}/to_timestamp"]
            clip = VideoClip(source=self._root / last.path(VIDEO_PATH, key), end_s=Fraction(float(end)))
        return VideoShards(change, lambda place: place.path(VIDEO_PATH, key), limits, last, clip)

    def _cut(self, change: Transaction) -> None:
        """Take out the files of the episodes that do not stay; those that others share are written anew."""
        for line in self._lines[self._keep :]:
            change.remove(place_of(line, DATA).path(DATA_PATH))
            change.remove(place_of(line, EPISODES).path(EPISODES_PATH))
            for key in self._videos:
                change.remove(place_of(line, video_prefix(key)).path(VIDEO_PATH, key))
        self._data.touch()
        self._episodes.touch()
        for shards in self._videos.values():
            shards.touch()
