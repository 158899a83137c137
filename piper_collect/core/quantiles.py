"""The 1 % and the 99 % quantile, linear between order statistics: to the bit those of ``np.quantile``."""

import math
from dataclasses import dataclass

import numpy as np

from piper_collect.core.types import FloatArray

LOW_QUANTILE = 0.01
HIGH_QUANTILE = 0.99

_SAMPLE = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantileRanks:
    """Where a quantile lies in the sorted rows.

    Attributes:
        before: Rank of the value at or below it, from 0.
        after: Rank of the next value.
        weight: How far from the one to the other, in [0, 1).
    """

    before: int
    after: int
    weight: float

    def between(self, before: float, after: float) -> float:
        """Interpolate, from the nearer side, as numpy does (so that the last bit is the same)."""
        step = after - before
        return after - step * (1 - self.weight) if self.weight >= 0.5 else before + step * self.weight


def quantile_ranks(rows: int) -> tuple[QuantileRanks, QuantileRanks]:
    """The ranks of the 1 % and the 99 % quantile of ``rows`` rows by numpy's method ``linear``."""
    return ranks_of(rows, LOW_QUANTILE), ranks_of(rows, HIGH_QUANTILE)


def outer_quantiles(values: FloatArray) -> tuple[float, float]:
    """Both quantiles of ``values`` [N], N >= 1.

    Several times faster than ``np.quantile``, which partitions all the values: here only the outermost
    ones are put in order.
    """
    last = len(values) - 1
    low, high = quantile_ranks(len(values))
    lowest = _lowest(values, low.after + 1)
    highest = -_lowest(-values, last - high.before + 1)
    return (
        low.between(lowest[low.before], lowest[low.after]),
        high.between(highest[last - high.before], highest[last - high.after]),
    )


def ranks_of(rows: int, quantile: float) -> QuantileRanks:
    """The ranks of any quantile of ``rows`` rows, by the same method."""
    place = (rows - 1) * quantile
    before = math.floor(place)
    return QuantileRanks(before=before, after=min(before + 1, rows - 1), weight=place - before)


def _lowest(values: FloatArray, count: int) -> FloatArray:
    """The ``count`` lowest of ``values`` [N], in order.

    Those below a limit are picked out and sorted. The limit comes from a sample; it decides how many
    are picked, never what is returned.
    """
    sample = np.sort(values[:: max(1, len(values) // _SAMPLE)])
    if len(sample) == len(values):
        return sample[:count]
    limit = sample[min(len(sample) - 1, 8 + 3 * count * len(sample) // (2 * len(values)))]
    picked = np.sort(values[values < limit])[:count]
    missing = count - len(picked)
    if np.count_nonzero(values == limit) < missing:
        return np.sort(np.partition(values, count - 1)[:count])
    return np.concatenate((picked, np.full(missing, limit)))
