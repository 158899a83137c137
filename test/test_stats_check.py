"""Statistics are recognised as those of the rows, block by block, or named as others."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from piper_collect.core.stats import column_stats
from piper_collect.core.stats_check import StatsCheck

NAMES = ("mean", "std", "min", "max", "q01", "q99")


def told_of(rows):
    stats = column_stats(rows)
    return {name: np.array(getattr(stats, name)) for name in NAMES}


def mismatches(told, rows, blocks=3):
    check = StatsCheck(told)
    for block in np.array_split(rows, blocks):
        check.add(block)
    return list(check.mismatches())


columns = st.integers(1, 120).flatmap(
    lambda n: arrays(np.float64, (n, 2), elements=st.integers(-50, 50).map(lambda k: k / 8))
)


@given(rows=columns, blocks=st.integers(1, 5))
def test_true_statistics_hold_however_the_rows_come(rows, blocks):
    assert mismatches(told_of(rows), rows, blocks) == []


@settings(max_examples=200)
@given(
    rows=columns,
    name=st.sampled_from(NAMES),
    element=st.integers(0, 1),
    shift=st.sampled_from([-30.0, -0.1, -0.002, 0.002, 0.1, 30.0]),
)
def test_a_wrong_statistic_is_named(rows, name, element, shift):
    told = told_of(rows)
    told[name][element] += shift
    wrong = mismatches(told, rows)
    assert [(m.name, m.element) for m in wrong if m.name == name] == [(name, element)]
    assert {m.name for m in wrong} == {name}


def test_the_words():
    rows = np.arange(101.0)[:, None]
    told = told_of(rows)
    told["mean"][0], told["q01"][0], told["q99"][0] = 51.0, 1.5, 60.0
    assert [(m.name, m.told, m.found) for m in mismatches(told, rows)] == [
        ("mean", 51.0, "the rows give 50"),
        ("q01", 1.5, "the rows give 1"),
        ("q99", 60.0, "59.41 % of the rows lie below it"),
    ]


def test_a_sum_in_float32_is_no_fault():
    rows = np.random.default_rng(0).normal(3.0, 1.0, (20_000, 1))
    told = told_of(rows)
    told["mean"] = rows.astype(np.float32).mean(axis=0, dtype=np.float32).astype(np.float64)
    assert mismatches(told, rows) == []


def test_no_rows_say_nothing():
    assert list(StatsCheck({"mean": np.zeros(3)}).mismatches()) == []


@pytest.mark.parametrize("names", [("mean",), ("q01",), ("min", "max")])
def test_part_of_the_statistics_can_be_held_against_the_rows(names):
    rows = np.arange(10.0)[:, None]
    told = {name: value for name, value in told_of(rows).items() if name in names}
    assert mismatches(told, rows) == []
