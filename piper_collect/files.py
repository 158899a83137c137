"""Writing files so that a kill at any instant leaves the old content or the new, never a part."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def write_atomic(path: Path, content: str | bytes, *, mode: int = 0o666) -> None:
    """Replace ``path`` by ``content`` (text as UTF-8), and put both file and name on the disk.

    Args:
        path: The file.
        content: All of it.
        mode: Its permissions, less what the process masks; the file never has others, not even for a moment.

    Raises:
        OSError: as the system reports it; the old file is then untouched.
    """
    with replacing(path, mode=mode) as file:
        file.write(content.encode("utf-8") if isinstance(content, str) else content)


@contextmanager
def replacing(path: Path, *, mode: int = 0o666) -> Iterator[BinaryIO]:
    """A file to write piece by piece that takes the place of ``path`` when the block ends well.

    Args:
        path: The file.
        mode: Its permissions, less what the process masks.

    Raises:
        OSError: as the system reports it; the old file is then untouched, as it is after any error in the
            block.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.unlink(missing_ok=True)  # what a killed process of the same number left
        with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync(path.parent)


def nearest_folder(path: Path) -> Path:
    """``path``, or what is nearest to it of the folders above it that exist."""
    there = path.absolute()
    while not there.exists() and there != there.parent:
        there = there.parent
    return there


def write_refusal(path: Path) -> str:
    """Why nothing can be made at ``path``, or where it would be made; empty where it can. Nothing is left."""
    there = nearest_folder(path)
    try:
        with tempfile.TemporaryFile(dir=there):
            return ""
    except OSError as err:
        return f"{there}: {err.strerror}"


def write_synced(path: Path, content: bytes) -> None:
    """Write a new file and flush it to the disk."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync(path: Path) -> None:
    """Flush a finished file, or the entries of a folder (names made, renamed, removed), to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
