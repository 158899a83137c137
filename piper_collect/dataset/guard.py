"""Who may write into a dataset folder, and when."""

import fcntl
import os
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from piper_collect.dataset.hdf5.layout import CASE_INDEX, VERSION
from piper_collect.dataset.layout import INFO, META, SOURCES
from piper_collect.errors import DatasetError, DatasetLockError

_LONGEST_COMMAND = 120
_ANOTHER = "name another folder"


def check_empty(root: Path) -> None:
    """Refuse a folder that holds something, for a new dataset.

    Raises:
        DatasetError: Saying that it is a dataset already, or naming some of what is there.
    """
    for file, what in ((f"{META}/{INFO}", "a dataset"), (CASE_INDEX, f"a case folder of {VERSION}")):
        if os.access(root / file, os.F_OK):
            raise DatasetError(
                f"the folder is {what} already",
                where=root,
                expected="an empty or missing folder",
                got=f"{file} in it",
                hint=_ANOTHER,
            )
    found = sorted(p.name for p in root.iterdir())
    if found:
        raise DatasetError(
            "the folder is not a dataset",
            where=root,
            expected=f"{META}/{INFO}, or an empty or missing folder",
            got=", ".join(found[:5]) + (", …" if len(found) > 5 else ""),
            hint=_ANOTHER,
        )


def check_apart(out: Path, roots: Iterable[Path]) -> None:
    """Refuse a folder for a new dataset that is one that it is made from, or where one would lie in another.

    Raises:
        DatasetError: Naming the folder and the dataset in its way.
    """
    place = out.resolve()
    for root in roots:
        source = root.resolve()
        if place == source:
            raise DatasetError(
                "OUT is ROOT: a dataset is not written over itself",
                where=out,
                expected="an empty or missing folder",
                got=root,
                hint=_ANOTHER,
            )
        if place.is_relative_to(source) or source.is_relative_to(place):
            raise DatasetError(
                "one dataset would lie in the other",
                where=out,
                expected="a folder beside it",
                got=root,
                hint=_ANOTHER,
            )
    check_outside(out)


def check_outside(folder: Path) -> None:
    """Refuse to write a folder that lies in a dataset.

    Raises:
        DatasetError: Naming the folder and the dataset.
    """
    for above in folder.resolve().parents:
        if os.access(above / META / INFO, os.F_OK):
            raise DatasetError(
                "the folder lies in a dataset",
                where=folder,
                expected="a folder outside",
                got=f"{above} has {META}/{INFO}",
                hint=_ANOTHER,
            )


def fingerprint(root: Path) -> tuple[int, int, int] | None:
    """Tells one state of a dataset from another, by the file that has a line an episode in every format."""
    path = root / META / SOURCES
    if not path.exists():
        return None
    stat = path.stat()
    return stat.st_ino, stat.st_mtime_ns, stat.st_size


def lock_refusal(root: Path) -> str:
    """Why the dataset cannot be had for writing now; empty where it can, or is not there yet."""
    if not root.exists():
        return ""
    try:
        with locked(root):
            return ""
    except DatasetLockError as err:
        return err.what


@contextmanager
def new_or_locked(root: Path) -> Iterator[bool]:
    """Make ``root`` where it is missing and lock it; yields whether it was made.

    A root that was made and is still empty at the end goes again.

    Raises:
        DatasetLockError: It cannot be made, or another process is at work.
    """
    made = not root.exists()
    if not made and not root.is_dir():
        raise DatasetLockError("is a file", where=root, expected="a folder, or nothing there", hint=_ANOTHER)
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as err:
        raise DatasetLockError(f"the dataset folder cannot be made: {err.strerror}", where=root) from err
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
        DatasetLockError: Another one is at work, which is named where it is known, or the folder cannot be
            locked.
    """
    try:
        descriptor = os.open(root, os.O_RDONLY)
    except OSError as err:
        raise DatasetLockError(f"the folder cannot be opened: {err.strerror}", where=root) from err
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as err:
            raise DatasetLockError(
                f"another process is writing this dataset{_holder(descriptor)}",
                where=root,
                hint="wait until it has ended, then run this again",
            ) from err
        except OSError as err:
            raise DatasetLockError(
                f"the folder cannot be locked: {err.strerror}",
                where=root,
                hint="write the dataset to a disk of this machine, and copy it",
            ) from err
        yield
    finally:
        os.close(descriptor)


def check_writable(root: Path) -> None:
    """Refuse a folder that files cannot be made in.

    Raises:
        DatasetLockError: naming it.
    """
    if not os.access(root, os.W_OK | os.X_OK):
        raise DatasetLockError(
            "the dataset folder cannot be written",
            where=root,
            hint="see that it is yours and its disk is not read-only",
        )


def _holder(descriptor: int) -> str:
    """Who holds the lock of an open folder, as ``/proc/locks`` has it; empty where that is not known."""
    status = os.fstat(descriptor)
    place = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    try:
        locks = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except OSError:
        return ""
    for line in locks:
        words = line.split()
        if len(words) > 5 and words[1] == "FLOCK" and words[5] == place:
            return f": process {words[4]}{_program(words[4])} on {socket.gethostname()}"
    return ""


def _program(pid: str) -> str:
    """The command line of a process in brackets; empty where it is not known."""
    try:
        words = Path("/proc", pid, "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    except OSError:
        return ""
    text = b" ".join(words).decode("utf-8", "replace")
    return f" ({text if len(text) <= _LONGEST_COMMAND else text[:_LONGEST_COMMAND] + '…'})" if text else ""
