"""The simulated arm: lag, limits, speeds, and independence of the step size."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from piper_collect.core.arm_sim import SimArm, SimArmState, sim_arm_step
from piper_collect.core.kinematics import JOINT_LIMITS_RAD, WORKING_POSE_RAD
from piper_collect.errors import ConfigError, KinematicsError

ARM = SimArm()
AT_WORK = SimArmState(q=WORKING_POSE_RAD, width_m=0.05)
joints = st.tuples(*[st.floats(low, high) for low, high in JOINT_LIMITS_RAD])
anywhere = st.tuples(*[st.floats(-10, 10)] * 6)


def test_without_a_command_nothing_moves():
    moving = SimArmState(q=WORKING_POSE_RAD, qdot=(1.0,) * 6, width_m=0.05)
    assert sim_arm_step(ARM, moving, None, None, 0.5) == AT_WORK


def test_a_small_step_decays_with_the_time_constant():
    command = (0.1, *WORKING_POSE_RAD[1:])
    state = sim_arm_step(ARM, AT_WORK, command, 0.051, 0.05)
    assert state.q[0] == pytest.approx(0.1 * (1 - math.exp(-1)))
    assert state.qdot[0] == pytest.approx(0.1 * math.exp(-1) / 0.05)
    assert state.q[1:] == pytest.approx(WORKING_POSE_RAD[1:])
    assert state.width_m == pytest.approx(0.051 - 0.001 * math.exp(-1))


def test_a_large_step_runs_at_full_speed_first():
    command = (2.0, *WORKING_POSE_RAD[1:])
    state = sim_arm_step(ARM, AT_WORK, command, 0.0, 0.1)
    assert state.q[0] == pytest.approx(0.3)
    assert state.qdot[0] == pytest.approx(3.0)
    assert state.width_m == pytest.approx(0.03)


@settings(deadline=None)
@given(joints, anywhere, st.floats(0, 1), st.floats(0, 1))
def test_two_steps_are_one(q, command, first, second):
    start = SimArmState(q=q, width_m=0.02)
    one = sim_arm_step(ARM, start, command, 0.07, first + second)
    two = sim_arm_step(ARM, sim_arm_step(ARM, start, command, 0.07, first), command, 0.07, second)
    assert_allclose(two.q, one.q, atol=1e-9)
    assert_allclose(two.qdot, one.qdot, atol=1e-8)
    assert two.width_m == pytest.approx(one.width_m, abs=1e-10)


@settings(deadline=None)
@given(joints, anywhere, st.floats(-1, 1), st.floats(0, 2))
def test_limits_and_speeds_hold(q, command, width, dt):
    state = sim_arm_step(ARM, SimArmState(q=q, width_m=0.02), command, width, dt)
    for before, after, velocity, (low, high) in zip(q, state.q, state.qdot, JOINT_LIMITS_RAD, strict=True):
        assert low - 1e-12 <= after <= high + 1e-12
        assert abs(after - before) <= 3.0 * dt + 1e-12
        assert abs(velocity) <= 3.0 + 1e-12
    assert 0.0 <= state.width_m <= 0.07
    assert abs(state.width_m - 0.02) <= 0.2 * dt + 1e-12


def test_it_arrives_and_stops():
    command = (0.3, 1.5, -1.3, 0.2, -0.4, 1.0)
    state = sim_arm_step(ARM, AT_WORK, command, 0.0, 5.0)
    assert_allclose(state.q, command, atol=1e-12)
    assert_allclose(state.qdot, 0, atol=1e-12)


def test_what_is_no_command_is_refused():
    for command, width, dt in (
        ((math.nan,) * 6, None, 0.1),
        ((0.0,) * 5, None, 0.1),
        (None, math.inf, 0.1),
        (None, None, -0.1),
        (None, None, math.nan),
    ):
        with pytest.raises(KinematicsError):
            sim_arm_step(ARM, AT_WORK, command, width, dt)
    with pytest.raises(ConfigError):
        SimArm(tau_s=0.0)
    with pytest.raises(ConfigError):
        SimArm(speeds_rad_s=(1.0,))
