"""Mean, spread and range of a column, mergeable."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from piper_collect.core.stats import finite_cells
from piper_collect.core.types import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Moments:
    """What is known of the N rows of a column of D elements.

    Attributes:
        count: N.
        mean: float64 [D].
        m2: float64 [D], sum of the squared deviations from the mean.
        min: float64 [D].
        max: float64 [D].
    """

    count: int
    mean: FloatArray
    m2: FloatArray
    min: FloatArray
    max: FloatArray

    @classmethod
    def of(cls, values: ArrayLike) -> "Moments":
        """The moments of ``values`` [N, D], N >= 1, computed in float64.

        Deviations are taken from the first row, so a constant column has exactly its value as mean
        and exactly 0 as ``m2``.

        Raises:
            ValueError: when there are no rows or elements, or a value is not finite.
        """
        cells = finite_cells(values)
        shifted = cells - cells[0]
        shift = shifted.mean(axis=0)
        low, high = cells.min(axis=0), cells.max(axis=0)
        return cls(
            count=cells.shape[0],
            mean=np.clip(cells[0] + shift, low, high),
            m2=np.square(shifted - shift).sum(axis=0),
            min=low,
            max=high,
        )

    @property
    def std(self) -> FloatArray:
        """float64 [D], population standard deviation (divided by N)."""
        return np.sqrt(self.m2 / self.count)


def merged(first: Moments, second: Moments) -> Moments:
    """The moments of the rows of both.

    T. F. Chan, G. H. Golub, R. J. LeVeque, "Updating formulae and a pairwise algorithm for computing
    sample variances" (1979). The last bits depend on the order of merging: a dataset's moments are the
    left fold of its episodes' moments in the order of the episodes.

    Raises:
        ValueError: when they have another number of elements.
    """
    if first.mean.shape != second.mean.shape:
        raise ValueError(f"{second.mean.size} elements, not {first.mean.size}")
    count = first.count + second.count
    step = second.mean - first.mean
    low, high = np.minimum(first.min, second.min), np.maximum(first.max, second.max)
    return Moments(
        count=count,
        mean=np.clip(first.mean + step * (second.count / count), low, high),
        m2=first.m2 + second.m2 + step * step * (first.count * (second.count / count)),
        min=low,
        max=high,
    )
