"""Who may write into a dataset folder, and when."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from piper_collect.dataset.layout import EPISODES, INFO, META
from piper_collect.errors import DatasetError


def check_empty(root: Path) -> None:
    """Refuse a folder that holds something and is no dataset.

    Raises:
        DatasetError: naming some of what is there.
    """
    found = sorted(p.name for p in root.iterdir())
    if found:
        raise DatasetError(
            "the folder is not a dataset",
            where=root,
            expected=f"{META}/{INFO}, or an empty or missing folder",
            got=", ".join(found[:5]) + (", …" if len(found) > 5 else ""),
            hint="name another folder",
        )


def fingerprint(root: Path) -> tuple[int, int, int] | None:
    """Tells one state of episodes.jsonl from another."""
    path = root / META / EPISODES
    if not path.exists():
        return None
    stat = path.stat()
    return stat.st_ino, stat.st_mtime_ns, stat.st_size


@contextmanager
def new_or_locked(root: Path) -> Iterator[bool]:
    """Make ``root`` where it is missing and lock it; yields whether it was made.

    A root that was made and is still empty at the end goes again.
    """
    made = not root.exists()
    root.mkdir(parents=True, exist_ok=True)
    try:
        with locked(root):
            yield made
    finally:
        if made and root.exists() and not any(root.iterdir()):
            root.rmdir()


@contextmanager
def locked(root: Path) -> Iterator[None]:
    """Keep other writers out, as long as this process lives at most.

    Raises:
        DatasetError: when another one is at work.
    """
    descriptor = os.open(root, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as err:
            raise DatasetError("another process is writing this dataset", where=root) from err
        yield
    finally:
        os.close(descriptor)
