"""The group laws of rigid motions, and the conventions by literal values."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

from piper_collect.core import se3
from piper_collect.errors import KinematicsError

laws = settings(deadline=None, max_examples=60)
metres = st.floats(-2, 2, allow_nan=False)
parts = st.tuples(*[st.floats(-1, 1, allow_nan=False)] * 4)
unit_quats = parts.filter(lambda q: np.linalg.norm(q) > 0.1).map(lambda q: np.array(q) / np.linalg.norm(q))
poses = st.builds(lambda p, q: np.concatenate((p, q)), st.tuples(metres, metres, metres), unit_quats)


def assert_same_pose(a, b, tolerance=1e-12):
    distance, angle = se3.pose_error(a, b)
    assert float(distance) < tolerance
    assert float(angle) < tolerance


@laws
@given(poses)
def test_inverse_undoes_a_pose(pose):
    assert_same_pose(se3.pose_compose(se3.pose_inverse(pose), pose), se3.IDENTITY_POSE7)
    assert_same_pose(se3.pose_compose(pose, se3.pose_inverse(pose)), se3.IDENTITY_POSE7)


@laws
@given(poses, poses, poses)
def test_composition_is_associative(a, b, c):
    left = se3.pose_compose(se3.pose_compose(a, b), c)
    assert_same_pose(left, se3.pose_compose(a, se3.pose_compose(b, c)))


@laws
@given(poses, poses)
def test_composition_is_the_matrix_product(a, b):
    product = se3.matrix_from_pose(a) @ se3.matrix_from_pose(b)
    assert_allclose(se3.matrix_from_pose(se3.pose_compose(a, b)), product, atol=1e-12)


@laws
@given(poses)
def test_pose_survives_the_matrix(pose):
    back = se3.pose_from_matrix(se3.matrix_from_pose(pose))
    assert_same_pose(back, pose)
    assert back[3] >= 0


@laws
@given(poses, poses)
def test_relative_pose_leads_from_one_to_the_other(a, b):
    assert_same_pose(se3.pose_compose(a, se3.pose_relative(a, b)), b)
    assert_allclose(se3.pose_relative(a, b), se3.pose_compose(se3.pose_inverse(a), b), atol=1e-12)


@laws
@given(parts.filter(any))
def test_canonical_sign_is_one_of_the_two(quat):
    quat = np.array(quat)
    chosen = se3.canonical_sign(quat)
    assert np.array_equal(chosen, quat) or np.array_equal(chosen, -quat)
    assert np.array_equal(chosen, se3.canonical_sign(-quat))
    assert chosen[np.flatnonzero(chosen)[0]] > 0


def test_canonical_sign_of_half_turns():
    quats = [[0, 0, -1, 1], [-0.0, 1, 0, 0], [0.5, -1, -1, -1], [-0.5, 1, 0, 0]]
    expected = [[0, 0, 1, -1], [0, 1, 0, 0], [0.5, -1, -1, -1], [0.5, -1, 0, 0]]
    assert se3.canonical_sign(quats).tolist() == expected


@laws
@given(unit_quats)
def test_rot6d_holds_two_columns(quat):
    rot6d, matrix = se3.rot6d_from_quat(quat), se3.matrix_from_quat(quat)
    assert_allclose(rot6d, [*matrix[:, 0], *matrix[:, 1]], atol=1e-15)
    assert_allclose(np.cross(rot6d[:3], rot6d[3:]), matrix[:, 2], atol=1e-12)


@laws
@given(unit_quats, st.tuples(metres, metres, metres))
def test_both_signs_are_one_rotation(quat, vector):
    assert_allclose(se3.quat_rotate(-quat, vector), se3.quat_rotate(quat, vector), atol=1e-12)
    assert_allclose(se3.matrix_from_quat(-quat), se3.matrix_from_quat(quat), atol=1e-12)
    assert float(se3.pose_error([0, 0, 0, *quat], [0, 0, 0, *(-quat)])[1]) < 1e-12


@laws
@given(unit_quats, st.tuples(metres, metres, metres))
def test_rotation_agrees_with_scipy(quat, vector):
    reference = Rotation.from_quat(se3.xyzw_from_wxyz(quat))
    assert_allclose(se3.quat_rotate(quat, vector), reference.apply(vector), atol=1e-12)
    assert_allclose(se3.matrix_from_quat(quat), reference.as_matrix(), atol=1e-12)


@laws
@given(unit_quats, unit_quats)
def test_slerp_meets_its_ends(q0, q1):
    assert_allclose(se3.slerp(q0, q1, 0.0), q0, atol=1e-12)
    end = se3.slerp(q0, q1, 1.0)
    assert min(np.abs(end - q1).max(), np.abs(end + q1).max()) < 1e-12


@laws
@given(unit_quats, unit_quats, st.floats(0, 1))
def test_slerp_goes_the_short_way_at_even_speed(q0, q1, t):
    zero = (0.0, 0.0, 0.0)
    whole = float(se3.pose_error([*zero, *q0], [*zero, *q1])[1])
    part = float(se3.pose_error([*zero, *q0], [*zero, *se3.slerp(q0, q1, t)])[1])
    assert part == pytest.approx(t * whole, abs=1e-7)


@laws
@given(st.lists(unit_quats, max_size=30))
def test_continuous_sign_never_flips_and_is_idempotent(quats):
    track = np.array(quats).reshape(-1, 4)
    once = se3.continuous_sign(track)
    assert np.all(np.sum(once[1:] * once[:-1], axis=1) >= 0)
    assert np.all(once[:1, 0] >= 0)
    np.testing.assert_array_equal(se3.continuous_sign(once), once)
    np.testing.assert_array_equal(se3.continuous_sign(-track), once)
    np.testing.assert_array_equal(np.abs(once), np.abs(track))


def test_continuous_sign_repairs_a_flipped_row():
    half = math.sqrt(0.5)
    track = [[-1, 0, 0, 0], [half, 0, 0, half], [-half, 0, 0, -half], [0, 0, 0, 1]]
    expected = [[1, 0, 0, 0], [half, 0, 0, half], [half, 0, 0, half], [0, 0, 0, 1]]
    assert_allclose(se3.continuous_sign(track), expected)


def test_conventions_by_hand():
    half = math.sqrt(0.5)
    quarter = se3.yaw_quat(math.pi / 2)
    assert_allclose(quarter, [half, 0, 0, half], atol=1e-15)
    assert_allclose(se3.quat_rotate(quarter, [1, 0, 0]), [0, 1, 0], atol=1e-15)
    assert_allclose(se3.wxyz_from_xyzw([1, 2, 3, 4]), [4, 1, 2, 3])
    assert_allclose(se3.xyzw_from_wxyz([4, 1, 2, 3]), [1, 2, 3, 4])
    composed = se3.pose_compose([1, 2, 3, *quarter], [1, 0, 0, 1, 0, 0, 0])
    assert_allclose(composed, [1, 3, 3, half, 0, 0, half], atol=1e-15)


def test_rotvec_of_zero_small_and_half_turn():
    rotvec = [[0, 0, 0], [1e-9, 0, 0], [0, math.pi, 0]]
    assert_allclose(se3.quat_from_rotvec(rotvec), [[1, 0, 0, 0], [1, 5e-10, 0, 0], [0, 0, 1, 0]], atol=1e-15)


def test_half_turns_keep_precision_through_the_matrix():
    quats = np.array([[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [1e-9, 0.6, 0, 0.8]])
    back = se3.quat_from_matrix(se3.matrix_from_quat(quats))
    assert_allclose(np.abs(np.sum(back * quats, axis=1)), 1, atol=1e-15)
    assert back[3, 0] == pytest.approx(1e-9, rel=1e-6)


def test_small_angles_are_not_lost():
    small = se3.yaw_quat(1e-9)
    assert float(se3.pose_error(se3.IDENTITY_POSE7, [0, 0, 0, *small])[1]) == pytest.approx(1e-9, rel=1e-9)


def test_leading_axes_broadcast():
    tracks = np.tile(np.array(se3.IDENTITY_POSE7), (5, 3, 1))
    shift = np.array([1.0, 0, 0, 1, 0, 0, 0])
    assert se3.pose_compose(shift, tracks).shape == (5, 3, 7)
    assert se3.matrix_from_pose(tracks).shape == (5, 3, 4, 4)
    assert se3.pose_from_matrix(se3.matrix_from_pose(tracks)).shape == (5, 3, 7)
    assert se3.pose_error(tracks, shift)[0].shape == (5, 3)
    assert se3.slerp([1, 0, 0, 0], [0, 0, 0, 1], np.linspace(0, 1, 4)).shape == (4, 4)


def test_check_unit_names_index_and_norm():
    quats = np.array([[1, 0, 0, 0], [0, 1.0005, 0, 0], [0, 0, 1.2, 0]])
    se3.check_unit(quats[:2])
    with pytest.raises(KinematicsError, match=r"index 2: .*norm 1\.2"):
        se3.check_unit(quats)
    with pytest.raises(KinematicsError, match="norm nan"):
        se3.check_unit([np.nan, 0, 0, 0])


def test_what_is_no_rotation_is_refused():
    with pytest.raises(KinematicsError, match="names no rotation"):
        se3.quat_normalize_wxyz([[1, 0, 0, 0], [0, 0, 0, 0]])
    with pytest.raises(KinematicsError, match="not a rotation"):
        se3.quat_from_matrix(np.diag([1.0, 1.0, -1.0]))
    with pytest.raises(KinematicsError, match="wrong shape"):
        se3.quat_multiply([1, 0, 0], [1, 0, 0, 0])
    with pytest.raises(KinematicsError, match="finite"):
        se3.continuous_sign([[1, 0, 0, np.inf]])
