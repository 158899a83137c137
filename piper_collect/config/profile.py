"""Export profiles: what a dataset is made of, as data over one writer."""

import re
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Literal, get_args

from piper_collect.config.column_parts import POSE_FORMS, ColumnPart, ToolFrame
from piper_collect.config.embodiment import Embodiment
from piper_collect.config.load import find_config, load_yaml, read_config
from piper_collect.config.parse import parse
from piper_collect.core.types import GapPolicy, RowClock
from piper_collect.errors import ConfigError

Dialect = Literal["lerobot-v2.0", "lerobot-v2.1", "lerobot-v3.0", "hdf5-cases"]
_COLUMN_KEY = r"\w+(\.\w+)*"
RowValue = Literal["", "reward", "done", "task", "validity", "unix_time", "sample_time"]
Codec = Literal["libx264", "libx265", "libsvtav1"]
Preset = Literal[
    "ultrafast",
    "superfast",
    "veryfast",
    "faster",
    "fast",
    "medium",
    "slow",
    "slower",
    "veryslow",
    "placebo",
]
DATA_FILE_MB, VIDEO_FILE_MB = 16, 32
_SVT_PRESETS = tuple(map(str, range(14)))

ROW_VALUE_DTYPES: dict[str, Literal["float32", "float64", "int64", "bool"]] = {
    "reward": "float32",
    "done": "bool",
    "task": "int64",
    "validity": "int64",
    "unix_time": "float64",
    "sample_time": "float64",
}

