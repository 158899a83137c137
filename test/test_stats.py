"""core.stats: exact column statistics."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from piper_collect.core.stats import column_stats

FLOAT32 = st.floats(-1e6, 1e6, width=32)


def test_known_column() -> None:
    stats = column_stats(np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0], [3.0, 5.0]], np.float32))
    assert stats.mean.tolist() == [1.5, 2.0]
    assert stats.std.tolist() == [np.sqrt(1.25), np.sqrt(3.0)]
    assert stats.min.tolist() == [0.0, 1.0]
    assert stats.max.tolist() == [3.0, 5.0]
    np.testing.assert_allclose(stats.q01, [0.03, 1.0], atol=1e-15)
    np.testing.assert_allclose(stats.q99, [2.97, 4.88], atol=1e-15)
    assert stats.count == 4


def test_one_row_and_constants_are_exact() -> None:
    value = float(np.float32(0.1))
    for rows in (1, 7, 1000):
        stats = column_stats(np.full((rows, 1), value, np.float32))
        got = (stats.mean[0], stats.std[0], stats.min[0], stats.max[0], stats.q01[0], stats.q99[0])
        assert got == (value, 0.0, value, value, value, value)


@settings(deadline=None, max_examples=60)
@given(arrays(np.float32, st.tuples(st.integers(1, 40), st.integers(1, 3)), elements=FLOAT32))
def test_agrees_with_numpy_over_float64(values: np.ndarray) -> None:
    stats = column_stats(values)
    wide = values.astype(np.float64)
    np.testing.assert_allclose(stats.mean, wide.mean(axis=0), rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(stats.std, wide.std(axis=0), rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(stats.q01, np.quantile(wide, 0.01, axis=0))
    np.testing.assert_array_equal(stats.q99, np.quantile(wide, 0.99, axis=0))
    assert np.all(stats.min <= stats.mean)
    assert np.all(stats.mean <= stats.max)


@settings(deadline=None, max_examples=40)
@given(arrays(np.float32, st.tuples(st.integers(2, 30), st.just(2)), elements=FLOAT32), st.randoms())
def test_order_of_rows_does_not_matter(values: np.ndarray, random: object) -> None:
    order = list(range(len(values)))
    random.shuffle(order)  # type: ignore[attr-defined]
    one, other = column_stats(values), column_stats(values[order])
    for name in ("mean", "std", "min", "max", "q01", "q99"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_not_finite_is_refused_and_placed(bad: float) -> None:
    with pytest.raises(ValueError, match="row 1, element 0"):
        column_stats([[1.0], [bad]])


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (3,)])
def test_no_rows_or_elements_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        column_stats(np.zeros(shape))


def _long_columns() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(4)
    rows = 30_011
    noise = rng.normal(size=rows)
    mostly_zero = np.where(rng.random(rows) < 0.97, 0.0, noise)
    spikes = np.zeros(rows)
    spikes[1::7] = noise[1::7]  # a sample of every seventh row sees none of them
    steps = noise.copy()
    steps[::7] -= 100  # and such a sample sees nothing but these
    return {
        "noise": noise,
        "rising": np.sort(noise),
        "falling": -np.sort(noise),
        "mostly zero": mostly_zero,
        "nine values": rng.integers(0, 9, rows).astype(np.float64),
        "unseen spikes": spikes,
        "low spikes": -np.abs(spikes),
        "low steps": steps,
        "high steps": -steps,
        "constant": np.full(rows, 0.1),
    }


@pytest.mark.parametrize(("name", "values"), _long_columns().items())
def test_quantiles_of_long_columns_are_those_of_numpy(name: str, values: np.ndarray) -> None:
    for rows in (1024, 2048, 2049, 7_200, 14_500, 30_011):  # samples of every row, 2nd, 7th, 14th
        stats = column_stats(values[:rows, None])
        assert stats.q01[0] == np.quantile(values[:rows], 0.01), rows
        assert stats.q99[0] == np.quantile(values[:rows], 0.99), rows


@pytest.mark.parametrize("rows", [*range(1, 12), 99, 100, 101, 102, 199, 200, 201, 202, 203])
def test_quantiles_of_few_rows_are_those_of_numpy(rows: int) -> None:
    values = np.random.default_rng(rows).normal(size=(rows, 2))
    stats = column_stats(values)
    np.testing.assert_array_equal(stats.q01, np.quantile(values, 0.01, axis=0))
    np.testing.assert_array_equal(stats.q99, np.quantile(values, 0.99, axis=0))
