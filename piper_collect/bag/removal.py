"""Removing a bag: it is renamed out of sight first, so that a kill leaves it whole or gone."""

import shutil
from pathlib import Path

from piper_collect.bag.find import IN_PROGRESS_FOLDER, recovered_path
from piper_collect.bag.folder import find_storage
from piper_collect.bag.metadata import METADATA_FILE
from piper_collect.bag.session_folder import EPISODE_JSON
from piper_collect.bag.source import side_files
from piper_collect.errors import SessionError
from piper_collect.files import sync

_PRUNED = "pruned_"


def bag_files(bag: Path) -> list[Path]:
    """All files of a bag's folder.

    Raises:
        SessionError: It is no folder of a bag alone, so that it cannot be removed without removing, or
            bringing back, something else. The message says what.
        BagError: The bag's storage cannot be found.
    """
    if bag.is_symlink() or not bag.is_dir():
        raise SessionError("is no folder of its own", where=bag)
    storage = find_storage(bag).files
    if any(file.parent != bag for file in storage):
        raise SessionError("its storage lies elsewhere", where=bag)
    known = {METADATA_FILE, EPISODE_JSON, *(f.name for f in storage)}
    known |= {side.name for file in storage for side in side_files(file)}
    files = sorted(bag.iterdir())
    strangers = [path.name for path in files if path.name not in known or not path.is_file()]
    if strangers:
        raise SessionError("holds more than the bag", where=bag, got=", ".join(strangers[:5]))
    replaced = [p for p in bag.parent.iterdir() if p != bag and recovered_path(p) == bag]
    if replaced:
        raise SessionError(
            f"stands for the damaged {replaced[0].name} beside it, which would be exported in its place",
            where=bag,
        )
    return files


def remove_bag(bag: Path) -> None:
    """Remove the folder of a bag.

    Raises:
        SessionError: It cannot be removed; the message says whether it is still there.
    """
    trash = bag.parent / IN_PROGRESS_FOLDER
    made = not trash.exists()
    going = trash / f"{_PRUNED}{bag.name}"
    try:
        trash.mkdir(exist_ok=True)
        bag.rename(going)
    except OSError as err:
        raise SessionError(
            f"the bag cannot be removed, and is where it was: {err.strerror}", where=bag
        ) from err
    finally:
        if made and trash.is_dir() and not any(trash.iterdir()):
            trash.rmdir()
    try:
        sync(bag.parent)
        shutil.rmtree(going)
        if made and not any(trash.iterdir()):
            trash.rmdir()
    except OSError as err:
        raise SessionError(
            f"the bag is out of the session, but not all of it could be deleted: {err.strerror}",
            where=going,
            hint="the next prune of this session deletes the rest",
        ) from err


def removed_halfway(session: Path) -> list[Path]:
    """What kills left of bags that were being removed: they are out of the session already."""
    trash = session / IN_PROGRESS_FOLDER
    return sorted(path for path in trash.glob(f"{_PRUNED}*") if path.is_dir()) if trash.is_dir() else []
