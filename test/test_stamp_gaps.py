"""Samples missing by the stamps: what is missing is counted, and nothing that only came unevenly."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from piper_collect.core.host_clock import HostStep
from piper_collect.core.stamp_gaps import NumberGaps, StampGaps, missing_by_stamps

MS = 1_000_000
S = 1_000 * MS
START = 1_700_000_000 * S
LATE = 3 * MS


def regular(count, period_ns=5 * MS):
    return START + np.arange(count, dtype=np.int64) * period_ns


def without(stamps, *places):
    return np.delete(stamps, list(places))


def missing(stamps, late_ns=LATE, **known):
    return missing_by_stamps(stamps, stamps + late_ns, **known)


@pytest.mark.parametrize("period_ns", [5 * MS, 33_333_333, 100 * MS])
@pytest.mark.parametrize(
    "places", [(), (100,), (100, 101, 102), (30, 60, 200, 201), (12,), (388,), tuple(range(50, 350, 10))]
)
def test_each_sample_that_is_not_there_is_counted(period_ns, places, tally):
    tally("lost samples counted", len(places))
    assert missing(without(regular(400, period_ns), *places)) == len(places)


@given(st.data())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_all_are_counted_wherever_they_are_and_however_much_the_stamps_tremble(data):
    stamps = regular(1000, 33_333_333)
    places = data.draw(st.sets(st.integers(15, 984), max_size=40).filter(_apart))
    seed = data.draw(st.integers(0, 99))
    tremble = np.random.default_rng(seed).uniform(-0.08, 0.08, len(stamps)) * 33_333_333
    assert missing(without(stamps + tremble.astype(np.int64), *places)) == len(places)


def _apart(places):
    found = sorted(places)
    return all(b - a > 3 for a, b in pairwise(found))


@given(st.integers(0, 10_000), st.floats(0.0, 0.49), st.sampled_from([5 * MS, 33_333_333]))
@settings(max_examples=120, deadline=None, derandomize=True)
def test_what_only_came_unevenly_is_never_counted(seed, share, period_ns):
    rng = np.random.default_rng(seed)
    stamps = regular(700, period_ns)
    shift = rng.uniform(-share, share, len(stamps)) * (rng.random(len(stamps)) < rng.random())
    assert missing(stamps + (shift * period_ns).astype(np.int64)) in (0, None)


@given(st.integers(0, 10_000), st.integers(2, 150))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_what_stood_still_and_came_at_once_is_not_missing(seed, held):
    """A driver that stamps what it reads: after a stall all that had piled up gets much the same stamp."""
    at = 50 + seed % 400
    stamps = regular(700)
    stamps[at : at + held] = stamps[at + held] - (held - np.arange(held)) * 40_000
    assert missing(stamps) == 0


@given(st.integers(0, 10_000))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_what_has_no_rate_has_no_count(seed):
    steps = np.random.default_rng(seed).exponential(20 * MS, 500).astype(np.int64) + 1
    assert missing(START + np.cumsum(steps)) is None


def test_a_rate_that_changes_loses_nothing_and_neither_does_one_below_the_nominal():
    dark = np.concatenate([regular(300, 33 * MS), regular(300, 66 * MS) + 300 * 33 * MS])
    assert missing(dark, nominal_ns=33 * MS) == 0
    assert missing(regular(300, 66 * MS), nominal_ns=33 * MS) == 0


def test_a_camera_that_is_faster_than_configured_is_judged_by_what_is_configured():
    stamps = without(regular(300, 16 * MS), 100, 200, 201, 202)
    assert missing(stamps) == 4
    assert missing(stamps, nominal_ns=33 * MS) == 0


def test_too_little_tells_nothing():
    assert missing(regular(10)) is None
    assert missing(regular(0)) is None
    assert missing(regular(12)) == 0


def test_silence_is_not_counted_but_told_elsewhere():
    stamps = regular(400)
    stamps[200:] += 2 * S
    assert missing(stamps) == 0


@pytest.mark.parametrize("step_ns", [40 * MS, -40 * MS, 900 * MS, -3 * S])
def test_a_clock_that_was_set_loses_nothing(step_ns):
    stamps = regular(600)
    after = np.arange(600) >= 300
    # of the source: the times of receipt go on
    assert missing(stamps + after * step_ns, LATE - after * step_ns) == 0
    # of the recording machine: both jump, and only who looked at it knows
    step = HostStep(old_until_ns=int(stamps[300]), new_from_ns=int(stamps[299]) + step_ns, step_ns=step_ns)
    assert missing(stamps + after * step_ns, steps=[step]) == 0


def test_stamps_that_repeat_or_come_late_change_nothing():
    stamps = without(regular(300), 100)
    twice = np.repeat(stamps, 3)
    assert missing(twice) == 1
    late = stamps.copy()
    late[[50, 51, 250, 251]] = late[[51, 50, 251, 250]]  # as they arrived
    assert missing_by_stamps(late, stamps + LATE) == 1


@pytest.mark.parametrize("wrong", [0, START + 99 * 5 * MS, START + 102 * 5 * MS, START - 5 * S // 10])
def test_a_message_without_a_stamp_of_its_own_is_there(wrong):
    stamps = regular(300)
    stamps[[100, 101]] = wrong
    stamps[[150, 200]] = 0
    assert missing_by_stamps(stamps, regular(300) + LATE) == 0


def test_a_long_stream_is_counted_in_little_memory_and_as_a_whole():
    stamps = without(regular(60_000), *range(300, 59_000, 100))
    gaps = StampGaps()
    for stamp in stamps.tolist():
        gaps.add(stamp + LATE, stamp)
    assert len(gaps._stamps) < 400
    assert gaps.missing == gaps.missing == 587
    gaps.begin_episode()
    assert gaps.missing is None


def test_numbers_tell_what_is_missing_between_them():
    numbers = NumberGaps()
    assert numbers.lost is None
    for number in (7, 8, 9, 12, 13, 1, 2, 4, 4):
        numbers.add(number)
    assert numbers.lost == 2 + 1
    numbers.begin_episode()
    numbers.add(20)
    assert numbers.lost is None
    numbers.add(21)
    assert numbers.lost == 0
