"""The Piper's kinematics against published reference poses, and the inverse against the forward."""

import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from piper_collect.core import se3
from piper_collect.core.kinematics import (
    JOINT_LIMITS_RAD,
    LINK_POINT_NAMES,
    TOOL_TIP_M,
    WORKING_POSE_RAD,
    PiperKinematics,
    dh_offset_for_firmware,
    wrap_angle,
)
from piper_collect.errors import KinematicsError

PIPER = PiperKinematics("s_v1_6_3")
OLDER = PiperKinematics("older")
LOW, HIGH = np.array(JOINT_LIMITS_RAD).T

# Forward kinematics of piper_sdk 0.6.2, base_link to flange, wxyz with w >= 0.
REFERENCE = [
    ((0, 0, 0, 0, 0, 0), (0.056128, 0, 0.213266), (0.737277, 0, 0.675590, 0)),
    ((0, 1.2, -1.0, 0, 0.5, 0), (0.259706, 0, 0.341493), (0.460920, 0, 0.887442, 0)),
    (
        (0.5, 1.0, -0.8, 0.3, -0.4, 0.6),
        (0.196866, 0.095615, 0.399327),
        (0.635817, 0.158430, 0.584701, 0.478290),
    ),
    (
        (-1.2, 2.0, -1.5, -1.0, 0.8, -1.5),
        (0.106445, -0.425385, 0.225550),
        (0.354017, 0.393482, -0.813894, 0.239626),
    ),
    (
        (1.57, 0.6, -2.2, 0.7, 1.0, 2.0),
        (-0.049497, -0.209768, 0.616441),
        (0.464708, 0.091764, -0.431119, -0.767960),
    ),
]
OLDER_REFERENCE = [
    ((0, 0, 0, 0, 0, 0), (0.054953, 0, 0.203387), (0.737277, 0, 0.675590, 0)),
    ((0, 1.2, -1.0, 0, 0.5, 0), (0.250073, 0, 0.339008), (0.460920, 0, 0.887442, 0)),
]

joints = st.tuples(*[st.floats(low, high) for low, high in JOINT_LIMITS_RAD])


@pytest.mark.parametrize(("arm", "rows"), [(PIPER, REFERENCE), (OLDER, OLDER_REFERENCE)])
def test_forward_meets_the_reference_poses(arm, rows):
    for q, position, quat in rows:
        for pose in (arm.forward(q), np.array(arm.forward_scalar(q))):
            assert_allclose(pose[:3], position, atol=1e-6)
            assert_allclose(pose[3:], quat, atol=1e-6)


@settings(deadline=None)
@given(joints)
def test_scalar_and_vector_forward_agree(q):
    for arm in (PIPER, OLDER):
        distance, angle = se3.pose_error(arm.forward(q), arm.forward_scalar(q))
        assert float(distance) < 1e-12
        assert float(angle) < 1e-12


def test_forward_works_over_leading_axes():
    q = np.array([row[0] for row in REFERENCE[:4]], dtype=float).reshape(2, 2, 6)
    poses = PIPER.forward(q)
    assert poses.shape == (2, 2, 7)
    assert_allclose(poses[1, 0], PIPER.forward(q[1, 0]), atol=1e-15)


def test_variants_differ_by_a_constant_distance():
    q = np.random.default_rng(5).uniform(LOW, HIGH, (200, 6))
    metres, radians = se3.pose_error(PIPER.forward(q), OLDER.forward(q))
    assert_allclose(metres, 0.00995, atol=5e-6)
    assert_allclose(radians, 0, atol=1e-12)


def test_link_points_keep_the_link_lengths():
    q = np.random.default_rng(6).uniform(LOW, HIGH, (50, 6))
    points = PIPER.link_points(q)
    assert points.shape == (50, len(LINK_POINT_NAMES), 3)
    lengths = np.linalg.norm(np.diff(points, axis=1), axis=2)
    expected = (0.123, 0.28503, 0.02198, 0.25075, 0.091, TOOL_TIP_M)
    assert_allclose(lengths, np.tile(expected, (50, 1)), atol=1e-12)
    assert_allclose(points[:, 5], PIPER.forward(q)[:, :3], atol=1e-12)


@pytest.mark.parametrize("arm", [PIPER, OLDER], ids=lambda arm: arm.dh_offset)
def test_inverse_finds_every_pose_and_the_original_joints(arm):
    rng = np.random.default_rng(1)
    joint_rows = rng.uniform(LOW, HIGH, (3000, 6))
    solutions, targets = [], []
    for q, pose in zip(joint_rows, arm.forward(joint_rows), strict=True):
        branches = arm.inverse(pose)
        misses = [max(abs(wrap_angle(a - b)) for a, b in zip(branch, q, strict=True)) for branch in branches]
        assert min(misses) < 1e-6
        solutions += branches
        targets += [pose] * len(branches)
    metres, radians = se3.pose_error(arm.forward(solutions), targets)
    assert metres.max() < 1e-6
    assert radians.max() < 1e-6


@settings(deadline=None)
@given(joints, st.tuples(*[st.floats(-0.02, 0.02)] * 6))
def test_inverse_near_stays_inside_the_limits_and_on_the_pose(q, offset):
    pose = PIPER.forward_scalar(q)
    solution = PIPER.inverse_near(pose, [a + b for a, b in zip(q, offset, strict=True)])
    assert solution is not None
    assert all(low <= a <= high for a, (low, high) in zip(solution, JOINT_LIMITS_RAD, strict=True))
    distance, angle = se3.pose_error(PIPER.forward_scalar(solution), pose)
    assert float(distance) < 1e-6
    assert float(angle) < 1e-6


