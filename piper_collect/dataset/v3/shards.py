"""Files of several episodes that grow at the end: only the last one, which is bounded, is written anew."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pyarrow as pa

from piper_collect.dataset.dialect import VideoClip
from piper_collect.dataset.parquet import table_bytes, write_tables
from piper_collect.dataset.remux import ClipFacts, clip_facts, join_clips
from piper_collect.dataset.transaction import Transaction
from piper_collect.dataset.v3.layout import (
    MOST_EPISODE_BYTES,
    MOST_EPISODE_LINES,
    MOST_VIDEO_S,
    Place,
)

_MB = 1024**2


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How large files become.

    Attributes:
        chunks_size: Files a folder.
        data_bytes: Rows of a data file, uncompressed.
        video_bytes: Packets of a video file.
    """

    chunks_size: int
    data_bytes: int
    video_bytes: int

    @classmethod
    def of(cls, info: dict[str, Any]) -> "Limits":
        """As info.json has them."""
        return cls(
            chunks_size=int(info["chunks_size"]),
            data_bytes=int(info["data_files_size_in_mb"]) * _MB,
            video_bytes=int(info["video_files_size_in_mb"]) * _MB,
        )


class TableShards:
    """The parquet files of rows, or of the table of episodes.

    Args:
        change: Where to.
        path: Path of a file below the root.
        chunks_size: Files a folder.
        room: Whether a table fits behind those that a file has.
        place: The last file; None where there is none yet.
        parts: What it holds; nothing where it has no room left, and stays as it is.
    """

    def __init__(
        self,
        change: Transaction,
        path: Callable[[Place], str],
        chunks_size: int,
        room: Callable[[Sequence[pa.Table], pa.Table], bool],
        place: Place | None,
        parts: Sequence[pa.Table],
    ) -> None:
        self._change = change
        self._path = path
        self._chunks_size = chunks_size
        self._room = room
        self._place = place
        self._parts = list(parts)
        self._dirty = False

    def place_for(self, table: pa.Table) -> Place:
        """Where ``add`` would put it."""
        if self._place is None:
            return Place()
        fits = bool(self._parts) and self._room(self._parts, table)
        return self._place if fits else self._place.next(self._chunks_size)

    def add(self, table: pa.Table) -> Place:
        """Put ``table`` behind the others; gives where."""
        place = self.place_for(table)
        if place != self._place:
            self.finish()
            self._parts = []
        self._place = place
        self._parts.append(table)
        self._dirty = True
        return place

    def touch(self) -> None:
        """The last file holds less than it did: write it anew."""
        self._dirty = bool(self._parts)

    def finish(self) -> None:
        """Stage the last file, if anything was added to it."""
        if self._dirty and self._place is not None:
            write_tables(self._parts, self._change.path(self._path(self._place)))
        self._dirty = False


class VideoShards:
    """The videos of one camera.

    Args:
        change: Where to.
        path: Path of a file below the root.
        limits: How large files become.
        place: The last file; None where there is none yet.
        clip: What it holds; None for nothing.
    """

    def __init__(
        self,
        change: Transaction,
        path: Callable[[Place], str],
        limits: Limits,
        place: Place | None,
        clip: VideoClip | None,
    ) -> None:
        self._change = change
        self._path = path
        self._limits = limits
        self._place = place
        self._clips = [] if clip is None else [clip]
        self._facts = [] if clip is None else [clip_facts(clip)]
        self._dirty = False

    def add(self, clip: VideoClip) -> tuple[Place, Fraction, Fraction]:
        """Put ``clip`` behind the others; gives where, and its begin and end there in seconds."""
        facts = clip_facts(clip)
        if self._place is None:
            self._place = Place()
        elif self._clips and not self._has_room(facts):
            self.finish()
            self._place = self._place.next(self._limits.chunks_size)
            self._clips, self._facts = [], []
        start = self._length_s
        self._clips.append(clip)
        self._facts.append(facts)
        self._dirty = True
        return self._place, start, start + facts.length_s

    @property
    def _length_s(self) -> Fraction:
        return sum((f.length_s for f in self._facts), Fraction(0))

    def _has_room(self, facts: ClipFacts) -> bool:
        payload = sum(f.payload_bytes for f in self._facts) + facts.payload_bytes
        return (
            facts.coded == self._facts[-1].coded
            and payload <= self._limits.video_bytes
            and self._length_s + facts.length_s <= MOST_VIDEO_S
        )

    def touch(self) -> None:
        """The last file holds less than it did: write it anew."""
        self._dirty = bool(self._clips)

    def finish(self) -> None:
        """Stage the last file, if anything was added to it."""
        if self._dirty and self._place is not None:
            join_clips(self._clips, self._change.path(self._path(self._place)))
        self._dirty = False


def data_room(limits: Limits) -> Callable[[Sequence[pa.Table], pa.Table], bool]:
    """Whether rows fit into a data file."""
    return lambda parts, table: sum(map(table_bytes, (*parts, table))) <= limits.data_bytes


def line_room(parts: Sequence[pa.Table], table: pa.Table) -> bool:
    """Whether rows fit into a file of the table of episodes; of arrays, statistics are long."""
    lines, size = sum(map(len, parts)) + len(table), sum(map(table_bytes, (*parts, table)))
    return lines <= MOST_EPISODE_LINES and size <= MOST_EPISODE_BYTES
