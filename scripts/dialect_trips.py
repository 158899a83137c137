"""A dataset converted to another format and back, and what of it is then otherwise."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from dialect_checks import pixel_faults

from piper_collect.dataset.convert import convert_dataset
from piper_collect.dataset.convert_targets import TARGETS
from piper_collect.dataset.dialect import EpisodeReader
from piper_collect.dataset.layout import VIDEO_KEY_PREFIX
from piper_collect.dataset.parquet import column_values, read_table
from piper_collect.dataset.readers import open_any
from piper_collect.errors import DatasetError

TRIPS: Sequence[tuple[str, str, str]] = (
    ("piper", "lerobot-v2.0", "lerobot-v2.1"),
    ("piper", "lerobot-v2.0", "lerobot-v3.0"),
    ("piper", "lerobot-v2.0", "hdf5-cases"),
    ("train", "lerobot-v2.0", "lerobot-v2.1"),
    ("train", "lerobot-v2.0", "lerobot-v3.0"),
    ("train", "lerobot-v2.0", "hdf5-cases"),
    ("train", "lerobot-v2.1", "lerobot-v3.0"),
    ("trex", "lerobot-v2.1", "lerobot-v3.0"),
    ("tacrich", "lerobot-v3.0", "lerobot-v2.1"),
    ("tacrich", "lerobot-v3.0", "hdf5-cases"),
)
"""Profile, dialect, and the dialect that it is converted to and back from."""

_INSIDE = " › "
_COMPARED = ("data", "videos")
"""Folders whose files are compared as rows and frames."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trip:
    """A dataset converted, and converted back.

    Attributes:
        profile: Name of its profile.
        dialect: Its format.
        via: The other format.
        numbers: Numbers that were compared, of all rows.
        frames: Frames that were compared: times and pixels.
        files: Other files that came back as they were.
        faults: What of rows and frames is not equal.
        changed: What of the other files is not equal.
        lost: By format, what the conversion to it told.
        refused: Why there is no such conversion; empty where there is.
    """

    profile: str
    dialect: str
    via: str
    numbers: int = 0
    frames: int = 0
    files: int = 0
    faults: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    lost: Mapping[str, tuple[str, ...]]
    refused: str = ""


def there_and_back(root: Path, profile: str, dialect: str, via: str, folder: Path) -> Trip:
    """Convert the dataset at ``root`` to ``via``, that one to ``dialect``, and compare with what it was."""
    there, back = folder / "there", folder / "back"
    try:
        out = convert_dataset(root, there, TARGETS[via])
    except DatasetError as err:
        return Trip(profile=profile, dialect=dialect, via=via, lost={}, refused=err.what)
    home = convert_dataset(there, back, TARGETS[dialect])
    before, after = open_any(root), open_any(back)
    faults: list[str] = []
    numbers = _compare_tables(before, after, faults)
    frames = _compare_videos(before, after, faults)
    files, changed = compare_files(root, back)
    stored = _stored_otherwise(before, after)
    return Trip(
        profile=profile,
        dialect=dialect,
        via=via,
        numbers=numbers,
        frames=frames,
        files=files,
        faults=tuple(faults),
        changed=(*stored, *changed),
        lost={via: out.lost, dialect: home.lost},
    )


def _compare_tables(before: EpisodeReader, after: EpisodeReader, faults: list[str]) -> int:
    numbers = 0
    if before.lines != after.lines:
        faults.append("lengths, tasks or sources of episodes differ")
    for index in before.lines:
        one, other = before.rows(index), after.rows(index)
        if one.column_names != other.column_names:
            faults.append(f"episode {index} has the columns {', '.join(other.column_names)}")
            continue
        for key in one.column_names:
            if before.info["features"][key]["dtype"] == "image":
                if not one[key].equals(other[key]):
                    faults.append(f"episode {index}, {key}: other images")
                continue
            a, b = column_values(one, key), column_values(other, key)
            numbers += a.size
            if a.dtype != b.dtype or not np.array_equal(a, b):
                faults.append(f"episode {index}, {key}: other numbers")
    return numbers


def _stored_otherwise(before: EpisodeReader, after: EpisodeReader) -> list[str]:
    """Columns whose cells are of another kind now, the numbers being the same."""
    one, other = (reader.rows(min(reader.lines)).schema for reader in (before, after))
    keys = [key for key in one.names if key in other.names and one.field(key).type != other.field(key).type]
    kinds = sorted({f"{one.field(key).type} → {other.field(key).type}" for key in keys})
    return [f"cells of {', '.join(keys)}: {', '.join(kinds)}"] if keys else []


def _compare_videos(before: EpisodeReader, after: EpisodeReader, faults: list[str]) -> int:
    frames = 0
    if before.video_keys != after.video_keys:
        faults.append("other videos")
        return 0
    for index in before.lines:
        for key in before.video_keys:
            name = f"episode {index}, {key.removeprefix(VIDEO_KEY_PREFIX)}"
            if before.frame_times(index, key).tolist() != after.frame_times(index, key).tolist():
                faults.append(f"{name}: other times")
            one, other = ([p for _, p in reader.frames(index, key)] for reader in (before, after))
            frames += len(one)
            faults += [f"{name}: {fault}" for fault in pixel_faults(other, one)]
    return frames


def compare_files(before: Path, after: Path) -> tuple[int, tuple[str, ...]]:
    """How many of the other files are the same, and what is not."""
    names = sorted({p.relative_to(root).as_posix() for root in (before, after) for p in _others(root)})
    same, changed = 0, list[str]()
    for name in names:
        one, other = before / name, after / name
        if not one.exists() or not other.exists():
            changed.append(f"`{name}` is {'gone' if one.exists() else 'new'}")
        elif one.read_bytes() == other.read_bytes():
            same += 1
        else:
            changed.append(f"`{name}`: {_content_changes(one, other)}")
    return same, tuple(changed)


def _others(root: Path) -> Iterator[Path]:
    for path in root.rglob("*"):
        if path.is_file() and path.relative_to(root).parts[0] not in _COMPARED:
            yield path


def _content_changes(one: Path, other: Path) -> str:
    """What differs of two files, in words."""
    read = {".json": _json, ".jsonl": _json_lines, ".parquet": _table}.get(one.suffix)
    if read is None:
        return "other bytes"
    found: dict[str, dict[str, None]] = {}
    for what, place in _differences(read(one), read(other), ""):
        found.setdefault(what, {})[place] = None
    return "; ".join(f"{what}: {_by_place(places)}" for what, places in found.items()) or "in another order"


def _by_place(places: Iterable[str]) -> str:
    """Places that differ in their last part only, as one."""
    parts: dict[str, list[str]] = {}
    for place in places:
        parent, _, last = place.rpartition(_INSIDE)
        parts.setdefault(parent, []).append(last)
    return ", ".join(f"{p} ({', '.join(lasts)})" if p else ", ".join(lasts) for p, lasts in parts.items())


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _json_lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def _table(path: Path) -> list[dict[str, Any]]:
    return [{key.replace("/", _INSIDE): v for key, v in row.items()} for row in read_table(path).to_pylist()]


def _differences(before: Any, after: Any, place: str) -> Iterator[tuple[str, str]]:
    """How and where two JSON values differ; places in lists are not told apart."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in (*before, *(k for k in after if k not in before)):
            inner = f"{place}{_INSIDE}{key}" if place else key
            if key not in after or key not in before:
                yield "gone" if key in before else "new", inner
            else:
                yield from _differences(before[key], after[key], inner)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for a, b in zip(before, after, strict=True):
            yield from _differences(a, b, place)
    elif before != after:
        yield "other values", place
