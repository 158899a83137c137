"""Export profiles: what a dataset is made of, as data over one writer."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from piper_collect.config.load import find_config, load_yaml, read_config
from piper_collect.config.parse import parse
from piper_collect.core.types import GapPolicy, RowClock
from piper_collect.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class ModalityPart:
    """A named slice of a column, as modality.json describes it.

    Attributes:
        group: ``state`` or ``action``.
        name: Key in the group.
        start: First element.
        end: One past the last element.
        rotation_type: ``quat_wxyz`` for rotations; empty otherwise.
        absolute: Whether the values are absolute.
    """

    group: Literal["state", "action"]
    name: str
    start: int
    end: int
    rotation_type: str = ""
    absolute: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnSpec:
    """One numeric column: its key, the source that feeds it, and what its elements are."""

    key: str
    source: str
    names: tuple[str, ...]
    unit: str
    frame: str = ""
    rotation: Literal["none", "quat_wxyz"] = "none"
    modality: tuple[ModalityPart, ...] = ()

    def __post_init__(self) -> None:
        if not self.names:
            raise ValueError(f"column {self.key} has no elements: its list of names is empty")


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoSpec:
    """How camera frames become video.

    Attributes:
        timing: ``capture``: PTS is the capture time, floored to the time base.
        time_base_hz: Ticks a second of the PTS.
        codec: Encoder name.
        pix_fmt: Pixel format.
        crf: Constant rate factor.
        preset: Encoder preset.
        b_frames: Most B-frames in a row; 0 keeps decode order equal to time order.
        gop: Largest distance between key frames.
    """

    timing: Literal["capture"] = "capture"
    time_base_hz: int = 1000
    codec: str = "libx264"
    pix_fmt: str = "yuv420p"
    crf: int = 23
    preset: str = "veryfast"
    b_frames: int = 0
    gop: int = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Features, row clock, video timing, extra files and dialect of one kind of dataset.

    Attributes:
        name: How it is called.
        dialect: The on-disk writer.
        row_clock: ``action``: one row a commanded tick, decimated to fps, true stamps kept;
            ``grid``: rows at exactly T0 + k/fps.
        on_gap: ``drop_row`` leaves out a row without a fresh value and counts it; ``refuse`` refuses
            the episode.
        chunks_size: Episodes a chunk folder.
        columns: Numeric columns in their order.
        video: Video timing and encoding.
    """

    name: str
    dialect: Literal["lerobot-v2.0"]
    row_clock: RowClock = "action"
    on_gap: GapPolicy = "drop_row"
    chunks_size: int = 1000
    columns: tuple[ColumnSpec, ...]
    video: VideoSpec = field(default_factory=VideoSpec)

    def __post_init__(self) -> None:
        keys = [c.key for c in self.columns]
        if len(set(keys)) != len(keys):
            raise ValueError(f"a column key is given twice: {keys}")
        for column in self.columns:
            for part in column.modality:
                if not 0 <= part.start < part.end <= len(column.names):
                    raise ValueError(
                        f"modality {part.name} slices {part.start}:{part.end} of {column.key}, "
                        f"which has {len(column.names)} elements"
                    )

    @property
    def action_source(self) -> str:
        """Source of the first action column: its stamps are the row clock's candidates."""
        for column in self.columns:
            if column.key.startswith("action"):
                return column.source
        raise ConfigError("the profile has no action column", where=f"profile {self.name}")


def load_profile(source: str | Path) -> Profile:
    """Read a profile by its name (``piper``) or from a YAML file.

    Raises:
        ConfigError: naming the wrong key or word and the nearest valid one.
    """
    path = find_config(source, "profiles")
    return parse(Profile, load_yaml(read_config(path), str(path)), str(path))
