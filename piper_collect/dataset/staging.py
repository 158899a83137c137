"""All of an episode, or nothing of it, whenever the machine stops.

A save writes everything into ``<root>/.staging`` first. Then it moves the parquet and mp4 files into
their places, which no metadata names yet, and renames ``meta/episodes.jsonl``: that rename is the
commit. The other metadata follow, info.json last. ``recover`` tells from what is left in the staging
folder on which side of the commit an interrupted save stopped, and goes back or on.
"""

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from piper_collect.dataset.json_files import json_bytes, read_json
from piper_collect.dataset.layout import (
    EPISODES,
    INFO,
    LATEST_SESSION,
    META,
    MODALITY,
    SESSIONS,
    SOURCES,
    STAGING,
    STATS,
    TASKS,
)
from piper_collect.errors import DatasetError
from piper_collect.files import sync, write_synced

# The commit first, the header last.
COMMIT_ORDER = (EPISODES, TASKS, SOURCES, SESSIONS, LATEST_SESSION, MODALITY, STATS, INFO)

_JOURNAL = "save.json"
_UNSEALED = "meta.unsealed"


class Staging:
    """One save in progress.

    Args:
        root: The dataset.
        files: Every parquet and mp4 path of the episode, below the root.
        new_root: Whether the root was made for this save, and goes if the save is undone.
    """

    def __init__(self, root: Path, files: Sequence[str], *, new_root: bool) -> None:
        self._root = root
        self._files = tuple(files)
        self._folder = root / STAGING
        self._new_root = new_root
        self._sealed = False

    @property
    def committed(self) -> bool:
        """Whether the new state is the one that holds."""
        return self._sealed and not (self._folder / META / EPISODES).exists()

    def begin(self) -> None:
        """Make the staging folder and note in it what the save will add.

        Raises:
            DatasetError: when a file of the episode is there already.
        """
        taken = [f for f in self._files if (self._root / f).exists()]
        if taken:
            raise DatasetError(
                "a file that no episode names is in the way",
                where=self._root / taken[0],
                hint="move it out of the dataset",
            )
        parents = {str(p) for f in (*self._files, f"{META}/{EPISODES}") for p in PurePosixPath(f).parents}
        new = [p for p in sorted(parents) if not (self._root / p).exists()]
        new += ["."] if self._new_root else []
        self._folder.mkdir()
        journal = {"files": list(self._files), "folders": new}
        # Written aside and renamed: a journal that is there is whole.
        write_synced(self._folder / (_JOURNAL + ".new"), json_bytes(journal, _JOURNAL))
        os.replace(self._folder / (_JOURNAL + ".new"), self._folder / _JOURNAL)
        sync(self._folder)
        sync(self._root)

    def path(self, file: str) -> Path:
        """Where to write ``file`` (one of the episode's) for now."""
        staged = self._folder / file
        staged.parent.mkdir(parents=True, exist_ok=True)
        return staged

    def seal(self, meta: Mapping[str, bytes]) -> None:
        """Put the metadata of the new state beside the staged files, all of it or none."""
        unsealed = self._folder / _UNSEALED
        unsealed.mkdir()
        for name, content in meta.items():
            write_synced(unsealed / name, content)
        sync(unsealed)
        os.replace(unsealed, self._folder / META)
        self._sealed = True
        sync(self._folder)

    def commit(self) -> None:
        """Move everything into place.

        After an error ``committed`` tells whether to ``roll_back`` or to ``finish``.
        """
        for file in self._files:
            target = self._root / file
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(self._folder / file, target)
        (self._root / META).mkdir(exist_ok=True)
        for folder in sorted({p for f in self._files for p in PurePosixPath(f).parents}):
            sync(self._root / folder)
        os.replace(self._folder / META / EPISODES, self._root / META / EPISODES)
        self.finish()

    def finish(self) -> None:
        """Complete a committed save; may be repeated."""
        if self._folder.exists():
            _finish(self._root)

    def roll_back(self) -> None:
        """Undo a save that is not committed; may be repeated."""
        _roll_back(self._root)


def recover(root: Path) -> str | None:
    """Complete or undo an interrupted save.

    Returns:
        What was done, or None when nothing was left over.
    """
    folder = root / STAGING
    if not folder.exists():
        return None
    if _is_committed(folder):
        _finish(root)
        return f"{root}: the metadata of an interrupted save was completed"
    removed = _roll_back(root)
    names = f": {', '.join(removed)}" if removed else ""
    return f"{root}: the leftovers of an interrupted save were removed{names}"


def _is_committed(folder: Path) -> bool:
    return (folder / META).exists() and not (folder / META / EPISODES).exists()


def _finish(root: Path) -> None:
    folder = root / STAGING
    sync(root / META)
    for name in COMMIT_ORDER:
        if (folder / META / name).exists():
            os.replace(folder / META / name, root / META / name)
    sync(root / META)
    _clear(root)


def _roll_back(root: Path) -> list[str]:
    folder = root / STAGING
    if not folder.exists():
        return []
    if (folder / META).exists():
        # So that a second interruption cannot take it for a committed save.
        os.replace(folder / META, folder / _UNSEALED)
        sync(folder)
    journal = _journal(folder)
    removed = []
    for file in journal["files"]:
        if (root / file).exists():
            (root / file).unlink()
            removed.append(file)
    for path in sorted(journal["folders"], key=len, reverse=True):
        if path != "." and (root / path).is_dir() and not any((root / path).iterdir()):
            (root / path).rmdir()
    _clear(root)
    if "." in journal["folders"] and not any(root.iterdir()):
        root.rmdir()
    return removed


def _clear(root: Path) -> None:
    """Remove the staging folder, its journal first: without one there is nothing to undo."""
    folder = root / STAGING
    if (folder / _JOURNAL).exists():
        (folder / _JOURNAL).unlink()
        sync(folder)
    shutil.rmtree(folder)
    sync(root)


def _journal(folder: Path) -> dict[str, Any]:
    if not (folder / _JOURNAL).exists():
        return {"files": [], "folders": []}
    journal = read_json(folder / _JOURNAL)
    paths = [*journal.get("files", [None]), *journal.get("folders", [None])]
    inside = ("data", "videos", META)
    if not all(isinstance(p, str) and (p == "." or _is_below(p, inside)) for p in paths):
        raise DatasetError(
            "is not the journal of a save", where=folder / _JOURNAL, hint="look at the folder and remove it"
        )
    return journal


def _is_below(path: str, folders: Sequence[str]) -> bool:
    parts = PurePosixPath(path).parts
    return bool(parts) and parts[0] in folders and ".." not in parts
