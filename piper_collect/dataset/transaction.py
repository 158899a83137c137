"""All of a change to a dataset, or nothing of it, whenever the machine stops.

Everything new is written into ``<root>/.staging`` first. Then a journal that names what goes where is
renamed into place there: that rename is the commit. Only after it are the files moved, lines appended and
old files removed, each step such that it may be repeated. So an interrupted change has no journal, and is
dropped, or it has one, and is completed.
"""

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from piper_collect.dataset.json_files import json_bytes, read_json
from piper_collect.dataset.layout import EXTRAS, INFO, META, STAGING
from piper_collect.errors import DatasetError
from piper_collect.files import sync, write_synced

_JOURNAL = "journal.json"
LEROBOT_FOLDERS = ("data", "videos", META, EXTRAS)
_SCRATCH = "scratch"
_ROWS = ("data/**/*.parquet", "*/*/*/dataset/*.h5")
_LAST = f"{META}/{INFO}"


class Transaction:
    """One change in progress; the caller holds the lock of the dataset.

    Args:
        root: The dataset; its folder exists.
        new_root: Whether the folder was made for this change, and goes if the change is undone.
        folders: Folders below the root in which something may change.
    """

    def __init__(
        self, root: Path, *, new_root: bool = False, folders: Sequence[str] = LEROBOT_FOLDERS
    ) -> None:
        self._root = root
        self._folder = root / STAGING
        self._new_root = new_root
        self._folders = folders
        self._staged: dict[str, None] = {}  # in the order in which they came
        self._appended: dict[str, int] = {}
        self._removed: list[str] = []
        self._sealed = False

    @property
    def committed(self) -> bool:
        """Whether the new state is the one that holds."""
        return self._sealed or (self._folder / _JOURNAL).exists()

    def begin(self) -> None:
        """Make the staging folder."""
        self._folder.mkdir()
        sync(self._root)

    def path(self, file: str) -> Path:
        """Where to write ``file`` (a path below the root) for now; the caller flushes it to the disk.

        Raises:
            DatasetError: it lies outside of the folders of a dataset.
        """
        staged = self._folder / self._checked(file)
        staged.parent.mkdir(parents=True, exist_ok=True)
        self._staged[file] = None
        return staged

    def scratch(self, name: str) -> Path:
        """A place for a file that is of use until the commit only."""
        folder = self._folder / _SCRATCH
        folder.mkdir(exist_ok=True)
        return folder / name

    def write(self, file: str, content: bytes) -> None:
        """Stage ``content`` as ``file``."""
        write_synced(self.path(file), content)

    def append(self, file: str, lines: bytes) -> None:
        """Append whole ``lines`` to ``file``, which need not exist; its cost does not grow with the file."""
        path = self._root / self._checked(file)
        size = path.stat().st_size if path.exists() else 0
        self._appended[file] = size
        chunk = self._folder / _chunk(file)
        chunk.parent.mkdir(parents=True, exist_ok=True)
        joint = b"" if not size or _ends_line(path) else b"\n"
        write_synced(chunk, joint + lines)

    def take(self, existing: str, file: str) -> None:
        """Stage the file ``existing`` of the dataset as ``file``, by a hard link where there are such."""
        target = self.path(file)
        try:
            os.link(self._root / existing, target)
        except OSError:  # a file system without hard links
            shutil.copyfile(self._root / existing, target)
            sync(target)

    def remove(self, file: str) -> None:
        """Remove ``file`` from the dataset; one that is staged as well is replaced instead."""
        self._removed.append(self._checked(file))

    def _checked(self, file: str) -> str:
        if not _is_inside(file) or PurePosixPath(file).parts[0] not in self._folders:
            folders = ", ".join(self._folders)
            raise DatasetError(
                "a file lies where none is changed", where=self._root / file, expected=f"below {folders}"
            )
        return file

    def commit(self) -> None:
        """Make the change hold, and put everything into place.

        After an error ``committed`` tells whether to ``roll_back`` or to ``finish``.
        """
        # An episode may have had nothing to write into a file after all; an old one does not stay for it.
        self._staged = {file: None for file in self._staged if (self._folder / file).exists()}
        written = [*self._staged, *map(_chunk, self._appended)]
        for folder in sorted({str(PurePosixPath(f).parent) for f in written}):
            sync(self._folder / folder)
        staged = sorted(self._staged, key=lambda f: (f == _LAST, f.startswith(f"{META}/"), f))
        removed = sorted(set(self._removed) - set(staged))
        journal = {"staged": staged, "appended": self._appended, "removed": removed}
        write_synced(self._folder / (_JOURNAL + ".new"), json_bytes(journal, _JOURNAL))
        sync(self._folder)
        os.replace(self._folder / (_JOURNAL + ".new"), self._folder / _JOURNAL)
        self._sealed = True
        sync(self._folder)
        self.finish()

    def finish(self) -> None:
        """Complete a committed change; may be repeated."""
        recover(self._root)

    def roll_back(self) -> None:
        """Drop a change that is not committed; may be repeated."""
        if self._folder.exists():
            shutil.rmtree(self._folder)
            sync(self._root)
        if self._new_root and self._root.exists() and not any(self._root.iterdir()):
            self._root.rmdir()


