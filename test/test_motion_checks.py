"""The lag of a measured motion, poses against kinematics, and what the brightness of frames tells."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from validation_cases import joints_at

from piper_collect.core import luma
from piper_collect.core.kinematics import PiperKinematics
from piper_collect.core.lag import estimate_lag
from piper_collect.core.pose_checks import compare_kinematics, quat_angles_deg


def way(seconds):
    """A smooth way in space, m [T, 3]."""
    phases = seconds[:, None] * np.array([1.3, 2.1, 0.7])
    return 0.1 * np.sin(2 * np.pi * phases / 2)


@settings(max_examples=40)
@given(lag_s=st.floats(-0.4, 0.4), seed=st.integers(0, 1000))
def test_the_lag_that_was_put_in_comes_out(lag_s, seed):
    rng = np.random.default_rng(seed)
    row_s = np.arange(150) / 30 + rng.uniform(0, 0.004, 150)
    lag = estimate_lag(row_s, way(row_s), way(row_s - lag_s))
    assert lag.lag_ms == pytest.approx(1e3 * lag_s, abs=3.0)
    assert lag.correlation > 0.99


def test_an_offset_between_the_two_is_no_lag():
    row_s = np.arange(90) / 30
    lag = estimate_lag(row_s, way(row_s), way(row_s - 0.05) + 0.2)
    assert lag.lag_ms == pytest.approx(50, abs=3)


@pytest.mark.parametrize(
    ("row_s", "scale"),
    [(np.arange(90) / 30, 1e-4), (np.arange(10) / 30, 1.0), (np.zeros(90), 1.0), (np.arange(90.0) ** 8, 1.0)],
)
def test_too_little_to_tell(row_s, scale):
    assert estimate_lag(row_s, scale * way(row_s), scale * way(row_s)) is None


def test_motions_that_have_nothing_to_do_with_each_other_correlate_little():
    rng = np.random.default_rng(0)
    walk = np.cumsum(rng.normal(0, 0.01, (2, 300, 3)), axis=1)
    assert estimate_lag(np.arange(300) / 30, walk[0], walk[1]).correlation < 0.5


@pytest.mark.parametrize("variant", ["s_v1_6_3", "older"])
def test_the_variant_whose_kinematics_fit(variant):
    joints = joints_at(np.arange(30) / 30)
    fit = compare_kinematics(joints, PiperKinematics(variant).forward(joints))
    assert fit.variant == variant
    assert fit.max_mm < 1e-9
    assert fit.other_median_mm == pytest.approx(9.95, abs=0.01)
    assert fit.order == "wxyz"


def test_the_order_in_which_quaternions_fit():
    joints = joints_at(np.arange(30) / 30)
    pose = PiperKinematics("s_v1_6_3").forward(joints)
    pose[:, 3:] = np.roll(pose[:, 3:], -1, axis=1)
    fit = compare_kinematics(joints, pose)
    assert fit.order == "xyzw"
    assert fit.order_median_deg < 1e-3
    assert fit.median_deg > 30


def test_angles_between_rotations():
    turn = np.array([[np.cos(np.pi / 8), np.sin(np.pi / 8), 0, 0]])
    identity = np.array([[1.0, 0, 0, 0]])
    assert quat_angles_deg(identity, turn) == pytest.approx([45])
    assert quat_angles_deg(identity, -turn) == pytest.approx([45])


def test_frames_that_repeat_the_one_before():
    change = np.array([np.nan, 5.0, 0.0, 5.0, 0.01, 6.0, 5.0, 0.0, 0.0, 1.2, 0.0, 0.0])
    key = np.zeros(12, dtype=bool)
    key[9] = True  # a key frame paints a still picture anew
    same = luma.repeated(change, key)
    np.testing.assert_array_equal(np.flatnonzero(same), [2, 4, 7, 8, 9, 10, 11])
    assert list(luma.runs(same)) == [(2, 3), (4, 5), (7, 12)]
    assert luma.stutters(change, same) == 2
    assert not luma.repeated(change, np.zeros(12, dtype=bool))[9]


def test_no_frames_repeat_nothing():
    empty = np.empty(0)
    assert not luma.repeated(empty, empty.astype(bool)).size
    assert luma.stutters(empty, empty.astype(bool)) == 0
    assert list(luma.runs(empty.astype(bool))) == []
