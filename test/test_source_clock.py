"""A source's clock against the recorder's: what was done to the stamps is found, and taken back."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import theilslopes

from piper_collect.core.clock_faults import Stamped, judge_clocks
from piper_collect.core.pacing import clock_offset
from piper_collect.core.source_clock import common_offset_ns, drift_ppm, fit_clock

MS = 1_000_000
S = 1_000 * MS
START = 1_700_000_000_000_000_000


def received(true_ns, seed=3, mean_ms=0.5, floor_ms=0.2):
    """Times of receipt in order: transport, with queueing on top."""
    random = np.random.default_rng(seed)
    delay = floor_ms * MS + random.exponential(mean_ms * MS, len(true_ns))
    return np.maximum.accumulate(true_ns + delay.astype(np.int64))


def ticks(seconds, period_ms=10):
    return START + np.arange(0, int(seconds * 1000), period_ms, dtype=np.int64) * MS


def test_a_clock_that_is_right_is_left_alone_but_for_the_transport():
    true_ns = ticks(20)
    fit = fit_clock(received(true_ns), true_ns)
    (piece,) = fit.pieces
    assert (piece.drift_ppb, fit.steps_ns) == (0, ())
    assert 0.2 * MS <= piece.offset_ns < 0.3 * MS
    assert fit.left_ns < 1 * MS


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 20 * MS), min_size=20, max_size=60))
def test_the_slope_is_theil_and_sens(late_ms):
    receive = START + np.arange(len(late_ms), dtype=np.int64) * S
    late = np.array(late_ms, np.int64)
    slope = theilslopes(late, receive - START).slope
    found = drift_ppm(receive, receive, late)
    assert found is None or found == pytest.approx(slope * 1e6, abs=1e-6)
    assert found is not None or abs(slope) * (len(late_ms) - 1) * S > 5 * MS


def test_a_handful_of_literal_messages():
    stamps = np.array([100, 200, 300], np.int64) * MS
    receive = np.array([163, 260, 372], np.int64) * MS
    fit = fit_clock(receive, stamps)
    assert [p.offset_ns for p in fit.pieces] == [60 * MS]
    assert fit.corrected(stamps, receive).tolist() == [160 * MS, 260 * MS, 360 * MS]
    assert fit.corrected(stamps, receive, reference_ns=50 * MS).tolist() == [110 * MS, 210 * MS, 310 * MS]
    assert fit.records(50 * MS) == [
        {"from_receive_ns": 163 * MS, "origin_stamp_ns": 100 * MS, "offset_ns": 10 * MS, "drift_ppb": 0}
    ]


def test_one_message_is_enough_for_an_offset():
    one = np.array([5], np.int64)
    assert fit_clock(one + 7, one).corrected(one, one + 7).tolist() == [12]


@settings(max_examples=40, deadline=None)
@given(
    offset_ms=st.floats(-(10**12), 10**12),
    ppm=st.sampled_from([0.0, -2000.0, -400.0, 400.0, 3000.0, 10_000.0]),
    seed=st.integers(0, 10**6),
    period_ms=st.sampled_from([5, 33]),
)
def test_offset_and_drift_are_taken_back_to_within_the_transport(offset_ms, ppm, seed, period_ms):
    true_ns = ticks(30, period_ms)
    stamps = true_ns + round(offset_ms * MS) - ((true_ns - START) * (ppm * 1e-6)).astype(np.int64)
    receive = received(true_ns, seed)
    fit = fit_clock(receive, stamps)
    error = fit.corrected(stamps, receive) - true_ns
    assert len(fit.pieces) == 1
    assert fit.pieces[0].drift_ppb == pytest.approx(ppm * 1e3, abs=60_000, rel=0.02)
    assert np.abs(error).max() < 2 * MS
    assert (np.diff(fit.corrected(stamps, receive)) > 0).all()


@settings(max_examples=40, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.integers(0, 7), st.integers(150, 5000), st.booleans()), min_size=1, max_size=3
    ),
    seed=st.integers(0, 10**6),
)
def test_every_step_is_found_with_its_size_and_taken_back(steps, seed):
    true_ns = ticks(45)
    shift = np.zeros(len(true_ns), np.int64)
    wanted = {}
    for slot, size_ms, forward in steps:
        at_ns = START + (slot * 5 + 4) * S + 123 * MS
        if at_ns in wanted:
            continue
        wanted[at_ns] = size_ms * MS if forward else -size_ms * MS
        shift[true_ns >= at_ns] += wanted[at_ns]
    stamps = true_ns + shift
    receive = received(true_ns, seed)
    fit = fit_clock(receive, stamps)
    assert len(fit.steps_ns) == len(wanted)
    for found, (_, size) in zip(fit.steps_ns, sorted(wanted.items()), strict=True):
        assert abs(found - size) < MS
    error = np.abs(fit.corrected(stamps, receive) - true_ns)
    # what lies at the very step may be taken for the other side only where transport hides it
    assert np.count_nonzero(error > 2 * MS) <= len(wanted)


def test_a_network_that_grows_slower_for_a_while_is_no_step_of_a_clock():
    true_ns = ticks(20)
    receive = received(true_ns) + np.where(true_ns > START + 8 * S, 60 * MS, 0)
    assert fit_clock(receive, true_ns).steps_ns == ()


def test_messages_that_were_held_up_are_no_step_of_a_clock():
    true_ns = ticks(20)
    receive = received(true_ns)
    stalled = (receive > START + 7 * S) & (receive < START + 9 * S)
    receive[stalled] = START + 9 * S
    fit = fit_clock(receive, true_ns)
    assert fit.steps_ns == ()
    assert abs(fit.corrected(true_ns, receive) - true_ns).max() < MS


def held_up(true_ns, rng, *, at_s, seconds, after_ms=0.0):
    """A recorder that stands still once, takes what queued up at once, and is slower from then on."""
    late = rng.exponential(1.5 * MS, len(true_ns)).astype(np.int64) + MS
    begin, end = START + round(at_s * S), START + round((at_s + seconds) * S)
    receive = true_ns + late + np.where(true_ns >= end, round(after_ms * MS), 0)
    receive[(receive > begin) & (receive < end)] = end
    return np.maximum.accumulate(receive)


@pytest.mark.parametrize("at_s", [0.0, 1.5, 2.3, 4.6])
@pytest.mark.parametrize("after_ms", [0.0, 26.0])
@pytest.mark.parametrize("seconds", [5.5, 12])
def test_one_stall_is_no_drift_of_a_clock(at_s, after_ms, seconds):
    true_ns = ticks(seconds, 33)
    at_s *= seconds / 5.5
    receive = held_up(true_ns, np.random.default_rng(7), at_s=at_s, seconds=0.5, after_ms=after_ms)
    topic = Stamped(receive_ns=receive, stamp_ns=true_ns)
    assert judge_clocks({"/cam": topic}, absolute=True)["/cam"].faults == ()
    offset = clock_offset(receive, true_ns)
    assert abs(offset.drift_ppm or 0.0) * seconds * 1e-3 < 5  # ms


@pytest.mark.parametrize("ramp", ["whole", "start", "end"])
def test_a_machine_that_gets_slower_in_a_short_recording_is_no_drift(ramp):
    true_ns = ticks(5.1 if ramp == "whole" else 20, 33)
    share = (true_ns - START) / (true_ns[-1] - START)
    slow = {"whole": share, "start": np.maximum(0.6 - share, 0), "end": np.maximum(share - 0.4, 0)}[ramp]
    receive = received(true_ns) + (slow * 27 * MS).astype(np.int64)
    assert fit_clock(receive, true_ns).pieces[0].drift_ppb == 0


@pytest.mark.parametrize("ppm", [-700.0, 700.0, 2000.0])
def test_a_drift_is_found_beside_a_stall(ppm):
    true_ns = ticks(10, 33)
    stamps = true_ns - ((true_ns - START) * (ppm * 1e-6)).astype(np.int64)
    receive = held_up(true_ns, np.random.default_rng(5), at_s=4.6, seconds=0.5)
    assert fit_clock(receive, stamps).pieces[0].drift_ppb == pytest.approx(ppm * 1e3, rel=0.1)
    topic = Stamped(receive_ns=receive, stamp_ns=stamps)
    kinds = [fault.kind for fault in judge_clocks({"/cam": topic}, absolute=True)["/cam"].faults]
    assert "drift" in kinds


def test_simulation_time_shows_in_a_short_recording():
    true_ns = ticks(6, 33)
    fit = fit_clock(received(true_ns), true_ns - (true_ns - START) // 10)
    assert fit.pieces[0].drift_ppb == pytest.approx(1e9 / 9, rel=0.01)


@given(st.integers(-(4 * 10**18), 4 * 10**18))
@settings(max_examples=20, deadline=None)
def test_a_shift_of_all_stamps_moves_the_offset_by_as_much_and_nothing_else(shift):
    true_ns = ticks(8)
    receive = received(true_ns)
    stamps = true_ns - START  # so that the sum stays in int64
    one, other = fit_clock(receive, stamps), fit_clock(receive, stamps + shift)
    moved = [p.offset_ns - q.offset_ns - shift for p, q in zip(one.pieces, other.pieces, strict=True)]
    assert moved == [0]
    assert one.corrected(stamps, receive).tolist() == other.corrected(stamps + shift, receive).tolist()


def test_two_hours_of_drift_stay_whole_numbers():
    true_ns = ticks(7200, 100)
    stamps = 101 * S + (true_ns - START) * 99 // 100
    receive = true_ns + 300_000
    error = fit_clock(receive, stamps).corrected(stamps, receive) - receive
    assert np.abs(error).max() < 5_000


def test_simulation_time_at_half_the_walls_is_put_on_it():
    true_ns = ticks(60, 20)
    stamps = 5 * S + (true_ns - START) // 2
    error = fit_clock(true_ns + MS, stamps).corrected(stamps, true_ns + MS) - true_ns
    assert np.abs(error - MS).max() < 10_000


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(st.integers(1, 2**62), min_size=1, max_size=80),
    kind=st.sampled_from(["any", "equal", "sorted", "backwards"]),
    period_ms=st.sampled_from([1, 90, 700]),
)
def test_stamps_may_be_anything(values, kind, period_ms):
    ordered = {"any": values, "equal": values[:1] * len(values)}
    ordered |= {"sorted": sorted(values), "backwards": sorted(values, reverse=True)}
    stamps = np.array(ordered[kind], np.int64)
    receive = START + np.arange(len(stamps), dtype=np.int64) * period_ms * MS
    fit = fit_clock(receive, stamps)
    assert fit.pieces
    assert len(fit.corrected(stamps, receive)) == len(stamps)
    assert all(p.drift_ppb > -(10**9) for p in fit.pieces)  # time does not stand still, nor go back


def test_the_common_offset_is_that_of_most_and_of_two_the_nearer_one():
    near = 100 * MS
    assert common_offset_ns([], near) == 0
    assert common_offset_ns([5 * S, 9 * MS, 5 * S + 3 * MS, 5 * S + 1 * MS], near) == 5 * S + 1 * MS
    assert common_offset_ns([-3 * S, 2 * MS], near) == 2 * MS


def test_what_no_offset_explains_is_measured():
    true_ns = ticks(20)
    wander = (50 * MS * np.sin((true_ns - START) / S)).astype(np.int64)
    assert fit_clock(received(true_ns), true_ns - wander).left_ns > 20 * MS
