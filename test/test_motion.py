"""The motion layer: whatever it is asked, the arm stays inside its limits and its speeds."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from piper_collect.core import se3
from piper_collect.core.clutch import TeleopGoal
from piper_collect.core.kinematics import JOINT_LIMITS_RAD, WORKING_POSE_RAD, PiperKinematics
from piper_collect.core.motion import MotionConfig, motion_step, start_home, start_motion, stop_motion
from piper_collect.core.motion_limits import flange_step, joints_between
from piper_collect.core.tether import agree, tether, under_way
from piper_collect.errors import ConfigError, SessionError

CONFIG = MotionConfig(
    joint_speed_scale=1.0,
    workspace_min_m=(-0.6, -0.6, 0.0),
    workspace_max_m=(0.65, 0.6, 0.75),
    max_linear_m_s=0.6,
    max_angular_rad_s=2.5,
    max_gripper_m_s=0.3,
)
DT = CONFIG.control_period_s
START = start_motion(CONFIG, WORKING_POSE_RAD, 0.05)
REST = TeleopGoal(pose7=START.pose_cmd, width_m=0.05, engaged=False)


def goal_at(pose=START.pose_cmd, width=0.05, shift=(0, 0, 0), turn=(0, 0, 0), engaged=True):
    quat = se3.quat_multiply(se3.quat_from_rotvec(turn), pose[3:])
    position = [a + b for a, b in zip(pose[:3], shift, strict=True)]
    return TeleopGoal(pose7=(*position, *quat), width_m=width, engaged=engaged)


def follow(goal, state=START, config=CONFIG, steps=1, dt=DT):
    for _ in range(steps):
        state, result = motion_step(config, state, goal, dt)
    return state, result


def test_no_goal_moves_nothing_at_all():
    for goal in (None, REST, goal_at(shift=(0.1, 0, 0), width=0.0, engaged=False)):
        state, result = follow(goal, steps=3)
        assert (result.q_cmd, result.pose7, result.width_m) == (START.q_cmd, START.pose_cmd, 0.05)
        assert (state.mode, result.limited) == ("wait", ())


def test_a_near_goal_is_met_exactly():
    goal = goal_at(shift=(0.0005, -0.0005, 0.0005), turn=(0.001, 0, 0.002), width=0.049)
    state, result = follow(goal)
    assert result.limited == ()
    assert state.mode == "follow"
    distance, angle = se3.pose_error(result.pose7, goal.pose7)
    assert float(distance) < 1e-9
    assert float(angle) < 1e-9
    assert_allclose(PiperKinematics("s_v1_6_3").forward(result.q_cmd), result.pose7, atol=1e-12)
    assert result.width_m == 0.049


def test_a_far_goal_is_approached_at_full_speed_and_reached():
    goal = goal_at(shift=(0.06, 0.0, 0.0), turn=(0, 0.2, 0), width=0.0)
    state, result = follow(goal)
    assert result.limited == ("linear speed", "angular speed", "gripper speed")
    metres, radians = flange_step(START.pose_cmd, result.pose7)
    assert metres == pytest.approx(0.6 * DT, rel=1e-6)
    assert radians == pytest.approx(2.5 * DT, rel=1e-6)
    assert result.width_m == pytest.approx(0.05 - 0.3 * DT)
    state, result = follow(goal, state, steps=60)
    assert_allclose(result.pose7[:3], goal.pose7[:3], atol=1e-9)
    assert (result.width_m, result.limited) == (0.0, ())


def test_a_stall_makes_no_leap():
    goal = goal_at(shift=(0.2, 0, 0))
    _, result = follow(goal, dt=3.0)
    assert flange_step(START.pose_cmd, result.pose7)[0] == pytest.approx(0.6 * 2 * DT, rel=1e-6)
    for dt in (0.0, -1.0, math.nan):
        _, result = follow(goal, dt=dt)
        assert result.q_cmd == START.q_cmd


def test_the_workspace_box_holds():
    config = replace(CONFIG, workspace_max_m=(0.28, 0.6, 0.75))
    _, result = follow(goal_at(shift=(0.1, 0.0, 0.02)), config=config, steps=60)
    assert result.pose7[0] == pytest.approx(0.28)
    assert result.pose7[2] == pytest.approx(START.pose_cmd[2] + 0.02)
    assert result.limited == ("workspace",)


def test_joint_speed_keeps_the_direction():
    config = replace(CONFIG, joint_speed_scale=0.02, home_speed_rad_s=0.05)
    _, free = follow(goal_at(shift=(0.002, 0.002, 0.0)))
    _, slow = follow(goal_at(shift=(0.002, 0.002, 0.0)), config=config)
    assert "joint speed" in slow.limited
    moves = [b - a for a, b in zip(START.q_cmd, slow.q_cmd, strict=True)]
    wanted = [b - a for a, b in zip(START.q_cmd, free.q_cmd, strict=True)]
    assert max(map(abs, moves)) == pytest.approx(0.06 * DT)
    share = max(map(abs, moves)) / max(map(abs, wanted))
    assert_allclose(moves, [share * move for move in wanted], atol=1e-12)


def test_out_of_reach_holds_and_says_so():
    config = replace(CONFIG, workspace_min_m=(-9, -9, -9), workspace_max_m=(9, 9, 9))
    state, result = follow(goal_at(shift=(2.0, 0, 0)), config=config, steps=400)
    assert state.mode == "hold"
    assert "no IK" in result.limited or "joint limits" in result.limited
    assert "holding" in state.fault
    back, result = follow(goal_at(result.pose7, shift=(-0.001, 0, 0)), state, config)
    assert (back.mode, back.fault) == ("follow", "")


@pytest.mark.parametrize(
    "goal",
    [
        replace(goal_at(), pose7=(math.nan, 0, 0, 1, 0, 0, 0)),
        replace(goal_at(), pose7=(0.3, 0, math.inf, 1, 0, 0, 0)),
        replace(goal_at(), pose7=(0.3, 0, 0.3, 0, 0, 0, 0)),
        replace(goal_at(), pose7=(0.3, 0, 0.3, 1, 1, 0, 0)),
        replace(goal_at(), width_m=math.nan),
    ],
)
def test_goals_that_are_no_pose_hold(goal):
    state, result = follow(goal)
    assert result.limited == ("not finite",)
    assert (result.q_cmd, result.width_m, state.mode) == (START.q_cmd, 0.05, "hold")
    assert "not a finite pose" in state.fault
    assert motion_step(CONFIG, state, REST, DT)[0].fault == ""


@pytest.mark.parametrize(
    ("q", "shift", "turn"),
    [
        # the base would turn half round
        ((2.6079, 2.26, -2.41, 1.34, 0.96, 1.12), (1.08e-4, 8.5e-5, 4.2e-5), (0.00609, 0.00142, -0.00586)),
        # the wrist would flip
        ((2.17, 1.35, -1.5, 1.735, 1.05, -1.26), (-1.02e-4, 1.49e-4, -8.2e-5), (0.00018, 0.00215, -0.00115)),
    ],
)
def test_another_posture_is_no_motion(q, shift, turn):
    state = start_motion(CONFIG, q, 0.05)
    after, result = follow(goal_at(state.pose_cmd, shift=shift, turn=turn, width=0.049), state)
    assert (result.q_cmd, result.width_m, result.limited) == (q, 0.049, ("posture",))
    assert "posture" in after.fault


def test_a_turning_wrist_does_not_turn_the_flange_faster_than_allowed():
    state = start_motion(CONFIG, (0.73, 2.03, -1.59, 1.735, -0.06, 2.08), 0.05)
    goal = goal_at(state.pose_cmd, shift=(2.6e-5, 1.04e-4, 6.3e-5), turn=(0.00346, 0.00315, -0.00649))
    _, result = follow(goal, state)
    _, radians = flange_step(state.pose_cmd, result.pose7)
    assert 0.5 * 2.5 * DT < radians <= 2.5 * DT * 1.001
    assert "joint speed" in result.limited


any_float = st.one_of(
    st.floats(),
    st.floats(-0.7, 0.7),
    st.sampled_from([math.nan, math.inf, -math.inf, 0.0, 1e308, -1e308, 5e-324]),
)
wild = st.builds(
    TeleopGoal,
    pose7=st.tuples(*[any_float] * 7),
    width_m=any_float,
    engaged=st.booleans(),
)
sane = st.builds(
    goal_at,
    shift=st.tuples(*[st.floats(-0.5, 0.5)] * 3),
    turn=st.tuples(*[st.floats(-2, 2)] * 3),
    width=st.floats(-0.1, 0.2),
    engaged=st.just(True),
)
inside = st.tuples(*[st.floats(low + 0.02, high - 0.02) for low, high in JOINT_LIMITS_RAD])
steps = st.lists(
    st.tuples(
        st.one_of(st.none(), wild, sane, sane),
        st.integers(1, 25),
        st.sampled_from([DT, DT, 0.0, 0.002, 0.01, 1.0, -1.0, math.nan, math.inf]),
    ),
    max_size=8,
)


@settings(deadline=None, max_examples=150)
@given(inside, steps)
def test_whatever_the_goals_the_arm_stays_within_its_bounds(q, sequence):
    state = start_motion(CONFIG, q, 0.03)
    for goal, count, dt in sequence:
        for _ in range(count):
            before = state
            state, result = motion_step(CONFIG, state, goal, dt)
            allowed = min(dt, 2 * DT) if dt > 0 else 0.0
            assert all(map(math.isfinite, (*result.q_cmd, *result.pose7, result.width_m)))
            for a, b, (low, high) in zip(before.q_cmd, result.q_cmd, CONFIG.limits_rad, strict=True):
                assert low <= b <= high
                assert abs(b - a) <= 3.0 * allowed + 1e-12
            metres, radians = flange_step(before.pose_cmd, result.pose7)
            assert metres <= 0.6 * allowed * 1.002 + 2e-9
            assert radians <= 2.5 * allowed * 1.002 + 2e-9
            assert 0.0 <= result.width_m <= 0.07
            assert abs(result.width_m - before.width_cmd) <= 0.3 * allowed + 1e-12
            assert (result.q_cmd, result.pose7) == (state.q_cmd, state.pose_cmd)
            if goal is None or not goal.engaged:
                assert result.q_cmd == before.q_cmd


@settings(deadline=None, max_examples=60)
@given(inside, st.integers(0, 5), st.booleans(), st.floats(0.001, 0.09), st.lists(sane, max_size=5))
def test_outside_a_limit_the_joint_only_comes_back(q, joint, upper, beyond, goals):
    low, high = JOINT_LIMITS_RAD[joint]
    joints = list(q)
    joints[joint] = high + beyond if upper else low - beyond
    state = start_motion(CONFIG, joints, 0.03)
    for goal in goals:
        before = state
        state, _ = motion_step(CONFIG, state, goal, DT)
        a, b = before.q_cmd[joint], state.q_cmd[joint]
        inner_low, inner_high = CONFIG.limits_rad[joint]
        assert b <= max(a, inner_high)
        assert b >= min(a, inner_low)


def test_an_arm_that_sags_outside_its_limits_can_be_lifted():
    state = start_motion(CONFIG, (0.0, -0.03, 0.02, 0.0, 0.0, 0.0), 0.05)
    state, _ = follow(goal_at(state.pose_cmd, shift=(0.04, 0, 0.06)), state, steps=100)
    assert state.mode == "follow"
    assert state.q_cmd[1] >= CONFIG.limits_rad[1][0]
    assert state.q_cmd[2] <= CONFIG.limits_rad[2][1]


def test_past_the_stretched_wrist_nothing_leaps():
    state = start_motion(CONFIG, (0.0, 1.2, -1.0, 0.0, 0.12, 0.0), 0.05)
    goal = goal_at(state.pose_cmd, turn=(0.05, -0.25, 0.02))
    for _ in range(600):
        before = state
        state, _ = motion_step(CONFIG, state, goal, DT)
        assert max(abs(a - b) for a, b in zip(before.q_cmd, state.q_cmd, strict=True)) <= 3 * DT + 1e-12
        assert flange_step(before.pose_cmd, state.pose_cmd)[1] <= 2.5 * DT * 1.002
    assert flange_step(state.pose_cmd, goal.pose7)[1] < 1e-6


def test_the_way_home_is_smooth_and_ends_there():
    state = start_motion(CONFIG, (0.6, 1.6, -1.4, 0.4, -0.3, 0.8), 0.02)
    state = start_home(CONFIG, state)
    speeds = []
    for _ in range(2000):
        before = state
        state, result = motion_step(CONFIG, state, REST, DT)
        speeds.append(max(abs(a - b) for a, b in zip(before.q_cmd, state.q_cmd, strict=True)) / DT)
        if state.mode != "home":
            break
    assert result.q_cmd == WORKING_POSE_RAD
    assert (state.mode, result.width_m) == ("hold", 0.02)
    assert max(speeds) == pytest.approx(0.5, rel=1e-3)
    assert len(speeds) * DT == pytest.approx(1.875 * 0.8 / 0.5, abs=2 * DT)
    assert max(abs(a - b) for a, b in pairwise(speeds)) < 0.02


def test_home_is_refused_while_engaged():
    state, _ = follow(goal_at())
    with pytest.raises(SessionError, match="clutch is engaged"):
        start_home(CONFIG, state)
    state, _ = motion_step(CONFIG, state, REST, DT)
    assert start_home(CONFIG, state).mode == "home"


def test_home_is_refused_where_it_would_dip_under_the_floor():
    state = start_motion(CONFIG, (0.0, 3.0, -0.1, 0.0, 1.2, 0.0), 0.05)
    table = replace(CONFIG, workspace_min_m=(-0.6, -0.6, 0.05))
    with pytest.raises(SessionError, match="dips under"):
        start_home(table, state)


def test_home_is_refused_where_the_gripper_would_dip_under_the_floor():
    away = (-2.03, 2.19, -0.08, -0.38, 1.19, 0.65)
    way = [joints_between(away, CONFIG.home_q, share) for share in np.linspace(0.0, 1.0, 200)]
    points = PiperKinematics("s_v1_6_3").link_points(np.array(way))
    flange_m, tip_m = points[:, 5, 2], points[:, 6, 2]
    assert (flange_m.min() > 0.05, tip_m[0] > 0.05, tip_m[-1] > 0.05, tip_m.min() < -0.02) == (True,) * 4
    with pytest.raises(SessionError, match=r"dips under .*gripper above -0\.005 m.*-0\.028 m"):
        start_home(CONFIG, start_motion(CONFIG, away, 0.05))
    # from the table itself it is lifted
    low = start_motion(CONFIG, (0.0, 2.0, -1.2, 0.0, 1.1, 0.0), 0.05)
    assert PiperKinematics("s_v1_6_3").link_points(np.array(low.q_cmd))[6, 2] < 0.0
    assert start_home(CONFIG, low).mode == "home"


def test_engaging_on_the_way_home_stops_it_until_the_clutch_is_released():
    state = start_home(CONFIG, start_motion(CONFIG, (0.6, 1.6, -1.4, 0.4, -0.3, 0.8), 0.02))
    state, _ = follow(REST, state, steps=50)
    stopped = state.q_cmd
    goal = goal_at(state.pose_cmd, shift=(0.01, 0, 0))
    state, result = follow(goal, state, steps=5)
    assert (state.mode, result.q_cmd, result.limited) == ("hold", stopped, ("release first",))
    assert "homing stopped" in state.fault
    state, result = follow(None, state)
    state, result = follow(goal, state)
    assert result.q_cmd == stopped
    state, _ = follow(REST, state)
    assert state.fault == ""
    state, result = follow(goal, state)
    assert state.mode == "follow"
    assert result.q_cmd != stopped


def test_a_stop_from_outside_needs_a_release_too():
    state, _ = follow(goal_at(shift=(0.05, 0, 0)))
    state = stop_motion(state, "the arm reports a fault")
    held, result = follow(goal_at(shift=(0.05, 0, 0)), state)
    assert (result.q_cmd, held.fault) == (state.q_cmd, "the arm reports a fault")


def test_a_joint_that_stays_behind_is_held_where_it_is():
    state, _ = follow(goal_at(shift=(0.1, 0, 0)), steps=20)
    near = tuple(q - 0.49 for q in state.q_cmd)
    assert tether(CONFIG, state, near) is state
    stuck = (*state.q_cmd[:2], state.q_cmd[2] + 0.51, *state.q_cmd[3:])
    held = tether(CONFIG, state, stuck)
    assert (held.q_cmd, held.mode, held.needs_release) == (stuck, "hold", True)
    assert held.fault == "joint3 is 29 deg behind its command: holding"
    assert_allclose(held.pose_cmd, PiperKinematics("s_v1_6_3").forward(stuck), atol=1e-12)
    still, result = follow(goal_at(shift=(0.1, 0, 0)), held, steps=3)
    assert (still.q_cmd, result.limited) == (stuck, ("release first",))
    home = start_home(CONFIG, replace(state, engaged=False))
    assert tether(CONFIG, home, stuck).mode == "hold"
    assert tether(CONFIG, START, stuck) is START  # who moves the arm by hand meanwhile is not fought


def test_what_moves_the_arm_is_named_and_nothing_is_when_it_holds():
    following, _ = follow(goal_at(shift=(0.05, 0, 0)))
    home = start_home(CONFIG, START)
    assert [under_way(state) for state in (None, START, following, home)] == ["", "", "following", "homing"]
    assert [under_way(stop_motion(state, "a fault")) for state in (following, home)] == ["", ""]
    released, _ = follow(REST, following)
    assert under_way(released) == ""


def test_a_measurement_counts_when_the_one_before_it_said_nearly_the_same():
    at = (0.1, 1.2, -1.0, 0.2, 0.3, 0.4)
    moved = tuple(q + 0.49 for q in at)
    assert agree(CONFIG, at, at)
    assert agree(CONFIG, at, moved)
    assert agree(replace(CONFIG, max_deviation_rad=0.6), at, tuple(q + 0.51 for q in at))
    assert not agree(CONFIG, at, (*at[:5], at[5] + 0.51))
    assert not agree(CONFIG, (), at)  # the first
    for wrong in (math.nan, math.inf):
        assert not agree(CONFIG, at, (*at[:5], wrong))
        assert not agree(CONFIG, (*at[:5], wrong), at)
        assert not agree(CONFIG, (*at[:5], wrong), (*at[:5], wrong))


def test_start_takes_the_measured_joints_or_refuses():
    measured = (0.1, -0.05, 0.03, 0.0, 0.0, 0.0)
    state = start_motion(CONFIG, measured, -0.001)
    assert (state.q_cmd, state.width_cmd, state.mode) == (measured, -0.001, "wait")
    with pytest.raises(SessionError, match=r"joint2.*outside"):
        start_motion(CONFIG, (0.0, -0.2, 0.0, 0.0, 0.0, 0.0), 0.0)
    for bad in ((math.nan, 0, 0, 0, 0, 0), (0, 0, 0)):
        with pytest.raises(SessionError, match="unusable"):
            start_motion(CONFIG, bad, 0.0)
    with pytest.raises(SessionError, match="unusable"):
        start_motion(CONFIG, WORKING_POSE_RAD, math.inf)


@pytest.mark.parametrize(
    "changes",
    [
        {"max_linear_m_s": 0.0},
        {"joint_speed_scale": 1.5},
        {"workspace_min_m": (1.0, 0.0, 0.0)},
        {"home_q": (0.0, -0.5, 0.0, 0.0, 0.0, 0.0)},
        {"home_speed_rad_s": 4.0},
        {"control_period_s": math.nan},
        {"gripper_width_m": (0.1, 0.07)},
    ],
)
def test_settings_that_cannot_work_are_refused(changes):
    with pytest.raises(ConfigError):
        MotionConfig(**changes)
