"""Steps of stamps, and stamps against the times of receipt."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from piper_collect.core.pacing import clock_offset, pacing

MS = 1_000_000
START = 1_700_000_000_000_000_000


def ns(*ms):
    return np.array([START + round(t * MS) for t in ms], dtype=np.int64)


def test_a_steady_topic():
    steps = pacing(ns(*range(0, 1000, 5)))
    assert (steps.count, steps.rate_hz, steps.jitter_ms, steps.longest_ms) == (200, 200.0, 0.0, 5.0)
    assert (steps.long_steps, steps.equal, steps.backwards) == (0, 0, 0)


def test_the_longest_gap_and_where_it_begins():
    steps = pacing(ns(0, 10, 20, 75, 85, 100.5))
    assert steps.rate_hz == 100.0
    assert (steps.longest_ms, steps.longest_at_ns, steps.long_steps) == (55.0, START + 20 * MS, 2)


def test_equal_and_backward_stamps_are_counted_as_received():
    steps = pacing(ns(0, 10, 10, 10, 5, 7, 20, 30))
    assert (steps.equal, steps.backwards, steps.count) == (2, 2, 8)


@pytest.mark.parametrize("stamps", [ns(), ns(3), ns(3, 3)])
def test_too_few_stamps_have_no_rate(stamps):
    steps = pacing(stamps)
    assert (steps.count, steps.rate_hz, steps.longest_ms) == (len(stamps), None, None)


@given(st.lists(st.integers(0, 10**6), min_size=2, max_size=50), st.integers(-(10**15), 10**15))
def test_a_shift_of_all_stamps_changes_nothing_but_where(stamps, shift):
    one, other = np.array(stamps, np.int64), np.array(stamps, np.int64) + shift
    a, b = pacing(one), pacing(other)
    assert (a.rate_hz, a.jitter_ms, a.longest_ms, a.equal, a.backwards) == (
        b.rate_hz, b.jitter_ms, b.longest_ms, b.equal, b.backwards,
    )  # fmt: skip


def test_offset_and_stamps_ahead_of_their_receipt():
    stamps = ns(0, 10, 20, 30, 40)
    offset = clock_offset(stamps + np.array([3, 4, 5, -2, -7]) * MS, stamps)
    assert (offset.median_ms, offset.ahead, offset.most_ahead_ms) == (3.0, 2, 7.0)
    assert offset.drift_ppm is None


@pytest.mark.parametrize("ppm", [-300.0, 0.0, 80.0, 10_000.0])
def test_drift_is_found_under_queueing(ppm):
    random = np.random.default_rng(4)
    true_ns = np.arange(0, 60 * 10**9, 5 * MS)
    stamps = START + (true_ns * (1 - ppm * 1e-6)).astype(np.int64)
    delay = (1.2 * MS + random.exponential(3 * MS, len(true_ns))).astype(np.int64)
    offset = clock_offset(START + true_ns + delay, stamps)
    assert offset.drift_ppm == pytest.approx(ppm, abs=2.0)


def test_drift_of_a_simulation_clock_keeps_its_digits():
    true_ns = np.arange(0, 20 * 10**9, 50 * MS)
    offset = clock_offset(START + true_ns, 101 * 10**9 + true_ns * 99 // 100)
    assert offset.drift_ppm == pytest.approx(10_000.0, abs=1.0)
