"""Replay without ROS and datasets: what is between targets, the plan, its limits, and distances."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replay_cases import KINEMATICS, joints_over, motion_of, plan_of, still

from piper_collect.core import se3
from piper_collect.core.arm_sim import SimArm, SimArmState
from piper_collect.core.kinematics import GRIPPER_WIDTH_M, WORKING_POSE_RAD
from piper_collect.core.motion import MotionConfig
from piper_collect.core.path_errors import path_errors
from piper_collect.core.replay import begin_replay, replay_step, stop_replay
from piper_collect.core.replay_check import check_reach
from piper_collect.core.replay_log import commanded_track, measured_track, replay_log, simulate_replay
from piper_collect.core.replay_settings import ReplaySettings
from piper_collect.core.tracks import motion_track, pose_at, track_at
from piper_collect.errors import ConfigError, KinematicsError, SessionError

CONFIG = MotionConfig()
START = SimArmState(q=WORKING_POSE_RAD, width_m=GRIPPER_WIDTH_M[1])
DT = CONFIG.control_period_s

steps_s = st.lists(st.floats(0.001, 0.2), min_size=1, max_size=8)
numbers = st.floats(-1.0, 1.0)


@st.composite
def tracks(draw):
    time_s = np.cumsum([0.0, *draw(steps_s)])
    count = len(time_s)
    vectors = draw(st.lists(st.lists(numbers, min_size=6, max_size=6), min_size=count, max_size=count))
    pose7 = np.array([[*v[:3], *se3.quat_from_rotvec(v[3:])] for v in vectors])
    signs = np.array(draw(st.lists(st.sampled_from((-1.0, 1.0)), min_size=count, max_size=count)))
    pose7[:, 3:] *= signs[:, None]
    return motion_track(time_s, pose7, pose7[:, 0] * 0.05)


# -- between the samples --------------------------------------------------------------------------


@given(tracks())
@settings(max_examples=60, deadline=None)
def test_the_samples_themselves_are_met(track):
    pose7, width = track_at(track, track.time_s)
    assert np.array_equal(pose7[:, :3], track.pose7[:, :3])
    assert np.array_equal(width, track.width_m)
    assert se3.pose_error(pose7, track.pose7)[1].max() < 1e-9


@given(tracks(), st.lists(st.floats(-0.2, 2.0), min_size=1, max_size=6))
@settings(max_examples=60, deadline=None)
def test_one_time_and_many_agree_and_stay_between_their_neighbours(track, times):
    many, widths = track_at(track, np.array(times))
    for time_s, pose7, width in zip(times, many, widths, strict=True):
        one, one_width = pose_at(track, time_s)
        metres, radians = se3.pose_error(one, pose7)
        assert (metres < 1e-9, radians < 1e-7) == (True, True)
        assert one_width == pytest.approx(width, abs=1e-12)
        after = min(max(int(np.searchsorted(track.time_s, time_s)), 1), len(track.time_s) - 1)
        a, b = track.pose7[after - 1], track.pose7[after]
        whole = se3.pose_error(a, b)
        parts = np.add(se3.pose_error(a, pose7), se3.pose_error(pose7, b))
        assert parts == pytest.approx(np.array(whole), abs=1e-7)


def test_halfway_in_time_is_halfway_on_the_straight_and_in_the_turn():
    ends = np.array([[0, 0, 0, 1, 0, 0, 0], [0.2, 0, 0, *se3.quat_from_rotvec([0, 0, 1.0])]], dtype=float)
    track = motion_track(np.array([0.0, 0.5]), ends, np.array([0.0, 0.06]))
    pose7, width = pose_at(track, 0.25)
    assert pose7 == pytest.approx([0.1, 0, 0, math.cos(0.25), 0, 0, math.sin(0.25)])
    assert width == pytest.approx(0.03)


@pytest.mark.parametrize(
    ("time_s", "change", "told"),
    [
        ([0.0, 0.1, 0.1], lambda pose: pose, "row 2: times do not increase"),
        (
            [0.0, 0.1, 0.2],
            lambda pose: pose * np.array([[1], [math.nan], [1]]),
            "row 1: a number is not finite",
        ),
        ([0.0, 0.1, 0.2], lambda pose: pose * 1.1, "has not unit norm"),
    ],
)
def test_what_is_no_motion_is_refused_with_its_row(time_s, change, told):
    pose = np.tile(KINEMATICS.forward(WORKING_POSE_RAD), (3, 1))
    with pytest.raises(KinematicsError, match=told):
        motion_track(np.array(time_s), change(pose))


# -- distances ------------------------------------------------------------------------------------


@given(tracks())
@settings(max_examples=30, deadline=None)
def test_a_path_is_at_no_distance_from_itself(track):
    errors = path_errors(track.time_s, track.pose7, track.pose7, track.width_m, track.width_m)
    assert (errors.position_rms_mm, errors.position_max_mm, errors.width_max_mm) == (0.0, 0.0, 0.0)
    assert errors.rotation_max_deg < 1e-6


def test_a_known_offset_gives_the_known_numbers():
    pose7 = np.tile(KINEMATICS.forward(WORKING_POSE_RAD), (4, 1))
    other = pose7.copy()
    other[:2, 0] += (0.003, 0.004)
    other[:, 3:] = se3.quat_multiply(se3.quat_from_rotvec([0, 0, math.radians(2.0)]), pose7[:, 3:])
    errors = path_errors(np.arange(4.0), other, pose7, np.full(4, 0.05), np.full(4, 0.04))
    assert errors.position_rms_mm == pytest.approx(2.5)
    assert errors.position_max_mm == pytest.approx(4.0)
    assert errors.rotation_rms_deg == pytest.approx(2.0)
    assert errors.rotation_max_deg == pytest.approx(2.0)
    assert (errors.width_rms_mm, errors.width_max_mm) == (pytest.approx(10.0), pytest.approx(10.0))
    assert path_errors(np.empty(0), np.empty((0, 7)), np.empty((0, 7))) is None


# -- what is known before -------------------------------------------------------------------------


def test_the_joints_of_every_target_are_found_in_the_posture_that_was_recorded():
    time_s, joints = joints_over(2.0)
    reach = check_reach(CONFIG, motion_of(time_s, joints), range(len(time_s)), joints[0].tolist())
    assert reach.joints == pytest.approx(joints, abs=1e-9)
    assert (reach.clamped_widths, reach.clamped_width_m) == (0, 0.0)


def test_the_greatest_speed_is_where_the_first_limit_acts():
    pose = KINEMATICS.forward(WORKING_POSE_RAD)
    shifted = np.array([pose, pose + np.array([0.01, 0, 0, 0, 0, 0, 0])])
    track = motion_track(np.array([0.0, 0.1]), shifted, np.array([0.05, 0.05]))
    reach = check_reach(replace(CONFIG, joint_speed_scale=1.0), track, (0, 1), WORKING_POSE_RAD)
    assert reach.greatest_speed == pytest.approx(CONFIG.max_linear_m_s / 0.1)  # 0.1 m/s as recorded
    assert reach.limit == "teleop.max_linear_m_s"
    gripper = motion_track(np.array([0.0, 0.1]), np.array([pose, pose]), np.array([0.05, 0.04]))
    reach = check_reach(CONFIG, gripper, (0, 1), WORKING_POSE_RAD)
    assert (reach.greatest_speed, reach.limit) == (pytest.approx(2.0), "teleop.max_gripper_m_s")
    assert check_reach(CONFIG, still(), (0, 1), WORKING_POSE_RAD).greatest_speed > 1e6


@pytest.mark.parametrize(
    ("pose7", "told"),
    [
        ((0.70, 0.0, 0.3, 1.0, 0.0, 0.0, 0.0), "row 41: the target is 100.0 mm outside the workspace box"),
        ((0.55, 0.40, 0.60, 1.0, 0.0, 0.0, 0.0), "row 41: the target is out of reach"),
        ((0.20, 0.0, 0.30, 0.0, 0.0, 0.0, 1.0), "row 41: the target is outside the joint limits"),
    ],
)
def test_a_target_that_cannot_be_reached_is_named_by_its_row(pose7, told):
    poses = np.array([KINEMATICS.forward(WORKING_POSE_RAD), pose7])
    with pytest.raises(SessionError, match=told):
        check_reach(CONFIG, motion_track(np.array([0.0, 5.0]), poses), (40, 41), WORKING_POSE_RAD)


def test_widths_out_of_range_are_counted():
    track = motion_of(np.arange(3) / 10, np.tile(WORKING_POSE_RAD, (3, 1)), np.array([0.05, 0.075, -0.001]))
    reach = check_reach(CONFIG, track, range(3), WORKING_POSE_RAD)
    assert (reach.clamped_widths, reach.clamped_width_m) == (2, pytest.approx(0.005))


# -- the replay -----------------------------------------------------------------------------------


@given(
    st.lists(st.floats(-0.35, 0.35), min_size=6, max_size=6),
    st.floats(0.05, 1.0),
    st.lists(st.floats(0.0, 0.1), min_size=5, max_size=5),
)
@settings(max_examples=25, deadline=None)
def test_the_approach_is_never_faster_than_it_may_be(offset, speed_rad_s, late_s):
    plan = plan_of(still(), approach_rad_s=speed_rad_s)
    start = np.add(WORKING_POSE_RAD, offset)
    state = begin_replay(plan, start, 0.07)
    assert state.motion.q_cmd == pytest.approx(start)
    for k in range(100_000):
        dt_s = late_s[k % 5] if k % 50 < 5 else DT
        before = state
        state, result = replay_step(plan, state, before.motion.q_cmd, "", dt_s)
        if before.phase != "approach":
            break
        moved = np.abs(np.subtract(result.q_cmd, before.motion.q_cmd)).max()
        assert moved <= speed_rad_s * min(dt_s, 2 * DT) * (1 + 1e-6) + 1e-12
    assert before.phase == "settle"
    assert state.motion.q_cmd == pytest.approx(WORKING_POSE_RAD, abs=1e-9)


def test_the_gripper_goes_slowly_to_its_first_width():
    plan = plan_of(still(width_m=0.01), approach_gripper_m_s=0.05)
    state, widths = begin_replay(plan, WORKING_POSE_RAD, 0.07), [0.07]
    while state.phase in ("approach", "settle"):
        state, result = replay_step(plan, state, WORKING_POSE_RAD, "", DT)
        widths.append(result.width_m)
    assert np.abs(np.diff(widths)).max() <= 0.05 * DT + 1e-12
    assert widths[-1] == pytest.approx(0.01)


@pytest.mark.parametrize("speed", [0.5, 1.0])
def test_targets_are_commanded_at_their_times(speed):
    time_s, joints = joints_over(1.5)
    time_s = np.sort(time_s + 0.004 * np.sin(40 * time_s))  # not on a grid
    targets = motion_of(time_s - time_s[0], joints)
    plan = plan_of(targets, speed=speed)
    log = simulate_replay(plan, SimArm(tau_s=1e-4), START)
    assert (log.phase, log.reason, log.limits) == ("done", "", {})
    commanded = commanded_track(log)
    pose7, width = track_at(commanded, targets.time_s)
    errors = path_errors(targets.time_s, pose7, targets.pose7, width, targets.width_m)
    assert errors.position_max_mm < 0.3
    assert errors.width_max_mm < 0.3
    ran_s = (log.command_ns[log.running][-1] - log.command_ns[log.running][0]) / 1e9
    assert ran_s == pytest.approx(targets.duration_s / speed + plan.settings.settle_s, abs=3 * DT)
    measured = measured_track(log, KINEMATICS, speed)
    assert measured.time_s[0] < 0.0  # also what was measured just before the first target
    at = track_at(measured, targets.time_s)[0]
    assert path_errors(targets.time_s, at, targets.pose7).position_max_mm < 2.0


def test_a_late_tick_makes_the_episode_wait_and_the_arm_never_hurries():
    time_s, joints = joints_over(1.0)
    plan = plan_of(motion_of(time_s, joints))
    state, waited_s = begin_replay(plan, joints[0], 0.05), 0.0
    positions, ticks = [], 0
    while state.phase != "done":
        late = state.phase == "replay" and ticks % 20 == 0
        state, result = replay_step(plan, state, state.motion.q_cmd, "", 0.2 if late else DT)
        waited_s += 0.2 - 2 * DT if late else 0.0
        positions.append(result.pose7[:3])
        ticks += 1
    assert state.waited_s == pytest.approx(waited_s)
    assert waited_s > 1.0
    fastest_m = np.linalg.norm(np.diff(plan.targets.pose7[:, :3], axis=0), axis=1).max() / (1 / 30)
    steps_m = np.linalg.norm(np.diff(positions, axis=0), axis=1)
    assert steps_m.max() <= 2 * DT * fastest_m * 1.05


def test_without_widths_the_gripper_stays_as_it_is():
    targets = replace(still(), width_m=None)
    log = simulate_replay(plan_of(targets), SimArm(), replace(START, width_m=0.033))
    assert log.phase == "done"
    assert set(log.width_m.tolist()) == {0.033}


@pytest.mark.parametrize("phase", ["approach", "settle", "replay", "finish"])
def test_a_fault_in_any_phase_holds_for_good(phase):
    time_s, joints = joints_over(0.3)
    plan = plan_of(motion_of(time_s, joints))
    state = begin_replay(plan, np.add(joints[0], 0.1), 0.05)
    while state.phase != phase or state.phase_s < 0.05:
        state, _ = replay_step(plan, state, state.motion.q_cmd, "", DT)
    at = state.motion.q_cmd
    state, result = replay_step(plan, state, at, "the arm is silent", DT)
    assert (state.phase, state.reason, result.q_cmd) == ("stopped", "the arm is silent", at)
    for _ in range(50):
        state, result = replay_step(plan, state, at, "", DT)
        assert (state.phase, result.q_cmd) == ("stopped", at)
    assert stop_replay(state, "again").reason == "the arm is silent"


def test_an_arm_that_does_not_follow_stops_it():
    time_s, joints = joints_over(2.0)
    plan = plan_of(motion_of(time_s, joints), trail_rad=0.1)
    state = begin_replay(plan, joints[0], 0.05)
    while state.phase not in ("stopped", "done"):
        state, _ = replay_step(plan, state, joints[0], "", DT)
    assert state.phase == "stopped"
    assert "rad from its command: something holds it" in state.reason
    _, result = replay_step(plan, state, joints[0], "", DT)
    assert result.q_cmd == pytest.approx(joints[0])  # it does not push on against what holds it
    assert result.pose7 == pytest.approx(KINEMATICS.forward(joints[0]))


def test_limits_that_hold_the_command_back_stop_it_before_it_is_far_off():
    pose = KINEMATICS.forward(WORKING_POSE_RAD)
    poses = np.array([pose, pose + np.array([0.08, 0, 0, 0, 0, 0, 0])])
    plan = plan_of(motion_track(np.array([0.0, 0.05]), poses))  # 1.6 m/s where 0.5 are allowed
    log = simulate_replay(plan, SimArm(), START)
    assert log.phase == "stopped"
    assert "the limits of the motion layer hold the command" in log.reason
    assert log.limits["linear speed"] > 0
    behind = path_errors(log.clock_s, log.pose7, track_at(plan.targets, log.clock_s)[0])
    assert behind.position_max_mm < 1e3 * (plan.settings.tether_m + 2 * DT * 1.6)


def test_an_approach_that_dips_under_the_floor_is_refused():
    with pytest.raises(SessionError, match=r"^the way to the first pose dips under the workspace floor"):
        begin_replay(plan_of(still()), (-0.49, 3.11, -0.01, -1.42, -0.6, -0.23), 0.05)


def test_an_approach_faster_than_the_joints_is_refused_by_the_name_of_its_setting():
    with pytest.raises(ConfigError, match=r"replay\.approach_rad_s.*at most 1\.8 rad/s.*got 1\.9"):
        plan_of(still(), approach_rad_s=1.9)


def test_an_arm_outside_its_limits_is_not_moved():
    with pytest.raises(SessionError, match="outside its joint limits"):
        begin_replay(plan_of(still()), (0.0, -0.5, -1.0, 0.0, 0.5, 0.0), 0.05)


@pytest.mark.parametrize(
    "name", ["approach_rad_s", "approach_gripper_m_s", "tether_m", "tether_rad", "trail_rad"]
)
def test_settings_that_cannot_be_are_refused(name):
    with pytest.raises(ValueError, match=f"{name} must be above 0"):
        ReplaySettings(**{name: 0.0})


def test_a_log_leaves_out_measurements_that_are_not_newer_or_no_numbers():
    measured = [(10, *WORKING_POSE_RAD, 0.05), (10, *WORKING_POSE_RAD, 0.06), (5, *WORKING_POSE_RAD, 0.07)]
    measured += [(12, *WORKING_POSE_RAD, math.nan), (14, math.nan, *WORKING_POSE_RAD[1:], 0.05)]
    log = replay_log([], [*measured, ("20", *map(str, WORKING_POSE_RAD), "0.08")], phase="waiting")
    assert (log.measured_ns.tolist(), log.measured_width_m.tolist()) == ([10, 20], [0.05, 0.08])
    assert (commanded_track(log), measured_track(log, KINEMATICS, 1.0)) == (None, None)
