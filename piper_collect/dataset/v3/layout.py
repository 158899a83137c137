"""Where the files of a v3.0 dataset lie under its root, and which of its files an episode is in."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

VERSION = "v3.0"

DATA_PATH = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VIDEO_PATH = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
EPISODES_PATH = "meta/episodes/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
EPISODES_FOLDER = "meta/episodes"
TASKS = "meta/tasks.parquet"
TASK_SOURCES = "meta/task_sources.parquet"
QUANTILES_STATE = "extras/quantiles_state.bin"

DATA, EPISODES = "data", "meta/episodes"
STATS_PREFIX = "stats/"

MOST_EPISODE_LINES = 128
"""Episodes in a file of ``meta/episodes``: what a save writes anew stays small."""
MOST_EPISODE_BYTES = 16 * 1024**2
"""Of such a file, uncompressed."""
MOST_VIDEO_S = 500
"""Of a file. Beyond 1024 s float32, in which LeRobot compares times, is coarser than its 1e-4 s; and what a
save copies again stays small."""


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """One of the files of a kind.

    Attributes:
        chunk: Number of its folder.
        file: Number in the folder.
    """

    chunk: int = 0
    file: int = 0

    def next(self, chunks_size: int) -> "Place":
        """The one after it, with at most ``chunks_size`` files a folder."""
        return Place(self.chunk + 1, 0) if self.file + 1 >= chunks_size else Place(self.chunk, self.file + 1)

    def path(self, template: str, key: str = "") -> str:
        """Its path below the root."""
        return template.format(chunk_index=self.chunk, file_index=self.file, video_key=key)

    def columns(self, prefix: str) -> dict[str, int]:
        """As the table of episodes names it."""
        return {f"{prefix}/chunk_index": self.chunk, f"{prefix}/file_index": self.file}


def place_of(line: Mapping[str, Any], prefix: str) -> Place:
    """Where a row of the table of episodes says that its data, or its ``videos/<key>``, lie."""
    return Place(int(line[f"{prefix}/chunk_index"]), int(line[f"{prefix}/file_index"]))


def video_prefix(key: str) -> str:
    """Prefix of the columns of a video feature."""
    return f"videos/{key}"
