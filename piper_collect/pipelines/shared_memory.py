"""Shared-memory segments of Fast DDS that killed processes leave in /dev/shm.

Fast DDS names its segments ``fastrtps_*`` and holds a file lock on ``<segment>_el`` while their owner
lives. Only segments that a process of ours had mapped are ever looked at, and only those whose lock
is free are removed.
"""

import fcntl
import os
from collections.abc import Iterable
from pathlib import Path

_SHM = Path("/dev/shm")
_PREFIX = "fastrtps_"
_LOCK = "_el"


def mapped_segments(pid: int) -> set[str]:
    """Names of the Fast DDS segments that process ``pid`` has mapped; empty when it is gone."""
    try:
        maps = Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return set()
    found = set()
    for line in maps.splitlines():
        path = line.split(maxsplit=5)[-1].removesuffix(" (deleted)")
        name = path.removeprefix(f"{_SHM}/")
        if name != path and name.startswith(_PREFIX):
            found.add(name.removesuffix(_LOCK))
    return found


def remove_dead_segments(names: Iterable[str], folder: Path = _SHM) -> list[str]:
    """Remove those of ``names`` whose owner is dead, with their lock and semaphore; what was removed."""
    removed = []
    for name in sorted(set(names)):
        segment, lock = folder / name, folder / f"{name}{_LOCK}"
        if not segment.exists() or not _is_free(lock):
            continue
        for path in (segment, lock, folder / f"sem.{name}_mutex"):
            path.unlink(missing_ok=True)
        removed.append(name)
    return removed


def _is_free(lock: Path) -> bool:
    try:
        descriptor = os.open(lock, os.O_RDWR)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True
