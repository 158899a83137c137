"""Where an export may put its dataset, looked at once, before any bag is read."""

from collections.abc import Iterable
from pathlib import Path

from piper_collect.bag.find import IN_PROGRESS_FOLDER
from piper_collect.bag.metadata import METADATA_FILE
from piper_collect.bag.session_folder import SESSION_JSON
from piper_collect.config.profile import Profile
from piper_collect.dataset.output import check_output
from piper_collect.errors import DatasetError

_ANOTHER = "name a folder outside of the recordings"


def check_place(root: Path, profile: Profile, recordings: Iterable[Path]) -> None:
    """Refuse a dataset among the files of a recording, or around one, and a folder that can take none.

    A dataset beside sessions, in the folder that holds them, is none of these.

    Args:
        root: The dataset.
        profile: What it is made of.
        recordings: The bags that go into it, and the folders that are searched.

    Raises:
        DatasetError: Naming both folders, or as ``check_output``.
    """
    paths = list(recordings)
    place = root.resolve()
    bags = {path.resolve() for path in paths if path.is_dir() and (path / METADATA_FILE).is_file()}
    for folder in (place, *place.parents):
        kind = _kind_of_recording(folder, bags)
        if kind:
            is_it = folder == place
            raise DatasetError(
                f"the dataset would lie in {kind}" if not is_it else f"is {kind}, not a dataset",
                where=root,
                expected="a folder of its own",
                got=folder,
                hint=_ANOTHER,
            )
    for path in paths:
        if path.resolve().is_relative_to(place):
            raise DatasetError(
                "the recordings lie in the folder of the dataset",
                where=root,
                expected="a folder of its own",
                got=path,
                hint=_ANOTHER,
            )
    check_output(root, profile)


def _kind_of_recording(folder: Path, bags: Iterable[Path]) -> str:
    """What of a recording a folder is; empty where it is nothing of it."""
    if folder in bags or (folder / METADATA_FILE).is_file():
        return "a bag"
    # people call their own configuration session.yaml too; the record beside it is the recorder's alone
    if folder.name == IN_PROGRESS_FOLDER or (folder / SESSION_JSON).is_file():
        return "a recording session"
    return ""
