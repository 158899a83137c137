"""core.windows: literal windows, equality with the slow reference, and laws of relative motion."""

from itertools import pairwise

import finalize_reference as slow
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from plain_dataset import random_poses

from piper_collect.core import se3, windows

SIX = ("mean", "std", "min", "max", "q01", "q99")
KINDS = {"relative": windows.relative_steps, "delta": windows.delta_steps}
laws = settings(deadline=None, max_examples=25)
seeds = st.integers(0, 2**32 - 1)
lengths_of_episodes = st.lists(st.integers(1, 9), min_size=1, max_size=4)
horizons = st.integers(1, 7)


def poses(seed, lengths):
    rng = np.random.default_rng(seed)
    return random_poses(rng, sum(lengths)), random_poses(rng, sum(lengths))


def stacked(kind, state, action, lengths, horizon, change):
    """The windows [N, H, E]."""
    return np.stack(list(KINDS[kind](state, action, lengths, horizon, change)), axis=1)


def by_episode(values, lengths):
    return np.split(values, np.cumsum(lengths)[:-1])


def test_literal_windows_of_two_episodes():
    state = np.array([[10.0], [20.0], [30.0], [5.0]])
    action = np.array([[11.0], [22.0], [33.0], [7.0]])
    change = windows.vector_change(1)
    relative = stacked("relative", state, action, (3, 1), 4, change)
    delta = stacked("delta", state, action, (3, 1), 4, change)
    assert relative[..., 0].tolist() == [[1, 12, 23, 23], [2, 13, 13, 13], [3, 3, 3, 3], [2, 2, 2, 2]]
    assert delta[..., 0].tolist() == [[1, 11, 11, 0], [2, 11, 0, 0], [3, 0, 0, 0], [2, 0, 0, 0]]


def test_a_literal_pose_is_seen_from_the_state():
    half = np.sqrt(0.5)
    turned = [[1.0, 2.0, 0.0, half, 0.0, 0.0, half]]  # a quarter turn left about z, at (1, 2)
    ahead = [[1.0, 5.0, 1.0, 0.0, 0.0, 0.0, 1.0]]  # 3 m along its x, turned by another quarter
    for sign in (1, -1):
        action = np.array(ahead) * ([1, 1, 1, *[sign] * 4])
        (pose,) = windows.relative_steps(np.array(turned), action, (1,), 1, windows.POSE_CHANGE)
        assert_allclose(pose, [[3, 0, 1, half, 0, 0, half]], atol=1e-15)
        (rot6d,) = windows.relative_steps(np.array(turned), action, (1,), 1, windows.ROT6D_CHANGE)
        assert_allclose(rot6d, [[3, 0, 1, 0, 1, 0, -1, 0, 0]], atol=1e-15)


def test_padding_is_exactly_no_change():
    state, action = poses(1, (2, 3))
    for change in (windows.POSE_CHANGE, windows.ROT6D_CHANGE):
        delta = stacked("delta", state, action, (2, 3), 4, change)
        for row, step in ((0, 2), (1, 1), (1, 3), (2, 3), (4, 1)):
            assert delta[row, step].tolist() == list(change.none)


@laws
@given(seeds, lengths_of_episodes, horizons)
@pytest.mark.parametrize("change", ["pose", "rot6d", "vector"])
def test_equals_the_slow_reference(change, seed, lengths, horizon):
    fast, plain = {
        "pose": (windows.POSE_CHANGE, slow.pose_change),
        "rot6d": (windows.ROT6D_CHANGE, slow.rot6d_change),
        "vector": (windows.vector_change(7), slow.difference),
    }[change]
    state, action = poses(seed, lengths)
    expected = slow.windows(by_episode(state, lengths), by_episode(action, lengths), horizon, plain)
    for kind in KINDS:
        got = stacked(kind, state, action, lengths, horizon, fast)
        assert_allclose(got, np.array(expected[kind]), atol=1e-9)
        stats = windows.stats_of_steps(KINDS[kind](state, action, lengths, horizon, fast))
        for name, value in slow.six(np.array(expected[kind])).items():
            assert_allclose(getattr(stats, name), value, atol=1e-9)
        assert stats.count == sum(lengths)


@laws
@given(seeds, seeds, lengths_of_episodes, horizons)
def test_moving_the_base_changes_nothing(seed, base_seed, lengths, horizon):
    state, action = poses(seed, lengths)
    base = random_poses(np.random.default_rng(base_seed), 1)
    moved = [se3.pose_compose(base, values) for values in (state, action)]
    for kind in KINDS:
        here = stacked(kind, state, action, lengths, horizon, windows.POSE_CHANGE)
        there = stacked(kind, *moved, lengths, horizon, windows.POSE_CHANGE)
        assert_allclose(here, there, atol=1e-9)


@laws
@given(seeds, lengths_of_episodes, horizons)
def test_both_signs_of_a_quaternion_give_the_same_bits(seed, lengths, horizon):
    state, action = poses(seed, lengths)
    signs = np.random.default_rng(seed).choice((-1.0, 1.0), (2, len(state), 1))
    flipped = [np.hstack([v[:, :3], v[:, 3:] * s]) for v, s in zip((state, action), signs, strict=True)]
    for kind in KINDS:
        here = stacked(kind, state, action, lengths, horizon, windows.POSE_CHANGE)
        assert np.all(here[..., 3] >= 0)
        assert_array_equal(here, stacked(kind, *flipped, lengths, horizon, windows.POSE_CHANGE))


@laws
@given(seeds, lengths_of_episodes, horizons)
def test_the_deltas_chained_are_the_relative_pose(seed, lengths, horizon):
    state, action = poses(seed, lengths)
    relative = stacked("relative", state, action, lengths, horizon, windows.POSE_CHANGE)
    delta = stacked("delta", state, action, lengths, horizon, windows.POSE_CHANGE)
    chained = delta[:, 0]
    for step in range(horizon):
        if step:
            chained = se3.pose_compose(chained, delta[:, step])
        metres, angle = se3.pose_error(chained, relative[:, step])
        assert metres.max() < 1e-12
        assert angle.max() < 1e-7


@laws
@given(seeds, lengths_of_episodes, horizons)
def test_the_order_of_episodes_does_not_matter(seed, lengths, horizon):
    state, action = poses(seed, lengths)
    there = [np.concatenate(by_episode(v, lengths)[::-1]) for v in (state, action)]
    for steps_of in KINDS.values():
        here = windows.stats_of_steps(steps_of(state, action, lengths, horizon, windows.POSE_CHANGE))
        back = windows.stats_of_steps(steps_of(*there, lengths[::-1], horizon, windows.POSE_CHANGE))
        for name in SIX:
            assert_allclose(getattr(here, name), getattr(back, name), atol=1e-12)


def test_episodes_longer_than_a_block_of_rows():
    lengths = (40_000, 3)
    state, action = poses(5, lengths)
    near = [*range(16_380, 16_388), *range(39_995, 40_003)]
    relative = stacked("relative", state, action, lengths, 3, windows.POSE_CHANGE)
    delta = stacked("delta", state, action, lengths, 3, windows.POSE_CHANGE)
    for i in near:
        last = 39_999 if i < 40_000 else 40_002
        future = [action[min(i + k, last)] for k in range(3)]
        assert_allclose(relative[i], [slow.pose_change(state[i], a) for a in future], atol=1e-9)
        chain = [state[i], *future]
        expected = [slow.pose_change(a, b) for a, b in pairwise(chain)]
        assert_allclose(delta[i], expected, atol=1e-9)
