"""Export profiles: what a dataset is made of, as data over one writer."""

from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Literal, get_args

from piper_collect.config.column_parts import ToolFrame
from piper_collect.config.column_spec import (
    EVERY_DATASET,
    POSE_WIDTH,
    ColumnSpec,
    check_modality,
    check_parts,
)
from piper_collect.config.embodiment import Embodiment
from piper_collect.config.load import find_config, load_yaml, read_config
from piper_collect.config.parse import parse
from piper_collect.core.types import GapPolicy, RowClock
from piper_collect.errors import ConfigError, UsageError

Dialect = Literal["lerobot-v2.0", "lerobot-v2.1", "lerobot-v3.0", "hdf5-cases"]
DEPTH_DIALECTS = ("lerobot-v3.0",)
"""Those that hold pictures in rows."""
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

_EXTENDS, _WITHOUT = "extends", "without"
_VIDEO_RANGES = {"time_base_hz": (1, 2**31 - 1), "b_frames": (0, 16), "gop": (1, 2**31 - 1)}
"""Smallest and largest: what an mp4 header and the encoders take."""


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
        depth: What becomes of cameras' depth images: ``none``, or ``png``: 16 bits in the rows, in whole
            millimetres, where the format holds them (see ``holds_depth``).
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
    depth: Literal["none", "png"] = "none"
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
            check_modality(column, self.names_of(column))
            if column.parts:
                check_parts(column, self.columns)
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
            if column.rotation != "none" and column.width not in (4, POSE_WIDTH):
                raise ValueError(f"column {column.key} has a rotation, and neither 4 names (qw to qz) nor 7")
            if column.source and found.setdefault(column.source, column.rotation) != column.rotation:
                raise ValueError(f"source {column.source} is a rotation in one column and none in another")

    def _check_annotations(self) -> None:
        keys = (*(c.key for c in self.stored), *EVERY_DATASET)
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
        widths = {c.key: c.width for c in self.columns if c.source}
        parts = [(p.form, p.tool, p.local, p.width(widths.get(p.column, 0))) for p in column.parts]
        return parts or len(self.names_of(column))

    def names_of(self, column: ColumnSpec) -> tuple[str, ...]:
        """Element names of ``column``; of one that is put together, those of its parts, the part before each.

        Raises:
            ConfigError: A part is no column with a source.
        """
        if not column.concat:
            return column.names
        parts = {c.key: c for c in self.columns if c.source and not c.shape}
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
    def holds_depth(self) -> bool:
        """Whether depth images come into the dataset."""
        return self.depth == "png" and self.dialect in DEPTH_DIALECTS

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
            if column.key.startswith("action") and (column.source or any(p.column for p in column.parts)):
                made_from = {c.key: c.source for c in self.columns}
                return column.source or made_from[next(p.column for p in column.parts if p.column)]
        raise ConfigError("the profile has no action column", where=f"profile {self.name}")


def load_profile(source: str | Path) -> Profile:
    """Read a profile by its name (``piper``, ``train``) or from a YAML file.

    One that ``extends`` another has its settings, but for those that it gives itself; its columns come after
    those of the other one, or in the place of one with the same key.

    Raises:
        ConfigError: naming the profile's file, the wrong key or word, and the nearest valid one.
    """
    path = find_config(source, "profiles")
    try:
        return parse(Profile, _whole(path), _named(path))
    except ConfigError as err:
        if str(path) in str(err.where):
            raise
        # it knows the profile by its name only, or is about the one that this one extends
        raise ConfigError(
            f"{err.where}: {err.what}",
            where=_named(path),
            expected=err.expected,
            got=err.got,
            hint=err.hint,
            valid=err.valid,
        ) from err


def _named(path: Path) -> str:
    return f"profile {path}"


def _whole(source: str | Path, seen: tuple[Path, ...] = ()) -> object:
    """The settings of a profile, with those of the one that it extends."""
    path = find_config(source, "profiles")
    try:
        own = load_yaml(read_config(path), _named(path))
    except ConfigError as err:
        if err.where != path:
            raise
        raise ConfigError(err.what, where=_named(path), hint=err.hint) from err
    if isinstance(own, dict) and "/**" in own:
        raise ConfigError(
            "is a session configuration, not a profile",
            where=_named(path),
            hint="name it with --config, and a kind of dataset with --profile",
        )
    if not isinstance(own, dict) or _EXTENDS not in own:
        return own
    if path in seen:
        raise ConfigError("the profile extends itself", where=_named(path), got=own[_EXTENDS])
    name, without = own.pop(_EXTENDS), own.pop(_WITHOUT, [])
    if not isinstance(name, str):
        raise ConfigError(
            "wrong type", where=f"{_named(path)}.{_EXTENDS}", expected="a profile", got=repr(name)
        )
    beside = path.parent / name
    other = _whole(beside if beside.is_file() else name, (*seen, path))
    if not isinstance(other, dict):
        return other  # which is refused
    before = _by_key(other.get("columns")) or {}
    for key in without if isinstance(without, list) else [without]:
        if not isinstance(key, str) or key not in before:
            raise ConfigError("no such column", where=f"{_named(path)}.{_WITHOUT}", got=key, valid=before)
        del before[key]
    new = _by_key(own.get("columns", []))
    both = {**other, **own}
    for key in (k for k in own if isinstance(own[k], dict) and isinstance(other.get(k), dict)):
        both[key] = {**other[key], **own[key]}
    # what is no list of columns is refused where it is read
    both["columns"] = own["columns"] if new is None else [*(before | new).values()]
    return both


def _by_key(columns: object) -> dict[str, object] | None:
    """Columns by their keys; None where they are no list of such, or a key is there twice."""
    if not isinstance(columns, list):
        return None
    found: dict[str, object] = {
        c["key"]: c for c in columns if isinstance(c, dict) and isinstance(c.get("key"), str)
    }
    return found if len(found) == len(columns) else None


def with_dialect(profile: Profile, dialect: str) -> Profile:
    """``profile`` in another on-disk format.

    Raises:
        UsageError: There is no such one.
        ConfigError: The profile lacks what it needs.
    """
    if dialect not in get_args(Dialect):
        raise UsageError("no such dialect", where="--dialect", got=dialect, valid=get_args(Dialect))
    try:
        return replace(profile, dialect=dialect)  # type: ignore[arg-type]
    except ValueError as err:
        hint = "the profile train has it: --profile train" if profile.name == "piper" else None
        raise ConfigError(str(err), where=f"profile {profile.name}", hint=hint) from err


def with_codec(profile: Profile, codec: str) -> Profile:
    """``profile`` with another video encoder, at the quality and speed that is usual for it.

    Raises:
        UsageError: There is no such one.
    """
    if codec not in get_args(Codec):
        raise UsageError("no such encoder", where="--codec", got=codec, valid=get_args(Codec))
    if codec == profile.video.codec:
        return profile
    crf, preset = (30, "8") if codec == "libsvtav1" else (VideoSpec().crf, VideoSpec().preset)
    return replace(profile, video=replace(profile.video, codec=codec, crf=crf, preset=preset))  # type: ignore[arg-type]
