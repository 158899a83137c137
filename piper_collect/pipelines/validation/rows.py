"""The rows of one episode: read, and held against what info.json declares."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from piper_collect.core.findings import Findings
from piper_collect.core.types import FloatArray
from piper_collect.dataset.layout import EPISODES
from piper_collect.dataset.parquet import TIMESTAMP, column_values, parquet_file, read_table
from piper_collect.dataset.pictures import picture_size
from piper_collect.errors import DatasetError
from piper_collect.pipelines.validation.json_values import as_int, as_list, as_object
from piper_collect.pipelines.validation.metadata import FeatureInfo, Metadata

_MOST_ROWS = 10_000_000
_KINDS = {"f": "float", "i": "integer", "u": "integer", "b": "bool"}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EpisodeRows:
    """The rows of an episode as stored.

    Attributes:
        index: Number of the episode.
        line: Its line of episodes.jsonl.
        first_index: Rows of the episodes before it.
        length: Rows T.
        cells: Columns of numbers and bools, [T, D] in their stored type.
        scalars: Those of them that are stored as scalars, not as lists.
        pictures: Columns that hold encoded pictures, as stored.
        plain_pictures: Those of them whose type does not say that they are pictures.
    """

    index: int
    line: Mapping[str, Any]
    first_index: int
    length: int
    cells: Mapping[str, NDArray[Any]]
    scalars: frozenset[str]
    pictures: Mapping[str, pa.ChunkedArray]
    plain_pictures: frozenset[str]

    @property
    def where(self) -> str:
        """How messages name the episode."""
        return f"episode {self.index}"

    @property
    def row_s(self) -> FloatArray | None:
        """``timestamp`` as a loader sees it (float32 values), None where there is none that can be used."""
        column = self.cells.get(TIMESTAMP)
        if column is None or column.shape[1] != 1 or not len(column):
            return None
        stamps = column[:, 0].astype(np.float32).astype(np.float64)
        return stamps if np.isfinite(stamps).all() else None


def read_rows(
    meta: Metadata, index: int, line: Mapping[str, Any], first_index: int, findings: Findings
) -> EpisodeRows | None:
    """Read an episode's parquet file and check its columns; None where it cannot be read."""
    where = f"episode {index}"
    try:
        table = _read(meta.data_path(index))
    except DatasetError as err:
        findings.add("error", "rows-unreadable", where, str(err))
        return None
    length = as_int(line.get("length"))
    if len(table) != length:
        text = f"{len(table)} rows, {EPISODES} says {length}"
        findings.add("error", "length", where, text)
    doubles = sorted({name for name in table.column_names if table.column_names.count(name) > 1})
    if doubles:
        findings.add("error", "columns", where, f"two columns have the name {doubles[0]}")
        return None
    _check_declared(meta, where, table, findings)
    cells, scalars, pictures = {}, set(), {}
    for key in table.column_names:
        feature = meta.features.get(key)
        if feature is not None and feature.dtype in ("image", "video"):
            pictures[key] = table[key]
            continue
        values = _cells(table, key, f"{where}, column {key}", findings)
        if values is None:
            continue
        cells[key] = values
        if not _is_list(table.schema.field(key).type):
            scalars.add(key)
        if feature is not None:
            _check_column(feature, values, f"{where}, column {key}", findings)
    return EpisodeRows(
        index=index,
        line=line,
        first_index=first_index,
        length=len(table),
        cells=cells,
        scalars=frozenset(scalars),
        pictures=pictures,
        plain_pictures=frozenset(key for key in pictures if not _says_picture(table, key)),
    )


def _says_picture(table: pa.Table, key: str) -> bool:
    """Whether the schema carries the note by which the library ``datasets`` decodes a column as pictures."""
    note = (table.schema.metadata or {}).get(b"huggingface", b"")
    features = as_object(as_object(as_object(_json(note)).get("info")).get("features"))
    return as_object(features.get(key)).get("_type") == "Image"


def _json(text: bytes) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _read(path: Path) -> pa.Table:
    try:
        with parquet_file(path) as file:
            rows = file.metadata.num_rows
    except (OSError, pa.ArrowException) as err:
        raise DatasetError(f"not a readable parquet file: {err}", where=path.name) from err
    if rows > _MOST_ROWS:
        raise DatasetError("too many rows for one episode", where=path.name, got=rows, expected=_MOST_ROWS)
    try:
        return read_table(path)
    except (ValueError, MemoryError, NotImplementedError) as err:
        raise DatasetError(f"not a readable parquet file: {err}", where=path.name) from err


def _check_declared(meta: Metadata, where: str, table: pa.Table, findings: Findings) -> None:
    declared = {key for key, feature in meta.features.items() if feature.dtype != "video"}
    for key in sorted(declared ^ set(table.column_names)):
        there = "is in the file and not in info.json" if key not in declared else "is not in the file"
        findings.add("error", "columns", where, f"column {key} {there}")


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind))


