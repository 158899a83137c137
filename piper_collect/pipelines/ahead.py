"""Where videos lie that are encoded before their episode's turn comes."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from piper_collect.dataset.guard import locked
from piper_collect.errors import DatasetError

_WORTH_A_PROCESS_BYTES = 50_000_000
_TRIES = 10
"""How often a folder is made that others remove before it can be locked."""


@contextmanager
def ahead_folder(root: Path) -> Iterator[Path]:
    """A new folder beside the dataset ``root``, on the same disk; it is gone at the end.

    What an export that was killed left is removed first; folders of those at work stay.

    Raises:
        DatasetError: None can be made there.
    """
    beside, prefix = root.absolute().parent, f".{root.absolute().name}.ahead-"
    try:
        beside.mkdir(parents=True, exist_ok=True)
        _remove_left(beside, prefix)
        folder, lock = _new(beside, prefix)
    except OSError as err:
        raise DatasetError(
            f"nothing can be written beside the dataset: {err}", where=root, hint="give --workers 1"
        ) from err
    with lock:
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _new(beside: Path, prefix: str) -> tuple[Path, ExitStack]:
    """A folder, and the lock on it; until it is locked, another process may take it for one that was left."""
    for others_may_come in reversed(range(_TRIES)):
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=beside))
        with ExitStack() as stack:
            try:
                stack.enter_context(locked(folder))
            except DatasetError:
                shutil.rmtree(folder, ignore_errors=True)
                if not others_may_come:
                    raise
            if folder.exists():
                return folder, stack.pop_all()
    raise DatasetError("each folder is removed by others as soon as it is made", where=beside)


def default_workers(bags: int, cameras: int, storage_bytes: int) -> int:
    """How many bags to read and encode at the same time, each with one encoder thread a camera.

    As many as there are cores for; fewer where the bags are so small that a process, which takes about a
    second to start, is not worth it.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(bags, cores // max(cameras, 1), storage_bytes // _WORTH_A_PROCESS_BYTES))


def _remove_left(beside: Path, prefix: str) -> None:
    for folder in sorted(p for p in beside.iterdir() if p.name.startswith(prefix)):
        try:
            with locked(folder):
                shutil.rmtree(folder)
        except (DatasetError, OSError):
            continue
