"""The outermost values of a column: as many as its 1 % and 99 % quantiles need, and some to spare.

A quantile near an end of the sorted rows reads two neighbouring order statistics (``quantile_ranks``).
A ``Tail`` keeps the lowest values of one element, so it knows its first order statistics exactly. A
new value above the last one kept cannot be among them and is left out. ``tail_limit`` keeps twice as
many as are needed, so a tail of N rows, just built, suffices up to 2 N rows, whatever comes. When the
rows come in no particular order the tail grows along with them and hardly ever falls short.
"""

import math
from bisect import bisect_left
from dataclasses import dataclass

import numpy as np

from piper_collect.core.quantiles import LOW_QUANTILE, quantile_ranks
from piper_collect.core.types import FloatArray

_KEPT_FRACTION = 2 * LOW_QUANTILE
_KEPT_AT_LEAST = 1000
_RECENT_AT_MOST = 1024


def tail_limit(rows: int) -> int:
    """How many of the outermost values to keep of ``rows`` rows: all of the first 1,000, then 2 %."""
    return max(_KEPT_AT_LEAST, math.ceil(_KEPT_FRACTION * rows) + 2)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tail:
    """The lowest values of one element, sorted, in two parts.

    Adding T values sorts those among them that lie below the tail's last (about 2 %; all in an outward
    drift) into ``recent``, which holds at most 1,024; when it is full it is merged into ``settled``, a copy
    of 2 % of all N rows. So an addition costs O(T log T), and 0.02 N once in at least 1,024 values that go
    in: for a million rows some hundredth of a millisecond.

    Attributes:
        settled: float64, sorted.
        recent: float64, sorted; none above the last settled one once a value has been left out.
    """

    settled: FloatArray
    recent: FloatArray

    def __len__(self) -> int:
        return self.settled.size + self.recent.size

    def bound(self, rows: int) -> float:
        """The value above which none needs to be added, after ``rows`` rows."""
        return math.inf if len(self) == rows else float(self.settled[-1])

    def added(self, values: FloatArray, *, rows: int, limit: int) -> "Tail":
        """The tail with ``values`` [T] seen too.

        Args:
            values: Finite numbers.
            rows: Rows seen before.
            limit: How many values to keep.
        """
        bound = self.bound(rows)
        below = values[values < bound]
        room = limit - len(self) - below.size
        if room > 0:
            equal = min(room, int(np.count_nonzero(values == bound)))
            below = np.append(below, np.full(equal, bound))
        if not below.size:
            return self
        recent = np.sort(np.concatenate((self.recent, below)))
        if recent.size <= _RECENT_AT_MOST:
            return Tail(settled=self.settled, recent=recent)
        settled = np.sort(np.concatenate((self.settled, recent)), kind="stable")[:limit]
        return Tail(settled=settled, recent=np.empty(0))

    def at(self, rank: int) -> float:
        """The value of ``rank``, counted from 0 for the lowest.

        Raises:
            IndexError: when fewer are kept.
        """
        recent, settled = self.recent, self.settled

        def is_behind(place: int) -> bool:
            """Whether ``rank`` values or more come before ``recent[place]`` in the whole tail."""
            others = rank - place
            return others <= 0 or (others <= settled.size and bool(settled[others - 1] <= recent[place]))

        taken = bisect_left(range(recent.size), True, key=is_behind)
        if taken == recent.size:
            return float(settled[rank - taken])
        if rank - taken == settled.size:
            return float(recent[taken])
        return float(min(recent[taken], settled[rank - taken]))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tails:
    """Both ends of a column of D elements.

    Attributes:
        low: D tails.
        high: D tails of the negated values.
    """

    low: tuple[Tail, ...]
    high: tuple[Tail, ...]

    @classmethod
    def empty(cls, width: int) -> "Tails":
        """The tails of no rows, of ``width`` elements."""
        nothing = Tail(settled=np.empty(0), recent=np.empty(0))
        return cls(low=(nothing,) * width, high=(nothing,) * width)

    def added(self, cells: FloatArray, *, rows: int, limit: int) -> "Tails":
        """The tails with the rows ``cells`` [T, D] seen too; ``rows`` and ``limit`` as ``Tail.added``."""
        return Tails(
            low=_all_added(self.low, cells, rows, limit), high=_all_added(self.high, -cells, rows, limit)
        )

    def suffice(self, rows: int) -> bool:
        """Whether the quantiles of ``rows`` rows can be told."""
        low, high = quantile_ranks(rows)
        return all(len(tail) > low.after for tail in self.low) and all(
            len(tail) > rows - 1 - high.before for tail in self.high
        )

    def quantiles(self, rows: int) -> tuple[FloatArray, FloatArray]:
        """The 1 % and the 99 % quantile [D] of all ``rows`` rows seen."""
        low, high = quantile_ranks(rows)
        last = rows - 1
        q01 = [low.between(tail.at(low.before), tail.at(low.after)) for tail in self.low]
        q99 = [high.between(-tail.at(last - high.before), -tail.at(last - high.after)) for tail in self.high]
        return np.array(q01), np.array(q99)


def _all_added(tails: tuple[Tail, ...], cells: FloatArray, rows: int, limit: int) -> tuple[Tail, ...]:
    bounds = np.array([tail.bound(rows) for tail in tails])
    touched = np.any(cells <= bounds, axis=0).tolist()
    return tuple(
        tail.added(cells[:, i], rows=rows, limit=limit) if touched[i] else tail
        for i, tail in enumerate(tails)
    )
