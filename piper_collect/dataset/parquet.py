"""Episode rows as parquet, and statistics over the rows of all episodes."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from piper_collect.core.stats import ColumnStats, column_stats
from piper_collect.core.types import NO_SAMPLE, Feature, RowSamples, StampArray
from piper_collect.errors import DatasetError
from piper_collect.files import sync

TIMESTAMP = "timestamp"
PICTURES = ("video", "image")
"""Dtypes of features that are no numbers."""
_GROUP_ROWS = 4096  # of files of several episodes: to read one of these, few others are read
_GROUP_BYTES = 32 << 20  # the same of rows with pictures, and what is in memory at a time
BOOKKEEPING: dict[str, str] = {
    TIMESTAMP: "float32",
    "frame_index": "int64",
    "episode_index": "int64",
    "index": "int64",
    "task_index": "int64",
}


def episode_table(
    columns: Mapping[str, NDArray[Any]],
    features: Sequence[Feature],
    timestamps: NDArray[np.float32],
    *,
    scalar_cells: bool,
    episode_index: int,
    first_index: int,
    task_index: int,
) -> pa.Table:
    """The rows of one episode: the feature columns, then the bookkeeping columns.

    Args:
        columns: [T, D] by column key.
        features: Dtype and order of the columns; videos and pictures are skipped.
        timestamps: float32 [T] seconds since T0.
        scalar_cells: Whether float32 columns of one element are stored as numbers, not as lists of one.
        episode_index: Number of the episode.
        first_index: ``index`` of the first row.
        task_index: Line of the task in tasks.jsonl.
    """
    length = len(timestamps)
    table: dict[str, pa.Array] = {}
    for feature in features:
        if feature.dtype not in PICTURES:
            table[feature.key] = _cells(columns[feature.key], feature, scalar_cells)
    table[TIMESTAMP] = pa.array(timestamps)
    table["frame_index"] = pa.array(np.arange(length, dtype=np.int64))
    table["episode_index"] = pa.array(np.full(length, episode_index, np.int64))
    table["index"] = pa.array(np.arange(first_index, first_index + length, dtype=np.int64))
    table["task_index"] = pa.array(np.full(length, task_index, np.int64))
    return pa.table(table)


def _cells(values: NDArray[Any], feature: Feature, scalar: bool) -> pa.Array:
    cells = np.ascontiguousarray(values, dtype=feature.dtype)
    if len(feature.shape) > 1:
        return nested(pa.array(cells.reshape(-1)), feature.shape)
    if cells.shape[1] == 1 and (scalar or not feature.names):
        return pa.array(cells[:, 0])
    return list_cells(cells)


def list_cells(cells: NDArray[Any]) -> pa.Array:
    """Cells [T, D] as lists."""
    elements = pa.array(np.ascontiguousarray(cells).reshape(-1))
    # The name is the one that they have when read again: rows that are copied come to equal bytes.
    kind = pa.list_(pa.field("element", elements.type), cells.shape[1])
    return pa.FixedSizeListArray.from_arrays(elements, type=kind)


def nested(elements: pa.Array, shape: Sequence[int]) -> pa.Array:
    """Numbers row by row as cells of several axes, outermost first: lists of lists, as LeRobot has arrays."""
    for extent in reversed(shape):
        offsets = pa.array(np.arange(0, len(elements) + 1, extent, dtype=np.int32))
        kind = pa.list_(pa.field("element", elements.type))
        elements = pa.ListArray.from_arrays(offsets, elements, type=kind)
    return elements


def samples_table(tick_ns: StampArray, samples: Mapping[str, RowSamples]) -> pa.Table:
    """int64 ``tick_ns`` of each row, and for each source and camera the stamp of the sample it shows."""
    table = {"tick_ns": pa.array(tick_ns)}
    for name, shown in samples.items():
        table[name] = pa.array(shown.stamp_ns, mask=shown.stamp_ns == NO_SAMPLE)
    return pa.table(table)


def write_table(table: pa.Table, path: Path) -> None:
    """Write ``table`` and flush it to the disk; equal tables give equal bytes."""
    with pa.OSFile(os.fsencode(path), "wb") as file:
        pq.write_table(table, file, compression="snappy", version="2.6", use_dictionary=False)
    sync(path)


def write_tables(parts: Sequence[pa.Table], path: Path) -> None:
    """Write the rows of tables of one schema; the bytes do not depend on how they are parted."""
    schema = parts[0].schema
    rows = pa.concat_tables([part.cast(schema) for part in parts])
    step = max(1, min(_GROUP_ROWS, _GROUP_BYTES * len(rows) // max(table_bytes(rows), 1)))
    how = {"compression": "snappy", "version": "2.6", "use_dictionary": False}
    with pa.OSFile(os.fsencode(path), "wb") as file, pq.ParquetWriter(file, schema, **how) as writer:
        for first in range(0, len(rows), step):
            writer.write_table(rows.slice(first, step).combine_chunks())
    sync(path)


def table_bytes(table: pa.Table) -> int:
    """Size of the values of a table; the same whether it was just made or read from a file."""
    return sum(_array_bytes(chunk) for column in table.columns for chunk in column.chunks)


def _array_bytes(array: pa.Array) -> int:
    kind = array.type
    if is_list(kind):
        return _array_bytes(array.flatten())
    if pa.types.is_struct(kind):
        return sum(map(_array_bytes, array.flatten()))
    if pa.types.is_binary(kind) or pa.types.is_string(kind):
        lengths = pc.sum(pc.binary_length(array)).as_py()
        return int(lengths or 0)
    return len(array) * int(kind.bit_width) // 8


@contextmanager
def parquet_file(path: Path) -> Iterator[pq.ParquetFile]:
    """The opened file, whatever bytes its name is made of."""
    with pa.OSFile(os.fsencode(path), "rb") as source, pq.ParquetFile(source) as file:
        yield file


def read_table(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Read a parquet file, whatever the names of the folders above it.

    Raises:
        DatasetError: when it is missing, damaged or lacks a column.
    """
    try:
        with parquet_file(path) as file:
            missing = [c for c in columns or () if c not in file.schema_arrow.names]
            if missing:
                raise DatasetError(
                    "columns are missing",
                    where=path,
                    expected=", ".join(missing),
                    got=file.schema_arrow.names,
                )
            return file.read(columns=None if columns is None else list(columns), use_threads=False)
    except (OSError, pa.ArrowException) as err:
        raise DatasetError(f"not a readable parquet file: {err}", where=path) from err


