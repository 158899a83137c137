"""What a layout says of itself beside its columns: statistics of chunks of actions, and when it is ready."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

_FILE = r"[a-z][a-z0-9_]*\.json"
_LONGEST_CHUNK = 10_000
_TAKEN = ("info", "stats", "modality", "embodiment", "relative_stats", "delta_stats", "collection_meta")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkStats:
    """Statistics over chunks of future actions, seen from the state at their start; ``finalize`` makes them.

    Attributes:
        file: Its name under ``meta/``.
        key: Entry of that file.
        state: Column that a chunk is seen from.
        action: Column of the actions, laid out alike: parts in the form ``pose_rot6d`` are poses, all else
            stays as it is.
        rate_hz: Steps a second, whatever the rate of the rows.
        steps: Of a chunk.
    """

    file: str
    key: str
    state: str
    action: str
    rate_hz: float = 20.0
    steps: int = 24

    def __post_init__(self) -> None:
        check_file(self.file)
        if not 0 < self.rate_hz < float("inf"):
            raise ValueError(f"rate_hz must be above 0 (got {self.rate_hz})")
        if not 1 <= self.steps <= _LONGEST_CHUNK:
            raise ValueError(f"steps must be from 1 to {_LONGEST_CHUNK} (got {self.steps})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """What a dataset must have to be ready for its trainer; ``validate --ready`` looks, and writes the file.

    Attributes:
        file: Its name under ``meta/``.
        views: Video features, RGB, with a frame a row.
        columns: Columns of numbers.
    """

    file: str
    views: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_file(self.file)


@dataclass(frozen=True, slots=True, kw_only=True)
class Embodiment:
    """What ``embodiment.json`` tells.

    Attributes:
        tag: What trainers call the robot with these columns; empty for no such file.
        chunks: Statistics of chunks of actions.
        ready: What makes it ready.
    """

    tag: str = ""
    chunks: ChunkStats | None = None
    ready: Readiness | None = None

    def __post_init__(self) -> None:
        if not self.tag and (self.chunks or self.ready):
            raise ValueError("an embodiment with chunks or ready needs a tag")
        if self.chunks and self.ready and self.chunks.file == self.ready.file:
            raise ValueError(f"chunks and ready cannot both be {self.ready.file}")

    def check_columns(self, layouts: Mapping[str, object]) -> None:
        """Check that its columns are there, and that state and action of the chunks are laid out alike.

        Args:
            layouts: How the elements of each stored column are laid out, by key.

        Raises:
            ValueError: Naming the column that is not there or differs.
        """
        chunks = self.chunks
        named = self.ready.columns if self.ready else ()
        named += (chunks.state, chunks.action) if chunks else ()
        for key in named:
            if key not in layouts:
                raise ValueError(f"the embodiment names the column {key}, which is not there")
        if chunks and layouts[chunks.state] != layouts[chunks.action]:
            raise ValueError(f"{chunks.state} and {chunks.action} are not laid out alike, as chunks need")


def check_file(name: str) -> None:
    """Refuse what is no plain name of a JSON file, and those that datasets have anyway.

    Raises:
        ValueError: Naming it.
    """
    if not re.fullmatch(_FILE, name):
        raise ValueError(f"{name!r} is no name of a JSON file: lower case, digits and _, then .json")
    if name.removesuffix(".json") in _TAKEN:
        raise ValueError(f"{name} is a file that datasets have anyway")
