"""Writing files so that a kill at any instant leaves the old content or the new, never a part."""

import os
from pathlib import Path


def write_atomic(path: Path, content: str | bytes) -> None:
    """Replace ``path`` by ``content`` (text as UTF-8) and put both file and folder on disk.

    Raises:
        OSError: as the system reports it; the old file is then untouched.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(content.encode("utf-8") if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    fsync_folder(path.parent)


def fsync_folder(folder: Path) -> None:
    """Put the entries of ``folder`` (names made, renamed, removed) on disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
