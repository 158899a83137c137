"""Any quantile of a column that grows without end, from a few thousand of its values.

J. I. Munro, M. S. Paterson, "Selection and sorting with limited storage" (1980): full blocks of rows are
sorted; two blocks of one weight become one of twice the weight, which keeps every other value of both, the
odd and the even ones in turn.
"""

import json
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from piper_collect.core.quantiles import ranks_of
from piper_collect.core.types import FloatArray

BLOCK = 1024
"""Rows of a block."""

_FORMAT = b"piper_collect quantile sketch, version 1\n"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QuantileSketch:
    """What is kept of the N rows of a column of D elements.

    Below ``BLOCK`` rows that is all of them, and quantiles are exact. Of more, the rank of what is given as a
    quantile is at most (1 + log2(N / BLOCK)) / (2 * BLOCK) off (0.5 % for a million rows, at worst). It
    depends on the rows and their order alone, not on how they were parted into episodes.

    Attributes:
        recent: float64 [<BLOCK, D], the newest rows.
        levels: float64 [BLOCK, D] of weight 2**level, each element sorted; None where there is no such block.
        rows: N.
    """

    recent: FloatArray
    levels: tuple[FloatArray | None, ...] = ()
    rows: int = 0

    @classmethod
    def empty(cls, width: int) -> "QuantileSketch":
        """No rows, of ``width`` elements."""
        return cls(recent=np.empty((0, width)))

    def added(self, cells: FloatArray) -> "QuantileSketch":
        """The sketch with the rows ``cells`` [T, D] seen too.

        Raises:
            ValueError: when they have another number of elements.
        """
        if cells.ndim != 2 or cells.shape[1] != self.recent.shape[1]:
            raise ValueError(f"rows of shape {cells.shape}, not of {self.recent.shape[1]} elements")
        waiting = np.concatenate((self.recent, cells.astype(np.float64)))
        levels, block = list(self.levels), (self.rows // BLOCK)
        while len(waiting) >= BLOCK:
            _carry(levels, np.sort(waiting[:BLOCK], axis=0), block)
            waiting, block = waiting[BLOCK:], block + 1
        return QuantileSketch(recent=waiting.copy(), levels=tuple(levels), rows=self.rows + len(cells))

    def quantiles(self, fractions: tuple[float, ...]) -> FloatArray:
        """The quantiles [len(fractions), D], linear between the values kept.

        Raises:
            ValueError: when there are no rows.
        """
        if not self.rows:
            raise ValueError("there are no rows to have quantiles")
        kept = [(self.recent, 1), *((b, 2**n) for n, b in enumerate(self.levels) if b is not None)]
        values = np.concatenate([block for block, _ in kept])
        weights = np.concatenate([np.full(len(block), weight) for block, weight in kept])
        order = np.argsort(values, axis=0, kind="stable")
        ranked = np.take_along_axis(values, order, axis=0)
        up_to = np.cumsum(weights[order], axis=0)
        found = np.empty((len(fractions), values.shape[1]))
        for at, fraction in enumerate(fractions):
            ranks = ranks_of(self.rows, fraction)
            for element in range(values.shape[1]):
                before, after = (
                    float(ranked[np.searchsorted(up_to[:, element], rank, side="right"), element])
                    for rank in (ranks.before, ranks.after)
                )
                found[at, element] = ranks.between(before, after)
        return found


def _carry(levels: list[FloatArray | None], block: FloatArray, number: int) -> None:
    """Put block ``number`` (from 0) in, as a binary counter takes a one."""
    level = 0
    while True:
        if level == len(levels):
            levels.append(None)
        waiting = levels[level]
        if waiting is None:
            levels[level] = block
            return
        levels[level] = None
        odd = (number >> (level + 1)) & 1
        block = np.sort(np.concatenate((waiting, block)), axis=0)[odd::2]
        level += 1


def to_bytes(sketches: dict[str, QuantileSketch]) -> bytes:
    """``sketches`` by column, whole and exact."""
    head = {
        key: {"rows": s.rows, "levels": [block is not None for block in s.levels]}
        for key, s in sketches.items()
    }
    out = BytesIO()
    out.write(_FORMAT + json.dumps(head).encode() + b"\n")
    for sketch in sketches.values():
        for block in (sketch.recent, *(b for b in sketch.levels if b is not None)):
            np.save(out, _narrow(block), allow_pickle=False)
    return out.getvalue()


def _narrow(block: FloatArray) -> NDArray[Any]:
    """As float32 where that holds it exactly."""
    with np.errstate(over="ignore", under="ignore"):
        narrow = block.astype(np.float32)
    return narrow if np.array_equal(narrow, block) else block


def from_bytes(content: bytes) -> dict[str, QuantileSketch]:
    """The sketches that ``to_bytes`` gave ``content`` for.

    Raises:
        ValueError: when it is something else, or cut short.
    """
    if not content.startswith(_FORMAT):
        raise ValueError("not a quantile sketch of this version")
    body = BytesIO(content[len(_FORMAT) :])
    head = json.loads(body.readline())
    found = {}
    for key, known in head.items():
        recent = np.load(body, allow_pickle=False).astype(np.float64)
        levels = tuple(
            np.load(body, allow_pickle=False).astype(np.float64) if there else None
            for there in known["levels"]
        )
        found[key] = QuantileSketch(recent=recent, levels=levels, rows=known["rows"])
    return found
