"""Word that a dataset is ready for its trainer, and of which state of it that is said."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from piper_collect.dataset.embodiment import KnownEmbodiment
from piper_collect.dataset.json_files import read_json
from piper_collect.dataset.layout import DELTA_STATS, META, RELATIVE_STATS
from piper_collect.errors import DatasetError

_FOLDERS = ("data", "videos", META)
STATE = "state_sha256"


def state_digest(root: Path, said: KnownEmbodiment) -> str:
    """SHA-256 of what tells one state of a dataset from another.

    That is the bytes of the files under ``meta/``, and the sizes of all others that a trainer reads. The word
    itself does not count, nor do statistics that a trainer of this layout does not read.

    Args:
        root: The dataset.
        said: What it tells of its embodiment.
    """
    digest = hashlib.sha256()
    for path in _files(root, said):
        name = path.relative_to(root).as_posix()
        content = path.read_bytes() if path.parts[len(root.parts)] == META else b"%d" % path.stat().st_size
        digest.update(f"{name}\0{hashlib.sha256(content).hexdigest()}\n".encode())
    return digest.hexdigest()


def _files(root: Path, said: KnownEmbodiment) -> Iterator[Path]:
    passed_by = {RELATIVE_STATS, DELTA_STATS, said.ready.file if said.ready else ""}
    for folder in _FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            hidden = any(part.startswith(".") for part in path.relative_to(root).parts)
            if path.is_file() and not hidden and not (folder == META and path.name in passed_by):
                yield path


def ready_fault(root: Path, said: KnownEmbodiment) -> str:
    """Why the word that a dataset is ready is not to be trusted; empty where it is, or nobody says so."""
    if said.ready is None or not (root / META / said.ready.file).is_file():
        return ""
    try:
        word: dict[str, Any] = read_json(root / META / said.ready.file)
        state = state_digest(root, said)
    except (DatasetError, OSError) as err:
        return str(err)
    if word.get(STATE) != state:
        return "the dataset changed since it was found ready: piper-collect validate --ready looks again"
    return ""
