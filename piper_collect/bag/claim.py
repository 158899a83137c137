"""Who is at work on a recording: known to others as long as the process lives."""

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path

_SECOND_TRY_S = 0.05


def is_claimed(path: Path) -> bool:
    """Whether somebody is at work on the recording; false where the file system has no locks.

    Raises:
        OSError: It cannot be opened.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False


class Claim:
    """Tells others that a recording is being written or recovered; a kill ends it too.

    Where the file system has no locks (some network ones) it tells nobody, and everybody gets one.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    @classmethod
    def take(cls, path: Path) -> "Claim | None":
        """Claim a folder or a file; None when another claim is on it.

        Raises:
            OSError: It cannot be opened.
        """
        descriptor = os.open(path, os.O_RDONLY)
        try:
            if not _lock(descriptor):
                time.sleep(_SECOND_TRY_S)  # somebody may only have looked
                if not _lock(descriptor):
                    os.close(descriptor)
                    return None
        except OSError:
            return cls(descriptor)
        return cls(descriptor)

    def release(self) -> None:
        """Let others have it; does nothing the second time."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            with suppress(OSError):
                os.close(descriptor)


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
