"""The guard: whatever comes in, what goes to the arm is finite, allowed, near and slow."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from piper_collect.core.arm_guard import ArmCommand, GuardConfig, guard_hold, guard_step
from piper_collect.core.kinematics import JOINT_LIMITS_RAD, WORKING_POSE_RAD
from piper_collect.errors import ConfigError

CONFIG = GuardConfig(max_step_rad=0.3, watchdog_s=0.5, control_period_s=0.005)
DT = 0.005
HERE = WORKING_POSE_RAD
WIDTH = 0.03


def moved(*by):
    return tuple(q + d for q, d in zip(HERE, (*by, 0, 0, 0, 0, 0, 0), strict=False))


def command(q=HERE, width_m=WIDTH, age_s=0.0):
    return ArmCommand(q=q, width_m=width_m, age_s=age_s)


def step(state, given_command, *, measured=HERE, fault="", dt_s=DT):
    return guard_step(CONFIG, state, measured, given_command, fault, dt_s)


START = guard_hold(CONFIG, HERE, WIDTH)
FOLLOWING = step(START, command())


def test_it_begins_with_holding_what_is_measured_and_the_gripper_as_it_is() -> None:
    assert (START.q, START.width_m, START.mode, START.reason) == (HERE, WIDTH, "hold", "")
    assert guard_hold(CONFIG, HERE, -0.0004).width_m == 0.0
    waiting = step(START, None, measured=moved(0.01))
    assert (waiting.q, waiting.reason) == (HERE, "")


def test_a_near_command_is_followed_no_faster_than_a_joint_may_go() -> None:
    state = step(START, command(moved(0.1)))
    assert (state.mode, state.reason) == ("follow", "")
    assert state.q == pytest.approx(moved(3.0 * DT))
    assert step(FOLLOWING, command(moved(0.01), 0.04)).q == pytest.approx(moved(0.01))
    assert step(FOLLOWING, command(moved(0.1)), dt_s=9.0).q == pytest.approx(moved(2 * 3.0 * DT))


def test_a_first_command_far_from_the_arm_is_refused() -> None:
    state = step(START, command(moved(0.0, -0.31)))
    assert (state.mode, state.q) == ("hold", HERE)
    assert state.reason == "joint2 is commanded more than 0.3 rad from where it stands: holding"
    assert step(state, command(moved(0.0, -0.29))).mode == "follow"


def test_a_command_that_jumps_is_refused_and_the_arm_held_where_it_is() -> None:
    state = step(FOLLOWING, command(moved(0.31)), measured=moved(0.02))
    assert (state.mode, state.q) == ("hold", moved(0.02))
    assert state.reason == "joint1 is commanded more than 0.3 rad from its last command: holding"


def test_a_joint_is_never_sent_further_than_a_step_from_where_it_is() -> None:
    state, wanted = FOLLOWING, 0.0
    for _ in range(200):
        wanted += 0.01
        state = step(state, command(moved(wanted)))
    assert state.q == pytest.approx(moved(0.3))
    assert (state.mode, state.reason) == ("follow", "joint1 does not follow its command")


def test_limits_hold_but_an_arm_outside_them_may_come_back() -> None:
    high = JOINT_LIMITS_RAD[4][1]
    at_limit = (*HERE[:4], high - 0.001, HERE[5])
    state = step(
        guard_hold(CONFIG, at_limit, WIDTH), command((*HERE[:4], high + 0.2, HERE[5])), measured=at_limit
    )
    assert state.q[4] == high
    assert state.reason == "joint5 is commanded beyond its limit: kept at it"
    outside = (*HERE[:4], high + 0.05, HERE[5])
    state = guard_hold(CONFIG, outside, WIDTH)
    assert step(state, command((*HERE[:4], high + 0.1, HERE[5])), measured=outside).q[4] == high + 0.05
    assert step(state, command((*HERE[:4], high + 0.04, HERE[5])), measured=outside).q[4] < high + 0.05


@pytest.mark.parametrize("q", [(math.nan, *HERE[1:]), (math.inf, *HERE[1:]), HERE[:5], (*HERE, 0.0)])
def test_what_is_no_command_is_not_followed(q) -> None:
    state = step(FOLLOWING, command(q), measured=moved(0.02))
    assert (state.mode, state.q) == ("hold", moved(0.02))
    assert "not six finite angles" in state.reason
    assert step(FOLLOWING, command(width_m=math.nan)).mode == "hold"


def test_the_watchdog_holds_where_the_arm_is_and_keeps_the_grasp() -> None:
    gripping = step(FOLLOWING, command(width_m=0.0))
    state = step(gripping, command(width_m=0.0, age_s=0.51), measured=moved(0.02))
    assert (state.mode, state.q, state.width_m) == ("hold", moved(0.02), 0.0)
    assert state.reason == "no joint command for 0.5 s: holding"
    later = step(state, command(age_s=0.6), measured=moved(0.05))
    assert later.q == moved(0.02)
    assert step(later, command(), measured=moved(0.05)).mode == "follow"


def test_a_fault_holds_until_it_is_gone() -> None:
    state = step(FOLLOWING, command(moved(0.01)), fault="collision", measured=moved(0.005))
    assert (state.mode, state.q, state.reason) == ("hold", moved(0.005), "collision: holding")
    assert step(state, command(moved(0.01))).mode == "follow"


def test_settings_that_would_let_anything_through_are_refused() -> None:
    for name in ("max_step_rad", "watchdog_s", "control_period_s"):
        for value in (0.0, -1.0, math.inf, math.nan):
            with pytest.raises(ConfigError, match=name):
                replace(CONFIG, **{name: value})


any_number = st.floats(allow_nan=True, allow_infinity=True)
near = st.floats(-0.4, 0.4)
commands = st.none() | st.builds(
    ArmCommand,
    q=st.tuples(*[any_number] * 6) | st.tuples(*[near] * 6).map(lambda by: moved(*by)),
    width_m=any_number | st.floats(-0.1, 0.2),
    age_s=st.floats(0.0, 1.0),
)
measurements = st.tuples(*[near] * 6).map(lambda by: moved(*by))


@settings(deadline=None, max_examples=80)
@given(
    st.lists(st.tuples(commands, measurements, st.sampled_from(["", "", "", "stalled"]), st.floats(-1, 9)))
)
def test_whatever_comes_what_is_sent_is_finite_allowed_near_and_slow(stream) -> None:
    state = START
    for given_command, measured, fault, dt_s in stream:
        before, state = state, step(state, given_command, measured=measured, fault=fault, dt_s=dt_s)
        assert all(map(math.isfinite, (*state.q, state.width_m)))
        assert 0.0 <= state.width_m <= 0.07
        if state.mode == "hold":
            assert state.q in (measured, before.q)
            assert before.mode == "follow" or state.q == before.q
            continue
        for sent, last, now, (low, high) in zip(state.q, before.q, measured, JOINT_LIMITS_RAD, strict=True):
            assert min(low, now) <= sent <= max(high, now)
            assert abs(sent - now) <= 0.3 + 1e-9
            slow = abs(sent - last) <= 2 * 3.0 * 0.005 + 1e-9
            towards_the_arm = min(last, now) <= sent <= max(last, now)
            assert slow or towards_the_arm
