"""Statistics of a column, as a trainer normalises by them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from piper_collect.core.quantiles import outer_quantiles
from piper_collect.core.types import FloatArray


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
    cells = _checked(values)
    # one element at a time: contiguous, and no second copy of all of them
    mean, std, low, high, q01, q99 = np.array([_six(c + 0.0) for c in cells.T]).T
    return ColumnStats(mean=mean, std=std, min=low, max=high, q01=q01, q99=q99, count=len(cells))


def finite_cells(values: ArrayLike) -> FloatArray:
    """``values`` [N, D] as float64, negative zeros made positive, once it is known that all are numbers.

    float32, bool and int64 up to 2**53 stay exact; a larger int64 becomes the nearest float64.

    Raises:
        ValueError: when there are no rows or elements, or a value is not finite.
    """
    return np.ascontiguousarray(_checked(values) + 0.0)


def _six(values: FloatArray) -> tuple[float, ...]:
    """Mean, std, min, max, q01 and q99 of one element's values [N]."""
    shifted = values - values[0]
    low, high = values.min(), values.max()
    mean = np.clip(values[0] + shifted.mean(), low, high)
    return mean, shifted.std(), low, high, *outer_quantiles(values)


def _checked(values: ArrayLike) -> FloatArray:
    """``values`` [N, D] as float64 once it is known that all are numbers."""
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
    return cells
