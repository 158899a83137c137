"""The video of one episode as a file, wherever its format keeps it."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from piper_collect.dataset.dialect import VideoClip
from piper_collect.dataset.remux import join_clips


@contextmanager
def clip_file(clip: VideoClip) -> Iterator[Path]:
    """A file with just this clip: its own where it has one, else a copy of its packets, for the block only.

    Raises:
        DatasetError: It cannot be read.
    """
    if isinstance(clip.source, Path) and clip.end_s is None and not clip.start_s:
        yield clip.source
        return
    with tempfile.TemporaryDirectory(prefix="piper_collect_") as folder:
        path = Path(folder) / "episode.mp4"
        join_clips([clip], path)
        yield path


def clip_bytes(clip: VideoClip) -> bytes:
    """The bytes of such a file.

    Raises:
        DatasetError: It cannot be read.
        OSError: Its own file cannot be read.
    """
    with clip_file(clip) as path:
        return path.read_bytes()
