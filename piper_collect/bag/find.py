"""Finds bags below the paths a user names, and tells two bags apart by what they hold."""

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from piper_collect.bag.folder import find_storage, split_sets, storage_files
from piper_collect.bag.metadata import METADATA_FILE
from piper_collect.errors import BagError

IN_PROGRESS_FOLDER = ".recording"
"""Holds the episode that is being recorded; never searched."""
_LOOKED_FOR = "a folder with metadata.yaml, .mcap or .db3 files, or such a file"


def find_bags(paths: Iterable[Path], max_depth: int = 3) -> list[Path]:
    """The bags that the paths are or hold.

    Args:
        paths: Bags (folders or storage files) or folders to search.
        max_depth: How many folders down from a named one a bag may lie.

    Returns:
        Each bag once, in the order of ``paths`` and by name within each. A folder that holds several
        unrelated storage files gives the files. Sort by ``BagReader.start_ns`` once opened.

    Raises:
        BagError: A path does not exist, or no bag is there.
    """
    bags: dict[Path, Path] = {}
    for path in paths:
        found = [path] if path.is_file() else list(_search(path, max_depth)) if path.is_dir() else []
        if not found:
            raise BagError(
                "no bag here" if path.exists() else "no such path",
                where=path,
                expected=f"{_LOOKED_FOR}, at most {max_depth} folders down ({IN_PROGRESS_FOLDER} left out)",
            )
        for bag in found:
            bags.setdefault(bag.resolve(), bag)
    return list(bags.values())


def content_hash(path: Path) -> str:
    """SHA-256 over a bag's storage files, in order of their names.

    Neither the bag's name nor its metadata.yaml counts, so that a renamed or re-indexed bag stays
    the same bag.

    Returns:
        64 hexadecimal digits.

    Raises:
        BagError: There is no bag, or it cannot be read.
    """
    total = hashlib.sha256()
    for file in sorted(find_storage(path).files, key=_split_order):
        try:
            with file.open("rb") as stream:
                total.update(hashlib.file_digest(stream, "sha256").digest())
        except OSError as err:
            raise BagError("the storage file cannot be read", where=file, got=err) from err
    return total.hexdigest()


def _split_order(file: Path) -> tuple[int, str]:
    """Split 10 comes after split 9."""
    return len(file.name), file.name


def _search(folder: Path, depth: int) -> Iterator[Path]:
    try:
        entries = sorted(folder.iterdir())
        files = storage_files(folder)
    except OSError as err:
        raise BagError("the folder cannot be searched", where=folder, got=err) from err
    if (folder / METADATA_FILE).is_file() or len(split_sets(files)) == 1:
        yield folder
        return
    for splits in split_sets(files):
        yield from splits
    if depth <= 0:
        return
    for entry in entries:
        if entry.is_dir() and entry.name != IN_PROGRESS_FOLDER:
            yield from _search(entry, depth - 1)
