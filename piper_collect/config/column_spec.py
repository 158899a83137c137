"""The columns of a profile: what fills each, and what its elements are."""

import math
import re
from dataclasses import dataclass
from typing import Literal

from piper_collect.config.column_parts import POSE_FORMS, ColumnPart
from piper_collect.errors import ConfigError

_COLUMN_KEY = r"\w+(\.\w+)*"
RowValue = Literal["", "reward", "done", "task", "validity", "unix_time", "sample_time"]
ROW_VALUE_DTYPES: dict[str, Literal["float32", "float64", "int64", "bool"]] = {
    "reward": "float32",
    "done": "bool",
    "task": "int64",
    "validity": "int64",
    "unix_time": "float64",
    "sample_time": "float64",
}

EVERY_DATASET = ("timestamp", "frame_index", "episode_index", "index", "task_index")
_MADE_PREFIXES = ("observation.images.", "observation.depth.", "source_timestamp.", "source_state.")
POSE_WIDTH = 7
_MOST_AXES = 5
"""Of an array in a cell: LeRobot has no more."""


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
        shape: Of a source of arrays: extents, outermost first; ``names`` then name the axes. v3.0 stores such
            cells as arrays, the other formats row by row.
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
    shape: tuple[int, ...] = ()
    unit: str = ""
    frame: str = ""
    rotation: Literal["none", "quat_wxyz"] = "none"
    modality: tuple[ModalityPart, ...] = ()
    optional: bool = False

    @property
    def width(self) -> int:
        """How many numbers a cell has."""
        return math.prod(self.shape) if self.shape else len(self.names)

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
        if self.shape:
            self._check_shape()
        if self.key in EVERY_DATASET or self.key.startswith(_MADE_PREFIXES):
            raise ValueError(f"column {self.key} has a name of those that the writer makes itself")

    def _check_shape(self) -> None:
        where = f"column {self.key}: shape"
        if not self.source or not self.stored or self.rotation != "none" or self.modality:
            raise ValueError(f"{where} is for columns of a source that are stored as they are")
        if not 2 <= len(self.shape) <= _MOST_AXES or min(self.shape) < 1:
            raise ValueError(f"{where} has 2 to {_MOST_AXES} extents of at least 1 (got {list(self.shape)})")
        if len(self.names) != len(self.shape):
            raise ValueError(f"{where} has {len(self.shape)} axes, and names has {len(self.names)}")


def zero_filled(column: ColumnSpec, columns: tuple[ColumnSpec, ...]) -> tuple[str, ...]:
    """Names of the elements of ``column`` that are zeros by the layout, and nothing measured."""
    widths = {c.key: c.width for c in columns if c.source}
    zeros: list[str] = []
    at = 0
    for part in column.parts:
        zeros += column.names[at : at + part.count]
        at += part.width(widths.get(part.column, 0))
    return tuple(zeros)


def check_parts(column: ColumnSpec, columns: tuple[ColumnSpec, ...]) -> None:
    """Check that the parts of ``column`` are there among ``columns``, and as wide as it has names.

    Raises:
        ConfigError: A part is no column with a source.
        ValueError: A part cannot have its form, or there are not as many elements as names.
    """
    known = {c.key: c for c in columns if c.source and not c.shape}
    width = 0
    for part in column.parts:
        if part.form == "zeros":
            width += part.count
            continue
        if part.column not in known:
            raise ConfigError(
                f"column {column.key} is made from a column that has no source, or is not there",
                where="columns",
                got=part.column,
                valid=known,
            )
        of = known[part.column]
        if part.form in POSE_FORMS and (of.rotation == "none" or of.width != POSE_WIDTH):
            raise ValueError(f"column {column.key}: {part.column} is no pose, as {part.form} needs")
        width += part.width(of.width)
    if width != len(column.names):
        raise ValueError(f"column {column.key} has {len(column.names)} names for {width} elements")


def check_modality(column: ColumnSpec, names: tuple[str, ...]) -> None:
    """Check that the slices for modality.json lie inside the column.

    Raises:
        ValueError: One does not.
    """
    for part in column.modality:
        if not 0 <= part.start < part.end <= len(names):
            raise ValueError(
                f"modality {part.name} slices {part.start}:{part.end} of {column.key}, "
                f"which has {len(names)} elements"
            )
