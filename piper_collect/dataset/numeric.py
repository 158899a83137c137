"""The numeric columns of all episodes of a dataset, one after the other."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from piper_collect.core.types import FloatArray
from piper_collect.dataset.dialect import EpisodeReader
from piper_collect.dataset.layout import INFO, META
from piper_collect.errors import DatasetError

_NUMERIC = {
    "float16",
    "float32",
    "float64",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Numeric columns over all N rows of a dataset.

    Attributes:
        episodes: Episode numbers, in the order of their rows.
        lengths: Rows of each of these episodes; their sum is N.
        stored: [N, D] by column key, in the type they are stored in.
    """

    episodes: tuple[int, ...]
    lengths: tuple[int, ...]
    stored: Mapping[str, NDArray[Any]]

    @property
    def rows(self) -> int:
        """N."""
        return sum(self.lengths)

    def values(self, key: str) -> FloatArray:
        """A column as float64 [N, D].

        Raises:
            DatasetError: when a value is not finite.
        """
        values = self.stored[key].astype(np.float64)
        self.refuse(key, np.asarray(~np.isfinite(values).all(axis=1)), "not finite")
        return values

    def refuse(self, key: str, wrong: NDArray[np.bool_], what: str) -> None:
        """Raise when a row of ``key`` is marked in ``wrong`` [N].

        Raises:
            DatasetError: with their count, and where the first is.
        """
        found = np.flatnonzero(wrong)
        if not found.size:
            return
        starts = np.cumsum((0, *self.lengths))
        place = int(np.searchsorted(starts, found[0], side="right")) - 1
        raise DatasetError(
            f"{found.size} of {len(wrong)} rows are {what}",
            where=f"column {key}, episode {self.episodes[place]}, row {found[0] - starts[place]}",
            got=self.stored[key][found[0]].tolist(),
            hint="`piper-collect validate` lists all that is wrong with a dataset",
        )


def numeric_width(feature: Mapping[str, Any]) -> int | None:
    """Elements of a cell, or None for what is not numeric (pictures, truth values, text)."""
    return math.prod(int(n) for n in feature.get("shape", ())) if feature.get("dtype") in _NUMERIC else None


def read_columns(
    dataset: EpisodeReader, keys: Iterable[str], on_episode: Callable[[int], None] | None = None
) -> Columns:
    """Read numeric columns of every episode, each episode once.

    Args:
        dataset: The dataset.
        keys: Columns, all numeric by their features.
        on_episode: Called with the number of episodes read so far.

    Raises:
        DatasetError: when a file cannot be read or does not hold what the metadata say, or when there
            are no rows.
    """
    widths = {key: int(numeric_width(dataset.info["features"][key]) or 0) for key in keys}
    lines = dataset.lines
    lengths = tuple(line.length for line in lines.values())
    if not sum(lengths):
        raise DatasetError("holds no rows", where=dataset.root)
    stored: dict[str, NDArray[Any]] = {}
    first = 0
    for done, (index, length) in enumerate(zip(lines, lengths, strict=True), start=1):
        path = dataset.data_path(index)
        table = dataset.rows(index, list(widths))
        if len(table) != length:
            raise DatasetError(
                "has other rows than the list of episodes says", where=path, expected=length, got=len(table)
            )
        for key, width in widths.items():
            cells = _cells(table, key, width, path)
            if key not in stored:
                stored[key] = np.empty((sum(lengths), width), cells.dtype)
            # a later file may store the column in a wider type
            stored[key] = stored[key].astype(np.result_type(stored[key], cells), copy=False)
            stored[key][first : first + length] = cells
        first += length
        if on_episode is not None:
            on_episode(done)
    return Columns(episodes=tuple(lines), lengths=lengths, stored=stored)


def _cells(table: pa.Table, key: str, width: int, path: Path) -> NDArray[Any]:
    """A column as [T, width]: lists of any kind, or scalars where the width is 1."""
    cells = table[key].combine_chunks()
    rows, got = len(cells), 1
    while not cells.null_count and _is_list(cells.type):
        sizes = pc.unique(pc.list_value_length(cells)).to_pylist()
        if len(sizes) > 1:
            raise DatasetError(f"cells of {key} have not all the same size", where=path, got=sorted(sizes))
        got, cells = got * sum(sizes), cells.flatten()
    if cells.null_count:
        raise DatasetError(f"{cells.null_count} values of {key} are missing (null)", where=path)
    if not pa.types.is_integer(cells.type) and not pa.types.is_floating(cells.type):
        raise DatasetError(f"column {key} is not numeric", where=path, got=cells.type)
    if rows and got != width:
        raise DatasetError(
            f"cells of {key} have another size than {META}/{INFO} says", where=path, expected=width, got=got
        )
    return np.asarray(cells.to_numpy(zero_copy_only=False)).reshape(rows, width)


def _is_list(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.ListType | pa.LargeListType | pa.FixedSizeListType)
