"""Exact statistics of a dataset that grows by episodes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from piper_collect.core.moments import Moments, merged
from piper_collect.core.stats import ColumnStats, finite_cells
from piper_collect.core.tails import Tails, tail_limit


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunningColumn:
    """What is kept of one column.

    Attributes:
        moments: Of all rows.
        tails: Its outermost values.
    """

    moments: Moments
    tails: Tails


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunningStats:
    """Statistics of all rows of a dataset, without the rows.

    ``result`` is what ``column_stats`` gives for all rows at once: min, max, q01 and q99 exactly, mean
    and std to a few units in the last place. It depends on the episodes and their order alone, to the
    bit, however it was arrived at: in one run, over ``to_bytes`` and ``from_bytes``, or by ``of``.

    A value of this type never changes; ``added`` gives a new one that shares most of its arrays, so
    that a save that fails simply drops it. Adding an episode costs by the length of the episode (see
    ``Tail``); only when ``needs_rebuild`` says so must all episodes be read again, at the earliest when
    the number of rows has doubled.

    Attributes:
        episodes: Number of episodes added.
        rows: Number of rows added.
        columns: By key, in the order of the first episode.
    """

    episodes: int = 0
    rows: int = 0
    columns: Mapping[str, RunningColumn] = field(default_factory=dict)

    @classmethod
    def of(cls, episodes: Iterable[Mapping[str, NDArray[Any]]], *, rows: int) -> "RunningStats":
        """The statistics of all ``episodes``, taken one at a time.

        Args:
            episodes: Columns by key, as ``added`` takes them.
            rows: How many rows they have together, so that no more than the tails is kept.

        Raises:
            ValueError: as ``added``, and when there are more or fewer rows.
        """
        stats = cls()
        for columns in episodes:
            stats = stats._added(columns, limit=tail_limit(rows))
        if stats.rows != rows:
            raise ValueError(f"the episodes have {stats.rows} rows, not {rows}")
        return stats

    def added(self, columns: Mapping[str, NDArray[Any]], *, of_rows: int | None = None) -> "RunningStats":
        """The statistics with one episode more.

        Args:
            columns: [T, D] by key, the same keys and D in every episode; values as they are stored
                (float32 where parquet holds float32).
            of_rows: How many rows there will be in all, where that is known: ``needs_rebuild`` is then false
                at the end.

        Raises:
            ValueError: naming the column that is missing, unknown, of another shape, or not finite.
        """
        return self._added(columns, limit=None if of_rows is None else tail_limit(of_rows))

    @property
    def needs_rebuild(self) -> bool:
        """Whether quantiles cannot be told before all episodes were read again (``of``)."""
        return not all(column.tails.suffice(self.rows) for column in self.columns.values())

    def result(self) -> dict[str, ColumnStats]:
        """The statistics by key.

        Raises:
            ValueError: when there are no rows, or ``needs_rebuild``.
        """
        if not self.rows:
            raise ValueError("there are no rows to have statistics")
        if self.needs_rebuild:
            raise ValueError("too few of the outermost values are kept: read all episodes again")
        return {key: _result(column) for key, column in self.columns.items()}

    def _added(self, columns: Mapping[str, NDArray[Any]], limit: int | None) -> "RunningStats":
        known: Mapping[str, RunningColumn | None] = self.columns or dict.fromkeys(columns)
        if set(columns) != set(known) or not columns:
            names = ", ".join(known) or "at least one"
            raise ValueError(f"columns {', '.join(columns) or 'none'}, not {names}")
        length = len(next(iter(columns.values())))
        kept = tail_limit(self.rows + length) if limit is None else limit
        grown = {}
        for key, column in known.items():
            try:
                grown[key] = _grown(column, columns[key], length, self.rows, kept)
            except ValueError as err:
                raise ValueError(f"column {key}: {err}") from err
        return RunningStats(episodes=self.episodes + 1, rows=self.rows + length, columns=grown)


def _grown(
    column: RunningColumn | None, values: NDArray[Any], length: int, rows: int, limit: int
) -> RunningColumn:
    cells = finite_cells(values)
    if len(cells) != length:
        raise ValueError(f"{len(cells)} rows, not {length}")
    moments = Moments.of(cells)
    if column is not None:
        moments = merged(column.moments, moments)
    tails = Tails.empty(cells.shape[1]) if column is None else column.tails
    return RunningColumn(moments=moments, tails=tails.added(cells, rows=rows, limit=limit))


def _result(column: RunningColumn) -> ColumnStats:
    moments = column.moments
    q01, q99 = column.tails.quantiles(moments.count)
    return ColumnStats(
        mean=moments.mean,
        std=moments.std,
        min=moments.min,
        max=moments.max,
        q01=q01,
        q99=q99,
        count=moments.count,
    )
