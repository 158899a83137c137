"""The statistics of a dataset as they are carried from one run to the next.

What is carried grows with the dataset, so a long one does not write it at each save: the rows of the
episodes since are added when it is read.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from pyarrow import Table

from piper_collect.core.running_stats import RunningStats
from piper_collect.core.stats_codec import from_bytes, to_bytes
from piper_collect.dataset.json_files import json_bytes
from piper_collect.dataset.layout import STATS_STATE
from piper_collect.dataset.parquet import column_values, read_table
from piper_collect.errors import DatasetError

_DIGEST_BYTES = hashlib.sha256().digest_size
_SAVES_BEHIND = 1 / 128


def stats_cells(table: Table, columns: Sequence[str]) -> dict[str, NDArray[Any]]:
    """The cells [T, D] of ``columns``, as stored."""
    return {key: column_values(table, key) for key in columns}


def state_bytes(stats: RunningStats, last_line: Mapping[str, Any]) -> bytes:
    """What ``carried_stats`` reads again; ``last_line`` is that of the last episode in it."""
    return _digest(stats, last_line) + to_bytes(stats)


def state_is_due(episodes: int) -> bool:
    """Whether the save that makes ``episodes`` of them writes the state.

    Up to 255 each one does, up to 511 each second, up to 1,023 each fourth, and so on: a save's share in the
    writing stays the same, and fewer than 1 % of the episodes have to be read again.
    """
    step = 1 << (max(1, int(_SAVES_BEHIND * episodes)).bit_length() - 1)
    return episodes % step == 0


def carried_stats(
    root: Path, episodes: Sequence[Mapping[str, Any]], columns: Sequence[str]
) -> RunningStats | None:
    """The statistics that an earlier save left, of the first episodes, or None when there are none.

    Args:
        root: The dataset.
        episodes: Lines of episodes.jsonl; the state of other ones is not taken.
        columns: The columns that it must have.
    """
    path = root / STATS_STATE
    if not path.exists():
        return None
    content = path.read_bytes()
    try:
        stats = from_bytes(content[_DIGEST_BYTES:])
    except ValueError:
        return None
    known = episodes[: stats.episodes]
    rows = sum(int(e["length"]) for e in known)
    if (stats.episodes, stats.rows, tuple(stats.columns)) != (len(known), rows, tuple(columns)) or not known:
        return None
    return stats if content[:_DIGEST_BYTES] == _digest(stats, known[-1]) else None


def _digest(stats: RunningStats, last_line: Mapping[str, Any]) -> bytes:
    known = [stats.episodes, stats.rows, json_bytes(last_line, "", indent=None).decode("utf-8")]
    return hashlib.sha256(repr(known).encode("utf-8")).digest()


def counted_stats(tables: Sequence[Callable[[], Table]], columns: Sequence[str], rows: int) -> RunningStats:
    """The statistics of all episodes, read one at a time.

    Raises:
        DatasetError: a file cannot be read or holds a value that is not finite.
    """
    if not tables:
        return RunningStats()

    def cells() -> Iterator[Mapping[str, NDArray[Any]]]:
        for table in tables:
            yield stats_cells(table(), columns)

    try:
        return RunningStats.of(cells(), rows=rows)
    except ValueError as err:
        raise DatasetError(f"no statistics: {err}") from err


def table_of(path: Path, columns: Sequence[str] | None = None) -> Callable[[], Table]:
    """Reads a parquet file when called."""
    return lambda: read_table(path, columns)
