"""Statistics of a column, as a trainer normalises by them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from piper_collect.core.types import FloatArray

LOW_QUANTILE = 0.01
HIGH_QUANTILE = 0.99


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ColumnStats:
    """Statistics over the N rows of a column of D elements.

    Attributes:
        mean: float64 [D].
        std: float64 [D], population standard deviation (divided by N).
        min: float64 [D].
        max: float64 [D].
        q01: float64 [D], 1 % quantile, linear between order statistics.
        q99: float64 [D], 99 % quantile.
        count: N.
    """

    mean: FloatArray
    std: FloatArray
    min: FloatArray
    max: FloatArray
    q01: FloatArray
    q99: FloatArray
    count: int


def column_stats(values: ArrayLike) -> ColumnStats:
    """Exact statistics of ``values`` [N, D], N >= 1, computed in float64.

    Deviations are taken from the first row, so a constant column has exactly its value as mean and
    exactly 0 as std.

    Raises:
        ValueError: when there are no rows or elements, or a value is not finite.
    """
    cells = np.asarray(values, dtype=np.float64)
    if cells.ndim != 2 or 0 in cells.shape:
        raise ValueError(f"statistics need a column [N, D] with N and D at least 1, not shape {cells.shape}")
    bad = ~np.isfinite(cells)
    if bad.any():
        row, element = (int(i) for i in np.argwhere(bad)[0])
        raise ValueError(
            f"{int(bad.sum())} values are not finite, the first in row {row}, element {element}: "
            f"{cells[row, element]}"
        )
    shifted = cells - cells[0]
    low, high = cells.min(axis=0), cells.max(axis=0)
    q01, q99 = np.quantile(cells, (LOW_QUANTILE, HIGH_QUANTILE), axis=0)
    return ColumnStats(
        mean=np.clip(cells[0] + shifted.mean(axis=0), low, high),
        std=shifted.std(axis=0),
        min=low,
        max=high,
        q01=q01,
        q99=q99,
        count=cells.shape[0],
    )
