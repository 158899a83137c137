"""core.tails: what is kept of a column is its outermost values, and enough of them."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from piper_collect.core.tails import Tail, Tails, quantile_ranks, tail_limit

CHUNKS = st.lists(st.integers(1, 2_500), min_size=1, max_size=9)
FINENESS = st.sampled_from([0.0, 1.0, 20.0, 1e6])  # levels per unit: a constant, many ties, few, none
DRIFT = st.sampled_from([-5.0, -0.01, 0.0, 0.01, 5.0])  # of a chunk against the one before


def column(chunks: list[int], fineness: float, drift: float, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [np.round(fineness * (rng.normal(size=(n, 2)) + drift * k)) for k, n in enumerate(chunks)]


def sorted_values(tail: Tail) -> np.ndarray:
    return np.array([tail.at(rank) for rank in range(len(tail))])


def grown(chunks: list[np.ndarray], limit: int | None = None) -> tuple[Tails, int]:
    tails, rows = Tails.empty(chunks[0].shape[1]), 0
    for chunk in chunks:
        tails = tails.added(chunk, rows=rows, limit=limit or tail_limit(rows + len(chunk)))
        rows += len(chunk)
    return tails, rows


@settings(deadline=None, max_examples=40)
@given(CHUNKS, FINENESS, DRIFT, st.integers(0, 2**32), st.sampled_from([None, 40, 1_500]))
@example([1_100, 300], 1e6, 5.0, 0, 1_500)
@example([1_100, 300], 1e6, -5.0, 0, 1_500)
def test_a_tail_holds_the_lowest_values(
    chunks: list[int], fineness: float, drift: float, seed: int, limit: int | None
) -> None:
    values = column(chunks, fineness, drift, seed)
    tails, rows = grown(values, limit)
    ordered = np.sort(np.concatenate(values), axis=0)
    for i, (low, high) in enumerate(zip(tails.low, tails.high, strict=True)):
        assert len(low) >= min(rows, limit or 1_000) <= len(high)
        np.testing.assert_array_equal(sorted_values(low), ordered[: len(low), i])
        np.testing.assert_array_equal(-sorted_values(high), ordered[::-1][: len(high), i])


@settings(deadline=None, max_examples=40)
@given(CHUNKS, FINENESS, DRIFT, st.integers(0, 2**32))
def test_quantiles_are_those_of_numpy(chunks: list[int], fineness: float, drift: float, seed: int) -> None:
    values = column(chunks, fineness, drift, seed)
    tails, rows = grown(values)
    assert tails.suffice(rows)
    expected = np.quantile(np.concatenate(values), (0.01, 0.99), axis=0)
    np.testing.assert_array_equal(np.stack(tails.quantiles(rows)), expected)


@settings(deadline=None, max_examples=100)
@given(st.integers(1, 3_000_000))
def test_what_is_kept_suffices_until_the_rows_have_doubled(rows: int) -> None:
    low, high = quantile_ranks(2 * rows)
    assert tail_limit(rows) > low.after
    assert tail_limit(rows) > 2 * rows - 1 - high.before


@pytest.mark.parametrize("levels", [1, 3, 1e6])
def test_rows_in_no_order_keep_enough_for_ever(levels: float) -> None:
    rng = np.random.default_rng(5)
    chunks = [np.round(levels * rng.uniform(size=(4_000, 1))) for _ in range(100)]
    tails, rows = grown(chunks)
    kept = [len(tails.low[0]), len(tails.high[0])]
    assert tails.suffice(rows)
    assert max(kept) <= tail_limit(rows) + 1_024
    assert min(kept) > 0.015 * rows
    expected = np.quantile(np.concatenate(chunks), (0.01, 0.99), axis=0)
    np.testing.assert_array_equal(np.stack(tails.quantiles(rows)), expected)


def test_what_lies_inside_costs_nothing() -> None:
    tails, rows = grown([np.random.default_rng(6).normal(size=(60_000, 3))])
    after = tails.added(np.zeros((500, 3)), rows=rows, limit=tail_limit(rows + 500))
    for end in ("low", "high"):
        assert all(a is b for a, b in zip(getattr(tails, end), getattr(after, end), strict=True))


@pytest.mark.parametrize("short", ["low", "high"])
def test_one_value_too_few_does_not_suffice(short: str) -> None:
    kept = 2_002
    rows = 200_100  # the quantiles lie between the values of rank 2000 and 2001 from either end
    plenty, enough, less = (
        grown([np.arange(float(rows))[:, None]], limit=n)[0] for n in (2 * kept, kept, kept - 1)
    )

    def with_short(tails: Tails) -> Tails:
        low, high = (tails.low, plenty.high) if short == "low" else (plenty.low, tails.high)
        return Tails(low=low, high=high)

    assert with_short(enough).suffice(rows)
    assert not with_short(less).suffice(rows)
