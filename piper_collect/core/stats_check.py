"""Are these the statistics of those rows? Told in one pass over the rows, without keeping any of them."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from piper_collect.core.quantiles import HIGH_QUANTILE, LOW_QUANTILE
from piper_collect.core.types import FloatArray

QUANTILES = {"q01": LOW_QUANTILE, "q99": HIGH_QUANTILE}
MOMENTS = ("mean", "std", "min", "max")

_RELATIVE = 1e-5  # of the value and the range: other tools sum in float32, which costs digits
_ABSOLUTE = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """One statistic that is not the one of the rows.

    Attributes:
        name: Which statistic.
        element: Which element of the column.
        told: What was claimed.
        found: What the rows say, in words.
    """

    name: str
    element: int
    told: float
    found: str


class StatsCheck:
    """Takes the rows of a column of D elements block by block; says which claimed statistics are not theirs.

    Args:
        told: Claimed statistics by name, float64 [D] each; names that are none are left alone.
    """

    def __init__(self, told: Mapping[str, FloatArray]) -> None:
        self._told = {k: v for k, v in told.items() if k in MOMENTS or k in QUANTILES}
        size = len(next(iter(told.values()))) if told else 0
        self._count = 0
        self._mean, self._square = np.zeros(size), np.zeros(size)
        self._low, self._high = np.full(size, np.inf), np.full(size, -np.inf)
        spread = np.abs(told["max"] - told["min"]) if {"min", "max"} <= set(told) else np.zeros(size)
        self._quantiles = {
            name: _QuantileCheck(
                self._told[name], _RELATIVE * (np.abs(self._told[name]) + spread) + _ABSOLUTE
            )
            for name in QUANTILES
            if name in self._told
        }

    @property
    def size(self) -> int:
        """Elements of the column, D."""
        return len(self._mean)

    def add(self, values: FloatArray) -> None:
        """Take finite rows, float64 [T, D]. Moments are merged as by Chan, Golub and LeVeque (1983)."""
        if not len(values):
            return
        count = self._count + len(values)
        mean = values[0] + np.mean(values - values[0], axis=0)
        shift = mean - self._mean
        self._square += np.sum((values - mean) ** 2, axis=0)
        self._square += shift**2 * (self._count * len(values) / count)
        self._mean += shift * (len(values) / count)
        self._count = count
        self._low = np.minimum(self._low, values.min(axis=0))
        self._high = np.maximum(self._high, values.max(axis=0))
        for quantile in self._quantiles.values():
            quantile.add(values)

    def mismatches(self) -> Iterator[Mismatch]:
        """The worst element of each statistic that does not hold."""
        if not self._count:
            return
        found = {
            "mean": self._mean,
            "std": np.sqrt(self._square / self._count),
            "min": self._low,
            "max": self._high,
        }
        for name in MOMENTS:
            if name in self._told:
                yield from self._moment(name, self._told[name], found[name])
        for name, quantile in self._quantiles.items():
            for element, text in quantile.wrong(QUANTILES[name], self._count):
                told = float(quantile.told[element])
                yield Mismatch(name=name, element=element, told=told, found=text)
                break

    def _moment(self, name: str, told: FloatArray, found: FloatArray) -> Iterator[Mismatch]:
        allowed = _RELATIVE * (np.abs(found) + self._high - self._low) + _ABSOLUTE
        over = np.nan_to_num(np.abs(told - found) / allowed, nan=np.inf)
        worst = int(np.argmax(over))
        if over[worst] > 1:
            text = f"the rows give {found[worst]:.9g}"
            yield Mismatch(name=name, element=worst, told=float(told[worst]), found=text)


class _QuantileCheck:
    """Counts about one claimed quantile of D elements, which tell the true one, or on which side it is.

    Among N sorted values the quantile lies at place k + f (k whole, 0 <= f < 1): it is a + f (b - a) of the
    values a and b in places k and k + 1. Two counts tell whether a and b lie under, within or over the
    tolerance about the claim. Where they lie on two sides of an edge they are the last value before it and
    the first after it, and those are kept.
    """

    def __init__(self, told: FloatArray, within: FloatArray) -> None:
        self.told = told
        self._edges = (told - within, told + within)
        self._counts = [np.zeros(len(told), np.int64) for _ in self._edges]
        self._before = [np.full(len(told), -np.inf) for _ in self._edges]
        self._after = [np.full(len(told), np.inf) for _ in self._edges]

    def add(self, values: FloatArray) -> None:
        for i, edge in enumerate(self._edges):
            below = values < edge if i == 0 else values <= edge
            self._counts[i] += np.count_nonzero(below, axis=0)
            self._before[i] = np.maximum(self._before[i], np.where(below, values, -np.inf).max(axis=0))
            self._after[i] = np.minimum(self._after[i], np.where(below, np.inf, values).min(axis=0))

    def wrong(self, share: float, count: int) -> Iterator[tuple[int, str]]:
        """(element, what the rows say) of each claim that does not hold."""
        fraction, place = math.modf(share * (count - 1))
        k = int(place)
        last = min(k + 1, count - 1)
        for element in range(len(self.told)):
            under, not_over = (int(counts[element]) for counts in self._counts)
            text = f"{100 * under / count:.2f} % of the rows lie below it"
            if under > last or not_over <= k:
                yield element, text
                continue
            for i, passed in enumerate((under, not_over)):
                if passed != k + 1:
                    continue
                a, b = float(self._before[i][element]), float(self._after[i][element])
                true = a + fraction * (b - a) if fraction else a
                if not self._edges[0][element] <= true <= self._edges[1][element]:
                    yield element, f"the rows give {true:.9g}"
                    break