def _cells(table: pa.Table, key: str, where: str, findings: Findings) -> NDArray[Any] | None:
    """The numbers of a column as [T, D]; None, and a finding where it should have some."""
    column, kind = table[key], table.schema.field(key).type
    element = kind.value_type if _is_list(kind) else kind
    if not (pa.types.is_floating(element) or pa.types.is_integer(element) or pa.types.is_boolean(element)):
        if not (pa.types.is_string(element) or pa.types.is_large_string(element)):
            findings.add("warning", "column-type", where, f"holds {kind}, which is not looked at")
        return None
    nulls = column.null_count
    if not nulls and _is_list(kind):
        nulls = sum(chunk.flatten().null_count for chunk in column.chunks)
    if nulls:
        findings.add("error", "nulls", where, f"{nulls} cells are empty")
        return None
    if len(column) == 0:
        return np.empty((0, 1))
    try:
        values = column_values(table, key)
    except (ValueError, pa.ArrowException) as err:
        findings.add("error", "shape", where, f"the cells have different lengths ({err})")
        return None
    if not values.shape[1]:
        findings.add("error", "shape", where, "the cells are empty lists")
        return None
    if pa.types.is_list(kind) and not _equal_lengths(column, values.shape[1]):
        findings.add("error", "shape", where, "the cells have different lengths")
        return None
    return values


def _equal_lengths(column: pa.ChunkedArray, width: int) -> bool:
    return all(np.all(np.diff(chunk.offsets.to_numpy()) == width) for chunk in column.chunks)


def _check_column(feature: FeatureInfo, values: NDArray[Any], where: str, findings: Findings) -> None:
    wanted = math.prod(feature.shape) if feature.shape else None
    if wanted is not None and values.shape[1] != wanted and len(values):
        text = f"{values.shape[1]} elements a cell, info.json says {list(feature.shape)}"
        findings.add("error", "shape", where, text)
    _check_type(feature, values, where, findings)
    if values.dtype.kind == "f":
        bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
        if bad.size:
            text = f"{bad.size} rows are not finite, first row {bad[0]}"
            findings.add("error", "not-finite", where, text)


def _check_type(feature: FeatureInfo, values: NDArray[Any], where: str, findings: Findings) -> None:
    try:
        wanted = np.dtype(feature.dtype)
    except TypeError:
        findings.add(
            "error", "dtype", where, f"info.json says {feature.dtype!r}, the file has {values.dtype}"
        )
        return
    if wanted == values.dtype or not len(values):
        return
    text = f"the file has {values.dtype}, info.json says {feature.dtype}"
    same = _KINDS.get(wanted.kind) == _KINDS.get(values.dtype.kind)
    findings.add("warning" if same else "error", "dtype", where, text)


def check_numbers(meta: Metadata, rows: EpisodeRows, findings: Findings) -> None:
    """The running numbers of the rows, and their tasks."""
    expected = {"frame_index": 0, "index": rows.first_index}
    for key, start in expected.items():
        values = _single(rows, key)
        if values is not None and not np.array_equal(values, np.arange(start, start + len(values))):
            text = f"{key} runs from {values[0]:g} to {values[-1]:g}, not from {start} by ones"
            findings.add("error", "row-numbers", rows.where, text)
    own = _single(rows, "episode_index")
    if own is not None and np.any(own != rows.index):
        text = f"episode_index is {own[own != rows.index][0]:g} in {np.count_nonzero(own != rows.index)} rows"
        findings.add("error", "row-numbers", rows.where, text)
    _check_tasks(meta, rows, findings)


def _single(rows: EpisodeRows, key: str) -> NDArray[Any] | None:
    values = rows.cells.get(key)
    return values[:, 0] if values is not None and values.shape[1] == 1 and len(values) else None


def _check_tasks(meta: Metadata, rows: EpisodeRows, findings: Findings) -> None:
    told = [task for task in as_list(rows.line.get("tasks")) if isinstance(task, str)]
    keys = [k for k in rows.cells if k == "task_index" or k.startswith("annotation.")]
    for key in keys:
        values = _single(rows, key)
        if values is None or not np.isfinite(values.astype(np.float64)).all():
            continue
        used = [float(v) for v in np.unique(values)]
        unknown = [v for v in used if v not in meta.tasks]
        if unknown:
            text = f"{key} {unknown[0]:g} has no line in tasks.jsonl"
            findings.add("error", "task-index", rows.where, text)
        elif key == "task_index" and told and any(meta.tasks[int(v)] not in told for v in used):
            text = f"the rows are of {meta.tasks[int(used[0])]!r}, episodes.jsonl says {told[0]!r}"
            findings.add("error", "task-index", rows.where, text)


def check_images(meta: Metadata, rows: EpisodeRows, findings: Findings) -> None:
    """Pictures that lie in the rows themselves: there, readable, and of the size that is told."""
    for key, column in rows.pictures.items():
        where, declared = f"{rows.where}, column {key}", meta.features[key].frame_size
        plain = pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type)
        if not plain and not (pa.types.is_struct(column.type) and column.type.get_field_index("bytes") >= 0):
            findings.add("warning", "column-type", where, f"holds {column.type}, which is not looked at")
            continue
        bad = 0
        for number, cell in enumerate(column):
            encoded = cell.as_py() if plain else (cell.as_py() or {}).get("bytes")
            try:
                size = picture_size(encoded or b"")
            except DatasetError as err:
                bad += 1
                if bad == 1:
                    findings.add("error", "frames-undecodable", where, f"row {number}: {err}")
                continue
            if declared is not None and size != declared:
                text = f"row {number} is {list(size)} (height, width), info.json says {list(declared)}"
                findings.add("error", "video-size", where, text)
                break
        if bad > 1:
            findings.add("error", "frames-undecodable", where, f"{bad} of {rows.length} pictures")