def column_values(table: pa.Table, key: str) -> NDArray[Any]:
    """The cells of a column as an array [T, D], row by row; a scalar column has D = 1."""
    column = table[key].combine_chunks()
    if is_list(column.type):
        elements = column.flatten()
        while is_list(elements.type):
            elements = elements.flatten()
        return np.asarray(elements.to_numpy(zero_copy_only=False)).reshape(len(column), -1)
    return np.asarray(column.to_numpy(zero_copy_only=False)).reshape(-1, 1)


def is_list(kind: pa.DataType) -> bool:
    """Whether it is a type of lists, of a fixed size or not."""
    return bool(pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind))


def cell_shapes(table: pa.Table, key: str) -> tuple[set[int], ...]:
    """The extents that occur on each axis of the cells of a column, outermost first; none for numbers."""
    elements, found = table[key].combine_chunks(), list[set[int]]()
    while is_list(elements.type):
        found.append(set(pc.list_value_length(elements).to_pylist()))
        elements = elements.flatten()
    return tuple(found)


def dataset_stats(paths: Iterable[Path], columns: Sequence[str]) -> dict[str, ColumnStats]:
    """Statistics of ``columns`` over the rows of all the parquet files, as stored.

    Raises:
        DatasetError: when a file cannot be read or holds a value that is not finite.
    """
    cells: dict[str, list[NDArray[Any]]] = {key: [] for key in columns}
    for path in paths:
        table = read_table(path, columns)
        for key in columns:
            cells[key].append(column_values(table, key))
    stats = {}
    for key, parts in cells.items():
        try:
            stats[key] = column_stats(np.concatenate(parts))
        except ValueError as err:
            raise DatasetError(f"no statistics: {err}", where=f"column {key}") from err
    return stats
