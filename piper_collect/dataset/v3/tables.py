"""The parquet files of ``meta/``: tasks, and which episode lies where with its statistics."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from piper_collect.dataset.parquet import read_table
from piper_collect.dataset.v3.layout import EPISODES_FOLDER, STATS_PREFIX, TASKS
from piper_collect.errors import DatasetError

_TASK_COLUMN = "__index_level_0__"  # what pandas calls an index without a name


def tasks_table(tasks: Sequence[str]) -> pa.Table:
    """The table that pandas reads as a frame of ``task_index`` with the task strings as its index."""
    described = {
        "index_columns": [_TASK_COLUMN],
        "column_indexes": [_pandas_column(None, None, "unicode", "object", {"encoding": "UTF-8"})],
        "columns": [
            _pandas_column("task_index", "task_index", "int64", "int64"),
            _pandas_column(None, _TASK_COLUMN, "unicode", "object"),
        ],
        "attributes": {},
        "creator": {"library": "pyarrow", "version": pa.__version__},
        "pandas_version": "2.0.0",
    }
    columns = {
        "task_index": pa.array(range(len(tasks)), pa.int64()),
        _TASK_COLUMN: pa.array(tasks, pa.string()),
    }
    table = pa.table(columns)
    return table.replace_schema_metadata({"pandas": json.dumps(described)})


def _pandas_column(
    name: str | None, field: str | None, kind: str, numpy: str, metadata: Mapping[str, str] | None = None
) -> dict[str, Any]:
    return {
        "name": name,
        "field_name": field,
        "pandas_type": kind,
        "numpy_type": numpy,
        "metadata": metadata,
    }


def read_tasks(root: Path) -> dict[int, str]:
    """Task strings by task_index, whatever the column of the strings is called.

    Raises:
        DatasetError: The file cannot be read, or lacks a column.
    """
    table = read_table(root / TASKS)
    texts = [f.name for f in table.schema if _is_text(f.type)]
    if "task_index" not in table.column_names or not texts:
        raise DatasetError(
            "is no table of tasks",
            where=root / TASKS,
            expected="a column task_index, and one of strings",
            got=", ".join(table.column_names),
        )
    numbers, strings = table["task_index"].to_pylist(), table[texts[0]].to_pylist()
    return {int(number): str(text) for number, text in zip(numbers, strings, strict=True)}


def _is_text(kind: pa.DataType) -> bool:
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(inner) or pa.types.is_large_string(inner))


def task_sources_table(
    lines: Sequence[Mapping[str, Any]], sources: Sequence[Mapping[str, Any]], fps: float, collection: str
) -> pa.Table:
    """Where the episodes of each task come from: a row for each task and recording session.

    Args:
        lines: Rows of the table of episodes.
        sources: Lines of episode_sources.jsonl, one an episode.
        fps: Rows a second.
        collection: How all of them were collected.
    """
    episodes: dict[tuple[str, str], int] = {}
    frames: dict[tuple[str, str], int] = {}
    for line, source in zip(lines, sources, strict=True):
        key = (str(line["tasks"][0]), str(source.get("session") or ""))
        episodes[key] = episodes.get(key, 0) + 1
        frames[key] = frames.get(key, 0) + int(line["length"])
    return pa.table(
        {
            "task": pa.array([task for task, _ in episodes], pa.string()),
            "source": pa.array([session for _, session in episodes], pa.string()),
            "collection_method": pa.array([collection] * len(episodes), pa.string()),
            "role": pa.array(["main"] * len(episodes), pa.string()),
            "episode_count": pa.array(episodes.values(), pa.int64()),
            "frame_count": pa.array(frames.values(), pa.int64()),
            "duration_s": pa.array([n / fps for n in frames.values()], pa.float64()),
        }
    )


def episode_tables(root: Path, *, statistics: bool = False) -> Iterator[tuple[Path, pa.Table]]:
    """The files of the table of episodes in their order, without the columns of statistics unless asked for.

    Raises:
        DatasetError: One cannot be read.
    """
    for path in sorted((root / EPISODES_FOLDER).glob("*/*.parquet")):
        table = read_table(path)
        names = [n for n in table.column_names if statistics or not n.startswith(STATS_PREFIX)]
        yield path, table.select(names)


def episode_row(line: Mapping[str, Any], stats: Mapping[str, Mapping[str, Any]]) -> pa.Table:
    """One row of the table of episodes.

    Args:
        line: Columns without statistics.
        stats: Statistics by feature, as stats.json names them.
    """
    flat = {f"{STATS_PREFIX}{key}/{name}": value for key, s in stats.items() for name, value in s.items()}
    row = {**line, **flat}
    # the types are known: pyarrow takes a tenth of a second to find out those of some hundreds of columns
    kind = pa.struct([pa.field(key, _type_of(value)) for key, value in row.items()])
    return pa.Table.from_struct_array(pa.array([row], kind))


def _type_of(value: Any) -> pa.DataType:
    """Of a JSON value; lists are named as when they are read again, so that copies come to equal bytes."""
    if isinstance(value, list):
        return pa.list_(pa.field("element", _type_of(value[0])))
    return {int: pa.int64(), float: pa.float64(), str: pa.string()}[type(value)]


def stats_of(row: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The statistics by feature in a row of the table of episodes."""
    found: dict[str, dict[str, Any]] = {}
    for column, value in row.items():
        if column.startswith(STATS_PREFIX) and value is not None:
            key, _, name = column.removeprefix(STATS_PREFIX).rpartition("/")
            found.setdefault(key, {})[name] = value
    return found
