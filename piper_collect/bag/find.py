"""Finds bags below the paths a user names, and tells two bags apart by what they hold."""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from blake3 import blake3

from piper_collect.bag.folder import find_storage, split_sets, storage_files
from piper_collect.bag.metadata import METADATA_FILE
from piper_collect.bag.session_folder import EPISODE_JSON
from piper_collect.bag.source import side_files
from piper_collect.core.content_hash import BLAKE3_MARK, HashKind
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
        unrelated storage files gives the files. Where a bag was recovered beside the damaged one, only
        the recovered one is found. Sort by ``BagReader.start_ns`` once opened.

    Raises:
        BagError: A path does not exist, or no bag is there.
    """
    bags: dict[Path, Path] = {}
    for path in paths:
        found = bags_at(path, max_depth)
        if not found:
            raise _nothing_found(path, max_depth)
        for bag in found:
            bags.setdefault(bag.resolve(), bag)
    return list(bags.values())


def bags_at(path: Path, max_depth: int = 3) -> list[Path]:
    """As ``find_bags`` for one path; empty where there is none, or nothing at all.

    Raises:
        BagError: A folder cannot be searched.
    """
    if path.is_file():
        return [path]
    return list(_search(path, max_depth)) if path.is_dir() else []


def recovered_path(bag: Path) -> Path:
    """Where what can be recovered of a bag is put: beside it."""
    return bag.with_name(f"recovered_{bag.name if bag.is_dir() else bag.stem}")


def is_recovered(bag: Path) -> bool:
    """Whether a recovered bag lies beside this one, which then stands for it."""
    target = recovered_path(bag)
    return (target / METADATA_FILE).is_file() and (target / EPISODE_JSON).is_file()


def _nothing_found(path: Path, max_depth: int) -> BagError:
    left = list(unfinished_recordings(path, max_depth)) if path.is_dir() else []
    if left:
        return BagError(
            "only recordings that were never finished are here",
            where=path,
            got=", ".join(map(str, left)),
            hint="piper-collect recover makes episodes of them, marked as incomplete",
        )
    return BagError(
        "no bag here" if path.exists() else "no such path",
        where=path,
        expected=f"{_LOOKED_FOR}, at most {max_depth} folders down ({IN_PROGRESS_FOLDER} left out)",
    )


def content_hash(path: Path, kind: HashKind = "blake3") -> str:
    """Hash of a bag's storage files, in order of their names; what sqlite left beside one belongs to it.

    Neither the bag's name nor its metadata.yaml counts, so that a renamed or re-indexed bag stays
    the same bag.

    Returns:
        64 hexadecimal digits; those of BLAKE3 after ``BLAKE3_MARK``.

    Raises:
        BagError: There is no bag, or it cannot be read.
    """
    files = find_storage(path).files
    if kind == "sha256":
        return files_hash(files)
    return BLAKE3_MARK + _hash_of_hashes(files, blake3)


def files_hash(files: Iterable[Path]) -> str:
    """SHA-256 over storage files, in order of their names; what sqlite left beside one belongs to it.

    Raises:
        BagError: One cannot be read.
    """
    return _hash_of_hashes(files, hashlib.sha256)


def _hash_of_hashes(files: Iterable[Path], make: Callable[[], Any]) -> str:
    total = make()
    for file in sorted(files, key=_split_order):
        for part in (file, *side_files(file)):
            try:
                with part.open("rb") as stream:
                    total.update(hashlib.file_digest(stream, make).digest())
            except OSError as err:
                raise BagError("the storage file cannot be read", where=part, got=err) from err
    return str(total.hexdigest())


def storage_bytes(path: Path) -> int:
    """How large the storage files of a bag are; 0 where that cannot be told."""
    try:
        return sum(file.stat().st_size for file in find_storage(path).files)
    except (BagError, OSError):
        return 0


def _split_order(file: Path) -> tuple[int, str]:
    """Split 10 comes after split 9."""
    return len(file.name), file.name


def unfinished_recordings(folder: Path, depth: int = 3) -> Iterator[Path]:
    """Episodes in the ``.recording`` folders that a search passes by, by name.

    Args:
        folder: Where to look.
        depth: How many folders down from it a session may lie.
    """
    yield from sorted(path for path in (folder / IN_PROGRESS_FOLDER).glob("episode_*") if path.is_dir())
    if depth > 0:
        for entry in sorted(folder.iterdir()):
            if entry.is_dir() and entry.name != IN_PROGRESS_FOLDER:
                yield from unfinished_recordings(entry, depth - 1)


def _search(folder: Path, depth: int) -> Iterator[Path]:
    try:
        entries = sorted(folder.iterdir())
        files = storage_files(folder)
    except OSError as err:
        raise BagError("the folder cannot be searched", where=folder, got=err) from err
    if (folder / METADATA_FILE).is_file():
        yield folder
        return
    sets = split_sets([file for file in files if not is_recovered(file)])
    yield from [folder] if len(sets) == 1 else [file for splits in sets for file in splits]
    if depth <= 0:
        return
    for entry in entries:
        if entry.is_dir() and entry.name != IN_PROGRESS_FOLDER and not is_recovered(entry):
            yield from _search(entry, depth - 1)
