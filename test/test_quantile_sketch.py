"""The sketch against numpy's quantiles of all rows."""

import math

import numpy as np
import pytest

from piper_collect.core.quantile_sketch import BLOCK, QuantileSketch, from_bytes, to_bytes

FRACTIONS = (0.1, 0.5, 0.9)


def made(cells: np.ndarray, parts: int = 1) -> QuantileSketch:
    sketch = QuantileSketch.empty(cells.shape[1])
    for part in np.array_split(cells, parts):
        sketch = sketch.added(part)
    return sketch


@pytest.mark.parametrize("rows", [1, 2, 3, 10, 59, BLOCK - 1])
def test_of_few_rows_it_is_exact(rows: int) -> None:
    cells = np.random.default_rng(rows).normal(size=(rows, 2)) * [1e-3, 1e6]
    found = made(cells, min(rows, 5)).quantiles(FRACTIONS)
    np.testing.assert_allclose(found, np.quantile(cells, FRACTIONS, axis=0), rtol=1e-12)


@pytest.mark.parametrize("rows", [BLOCK - 1, BLOCK, 5 * BLOCK + 17, 200_000])
@pytest.mark.parametrize("shape", ["random", "rising", "falling", "two values", "heavy tail"])
def test_ranks_are_within_the_bound(rows: int, shape: str) -> None:
    rng = np.random.default_rng(3)
    values = {
        "random": rng.normal(size=rows),
        "rising": np.arange(rows) / 7.0,
        "falling": -np.arange(rows) / 7.0,
        "two values": rng.integers(0, 2, rows).astype(float),
        "heavy tail": np.exp(4 * rng.normal(size=rows)),
    }[shape]
    found = made(values[:, None], 9).quantiles(FRACTIONS)[:, 0]
    ordered, bound = np.sort(values), (1 + max(0.0, math.log2(rows / BLOCK))) / (2 * BLOCK) + 1 / rows
    for fraction, value in zip(FRACTIONS, found, strict=True):
        low = np.searchsorted(ordered, value, side="left") / rows
        high = np.searchsorted(ordered, value, side="right") / rows
        assert low - bound <= fraction <= high + bound


def test_it_depends_on_the_rows_and_not_on_the_episodes() -> None:
    cells = np.random.default_rng(4).normal(size=(10_000, 3))
    assert to_bytes({"a": made(cells, 1)}) == to_bytes({"a": made(cells, 37)})


def test_elements_do_not_mix() -> None:
    cells = np.random.default_rng(5).normal(size=(5_000, 2)) * [1.0, 100.0]
    both = made(cells).quantiles(FRACTIONS)
    for element in range(2):
        alone = made(cells[:, element : element + 1]).quantiles(FRACTIONS)
        np.testing.assert_array_equal(both[:, element], alone[:, 0])


def test_it_comes_back_from_bytes_as_it_was() -> None:
    sketches = {"a": made(np.arange(6_000.0)[:, None]), "b": QuantileSketch.empty(4)}
    again = from_bytes(to_bytes(sketches))
    assert to_bytes(again) == to_bytes(sketches)
    assert again["a"].rows == 6_000


def test_it_is_small() -> None:
    sketch = made(np.random.default_rng(6).normal(size=(300_000, 1)), 50)
    kept = len(sketch.recent) + sum(len(block) for block in sketch.levels if block is not None)
    assert kept < 11 * BLOCK


def test_other_bytes_rows_and_no_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="not a quantile sketch"):
        from_bytes(b"something else")
    with pytest.raises(ValueError, match="not of 2 elements"):
        QuantileSketch.empty(2).added(np.zeros((3, 1)))
    with pytest.raises(ValueError, match="no rows"):
        QuantileSketch.empty(1).quantiles(FRACTIONS)
