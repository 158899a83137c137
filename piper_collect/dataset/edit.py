"""Taking episodes out of a dataset."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from piper_collect.core.overview import NO_EPISODE
from piper_collect.dataset.guard import locked
from piper_collect.dataset.hdf5.reader import HDF5CasesReader
from piper_collect.dataset.hdf5.rewrite import cases_folders, stage_kept
from piper_collect.dataset.reader import DatasetReader
from piper_collect.dataset.readers import open_any
from piper_collect.dataset.rewrite import Kept, Rewrite
from piper_collect.dataset.transaction import LEROBOT_FOLDERS, Transaction, recover
from piper_collect.dataset.v3.reader import LeRobotV3Reader
from piper_collect.dataset.v3.rewrite import RewriteV3
from piper_collect.errors import DatasetError


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """What became of a dataset.

    Attributes:
        deleted: Numbers of the episodes that left, as they were.
        episodes: How many there are now.
        notes: What was found, repaired or taken out, for people.
    """

    deleted: tuple[int, ...]
    episodes: int
    notes: tuple[str, ...]


Editable: TypeAlias = DatasetReader | LeRobotV3Reader | HDF5CasesReader
"""Datasets that episodes can be taken out of."""


class Editing:
    """A dataset that is locked and whole; see ``editing``.

    Attributes:
        dataset: What it holds.
    """

    def __init__(self, dataset: Editable, note: str | None) -> None:
        self.dataset = dataset
        self._note = note

    def delete(self, episodes: Sequence[int]) -> Edited:
        """Take episodes that are there out, once; those after them move up.

        Raises:
            DatasetError: The dataset cannot be rewritten; it is then as it was.
        """
        kept = [Kept(index=e) for e in self.dataset.episodes if e not in episodes]
        notes = [self._note] if self._note else []
        if episodes:
            change = Transaction(self.dataset.root, folders=_folders(self.dataset))
            try:
                change.begin()
                notes += _rewritten(change, self.dataset, kept)
                change.commit()
            except BaseException as error:
                if not change.committed:
                    change.roll_back()
                    raise
                change.finish()
                if not isinstance(error, OSError):
                    raise
                notes.append(f"{self.dataset.root}: completed at the second try after: {error}")
        if not kept:
            notes.append(NO_EPISODE)
        return Edited(deleted=tuple(episodes), episodes=len(kept), notes=tuple(notes))


@contextmanager
def editing(root: Path) -> Iterator[Editing]:
    """Keep other writers out of the dataset while one decides what leaves it.

    What an interrupted save left is completed or removed first.

    Raises:
        DatasetError: It is no dataset, cannot be read, is damaged, or another process writes it; or the
            disk fails.
    """
    if not root.is_dir():
        raise DatasetError("is no dataset", where=root, expected="a folder with meta/info.json")
    try:
        with locked(root):
            note = recover(root)
            dataset = open_any(root)
            if not isinstance(dataset, Editable):
                raise DatasetError(
                    "episodes cannot be taken out of a dataset of this format",
                    where=root,
                    got=dataset.info.get("codebase_version"),
                )
            if list(dataset.episodes) != list(range(len(dataset.episodes))):
                raise DatasetError("the episodes are not numbered from 0 without a gap", where=root)
            yield Editing(dataset, note)
    except OSError as err:
        raise DatasetError(
            f"the dataset cannot be changed: {err}",
            where=root,
            hint="what was begun is completed or undone when the dataset is next opened",
        ) from err


def delete_episodes(root: Path, episodes: Iterable[int]) -> Edited:
    """Take episodes out; those after them move up, so that all numbers stay without a gap.

    Raises:
        DatasetError: There is no such episode, the dataset cannot be read, or another process writes it;
            it is then as it was.
    """
    with editing(root) as edit:
        return edit.delete(_known(edit.dataset, episodes))


def keep_episodes(root: Path, episodes: Iterable[int]) -> Edited:
    """Take all other episodes out; the order stays.

    Raises:
        DatasetError: As ``delete_episodes``.
    """
    with editing(root) as edit:
        named = _known(edit.dataset, episodes)
        return edit.delete([e for e in edit.dataset.episodes if e not in named])


def delete_last(root: Path, session: str) -> Edited:
    """Take the last episode out, if it is one of ``session``.

    Raises:
        DatasetError: It is of another session, or there is none, or as ``delete_episodes``.
    """
    with editing(root) as edit:
        dataset = edit.dataset
        if not dataset.episodes:
            raise DatasetError("the dataset has no episode to delete", where=root)
        last = max(dataset.episodes)
        owner = dataset.sources.get(last, {}).get("session")
        if owner != session:
            raise DatasetError(
                f"the last episode, {last}, is not of this session",
                where=root,
                expected=f"session {session}",
                got=f"session {owner}" if owner else "no known session",
                hint=f"piper-collect edit {root} --delete {last} takes it out all the same",
            )
        return edit.delete([last])


def _folders(dataset: Editable) -> tuple[str, ...]:
    return cases_folders(dataset) if isinstance(dataset, HDF5CasesReader) else LEROBOT_FOLDERS


def _rewritten(change: Transaction, dataset: Editable, kept: Sequence[Kept]) -> tuple[str, ...]:
    """Stage the dataset with these episodes; gives what was taken out besides."""
    if isinstance(dataset, HDF5CasesReader):
        return stage_kept(change, dataset, [k.index for k in kept])
    if isinstance(dataset, LeRobotV3Reader):
        return RewriteV3(change, dataset, kept).stage().notes
    return Rewrite(change, dataset, kept).stage().notes


def _known(dataset: Editable, episodes: Iterable[int]) -> list[int]:
    named = sorted(set(episodes))
    unknown = [e for e in named if e not in dataset.episodes]
    if unknown:
        raise DatasetError(
            "there is no such episode",
            where=dataset.root,
            expected=f"numbers from 0 to {len(dataset.episodes) - 1}" if dataset.episodes else "none",
            got=", ".join(map(str, unknown)),
        )
    return named