def test_inverse_near_picks_the_branch_of_the_reference():
    rng = np.random.default_rng(2)
    for q in rng.uniform(LOW + 0.05, HIGH - 0.05, (300, 6)):
        q[4] = math.copysign(max(abs(q[4]), 0.1), q[4])
        q[2] = -1.0 + q[2] / 3  # away from the stretched elbow
        assert_allclose(PIPER.inverse_near(PIPER.forward_scalar(q), q), q, atol=1e-9)


def test_stretched_wrist_keeps_joint_4_of_the_reference():
    q = (0.2, 1.3, -1.1, 0.7, 0.0, -0.4)
    solution = PIPER.inverse_near(PIPER.forward_scalar(q), (0.2, 1.3, -1.1, 0.9, 0.0, 0.0))
    assert_allclose(solution, (0.2, 1.3, -1.1, 0.9, 0.0, -0.6), atol=1e-9)


def test_stretched_wrist_shares_the_roll_so_that_both_joints_stay_inside():
    q = (0.2, 1.3, -1.1, 0.1, 0.0, 2.09)
    solution = PIPER.inverse_near(PIPER.forward_scalar(q), (0.2, 1.3, -1.1, -0.3, 0.0, 2.09))
    assert_allclose(solution, (0.2, 1.3, -1.1, 0.09561, 0.0, 2.09439), atol=1e-9)
    over = PIPER.inverse_near(PIPER.forward_scalar(q), (0.2, 1.3, -1.1, 1.8, 0.0, 0.4))
    assert_allclose(over, (0.2, 1.3, -1.1, 1.745, 0.0, 0.445), atol=1e-9)


def test_wrist_centre_over_the_base_keeps_joint_1_of_the_reference():
    upright = PIPER.inverse((0, 0, 0.514, 1, 0, 0, 0))[0]
    pose = PIPER.forward_scalar(upright)
    reference = (1.1, *upright[1:])
    solution = PIPER.inverse_near(pose, reference, [(-math.pi, math.pi)] * 6)
    assert solution is not None
    assert solution[0] == pytest.approx(1.1)
    distance, angle = se3.pose_error(PIPER.forward_scalar(solution), pose)
    assert float(distance) < 1e-6
    assert float(angle) < 1e-6


def test_out_of_reach_and_out_of_limits():
    assert PIPER.inverse((1.5, 0, 0.3, 1, 0, 0, 0)) == []
    assert PIPER.inverse_near((1.5, 0, 0.3, 1, 0, 0, 0), WORKING_POSE_RAD) is None
    narrow = [(-0.1, 0.1)] * 6
    pose = PIPER.forward_scalar(WORKING_POSE_RAD)
    assert PIPER.inverse(pose)
    assert PIPER.inverse_near(pose, WORKING_POSE_RAD, narrow) is None


def test_stretched_arm_is_still_in_reach():
    straight = math.radians(102.78) - math.atan2(-0.25075, -0.02198) - 2 * math.pi
    for q1 in np.linspace(-2, 2, 40):
        q = (q1, 1.5 + q1 / 5, straight, 0.2, 0.4, 0.1)
        solution = PIPER.inverse_near(PIPER.forward_scalar(q), q)
        assert solution is not None
        assert_allclose(solution, q, atol=1e-6)


def test_limits_beyond_half_a_turn_are_reached():
    limits = [*JOINT_LIMITS_RAD[:1], (0.0, 3.403), *JOINT_LIMITS_RAD[2:]]
    q = (0.1, 3.3, -1.5, 0.2, 0.4, 0.1)
    assert_allclose(PIPER.inverse_near(PIPER.forward_scalar(q), q, limits), q, atol=1e-9)


def test_what_is_no_pose_is_refused():
    for pose in ((0, 0, math.nan, 1, 0, 0, 0), (0, 0, 0.3, 0, 0, 0, 0), (0, 0, 0.3)):
        with pytest.raises(KinematicsError, match="not a pose"):
            PIPER.inverse(pose)
    with pytest.raises(KinematicsError, match="joint angles"):
        PIPER.forward([0, 0, 0, 0, 0, math.inf])
    with pytest.raises(KinematicsError, match="did you mean 'older'"):
        PiperKinematics("oldr")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("firmware", "variant"),
    [
        ("S-V1.8-5", "s_v1_6_3"),
        ("S-V1.6-3", "s_v1_6_3"),
        ("S-V1.10-0", "s_v1_6_3"),
        ("S-V1.6-2", "older"),
        ("S-V1.5-9", "older"),
        ("", None),
        ("S-V1.8", None),
        ("H-V1.8-5", None),
    ],
)
def test_firmware_decides_the_variant(firmware, variant):
    assert dh_offset_for_firmware(firmware) == variant


def test_one_inverse_fits_a_200_hz_loop():
    pose = PIPER.forward_scalar(REFERENCE[2][0])
    durations = []
    for _ in range(200):
        start = time.perf_counter()
        PIPER.inverse_near(pose, WORKING_POSE_RAD)
        durations.append(time.perf_counter() - start)
    assert sorted(durations)[len(durations) // 2] < 0.5e-3
