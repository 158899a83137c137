"""Reads LeRobot v2.0 and v2.1 datasets, our own and others'."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import av
import numpy as np
import pyarrow as pa
from av.error import FFmpegError
from numpy.typing import NDArray

from piper_collect.core.types import FloatArray
from piper_collect.dataset.described import Described
from piper_collect.dataset.dialect import EpisodeLine, VideoClip
from piper_collect.dataset.json_files import read_json, read_jsonl
from piper_collect.dataset.layout import (
    DATA_PATH,
    EPISODES,
    INFO,
    META,
    SESSIONS,
    SOURCES,
    STATS,
    TASKS,
    VIDEO_PATH,
    data_path,
    video_path,
)
from piper_collect.dataset.parquet import read_table
from piper_collect.errors import DatasetError
from piper_collect.imaging.frames import video_frame_to_rgb

VERSIONS = ("v2.0", "v2.1")


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetReader(Described):
    """The metadata of a dataset, and its files on demand.

    Attributes:
        root: The dataset.
        info: Content of info.json.
        tasks: Task strings by task_index.
        episodes: Lines of episodes.jsonl by episode_index.
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
    def lines(self) -> dict[int, EpisodeLine]:
        """What every format tells of an episode, by number.

        Raises:
            DatasetError: A line has no length.
        """
        if not self._lines:
            self._lines.append(self._made_lines())
        return self._lines[0]

    def _made_lines(self) -> dict[int, EpisodeLine]:
        return {
            index: EpisodeLine(
                length=self._length(index, line.get("length")),
                tasks=tuple(map(str, line.get("tasks") or ())),
                source=self.sources.get(index, {}),
                frames=_counts(line.get("video_frame_lengths")),
            )
            for index, line in self.episodes.items()
        }

    def _length(self, index: int, length: object) -> int:
        if not isinstance(length, int) or isinstance(length, bool) or length < 0:
            raise DatasetError(
                f"episode {index} has no length",
                where=self.root / META / EPISODES,
                got=repr(length),
                hint="piper-collect validate says more",
            )
        return length

    def data_path(self, episode_index: int) -> Path:
        """Path of an episode's parquet file; it need not exist."""
        template = str(self.info.get("data_path", DATA_PATH))
        return self._path(lambda size: data_path(episode_index, size, template))

    def video_path(self, episode_index: int, key: str) -> Path:
        """Path of an episode's mp4 of the video feature ``key``; it need not exist.

        Raises:
            DatasetError: when there is no such feature.
        """
        if key not in self.video_keys:
            raise DatasetError("no such video feature", where=self.root, got=key, valid=self.video_keys)
        template = str(self.info.get("video_path", VIDEO_PATH))
        return self._path(lambda size: video_path(episode_index, size, key, template))

    def _path(self, fill: Callable[[int], str]) -> Path:
        try:
            path = PurePosixPath(fill(int(self.info.get("chunks_size", 1000))))
        except (KeyError, ValueError, TypeError, IndexError, AttributeError, ZeroDivisionError) as err:
            raise DatasetError(
                f"a path template cannot be filled: {err!r}", where=self.root / META / INFO
            ) from err
        if path.is_absolute() or ".." in path.parts:
            raise DatasetError("a path leads out of the dataset", where=self.root / META / INFO, got=path)
        return self.root / path

    def rows(self, episode_index: int, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of an episode; all columns, or those named.

        Raises:
            DatasetError: when the file cannot be read.
        """
        return read_table(self.data_path(episode_index), columns)

    def frame_times(self, episode_index: int, key: str) -> FloatArray:
        """PTS of every frame in seconds, float64 [F], increasing; nothing is decoded.

        Raises:
            DatasetError: when the video cannot be read.
        """
        path = self.video_path(episode_index, key)
        try:
            with av.open(str(path)) as container:
                stream = _video_stream(container, path)
                pts = [p.pts for p in container.demux(stream) if p.pts is not None and not p.is_discard]
                base = stream.time_base
        except (FFmpegError, OSError) as err:
            raise DatasetError(f"not a readable video: {err}", where=path) from err
        if base is None:
            raise DatasetError("the video has no time base", where=path)
        return np.sort(np.array(pts, dtype=np.float64)) * base.numerator / base.denominator

    def frames(self, episode_index: int, key: str) -> Iterator[tuple[float, NDArray[np.uint8]]]:
        """(PTS in seconds, uint8 [H, W, 3] RGB) of every frame, decoded one at a time.

        Raises:
            DatasetError: when the video cannot be read.
        """
        path = self.video_path(episode_index, key)
        try:
            with av.open(str(path)) as container:
                for picture in container.decode(_video_stream(container, path)):
                    yield float(picture.time or 0.0), video_frame_to_rgb(picture)
        except (FFmpegError, OSError) as err:
            raise DatasetError(f"not a readable video: {err}", where=path) from err

    def clip(self, episode_index: int, key: str) -> VideoClip:
        """Where the video of an episode lies: a file of its own.

        Raises:
            DatasetError: when there is no such feature.
        """
        return VideoClip(source=self.video_path(episode_index, key))


def open_dataset(root: Path) -> DatasetReader:
    """Read the metadata of the dataset at ``root``.

    Raises:
        DatasetError: when it is none, of a version not in ``VERSIONS``, or a file of it is damaged.
    """
    meta = root / META
    if not (meta / INFO).is_file():
        raise DatasetError("is no dataset", where=root, expected=f"a file {META}/{INFO}")
    info = read_json(meta / INFO)
    version = info.get("codebase_version")
    if version not in VERSIONS:
        raise DatasetError(
            "a dataset of this version cannot be read",
            where=root,
            expected=" or ".join(VERSIONS),
            got=version,
        )
    check_info(meta / INFO, info)
    return DatasetReader(
        root=root,
        info=info,
        tasks={i: str(line.get("task", "")) for i, line in _by_index(meta / TASKS, "task_index").items()},
        episodes=_by_index(meta / EPISODES, "episode_index"),
        sources=_by_index(meta / SOURCES, "episode_index") if (meta / SOURCES).exists() else {},
        sessions=tuple(read_jsonl(meta / SESSIONS)) if (meta / SESSIONS).exists() else (),
        stats=read_json(meta / STATS) if (meta / STATS).exists() else None,
    )


def check_info(path: Path, info: Mapping[str, Any]) -> None:
    """Check that what everybody reads of info.json has the types it must have.

    Raises:
        DatasetError: naming what has not.
    """
    fps, features, size = info.get("fps"), info.get("features"), info.get("chunks_size", 1000)
    if isinstance(fps, bool) or not isinstance(fps, int | float) or not 0 < fps < float("inf"):
        raise DatasetError("fps is no rate", where=path, expected="a number above 0", got=repr(fps))
    if not isinstance(size, int) or size < 1:
        raise DatasetError("chunks_size is no number of episodes", where=path, expected="1 or more", got=size)
    if not isinstance(features, dict):
        raise DatasetError("features is no map of columns", where=path, got=type(features).__name__)
    for key, feature in features.items():
        if not isinstance(feature, dict) or not isinstance(feature.get("dtype"), str):
            raise DatasetError(
                f"feature {key} is not described",
                where=path,
                expected="a map with dtype and shape",
                got=feature,
            )


def _counts(told: object) -> dict[str, int]:
    counts = told.items() if isinstance(told, dict) else ()
    return {str(key): count for key, count in counts if isinstance(count, int)}


def _by_index(path: Path, key: str) -> dict[int, Mapping[str, Any]]:
    lines: dict[int, Mapping[str, Any]] = {}
    for line in read_jsonl(path):
        index = line.get(key)
        if not isinstance(index, int) or index in lines:
            raise DatasetError(f"a line has no {key}, or one given before", where=path, got=index)
        lines[index] = line
    return dict(sorted(lines.items()))


def _video_stream(container: av.container.InputContainer, path: Path) -> av.VideoStream:
    if not container.streams.video:
        raise DatasetError("holds no video", where=path)
    return container.streams.video[0]
