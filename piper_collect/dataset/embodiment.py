"""``embodiment.json``: how a layout describes itself, and which files of ``meta/`` follow from it."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from piper_collect.config.column_spec import ColumnSpec
from piper_collect.config.embodiment import ChunkStats, Readiness
from piper_collect.config.parse import parse
from piper_collect.config.profile import Profile
from piper_collect.core.chunks import POSE_WIDTH
from piper_collect.dataset.json_files import read_json
from piper_collect.dataset.layout import META
from piper_collect.errors import ConfigError, DatasetError

EMBODIMENT = "embodiment.json"
_GROUPS = ("state", "action", "video")
_CHUNKS, _READY = "relative_stats", "ready"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownEmbodiment:
    """What the embodiment.json of a dataset tells; a file of another tool has neither of these.

    Attributes:
        tag: What trainers call the robot with these columns.
        chunks: Statistics of chunks of actions that it has once it is finalized.
        poses: First element of each pose in the columns of the chunks.
        ready: What makes it ready.
    """

    tag: str = ""
    chunks: ChunkStats | None = None
    poses: tuple[int, ...] = ()
    ready: Readiness | None = None

    @property
    def files(self) -> tuple[str, ...]:
        """Names under ``meta/`` of what is true of one state of the dataset only."""
        return tuple(part.file for part in (self.chunks, self.ready) if part is not None)


def embodiment_json(profile: Profile, robot_type: str, modality: Mapping[str, Any]) -> dict[str, Any]:
    """The content of the file.

    Args:
        profile: One with an embodiment.
        robot_type: As info.json names it.
        modality: The content of modality.json, whose keys it names.
    """
    said = profile.embodiment
    described: dict[str, Any] = {"robot_type": robot_type, "embodiment_tag": said.tag}
    described |= {group: list(modality[group]) for group in _GROUPS}
    if said.chunks is not None:
        (action,) = (c for c in profile.stored if c.key == said.chunks.action)
        described[_CHUNKS] = {**asdict(said.chunks), "poses": list(pose_starts(profile, action))}
    if said.ready is not None:
        described[_READY] = {key: _listed(value) for key, value in asdict(said.ready).items()}
    return described


def pose_starts(profile: Profile, column: ColumnSpec) -> tuple[int, ...]:
    """First element of each part of a column that is a pose with rotation-6D."""
    widths = {c.key: c.width for c in profile.columns if c.source}
    starts, at = [], 0
    for part in column.parts:
        if part.form == "pose_rot6d":
            starts.append(at)
        at += part.width(widths.get(part.column, 0))
    return tuple(starts)


def known_embodiment(root: Path) -> KnownEmbodiment:
    """What the dataset at ``root`` tells of its embodiment; nothing where there is no such file.

    Raises:
        DatasetError: The file is damaged, or what it says of statistics or readiness makes no sense.
    """
    path = root / META / EMBODIMENT
    if not path.is_file():
        return KnownEmbodiment()
    content = read_json(path)
    chunks, ready = content.get(_CHUNKS), content.get(_READY)
    poses = chunks.get("poses") if isinstance(chunks, dict) else []
    try:
        return KnownEmbodiment(
            tag=str(content.get("embodiment_tag", "")),
            chunks=parse(ChunkStats, {k: v for k, v in chunks.items() if k != "poses"}, _CHUNKS)
            if isinstance(chunks, dict)
            else None,
            poses=_starts(poses),
            ready=parse(Readiness, ready, _READY) if isinstance(ready, dict) else None,
        )
    except ConfigError as err:
        raise DatasetError(f"is not to be understood: {err}", where=path) from err


def _starts(poses: object) -> tuple[int, ...]:
    if not isinstance(poses, list) or not all(isinstance(p, int) and p >= 0 for p in poses):
        raise ConfigError("poses are no list of elements", where=_CHUNKS, got=repr(poses)[:80])
    if any(b - a < POSE_WIDTH for a, b in itertools.pairwise(poses)):
        raise ConfigError("poses overlap", where=_CHUNKS, got=poses)
    return tuple(poses)


def _listed(value: object) -> object:
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
