"""Which storage files make up a bag, with or without its ``metadata.yaml``."""

import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from piper_collect.bag.metadata import METADATA_FILE, BagMetadata, read_metadata
from piper_collect.bag.note import Note
from piper_collect.bag.source import COMPRESSED_SUFFIXES, STORAGE_SUFFIXES, is_storage
from piper_collect.errors import BagError

_SPLIT_NUMBER = re.compile(r"_(0|[1-9]\d*)$")
"""rosbag2 appends a number without leading zeros to each split."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BagStorage:
    """The files of one bag.

    Attributes:
        files: At least one; not yet ordered by time.
        metadata: None without a readable ``metadata.yaml``.
        notes: What was odd, in plain sentences.
    """

    files: tuple[Path, ...]
    metadata: BagMetadata | None
    notes: tuple[Note, ...] = ()


def storage_files(folder: Path) -> list[Path]:
    """The storage files directly in a folder, sorted by name."""
    return sorted(path for path in folder.iterdir() if is_storage(path) and path.is_file())


def split_sets(files: list[Path]) -> list[list[Path]]:
    """Storage files grouped into bags: ``NAME_0.mcap`` and ``NAME_1.mcap`` are splits of one."""
    sets: defaultdict[tuple[str, str], list[Path]] = defaultdict(list)
    for path in files:
        suffix = next(s for s in COMPRESSED_SUFFIXES + STORAGE_SUFFIXES if path.name.endswith(s))
        stem = path.name.removesuffix(suffix)
        sets[_SPLIT_NUMBER.sub("", stem), suffix].append(path)
    return list(sets.values())


def find_storage(path: Path, *, salvage: bool = False) -> BagStorage:
    """The storage files of a bag.

    Args:
        path: A folder or a storage file.
        salvage: Take all files that are there, whatever ``metadata.yaml`` lists.

    Raises:
        BagError: There is none, one is missing, or the folder holds several bags.
    """
    if path.is_file():
        return BagStorage(files=(path,), metadata=None)
    if not path.is_dir():
        raise BagError("no such bag", where=path, expected="a rosbag2 folder, .mcap or .db3 file")
    present = storage_files(path)
    notes: list[Note] = []
    if (path / METADATA_FILE).is_file():
        try:
            metadata = read_metadata(path / METADATA_FILE)
        except BagError as err:
            text = f"metadata.yaml is of no use ({err.what}); the bag was read from its storage alone."
            notes.append(Note("metadata-unreadable", text))
        else:
            files, odd = (
                _present(metadata, present) if salvage and present else _listed(path, metadata, present)
            )
            return BagStorage(files=files, metadata=metadata, notes=odd)
    else:
        text = "metadata.yaml is missing; topics, counts and times come from the storage alone."
        notes.append(Note("no-metadata", text))
    if not present:
        raise BagError("no bag in this folder", where=path, expected="metadata.yaml, .mcap or .db3 files")
    sets = split_sets(present)
    if len(sets) > 1:
        raise BagError(
            "several bags in one folder without metadata.yaml",
            where=path,
            got=", ".join(file.name for file in present),
            hint="name one of the files",
        )
    return BagStorage(files=tuple(sets[0]), metadata=None, notes=tuple(notes))


def _present(metadata: BagMetadata, present: list[Path]) -> tuple[tuple[Path, ...], tuple[Note, ...]]:
    """All files that are there, packed ones only where their content is not there too."""
    files = tuple(path for path in present if path.with_suffix("") not in present)
    names = {path.name for path in present}
    there = names | {f"{name}.zstd" for name in names}
    missing = [entry for entry in metadata.files if Path(entry).name not in there]
    extra = names - {Path(entry).name for entry in metadata.files}
    notes = []
    if missing and not extra:
        notes.append(
            Note("files-missing", f"files that metadata.yaml lists are missing: {', '.join(missing)}.")
        )
    elif extra:
        text = f"metadata.yaml does not list {', '.join(sorted(extra))}; it was read all the same."
        notes.append(Note("metadata-files", text))
    return files, tuple(notes)


def _listed(
    folder: Path, metadata: BagMetadata, present: list[Path]
) -> tuple[tuple[Path, ...], tuple[Note, ...]]:
    """The files that metadata.yaml lists, found beside it by their base names first."""
    notes = []
    files: list[Path] = []
    missing = []
    for entry in metadata.files:
        candidates = [folder / Path(entry).name, folder / entry, folder.parent / entry]
        if entry.endswith(".zstd"):
            candidates.insert(0, folder / Path(entry).name.removesuffix(".zstd"))
        found = next((path for path in candidates if path.is_file()), None)
        if found is None:
            missing.append(entry)
        else:
            files.append(found)
    if missing and len(metadata.files) == len(present) == 1:
        text = f"metadata.yaml names {missing[0]}; the folder holds {present[0].name}, which was read."
        notes.append(Note("metadata-files", text))
        return (present[0],), tuple(notes)
    if missing or not files:
        raise BagError(
            "storage files of the bag are missing",
            where=folder,
            expected=", ".join(missing) or "at least one file in metadata.yaml",
            got=", ".join(path.name for path in present) or "none",
        )
    extra = [path.name for path in present if path not in files and path.with_suffix("") not in files]
    if extra:
        text = f"metadata.yaml does not list {', '.join(extra)}; left out."
        notes.append(Note("metadata-files", text))
    return tuple(files), tuple(notes)