def recover(root: Path) -> str | None:
    """Complete or drop an interrupted change.

    Returns:
        What was done, or None when nothing was left over.

    Raises:
        DatasetError: when the journal is not one.
    """
    folder = root / STAGING
    if not folder.exists():
        return None
    if (folder / _JOURNAL).exists():
        _finish(root)
        return f"{root}: an interrupted save was completed"
    rows = (path for pattern in _ROWS for path in folder.glob(pattern))
    lost = sorted(str(path.relative_to(folder)) for path in rows)
    shutil.rmtree(folder)
    sync(root)
    names = f" (unfinished: {', '.join(lost)})" if lost else ""
    return f"{root}: the leftovers of an interrupted save were removed{names}"


def _finish(root: Path) -> None:
    folder = root / STAGING
    journal = _journal(folder / _JOURNAL)
    for file, size in journal["appended"].items():
        _append(root / file, size, folder / _chunk(file))
    for file in journal["staged"]:
        if (folder / file).exists():
            (root / file).parent.mkdir(parents=True, exist_ok=True)
            os.replace(folder / file, root / file)
    for file in journal["removed"]:
        (root / file).unlink(missing_ok=True)
    names = [*journal["staged"], *journal["appended"], *journal["removed"]]
    for parent in sorted({p for f in names for p in PurePosixPath(f).parents}, key=_depth, reverse=True):
        if (root / parent).is_dir():
            sync(root / parent)
    _remove_empty_folders(root, journal["removed"])
    # The journal goes last of all: as long as it is there, all of this may be done again.
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
    (folder / _JOURNAL).unlink()
    sync(folder)
    folder.rmdir()
    sync(root)


def _append(path: Path, size: int, chunk: Path) -> None:
    """Make ``path`` its first ``size`` bytes and ``chunk`` after them, whatever a first try left.

    Raises:
        DatasetError: it is shorter, so that what was there before is lost.
    """
    if not chunk.exists():
        return
    there = path.stat().st_size if path.exists() else 0
    if there < size:
        raise DatasetError(
            "the file has lost what it held before an interrupted save",
            where=path,
            expected=f"at least {size} bytes",
            got=there,
            hint="restore it from a backup; the save is then completed",
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.truncate(size)
        file.write(chunk.read_bytes())
        file.flush()
        os.fsync(file.fileno())


def _chunk(file: str) -> str:
    return f"append/{file}"


def _ends_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read() == b"\n"


def _depth(path: PurePosixPath) -> int:
    return len(path.parts)


def _remove_empty_folders(root: Path, removed: Sequence[str]) -> None:
    folders = {p for f in removed for p in PurePosixPath(f).parents if len(p.parts)}
    for folder in sorted(folders, key=_depth, reverse=True):
        if (root / folder).is_dir() and not any((root / folder).iterdir()):
            (root / folder).rmdir()


def _journal(path: Path) -> Mapping[str, Any]:
    journal = read_json(path)
    try:
        names = [*journal["staged"], *journal["removed"], *journal["appended"]]
        right = all(map(_is_inside, names)) and all(size >= 0 for size in journal["appended"].values())
    except (KeyError, TypeError, AttributeError):
        right = False
    if not right:
        raise DatasetError(
            "is not the journal of a save", where=path, hint="look at the folder and remove it"
        )
    return journal


def _is_inside(file: str) -> bool:
    parts = PurePosixPath(file).parts
    return len(parts) > 1 and not parts[0].startswith((".", "/")) and ".." not in parts
