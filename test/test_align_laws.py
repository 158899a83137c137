"""Whole episodes against a slow reference: which sample each row shows, and how old it is."""

from statistics import median

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_align import MS, START, episodes, rel_ms, try_run

laws = settings(deadline=None, max_examples=80)
clocks = st.sampled_from(["action", "grid"])


def shown(stamps_ms, tick_ms, sampling):
    """The stamp of the sample that a row shows, found by looking at every one."""
    if sampling == "hold":
        return max(t for t in stamps_ms if t <= tick_ms)
    return min(stamps_ms, key=lambda t: (abs(t - tick_ms), t))


@laws
@given(episodes(), clocks, st.sampled_from(["hold", "nearest"]))
def test_each_row_shows_the_sample_of_the_slow_reference_and_the_ages_are_its_ages(stamps, clock, sampling):
    aligned = try_run(stamps, clock=clock, sampling=sampling)
    if aligned is None:
        return
    for key, stamps_ms in (("act", stamps[0]), ("arm", stamps[1])):
        inside = [t for t in stamps_ms if 0 <= t <= 1500]
        wanted = [shown(inside, tick, sampling) for tick in rel_ms(aligned)]
        assert ((aligned.samples[key].stamp_ns - START) / MS).tolist() == wanted
        assert not aligned.samples[key].stale.any()
        assert aligned.columns[key][:, 0].tolist() == wanted
        ages_ms = [abs(tick - t) for tick, t in zip(rel_ms(aligned), wanted, strict=True)]
        said = aligned.counts["age_ms"][key]
        assert said["max"] == pytest.approx(max(ages_ms), abs=1e-6)
        assert said["median"] == pytest.approx(median(ages_ms), abs=1e-6)


@laws
@given(episodes(), clocks, st.sampled_from(["hold", "nearest", "linear"]), st.integers(-(10**17), 10**17))
def test_a_shift_of_all_stamps_shifts_the_episode_and_nothing_else(stamps, clock, sampling, shift):
    here = try_run(stamps, sampling=sampling, clock=clock)
    there = try_run(stamps, sampling=sampling, clock=clock, start=START + shift)
    assert (here is None) == (there is None)
    if here is None or there is None:
        return
    assert there.t0_ns == here.t0_ns + shift
    np.testing.assert_array_equal(there.tick_ns, here.tick_ns + shift)
    for key, column in here.columns.items():
        np.testing.assert_array_equal(there.columns[key], column)
        np.testing.assert_array_equal(there.samples[key].stamp_ns, here.samples[key].stamp_ns + shift)
    assert there.counts == here.counts


@laws
@given(episodes(), clocks)
def test_rows_held_over_a_gap_are_marked_and_the_others_are_those_of_dropping(stamps, clock):
    held, dropped = try_run(stamps, clock=clock, on_gap="hold"), try_run(stamps, clock=clock)
    assert (held is None) == (dropped is None)
    if held is None or dropped is None:
        return
    assert held.counts["dropped"] == 0
    stale = np.any([samples.stale for samples in held.samples.values()], axis=0)
    np.testing.assert_array_equal(held.tick_ns[~stale], dropped.tick_ns)
    for key, stamps_ms in (("act", stamps[0]), ("arm", stamps[1])):
        np.testing.assert_array_equal(held.columns[key][~stale], dropped.columns[key])
        assert held.columns[key][:, 0].tolist() == [shown(stamps_ms, t, "hold") for t in rel_ms(held)]
