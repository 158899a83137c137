"""Reads LeRobot v3.0 datasets, our own and others'."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pyarrow as pa
from av.error import FFmpegError
from numpy.typing import NDArray

from piper_collect.core.types import FloatArray
from piper_collect.dataset.described import Described
from piper_collect.dataset.dialect import EpisodeLine, VideoClip, frames_told
from piper_collect.dataset.json_files import read_json, read_jsonl
from piper_collect.dataset.layout import INFO, META, SESSIONS, SOURCES, STATS, check_template
from piper_collect.dataset.parquet import PICTURES, parquet_file
from piper_collect.dataset.reader import check_info
from piper_collect.dataset.remux import clip_times
from piper_collect.dataset.v3.layout import (
    DATA,
    DATA_PATH,
    VERSION,
    VIDEO_PATH,
    place_of,
    video_prefix,
)
from piper_collect.dataset.v3.tables import episode_tables, read_tasks
from piper_collect.errors import DatasetError
from piper_collect.imaging.frames import video_frame_to_rgb

_IMAGES_AT_A_TIME = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class LeRobotV3Reader(Described):
    """The metadata of a dataset, and its files on demand (see ``EpisodeReader``).

    Attributes:
        root: The dataset.
        info: Content of info.json.
        tasks: Task strings by task_index.
        episodes: Rows of the table of episodes by episode_index, statistics left out.
        sources: Lines of episode_sources.jsonl by episode_index; empty where another tool wrote it.
        sessions: Lines of collection_sessions.jsonl, oldest first; empty as well.
        stats: Content of stats.json, or None.
    """

    root: Path
    info: Mapping[str, Any]
    tasks: Mapping[int, str]
    episodes: Mapping[int, Mapping[str, Any]]
    sources: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    sessions: tuple[Mapping[str, Any], ...] = ()
    stats: Mapping[str, Any] | None = None
    _lines: list[dict[int, EpisodeLine]] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def picture_keys(self) -> tuple[str, ...]:
        """Keys of the features that are pictures: videos, and images in rows."""
        return tuple(k for k, f in self.info["features"].items() if f["dtype"] in PICTURES)

    @property
    def lines(self) -> dict[int, EpisodeLine]:
        """What every format tells of an episode, by number."""
        if not self._lines:
            self._lines.append(self._made_lines())
        return self._lines[0]

    def _made_lines(self) -> dict[int, EpisodeLine]:
        return {
            index: EpisodeLine(
                length=int(line["length"]),
                tasks=tuple(map(str, line.get("tasks") or ())),
                source=self.sources.get(index, {}),
                frames=frames_told(self.sources.get(index, {})),
            )
            for index, line in self.episodes.items()
        }

    def data_path(self, episode_index: int) -> Path:
        """Path of the parquet file that holds an episode's rows; it need not exist."""
        template = check_template(self.info.get("data_path", DATA_PATH), ("chunk_index", "file_index"))
        return self.root / place_of(self._line(episode_index), DATA).path(template)

    def video_path(self, episode_index: int, key: str) -> Path:
        """Path of the mp4 that holds an episode's video of the feature ``key``; it need not exist.

        Raises:
            DatasetError: when there is no such feature.
        """
        if key not in self.video_keys:
            raise DatasetError("no such video feature", where=self.root, got=key, valid=self.video_keys)
        fields = ("chunk_index", "file_index", "video_key")
        template = check_template(self.info.get("video_path") or VIDEO_PATH, fields)
        return self.root / place_of(self._line(episode_index), video_prefix(key)).path(template, key)

    def rows(self, episode_index: int, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of an episode, of some columns if they are named; only their row groups are read.

        Raises:
            DatasetError: when the file cannot be read, or does not hold them.
        """
        path, line = self.data_path(episode_index), self._line(episode_index)
        first = int(line["dataset_from_index"]) - self._first_index(episode_index)
        return read_rows(path, first, int(line["length"]), columns)

    def columns(self, episode_index: int) -> tuple[str, ...]:
        """Names of the columns in the file that holds an episode's rows.

        Raises:
            DatasetError: when the file cannot be read.
        """
        path = self.data_path(episode_index)
        try:
            with parquet_file(path) as file:
                return tuple(file.schema_arrow.names)
        except (OSError, pa.ArrowException) as err:
            raise DatasetError(f"not a readable parquet file: {err}", where=path) from err

    def images(self, episode_index: int, key: str) -> Iterator[bytes]:
        """The encoded images that an episode's rows hold as the feature ``key``, a few at a time in memory.

        Raises:
            DatasetError: They cannot be read, or are files of their own.
        """
        path, line = self.data_path(episode_index), self._line(episode_index)
        first = int(line["dataset_from_index"]) - self._first_index(episode_index)
        for start in range(first, first + int(line["length"]), _IMAGES_AT_A_TIME):
            count = min(_IMAGES_AT_A_TIME, first + int(line["length"]) - start)
            for cell in read_rows(path, start, count, [key])[key].to_pylist():
                if not isinstance(cell, dict) or not cell.get("bytes"):
                    raise DatasetError("a cell holds no picture", where=path, got=str(cell)[:80])
                yield cell["bytes"]

    def _first_index(self, episode_index: int) -> int:
        """Rows of the dataset before the first one of the file that holds this episode."""
        place = place_of(self._line(episode_index), DATA)
        index = episode_index
        while index - 1 in self.episodes and place_of(self.episodes[index - 1], DATA) == place:
            index -= 1
        return int(self.episodes[index]["dataset_from_index"])

    def clip(self, episode_index: int, key: str) -> VideoClip:
        """Where the video of an episode lies.

        Raises:
            DatasetError: when there is no such feature.
        """
        path, line = self.video_path(episode_index, key), self._line(episode_index)
        prefix = video_prefix(key)
        return VideoClip(
            source=path,
            start_s=Fraction(float(line[f"{prefix}/from_timestamp"])),
            end_s=Fraction(float(line[f"{prefix}/to_timestamp"])),
        )

    def frame_times(self, episode_index: int, key: str) -> FloatArray:
        """PTS of every frame in seconds since the start of the episode, float64 [F]; nothing is decoded.

        Raises:
            DatasetError: when the video cannot be read.
        """
        return clip_times(self.clip(episode_index, key))

    def frames(self, episode_index: int, key: str) -> Iterator[tuple[float, NDArray[np.uint8]]]:
        """(PTS in seconds since the start, uint8 [H, W, 3] RGB) of every frame, decoded one at a time.

        Raises:
            DatasetError: when the video cannot be read.
        """
        clip, path = self.clip(episode_index, key), self.video_path(episode_index, key)
        try:
            with av.open(str(path)) as container:
                stream = container.streams.video[0]
                base = Fraction(stream.time_base or 0)
                start, end = round(clip.start_s / base), round((clip.end_s or 0) / base)
                container.seek(start, stream=stream)
                for picture in container.decode(stream):
                    if picture.pts is None or picture.pts < start:
                        continue
                    if picture.pts >= end:
                        return
                    yield float((picture.pts - start) * base), video_frame_to_rgb(picture)
        except (FFmpegError, OSError, IndexError) as err:
            raise DatasetError(f"not a readable video: {err}", where=path) from err

    def _line(self, episode_index: int) -> Mapping[str, Any]:
        if episode_index not in self.episodes:
            raise DatasetError("there is no such episode", where=self.root, got=episode_index)
        return self.episodes[episode_index]


def open_v3(root: Path) -> LeRobotV3Reader:
    """Read the metadata of the v3.0 dataset at ``root``.

    Raises:
        DatasetError: when it is none, or a file of it is damaged.
    """
    meta = root / META
    info = read_json(meta / INFO)
    if info.get("codebase_version") != VERSION:
        raise DatasetError(
            "a dataset of this version cannot be read",
            where=root,
            expected=VERSION,
            got=info.get("codebase_version"),
        )
    check_info(meta / INFO, info)
    sources = read_jsonl(meta / SOURCES) if (meta / SOURCES).exists() else []
    return LeRobotV3Reader(
        root=root,
        info=info,
        tasks=read_tasks(root),
        episodes=_episodes(root, info),
        sources={int(line["episode_index"]): line for line in sources},
        sessions=tuple(read_jsonl(meta / SESSIONS)) if (meta / SESSIONS).exists() else (),
        stats=read_json(meta / STATS) if (meta / STATS).exists() else None,
    )


def read_rows(path: Path, first: int, length: int, columns: Sequence[str] | None = None) -> pa.Table:
    """Rows ``first`` to ``first + length`` of a parquet file, of some columns if they are named.

    Raises:
        DatasetError: It cannot be read, has fewer rows, or lacks a column.
    """
    try:
        with parquet_file(path) as file:
            missing = sorted(set(columns or ()) - set(file.schema_arrow.names))
            if missing:
                raise DatasetError("columns are missing", where=path, expected=", ".join(missing))
            groups, before, at = [], 0, 0
            for number in range(file.metadata.num_row_groups):
                rows = file.metadata.row_group(number).num_rows
                if at + rows > first and at < first + length:
                    groups.append(number)
                elif not groups:
                    before += rows
                at += rows
            if at < first + length or not groups:
                raise DatasetError(
                    "has fewer rows than the table of episodes says",
                    where=path,
                    expected=f"at least {first + length}",
                    got=at,
                )
            wanted = None if columns is None else list(columns)
            rows = file.read_row_groups(groups, columns=wanted, use_threads=False)
            return rows.slice(first - before, length)
    except (OSError, pa.ArrowException) as err:
        raise DatasetError(f"not a readable parquet file: {err}", where=path) from err


def _episodes(root: Path, info: Mapping[str, Any]) -> dict[int, Mapping[str, Any]]:
    keys = [k for k, f in info["features"].items() if f["dtype"] == "video"]
    needed = ["episode_index", "length", "dataset_from_index", "data/chunk_index", "data/file_index"]
    for key in keys:
        names = ("chunk_index", "file_index", "from_timestamp", "to_timestamp")
        needed += [f"{video_prefix(key)}/{name}" for name in names]
    found: dict[int, Mapping[str, Any]] = {}
    for path, table in episode_tables(root):
        missing = [c for c in needed if c not in table.column_names]
        if missing:
            raise DatasetError("columns are missing", where=path, expected=", ".join(missing))
        for line in table.to_pylist():
            holes = [c for c in needed if line[c] is None]
            if holes or line["episode_index"] in found:
                raise DatasetError(
                    "an episode is there twice, or a column of it is null",
                    where=path,
                    got=f"episode {line['episode_index']}{', ' if holes else ''}{', '.join(holes)}",
                )
            found[int(line["episode_index"])] = line
    return dict(sorted(found.items()))