_EVERY_DATASET = ("timestamp", "frame_index", "episode_index", "index", "task_index")
_MADE_PREFIXES = ("observation.images.", "source_timestamp.", "source_state.")
_VIDEO_RANGES = {"time_base_hz": (1, 2**31 - 1), "b_frames": (0, 16), "gop": (1, 2**31 - 1)}
"""Smallest and largest: what an mp4 header and the encoders take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModalityPart:
    """A named slice of a column, as modality.json describes it.

    Attributes:
        group: ``state`` or ``action``.
        name: Key in the group.
        start: First element.
        end: One past the last element.
        rotation_type: What a rotation is called: ``quat_wxyz``, or ``quaternion`` (GR00T's own word for
            the same order); empty otherwise.
        absolute: Whether the values are absolute.
    """

    group: Literal["state", "action"]
    name: str
    start: int
    end: int
    rotation_type: Literal["", "quat_wxyz", "quaternion"] = ""
    absolute: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnSpec:
    """One column: its key, its elements, and exactly one of ``source``, ``concat``, ``parts`` and ``value``.

    Attributes:
        key: Name of the column.
        source: Source of the session configuration that fills it.
        concat: Columns of the profile that it is put together from, in this order.
        parts: Columns of the profile that it is made from, in other forms, one after the other.
        stored: Whether it is written; one that is not is there for the parts of others.
        value: What is written in every row: ``reward`` (1 in the last row of a recording whose outcome is
            success, else 0), ``done`` (whether it is the episode's last row), ``task`` (the task's line in
            tasks.jsonl), ``validity`` (the line "valid", or "invalid" for a recording that is not whole),
            ``unix_time`` (the row's time in seconds since the epoch), ``sample_time`` (that of the sample of
            ``of`` that the row shows).
        of: Source or camera whose ``sample_time`` it is.
        names: Name of each element; of columns with a source or parts.
        unit: Unit, in prose.
        frame: Frame of the values.
        rotation: ``quat_wxyz`` when the last four elements are a rotation.
        modality: Slices for modality.json.
        optional: Left out where the session has no such source, or a part of it is left out.
    """

    key: str
    source: str = ""
    concat: tuple[str, ...] = ()
    parts: tuple[ColumnPart, ...] = ()
    stored: bool = True
    value: RowValue = ""
    of: str = ""
    names: tuple[str, ...] = ()
    unit: str = ""
    frame: str = ""
    rotation: Literal["none", "quat_wxyz"] = "none"
    modality: tuple[ModalityPart, ...] = ()
    optional: bool = False

    def __post_init__(self) -> None:
        if sum(map(bool, (self.source, self.concat, self.parts, self.value))) != 1:
            raise ValueError(f"column {self.key} needs exactly one of source, concat, parts and value")
        if bool(self.of) != (self.value == "sample_time"):
            raise ValueError(f"column {self.key}: value sample_time needs of, and nothing else has it")
        if not self.stored and not self.source:
            raise ValueError(f"column {self.key} is not stored, and has no source")
        if not re.fullmatch(_COLUMN_KEY, self.key):
            raise ValueError(f"a column key is words with points between them (got {self.key!r})")
        if (self.source or self.parts) and not self.names:
            raise ValueError(f"column {self.key} has no elements: its list of names is empty")
        if self.names and not (self.source or self.parts):
            raise ValueError(f"column {self.key} has names, but no source: they follow from its parts")
        if self.rotation != "none" and not self.source:
            raise ValueError(f"column {self.key} has a rotation, but no source")
        if self.key in _EVERY_DATASET or self.key.startswith(_MADE_PREFIXES):
            raise ValueError(f"column {self.key} has a name of those that the writer makes itself")


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotationPart:
    """One entry of modality.json's annotations.

    Attributes:
        name: Key of the entry.
        original_key: Column that it stands for; empty where it is ``annotation.<name>``.
    """

    name: str
    original_key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoSpec:
    """How camera frames become video.

    Attributes:
        timing: ``capture``: every frame, PTS is its capture time, floored to the time base; ``row``:
            the frame that each row shows, PTS is exactly k/fps.
        time_base_hz: Ticks a second of the PTS under ``capture``; under ``row`` it is the row rate.
        codec: Encoder name.
        pix_fmt: Pixel format.
        crf: Constant rate factor.
        preset: Encoder preset, by name; of libsvtav1 a number from 0 (slowest) to 13, as text.
        b_frames: Most B-frames in a row; 0 keeps decode order equal to time order.
        gop: Largest distance between key frames.
    """

    timing: Literal["capture", "row"] = "capture"
    time_base_hz: int = 1000
    codec: Codec = "libx264"
    pix_fmt: Literal["yuv420p"] = "yuv420p"
    crf: int = 23
    preset: str = "veryfast"
    b_frames: int = 0
    gop: int = 30

    def __post_init__(self) -> None:
        ranges = {**_VIDEO_RANGES, "crf": (0, 63 if self.codec == "libsvtav1" else 51)}
        for name, (least, most) in ranges.items():
            if not least <= getattr(self, name) <= most:
                raise ValueError(f"{name} must be from {least} to {most} (got {getattr(self, name)})")
        presets = _SVT_PRESETS if self.codec == "libsvtav1" else get_args(Preset)
        if self.preset not in presets:
            near = "".join(f"; did you mean {p!r}?" for p in get_close_matches(self.preset, presets, n=1))
            raise ValueError(f"{self.codec} has no preset {self.preset!r}{near} Valid: {', '.join(presets)}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Columns, row clock, video timing, extra files and dialect of one kind of dataset.

    Attributes:
        name: How it is called.
        dialect: The on-disk format.
        row_clock: ``action``: one row a commanded tick, decimated to fps, true stamps kept;
            ``grid``: rows at exactly T0 + k/fps.
        on_gap: ``drop_row`` leaves out a row without a fresh value and counts it; ``hold`` keeps it with
            the newest value, marked and counted; ``refuse`` refuses the episode.
        timestamp: ``nearest`` float32 to the row's time, or the smallest float32 ``not_below`` k/fps.
        cells: How columns of one element are stored: ``list`` or ``scalar``.
        row_samples: Where the stamps of the samples that each row shows go: ``extras`` (a file beside the
            dataset), ``columns`` (``source_timestamp.*`` and ``source_state.*``), or ``none``.
        statistics: stats.json covers the ``features`` with a source, and ``timestamp``, or ``all`` columns.
        stock_info: Whether info.json has what stock LeRobot adds: totals of videos and chunks, and
            ``info`` of each video.
        episodes_stats: Whether ``episodes_stats.jsonl`` is written.
        collection: How the episodes were collected, as ``task_sources.parquet`` (v3.0) says; empty for no
            such file.
        image_stats: Whether the statistics of each episode cover the pictures (in v2.0, stats.json too).
        chunks_size: Episodes a chunk folder; of v3.0, files a chunk folder.
        data_file_mb: Of v3.0: megabytes of rows (uncompressed) after which a new file begins.
        video_file_mb: Of v3.0: megabytes of video after which a new file begins. A save writes the last
            file of each kind anew, so these bound what it costs.
        embodiment: What ``embodiment.json`` tells of the layout; without a tag there is no such file.
        tool: Frame fixed to the flange, for parts of columns that are poses of it.
        columns: Columns in their order.
        annotations: Annotations of modality.json.
        video: Video timing and encoding.
    """

    name: str
    dialect: Dialect
    row_clock: RowClock = "action"
    on_gap: GapPolicy = "drop_row"
    timestamp: Literal["nearest", "not_below"] = "nearest"
    cells: Literal["list", "scalar"] = "list"
    row_samples: Literal["extras", "columns", "none"] = "extras"
    statistics: Literal["features", "all"] = "features"
    stock_info: bool = False
    episodes_stats: bool = False
    image_stats: bool = False
    collection: str = ""
    chunks_size: int = 1000
    data_file_mb: int = DATA_FILE_MB
    video_file_mb: int = VIDEO_FILE_MB
    embodiment: Embodiment = field(default_factory=Embodiment)
    tool: ToolFrame = field(default_factory=ToolFrame)
    columns: tuple[ColumnSpec, ...]
    annotations: tuple[AnnotationPart, ...] = ()
    video: VideoSpec = field(default_factory=VideoSpec)

    def __post_init__(self) -> None:
        keys = [c.key for c in self.columns]
        if len(set(keys)) != len(keys):
            raise ValueError(f"a column key is given twice: {keys}")
        if not self.sources:
            raise ValueError("no column has a source")
        for name in ("chunks_size", "data_file_mb", "video_file_mb"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1 (got {getattr(self, name)})")
        if self.dialect == "lerobot-v2.1" and not self.episodes_stats:
            raise ValueError("the dialect lerobot-v2.1 needs episodes_stats: true")
        if self.dialect == "lerobot-v3.0":
            self._check_v3()
        if self.dialect == "hdf5-cases":
            self._check_cases()
        self._check_clock()
        for column in self.columns:
            _check_modality(column, self.names_of(column))
            if column.parts:
                _check_parts(column, self.columns)
        self._check_rotations()
        self._check_annotations()
        self.embodiment.check_columns({c.key: self._layout(c) for c in self.stored})

    def _check_v3(self) -> None:
        wanted = {"cells": "scalar", "statistics": "all", "stock_info": True, "image_stats": True}
        missing = [f"{k}: {str(v).lower()}" for k, v in wanted.items() if getattr(self, k) != v]
        if missing:
            raise ValueError(f"the dialect lerobot-v3.0 needs {', '.join(missing)}")

    def _check_cases(self) -> None:
        if self.video.timing != "row" or self.video.codec != "libx264":
            raise ValueError(
                "the dialect hdf5-cases needs video.timing: row and video.codec: libx264, "
                "since its videos are H.264 with one frame a row"
            )

    def _check_clock(self) -> None:
        if self.row_clock == "grid" and self.on_gap == "drop_row":
            raise ValueError(
                "row_clock grid needs on_gap hold or refuse: without a row, k/fps is not its time"
            )
        if self.row_clock == "action" and (self.video.timing == "row" or self.timestamp == "not_below"):
            raise ValueError("video.timing row and timestamp not_below need row_clock grid")

    def _check_rotations(self) -> None:
        found: dict[str, str] = {}
        for column in self.columns:
            if column.source and found.setdefault(column.source, column.rotation) != column.rotation:
                raise ValueError(f"source {column.source} is a rotation in one column and none in another")

    def _check_annotations(self) -> None:
        keys = (*(c.key for c in self.stored), *_EVERY_DATASET)
        for annotation in self.annotations:
            key = annotation.original_key or f"annotation.{annotation.name}"
            if key not in keys:
                raise ConfigError(
                    f"annotation {annotation.name} stands for a column that is not there",
                    where=f"profile {self.name}",
                    got=key,
                    valid=keys,
                )

    def _layout(self, column: ColumnSpec) -> object:
        """How its elements follow each other, for comparison with another column."""
        widths = {c.key: len(c.names) for c in self.columns if c.source}
        parts = [(p.form, p.tool, p.width(widths[p.column])) for p in column.parts]
        return parts or len(self.names_of(column))

    def names_of(self, column: ColumnSpec) -> tuple[str, ...]:
        """Element names of ``column``; of one that is put together, those of its parts, the part before each.

        Raises:
            ConfigError: A part is no column with a source.
        """
        if not column.concat:
            return column.names
        parts = {c.key: c for c in self.columns if c.source}
        for key in column.concat:
            if key not in parts:
                raise ConfigError(
                    f"column {column.key} is put together from a column that has no source, or is not there",
                    where=f"profile {self.name}",
                    got=key,
                    valid=parts,
                )
        return tuple(f"{key.rpartition('.')[2]}.{n}" for key in column.concat for n in parts[key].names)

    @property
    def stored(self) -> tuple[ColumnSpec, ...]:
        """The columns that are written."""
        return tuple(c for c in self.columns if c.stored)

    @property
    def sources(self) -> tuple[str, ...]:
        """The sources of the columns, each once, in their order."""
        return tuple(dict.fromkeys(c.source for c in self.columns if c.source))

    @property
    def action_source(self) -> str:
        """Source of the first action column: its stamps are the row clock's candidates."""
        for column in self.columns:
            if column.key.startswith("action") and (column.source or column.parts):
                made_from = {c.key: c.source for c in self.columns}
                return column.source or made_from[column.parts[0].column]
        raise ConfigError("the profile has no action column", where=f"profile {self.name}")


def _check_parts(column: ColumnSpec, columns: tuple[ColumnSpec, ...]) -> None:
    known = {c.key: c for c in columns if c.source}
    width = 0
    for part in column.parts:
        if part.column not in known:
            raise ConfigError(
                f"column {column.key} is made from a column that has no source, or is not there",
                where="columns",
                got=part.column,
                valid=known,
            )
        if part.form in POSE_FORMS and known[part.column].rotation == "none":
            raise ValueError(f"column {column.key}: {part.column} is no pose, as {part.form} needs")
        width += part.width(len(known[part.column].names))
    if width != len(column.names):
        raise ValueError(f"column {column.key} has {len(column.names)} names for {width} elements")


def _check_modality(column: ColumnSpec, names: tuple[str, ...]) -> None:
    for part in column.modality:
        if not 0 <= part.start < part.end <= len(names):
            raise ValueError(
                f"modality {part.name} slices {part.start}:{part.end} of {column.key}, "
                f"which has {len(names)} elements"
            )


def load_profile(source: str | Path) -> Profile:
    """Read a profile by its name (``piper``, ``train``) or from a YAML file.

    Raises:
        ConfigError: naming the wrong key or word and the nearest valid one.
    """
    path = find_config(source, "profiles")
    return parse(Profile, load_yaml(read_config(path), str(path)), str(path))


def with_dialect(profile: Profile, dialect: str) -> Profile:
    """``profile`` in another on-disk format.

    Raises:
        ConfigError: There is no such one, or the profile lacks what it needs.
    """
    if dialect not in get_args(Dialect):
        raise ConfigError("no such dialect", where="--dialect", got=dialect, valid=get_args(Dialect))
    try:
        return replace(profile, dialect=dialect)  # type: ignore[arg-type]
    except ValueError as err:
        hint = "the profile train has it: --profile train" if profile.name == "piper" else None
        raise ConfigError(str(err), where=f"profile {profile.name}", hint=hint) from err


def with_codec(profile: Profile, codec: str) -> Profile:
    """``profile`` with another video encoder, at the quality and speed that is usual for it.

    Raises:
        ConfigError: There is no such one.
    """
    if codec not in get_args(Codec):
        raise ConfigError("no such encoder", where="--codec", got=codec, valid=get_args(Codec))
    if codec == profile.video.codec:
        return profile
    crf, preset = (30, "8") if codec == "libsvtav1" else (VideoSpec().crf, VideoSpec().preset)
    return replace(profile, video=replace(profile.video, codec=codec, crf=crf, preset=preset))  # type: ignore[arg-type]
