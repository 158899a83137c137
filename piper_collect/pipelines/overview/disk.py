"""How much of the disk folders take."""

import os
from collections.abc import Iterator
from pathlib import Path


def folder_bytes(folder: Path) -> int:
    """Bytes of all files below a folder; what vanishes meanwhile does not count."""
    return sum(_sizes(folder))


def _sizes(folder: Path | str) -> Iterator[int]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    yield from _sizes(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    yield entry.stat(follow_symlinks=False).st_size
    except FileNotFoundError:
        return
