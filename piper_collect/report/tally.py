"""Counts how values are spread, in memory that does not grow with their number."""

import numpy as np

from piper_collect.core.types import FloatArray
from piper_collect.report.plots import Histogram

_LOW_MS, _HIGH_MS, _BIN_MS = -200.0, 1000.0, 0.5
_BINS = round((_HIGH_MS - _LOW_MS) / _BIN_MS)
_MOST_BARS = 24
_STEPS = (1, 2, 4, 10, 20, 40, 100, 200)
"""Bins to a bar, so that bars are 0.5, 1, 2, 5 … ms wide."""


class Tally:
    """Values in ms, counted in bins of half a millisecond from -200 to 1000 ms.

    Attributes:
        total: Values counted; NaN is none.
        missing: NaN among what was added.
    """

    def __init__(self) -> None:
        self.total = 0
        self.missing = 0
        self._counts = np.zeros(_BINS, dtype=np.int64)
        self._above = 0
        self._greatest = -np.inf

    def add(self, values_ms: FloatArray) -> None:
        """Count some values; those below the range count into its first bin."""
        known = values_ms[~np.isnan(values_ms)]
        self.missing += len(values_ms) - len(known)
        self.total += len(known)
        if not len(known):
            return
        self._greatest = max(self._greatest, float(known.max()))
        inside = known[known < _HIGH_MS]
        self._above += len(known) - len(inside)
        bins = np.floor((np.maximum(inside, _LOW_MS) - _LOW_MS) / _BIN_MS).astype(np.int64)
        self._counts += np.bincount(bins, minlength=_BINS)

    def histogram(self, title: str) -> Histogram:
        """The counts as at most some twenty bars over the range that holds them, 0 included."""
        used = np.flatnonzero(self._counts)
        zero = round(-_LOW_MS / _BIN_MS)
        first = min(int(used[0]), zero) if used.size else zero
        last = max(int(used[-1]) + 1, zero + 4) if used.size else zero + 4
        step = next((s for s in _STEPS if (last - first) <= s * _MOST_BARS), _STEPS[-1])
        start = zero - -(-(zero - first) // step) * step
        bars = -(-(last - start) // step)
        padded = np.zeros(bars * step, dtype=np.int64)
        taken = self._counts[max(start, 0) : start + bars * step]
        padded[max(-start, 0) : max(-start, 0) + len(taken)] = taken
        edges = _LOW_MS + (start + step * np.arange(bars + 1, dtype=np.float64)) * _BIN_MS
        notes = [f"max {self._greatest:.1f} ms"] if self.total else []
        if self.missing:
            notes.append(f"none for {self.missing} rows")
        return Histogram(
            title=title,
            unit="ms",
            edges=edges,
            counts=padded.reshape(bars, step).sum(axis=1),
            above=self._above,
            note=", ".join(notes),
        )
