"""Episode rows as parquet, and statistics over the rows of all episodes."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from piper_collect.core.stats import ColumnStats, column_stats
from piper_collect.core.types import FloatArray, StampArray
from piper_collect.errors import DatasetError
from piper_collect.files import sync

TIMESTAMP = "timestamp"
BOOKKEEPING: dict[str, str] = {
    TIMESTAMP: "float32",
    "frame_index": "int64",
    "episode_index": "int64",
    "index": "int64",
    "task_index": "int64",
}


def episode_table(
    columns: Mapping[str, FloatArray],
    tick_ns: StampArray,
    t0_ns: int,
    *,
    episode_index: int,
    first_index: int,
    task_index: int,
) -> pa.Table:
    """The rows of one episode: float32 vectors, then the bookkeeping columns.

    Args:
        columns: float64 [T, D] by column key, in the order of the dataset.
        tick_ns: int64 [T] row times.
        t0_ns: Origin of ``timestamp``; the difference is taken in int64 and divided last.
        episode_index: Number of the episode.
        first_index: ``index`` of the first row.
        task_index: Line of the task in tasks.jsonl.
    """
    length = len(tick_ns)
    table: dict[str, pa.Array] = {key: _vectors(values) for key, values in columns.items()}
    table[TIMESTAMP] = pa.array(((tick_ns - t0_ns) / 1e9).astype(np.float32))
    table["frame_index"] = pa.array(np.arange(length, dtype=np.int64))
    table["episode_index"] = pa.array(np.full(length, episode_index, np.int64))
    table["index"] = pa.array(np.arange(first_index, first_index + length, dtype=np.int64))
    table["task_index"] = pa.array(np.full(length, task_index, np.int64))
    return pa.table(table)


def _vectors(values: FloatArray) -> pa.Array:
    cells = np.ascontiguousarray(values, dtype=np.float32)
    return pa.FixedSizeListArray.from_arrays(pa.array(cells.reshape(-1)), cells.shape[1])


def write_table(table: pa.Table, path: Path) -> None:
    """Write ``table`` and flush it to the disk; equal tables give equal bytes."""
    pq.write_table(table, path, compression="snappy", version="2.6", use_dictionary=False)
    sync(path)


def read_table(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Read a parquet file, whatever the names of the folders above it.

    Raises:
        DatasetError: when it is missing, damaged or lacks a column.
    """
    try:
        with pq.ParquetFile(path) as file:
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
    """The cells of a column as an array [T, D]; a scalar column has D = 1."""
    column = table[key].combine_chunks()
    if pa.types.is_list(column.type) or pa.types.is_fixed_size_list(column.type):
        return np.asarray(column.flatten().to_numpy(zero_copy_only=False)).reshape(len(column), -1)
    return np.asarray(column.to_numpy(zero_copy_only=False)).reshape(-1, 1)


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
