"""Reads datasets of HDF5 cases (see ``EpisodeReader``)."""

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
from piper_collect.dataset.hdf5.files import opened, read_columns, read_video, stored_columns
from piper_collect.dataset.hdf5.layout import Line, tasks_of
from piper_collect.dataset.json_files import read_json, read_jsonl
from piper_collect.dataset.layout import EPISODES, INFO, META, SESSIONS, SOURCES, check_below_root
from piper_collect.dataset.parquet import BOOKKEEPING
from piper_collect.dataset.reader import check_info
from piper_collect.dataset.remux import clip_times
from piper_collect.dataset.renumber import renumbered
from piper_collect.errors import DatasetError
from piper_collect.imaging.frames import video_frame_to_rgb

_LINE = {
    "hdf5_path": str,
    "length": int,
    "instruction": str,
    "tasks": list,
    "session": str,
    "robot": str,
    "family": str,
    "case": str,
    "h5_episode_index": int,
}
"""What everybody reads of a line of episodes.jsonl."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HDF5CasesReader(Described):
    """The metadata of a dataset, and its files on demand.

    Attributes:
        root: The dataset.
        info: Content of info.json.
        tasks: Task strings by task_index.
        episodes: Lines of episodes.jsonl by episode_index, from 0 without a gap.
        sources: Lines of episode_sources.jsonl by episode_index; empty where there are none.
        sessions: Lines of collection_sessions.jsonl, oldest first.
        first_rows: Rows of all episodes before each.
    """

    root: Path
    info: Mapping[str, Any]
    tasks: Mapping[int, str]
    episodes: Mapping[int, Line]
    sources: Mapping[int, Line] = field(default_factory=dict)
    sessions: tuple[Line, ...] = ()
    first_rows: Mapping[int, int] = field(default_factory=dict)
    _lines: list[dict[int, EpisodeLine]] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def robots(self) -> tuple[str, ...]:
        """Folders below the root that its cases lie in."""
        return tuple(sorted({str(line["robot"]) for line in self.episodes.values()}))

    @property
    def lines(self) -> dict[int, EpisodeLine]:
        """What every format tells of an episode, by number."""
        if not self._lines:
            self._lines.append(self._made_lines())
        return self._lines[0]

    def _made_lines(self) -> dict[int, EpisodeLine]:
        return {
            index: EpisodeLine(
                length=line["length"],
                tasks=(line["instruction"],),
                source=self.sources.get(index, {}),
                frames=frames_told(self.sources.get(index, {})),
            )
            for index, line in self.episodes.items()
        }

    def data_path(self, episode_index: int) -> Path:
        """Path of an episode's file; it need not exist.

        Raises:
            DatasetError: There is no such episode, or its path leads out of the dataset.
        """
        if episode_index not in self.episodes:
            raise DatasetError("there is no such episode", where=self.root, got=episode_index)
        path = str(self.episodes[episode_index]["hdf5_path"])
        check_below_root(path)
        return self.root / path

    def rows(self, episode_index: int, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of an episode: its columns, and those that follow from its place in the dataset.

        Args:
            episode_index: Its number.
            columns: Those that are wanted; all by default.

        Raises:
            DatasetError: They cannot be read, or are not as many as the list of episodes says.
        """
        path, line = self.data_path(episode_index), self.episodes[episode_index]
        with opened(path) as file:
            table, tasks = read_columns(file, stored_columns(self.info["features"]))
        length = len(table)
        if length != line["length"]:
            raise DatasetError(
                "there are not as many rows as the list of episodes says",
                where=path,
                expected=line["length"],
                got=length,
            )
        if not tasks or tasks[0] != line["instruction"] or set(tasks) - set(self.tasks.values()):
            raise DatasetError("its tasks are not those of the list of episodes", where=path, got=tasks)
        for key in (k for k in BOOKKEEPING if k not in table.column_names):
            numbers = np.arange(length) if key == "frame_index" else np.zeros(length)
            table = table.append_column(key, pa.array(numbers.astype(np.int64)))
        first = self.first_rows[episode_index]
        everyone = tuple(self.tasks[i] for i in sorted(self.tasks))
        table = renumbered(table, episode_index, first, dict(enumerate(tasks)), everyone)
        known = [k for k, f in self.info["features"].items() if f["dtype"] != "video"]
        missing = [key for key in columns or () if key not in known]
        if missing:
            raise DatasetError("columns are missing", where=path, got=", ".join(missing))
        return table.select(known if columns is None else list(columns))

    def clip(self, episode_index: int, key: str) -> VideoClip:
        """The video of an episode: all of its bytes.

        Raises:
            DatasetError: There is no such feature, or the file cannot be read.
        """
        if key not in self.video_keys:
            raise DatasetError("no such video feature", where=self.root, got=key, valid=self.video_keys)
        return VideoClip(source=io.BytesIO(read_video(self.data_path(episode_index), key)))

    def frame_times(self, episode_index: int, key: str) -> FloatArray:
        """PTS of every frame in seconds, float64 [F]; nothing is decoded.

        Raises:
            DatasetError: The video cannot be read.
        """
        return clip_times(self.clip(episode_index, key))

    def frames(self, episode_index: int, key: str) -> Iterator[tuple[float, NDArray[np.uint8]]]:
        """(PTS in seconds, uint8 [H, W, 3] RGB) of every frame, decoded one at a time.

        Raises:
            DatasetError: The video cannot be read.
        """
        try:
            with av.open(self.clip(episode_index, key).source, "r") as container:
                for picture in container.decode(video=0):
                    yield float(picture.time or 0.0), video_frame_to_rgb(picture)
        except (FFmpegError, OSError, IndexError) as err:
            where = f"{self.data_path(episode_index)}, {key}"
            raise DatasetError(f"not a readable video: {err}", where=where) from err


def open_cases(root: Path) -> HDF5CasesReader:
    """Read the metadata of the dataset at ``root``; no HDF5 file is opened.

    Raises:
        DatasetError: It is none, or a file of it is damaged.
    """
    meta = root / META
    info = read_json(meta / INFO)
    check_info(meta / INFO, info)
    lines = read_jsonl(meta / EPISODES)
    first_rows, rows = {}, 0
    for index, line in enumerate(lines):
        _check_line(meta / EPISODES, index, line)
        first_rows[index] = rows
        rows += line["length"]
    return HDF5CasesReader(
        root=root,
        info=info,
        tasks=dict(enumerate(tasks_of(lines))),
        episodes=dict(enumerate(lines)),
        sources={int(s["episode_index"]): s for s in _lines(meta / SOURCES)},
        sessions=tuple(_lines(meta / SESSIONS)),
        first_rows=first_rows,
    )


def _lines(path: Path) -> list[dict[str, Any]]:
    return read_jsonl(path) if path.exists() else []


def _check_line(path: Path, index: int, line: Line) -> None:
    """Numbers follow each other, and what everybody reads is there."""
    if line.get("episode_index") != index:
        raise DatasetError(
            "the episodes are not numbered from 0 without a gap",
            where=path,
            expected=index,
            got=line.get("episode_index"),
        )
    wrong = [key for key, kind in _LINE.items() if not isinstance(line.get(key), kind)]
    if wrong or line["length"] < 1 or not all(isinstance(t, str) for t in line["tasks"]):
        raise DatasetError(
            f"the line of episode {index} is not whole", where=path, got=", ".join(wrong) or line["length"]
        )
