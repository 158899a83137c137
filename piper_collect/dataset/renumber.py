"""Rows, and the lines that tell of them, of an episode that gets another place or another list of tasks."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from pyarrow import Table

from piper_collect.dataset.dialect import EpisodeReader
from piper_collect.dataset.episode_stats import episode_stats_line
from piper_collect.dataset.parquet import column_values
from piper_collect.dataset.running import stats_cells
from piper_collect.errors import DatasetError

_PICTURES = ("video", "image")


def picture_keys(dataset: EpisodeReader) -> frozenset[str]:
    """The features that are pictures."""
    return frozenset(k for k, f in dataset.info["features"].items() if f["dtype"] in _PICTURES)


class NumberedRows(Protocol):
    """A dataset whose rows point at tasks, in files of known paths."""

    @property
    def tasks(self) -> Mapping[int, str]:
        """Task strings by task_index."""

    def rows(self, episode_index: int) -> Table:
        """The rows of an episode."""

    def data_path(self, episode_index: int) -> Path:
        """The file that they lie in."""


def used_tasks(dataset: NumberedRows, index: int) -> tuple[str, ...]:
    """The task strings that the rows of an episode point at, its task first.

    Raises:
        DatasetError: A row points at a line that is not there, or the rows cannot be read.
    """
    table = dataset.rows(index)
    lines = [i for key in task_columns(table) for i in column_values(table, key)[:, 0].tolist()]
    unknown = [i for i in lines if i not in dataset.tasks]
    if unknown:
        raise DatasetError(
            "rows point at a line that tasks.jsonl does not have",
            where=dataset.data_path(index),
            expected=f"one of {len(dataset.tasks)}",
            got=unknown[0],
        )
    return tuple(dataset.tasks[i] for i in dict.fromkeys(lines))


def renumbered(
    table: Table, index: int, first_index: int, old_tasks: Mapping[int, str], tasks: Sequence[str]
) -> Table:
    """The rows as those of episode ``index``; ``table`` itself where nothing changes.

    Args:
        table: Rows of an episode.
        index: Its new number.
        first_index: Rows of all episodes before it.
        old_tasks: Task strings by the numbers that the rows have.
        tasks: Task strings in their new order; those that the rows point at are among them.
    """
    numbers = {"episode_index": np.full(len(table), index, np.int64)}
    numbers["index"] = np.arange(first_index, first_index + len(table), dtype=np.int64)
    lines = {i: tasks.index(task) for i, task in old_tasks.items() if task in tasks}
    for key in task_columns(table):
        numbers[key] = np.array([lines[i] for i in column_values(table, key)[:, 0].tolist()], np.int64)
    new = table
    for key, values in numbers.items():
        at = table.schema.get_field_index(key)
        if at >= 0:
            new = new.set_column(at, table.schema.field(at), pa.array(values))
    return table if new.equals(table) else new


def renumbered_line(line: Mapping[str, Any], index: int, table: Table) -> dict[str, Any]:
    """The line of episodes.jsonl of an episode whose rows are now ``table``."""
    new = {**line, "episode_index": index}
    if "task_index" in line:
        new["task_index"] = int(table["task_index"][0].as_py())
    return new


def recounted(line: Mapping[str, Any], index: int, table: Table, pictures: Collection[str]) -> dict[str, Any]:
    """A line of episodes_stats.jsonl for the same pictures and other numbers.

    Args:
        line: As it was.
        index: The episode's new number.
        table: Its new rows.
        pictures: The features that are pictures.
    """
    stats = line["stats"]
    numeric = [key for key in stats if key in table.column_names and key not in pictures]
    kept = {key: entry for key, entry in stats.items() if key not in numeric}
    counted = episode_stats_line(index, stats_cells(table, numeric), {})
    return {"episode_index": index, "stats": {**counted["stats"], **kept}}


def with_totals(
    info: Mapping[str, Any], totals: Mapping[str, int], *, episodes: int, rows: int, tasks: int
) -> dict[str, Any]:
    """info.json with other totals; keys that it does not have are not added.

    Args:
        info: As it was.
        totals: What stock LeRobot counts besides.
        episodes: How many there are.
        rows: Of all of them.
        tasks: Lines of tasks.jsonl.
    """
    known: dict[str, Any] = {
        "total_episodes": episodes,
        "total_frames": rows,
        "total_tasks": tasks,
        "splits": {"train": f"0:{episodes}"},
        **totals,
    }
    return {key: known.get(key, value) for key, value in info.items()}


def task_columns(table: Table) -> list[str]:
    """Columns that point at lines of tasks.jsonl, the task first."""
    there = [f.name for f in table.schema if pa.types.is_integer(f.type)]
    return [k for k in there if k == "task_index"] + [k for k in there if k.startswith("annotation.")]
