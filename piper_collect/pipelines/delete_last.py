"""Deleting a session's newest episode, in the dataset too where it was exported already."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from piper_collect.bag.find import content_hash
from piper_collect.bag.session_folder import SessionFolder
from piper_collect.core.content_hash import hash_kind
from piper_collect.core.delete_last import RecordedBag, decide_deletion
from piper_collect.core.naming import episode_name
from piper_collect.errors import SessionError

if TYPE_CHECKING:
    from piper_collect.dataset.edit import Editable


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedEpisode:
    """What is gone.

    Attributes:
        index: Number of the episode in its session.
        from_dataset: Numbers that it had in the dataset; empty where it was not there.
    """

    index: int
    from_dataset: tuple[int, ...] = ()


def delete_last(folder: SessionFolder, dataset: Path | None) -> DeletedEpisode:
    """Remove the newest saved episode of a session, first from the dataset, then its bag.

    Nobody else can write the dataset meanwhile, so that no export takes up a bag that is going.

    Args:
        folder: The session.
        dataset: The dataset that its episodes are exported to; None where there is none. It need not be
            there yet.

    Raises:
        SessionError: There is no saved episode, or the dataset holds it with later ones after it, or
            something cannot be removed.
        PiperCollectError: The bag or the dataset cannot be read, or another process writes the dataset;
            both are then as they were.
    """
    saved = folder.episodes()
    if not saved or dataset is None:
        return DeletedEpisode(index=folder.delete_last())
    name = episode_name(saved[-1])
    try:
        if _is_nothing(dataset):
            return DeletedEpisode(index=folder.delete_last())
        return _delete_both(folder, dataset, name)
    except OSError as err:
        raise SessionError(f"the dataset cannot be changed: {err}", where=dataset) from err


def _delete_both(folder: SessionFolder, dataset: Path, bag: str) -> DeletedEpisode:
    from piper_collect.dataset.edit import editing  # heavy, and most recorders never need it

    with editing(dataset) as edit:
        digest = content_hash(folder.path / bag, hash_kind(edit.dataset.sources.values()))
        newest = RecordedBag(session=folder.name, bag=bag, content_hash=digest)
        numbers = sorted(edit.dataset.episodes)
        decision = decide_deletion(newest, [_made_of(edit.dataset, number) for number in numbers])
        if decision.refusal:
            raise SessionError(
                decision.refusal,
                where=dataset,
                hint=f"take it out there first: piper-collect edit {dataset} --delete NUMBER",
            )
        gone = tuple(numbers[place] for place in decision.episodes)
        edit.delete(gone)
        return DeletedEpisode(index=_delete_bag(folder, gone), from_dataset=gone)


def _delete_bag(folder: SessionFolder, gone: tuple[int, ...]) -> int:
    try:
        return folder.delete_last()
    except SessionError as err:
        if not gone:
            raise
        raise SessionError(
            f"{err.what}; it has left the dataset already",
            where=err.where,
            hint="export it again, or remove its folder",
        ) from err


def _is_nothing(dataset: Path) -> bool:
    """Whether there is no dataset yet: no folder, or an empty one."""
    return not dataset.exists() or (dataset.is_dir() and not any(dataset.iterdir()))


def _made_of(dataset: "Editable", number: int) -> RecordedBag:
    line = dataset.sources.get(number, {})
    session, bag, digest = (str(line.get(key) or "") for key in ("session", "bag", "content_hash"))
    return RecordedBag(session=session, bag=bag, content_hash=digest)
