"""Sampling one stream: against a slow reference that is obviously right, and by its laws."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.transform import Rotation, Slerp

from piper_collect.core.sampling import grid_timestamps, prepare, select, take
from piper_collect.core.types import AlignPolicy, Stream
from piper_collect.errors import AlignmentError

SAMPLINGS = ("hold", "nearest", "linear")
START = 1_700_000_000_000_000_000
laws = settings(deadline=None, max_examples=100)

times = st.lists(st.integers(0, 60), min_size=1, max_size=15, unique=True).map(sorted)
ticks_of = st.lists(st.integers(-5, 65), min_size=1, max_size=15, unique=True).map(sorted)
samplings = st.sampled_from(SAMPLINGS)
parts = st.tuples(*[st.floats(-1, 1)] * 4)
unit_quats = parts.filter(lambda q: np.linalg.norm(q) > 0.1).map(lambda q: np.array(q) / np.linalg.norm(q))
numbers = st.floats(-1e3, 1e3)


def stamps_of(times_ns, shift=START):
    return np.array(times_ns, dtype=np.int64) + shift


def stream_of(times_ns, values, shift=START):
    stamps = stamps_of(times_ns, shift)
    cells = np.array(values, dtype=np.float64).reshape(len(stamps), -1)
    return Stream(key="arm", stamp_ns=stamps, receive_ns=stamps, values=cells)


def reference(times_ns, tick, sampling):
    """Numbers of the samples that a tick uses, its age, and whether it has any: one look at a time."""
    before = [k for k, t in enumerate(times_ns) if t <= tick]
    after = [k for k, t in enumerate(times_ns) if t >= tick]
    if sampling == "hold":
        return ((before[-1],) * 2, tick - times_ns[before[-1]]) if before else None
    if sampling == "nearest":
        best = min(range(len(times_ns)), key=lambda k: (abs(times_ns[k] - tick), times_ns[k]))
        return (best, best), abs(times_ns[best] - tick)
    if not before or not after:
        return None
    older, newer = before[-1], after[0]
    return (older, newer), max(tick - times_ns[older], times_ns[newer] - tick)


@laws
@given(times, ticks_of, samplings, st.integers(0, 30))
def test_samples_ages_and_gaps_are_those_of_the_slow_reference(times_ns, ticks, sampling, max_age):
    policy = AlignPolicy(sampling=sampling, max_age_ns=max_age)
    got = select(stamps_of(times_ns), stamps_of(ticks), policy)
    for row, tick in enumerate(ticks):
        wanted = reference(times_ns, tick, sampling)
        assert got.fresh[row] == (wanted is not None and wanted[1] <= max_age)
        if wanted is not None and got.fresh[row]:
            assert (got.before[row], got.after[row]) == wanted[0]
            assert got.age_ns[row] == wanted[1]


@laws
@given(times, ticks_of, samplings, st.data())
def test_values_are_those_of_the_slow_reference(times_ns, ticks, sampling, draw):
    values = draw.draw(
        st.lists(st.tuples(numbers, numbers), min_size=len(times_ns), max_size=len(times_ns)), label="values"
    )
    policy = AlignPolicy(sampling=sampling, max_age_ns=100)
    ticks = [t for t in ticks if reference(times_ns, t, sampling) is not None]
    assume(ticks)
    chosen = select(stamps_of(times_ns), stamps_of(ticks), policy)
    got = take(stream_of(times_ns, values), stamps_of(ticks), chosen, policy)
    for row, tick in enumerate(ticks):
        (older, newer), _ = reference(times_ns, tick, sampling)
        span = times_ns[newer] - times_ns[older]
        part = (tick - times_ns[older]) / span if span else 0.0
        for element in range(2):
            first, second = values[older][element], values[newer][element]
            wanted = first * (1 - part) + second * part
            assert got[row, element] == pytest.approx(wanted, rel=1e-12, abs=1e-9)
            slack = 1e-12 * (abs(first) + abs(second))
            assert min(first, second) - slack <= got[row, element] <= max(first, second) + slack
            if sampling != "linear":
                assert got[row, element] == first


@laws
@given(times, ticks_of, samplings, st.integers(0, 30), st.integers(-START, 2**62 - START))
def test_a_shift_of_stamps_and_ticks_changes_no_choice(times_ns, ticks, sampling, max_age, shift):
    policy = AlignPolicy(sampling=sampling, max_age_ns=max_age)
    here = select(stamps_of(times_ns), stamps_of(ticks), policy)
    there = select(stamps_of(times_ns, START + shift), stamps_of(ticks, START + shift), policy)
    for name in ("before", "after", "age_ns", "fresh"):
        assert_array_equal(getattr(here, name), getattr(there, name))


@laws
@given(times, ticks_of, samplings, st.data())
def test_each_tick_is_chosen_for_itself(times_ns, ticks, sampling, draw):
    some = sorted(draw.draw(st.sets(st.sampled_from(range(len(ticks))), min_size=1), label="some"))
    policy = AlignPolicy(sampling=sampling, max_age_ns=20)
    whole = select(stamps_of(times_ns), stamps_of(ticks), policy)
    few = select(stamps_of(times_ns), stamps_of([ticks[k] for k in some]), policy)
    for name in ("before", "after", "age_ns", "fresh"):
        assert_array_equal(getattr(few, name), getattr(whole, name)[some])


@laws
@given(times, st.integers(-5, 65), st.lists(st.integers(0, 60), max_size=5))
def test_hold_is_blind_to_what_comes_after(times_ns, tick, later):
    policy = AlignPolicy(sampling="hold", max_age_ns=20)
    seen = [t for t in times_ns if t <= tick]
    future = sorted({tick + 1 + t for t in later})
    alone = select(stamps_of(seen), stamps_of([tick]), policy)
    beside = select(stamps_of(seen + future), stamps_of([tick]), policy)
    assert alone.fresh[0] == beside.fresh[0]
    if alone.fresh[0]:
        assert (alone.before[0], alone.age_ns[0]) == (beside.before[0], beside.age_ns[0])


@laws
@given(times, ticks_of, samplings)
def test_a_greater_age_only_adds_rows(times_ns, ticks, sampling):
    stamps, at = stamps_of(times_ns), stamps_of(ticks)
    fresh = [
        select(stamps, at, AlignPolicy(sampling=sampling, max_age_ns=age)).fresh for age in (0, 3, 10, 40)
    ]
    for less, more in pairwise(fresh):
        assert np.all(more[less])


def test_a_stream_without_samples_has_no_fresh_tick():
    for sampling in SAMPLINGS:
        got = select(stamps_of([]), stamps_of([1, 2]), AlignPolicy(sampling=sampling))
        assert got.fresh.tolist() == [False, False]


@pytest.mark.parametrize("fps", [10.0, 15.0, 24.0, 29.97, 30.0, 60.0])
def test_a_grid_timestamp_is_the_smallest_float32_not_before_its_time(fps):
    got = grid_timestamps(fps, 40_000)
    assert got.dtype == np.float32
    for k in (*range(100), *range(100, 40_000, 37)):
        exact = Fraction(k) / Fraction(str(fps))
        below = np.nextafter(got[k], np.float32(-np.inf))
        assert Fraction(float(below)) < exact <= Fraction(float(got[k]))


# -- rotations ----------------------------------------------------------------------------------


def poses_of(quats):
    return [[float(k), 0.0, -1.0, *quat] for k, quat in enumerate(quats)]


def turned(times_ns, quats, ticks, sampling):
    """The sampled poses at those of ``ticks`` that have a value, and these ticks."""
    policy = AlignPolicy(sampling=sampling, max_age_ns=100, rotation="quat_wxyz")
    stream = prepare(stream_of(times_ns, poses_of(quats)), policy)
    chosen = select(stream.stamp_ns, stamps_of(ticks), policy)
    kept = stamps_of(ticks)[chosen.fresh]
    chosen = select(stream.stamp_ns, kept, policy)
    return take(stream, kept, chosen, policy), (kept - START).tolist()


@st.composite
def tracks(draw):
    """Times, and at each a unit quaternion less than a half turn from the one before, of either sign."""
    times_ns = draw(times)
    quats = [draw(unit_quats)]
    for _ in times_ns[1:]:
        step = draw(st.tuples(*[st.floats(-0.9, 0.9)] * 3))
        rotated = Rotation.from_quat(quats[-1], scalar_first=True) * Rotation.from_rotvec(step)
        quats.append(rotated.as_quat(scalar_first=True))
    signs = draw(st.lists(st.sampled_from([-1.0, 1.0]), min_size=len(quats), max_size=len(quats)))
    return times_ns, [sign * quat for sign, quat in zip(signs, quats, strict=True)]


@laws
@given(tracks(), ticks_of, samplings)
def test_rotations_come_out_unit_with_continuous_sign_and_first_w_not_negative(track, ticks, sampling):
    times_ns, quats = track
    values, kept = turned(times_ns, quats, ticks, sampling)
    assume(kept)
    assert_allclose(np.linalg.norm(values[:, 3:7], axis=1), 1.0, atol=1e-15)
    assert values[0, 3] >= 0
    # rows may lie several samples apart; between neighbours in time the sign never flips
    assert np.all(np.sum(values[1:, 3:7] * values[:-1, 3:7], axis=1) >= 0)


@laws
@given(tracks(), ticks_of, samplings)
def test_the_sign_that_a_source_happens_to_send_changes_nothing(track, ticks, sampling):
    times_ns, quats = track
    values, kept = turned(times_ns, quats, ticks, sampling)
    assume(kept)
    dots = np.sum(values[1:, 3:7] * values[:-1, 3:7], axis=1)
    assume(
        values[0, 3] > 1e-6 and (len(dots) == 0 or dots.min() > 1e-6)
    )  # else the sign is a matter of taste
    negated, _ = turned(times_ns, [-q for q in quats], ticks, sampling)
    one_sign, _ = turned(times_ns, [q if q[0] >= 0 else -q for q in quats], ticks, sampling)
    assert_allclose(negated, values, atol=1e-12)
    assert_allclose(one_sign, values, atol=1e-12)


@laws
@given(tracks(), ticks_of)
def test_slerp_agrees_with_scipy_and_lies_between_its_two_samples(track, ticks):
    times_ns, quats = track
    values, kept = turned(times_ns, quats, ticks, "linear")
    for row, tick in zip(values, kept, strict=True):
        (older, newer), _ = reference(times_ns, tick, "linear")
        first, second = (Rotation.from_quat(quats[k], scalar_first=True) for k in (older, newer))
        got = Rotation.from_quat(row[3:7], scalar_first=True)
        if older == newer:
            assert (first.inv() * got).magnitude() < 1e-9
            continue
        pair = Rotation.concatenate([first, second])
        wanted = Slerp([times_ns[older], times_ns[newer]], pair)(tick)
        assert (wanted.inv() * got).magnitude() < 1e-7
        whole = (first.inv() * second).magnitude()
        to, on = (first.inv() * got).magnitude(), (got.inv() * second).magnitude()
        assert to + on == pytest.approx(whole, abs=1e-7)
        part = (tick - times_ns[older]) / (times_ns[newer] - times_ns[older])
        assert to == pytest.approx(part * whole, abs=1e-7)


@laws
@given(unit_quats, st.floats(0.9901, 1.0099), st.tuples(numbers, numbers, numbers))
def test_what_is_nearly_unit_is_scaled_and_the_position_left_alone(quat, scale, xyz):
    policy = AlignPolicy(rotation="quat_wxyz")
    made = prepare(stream_of([0], [[*xyz, *(scale * quat)]]), policy)
    assert np.linalg.norm(made.values[0, 3:7]) == pytest.approx(1.0, abs=1e-15)
    assert_allclose(made.values[0, 3:7], quat, atol=1e-14)
    assert tuple(made.values[0, :3]) == xyz


@laws
@given(unit_quats, st.floats(0, 0.9899) | st.floats(1.0101, 1e6), st.integers(0, 3))
def test_what_is_no_rotation_is_refused_by_its_stamp(quat, scale, place):
    quats = [quat] * 4
    quats[place] = scale * quat
    policy = AlignPolicy(rotation="quat_wxyz")
    with pytest.raises(AlignmentError, match=rf"no rotation at stamp {START + 10 * place} ns \(1 of 4"):
        prepare(stream_of([0, 10, 20, 30], poses_of(quats)), policy)
