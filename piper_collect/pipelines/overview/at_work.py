"""Whether somebody is at work on a folder, found without a lock of one's own, which would be in their way."""

import os
from pathlib import Path

_LOCKS = Path("/proc/locks")


def is_locked(path: Path) -> bool | None:
    """Whether a process holds the lock on ``path``; None where the system does not tell (Linux only)."""
    try:
        lines = _LOCKS.read_text(encoding="ascii").splitlines()
        status = path.stat()
    except OSError:
        return None
    name = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    return any(name in line.split() and "FLOCK" in line for line in lines)
