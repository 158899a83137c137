"""The clutch: frames, the world-frame difference, hysteresis, and everything that must open it."""

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from piper_collect.core import se3
from piper_collect.core.clutch import ClutchConfig, ClutchState, clutch_step, clutch_steps
from piper_collect.core.quest import QuestController, QuestSample, XrPose, webxr_to_flu_pose
from piper_collect.errors import ConfigError, KinematicsError

CONFIG = ClutchConfig()
COMMAND = (0.25, 0.0, 0.3, 1.0, 0.0, 0.0, 0.0)
HALF = math.sqrt(0.5)
PERIOD_NS = 13_888_889


def sample(number, squeeze=0.0, trigger=0.0, position=(0.2, 1.1, -0.4), turn=(0.0, 0.0, 0.0, 1.0), **changes):
    session = {name: changes.pop(name) for name in ("visibility", "stamp_ns") if name in changes}
    controller = QuestController(
        connected=True,
        pose_valid=True,
        grip_pose=XrPose(position_m=position, orientation_xyzw=turn),
        button_values=(trigger, squeeze, 0.0, 0.0, 0.0, 0.0, 0.0),
        button_pressed=(trigger > 0.5, squeeze > 0.5, False, False, False, False, False),
        axes=(0.0, 0.0, 0.1, -0.2),
    )
    fields = {"visibility": "visible", "stamp_ns": number * PERIOD_NS, **session}
    return QuestSample(
        headset_time_ms=number * 13.9, sequence=number, right=replace(controller, **changes), **fields
    )


def run(samples, config=CONFIG, state=None, command=COMMAND, width=0.05):
    state, goal = state or ClutchState(), None
    for one in samples:
        state, goal = clutch_step(config, state, one, one.stamp_ns, command, width)
    return state, goal


def engaged(config=CONFIG, **changes):
    state, goal = run([sample(1), sample(2, squeeze=1.0, **changes)], config)
    assert goal.engaged
    return state


def test_webxr_axes_become_forward_left_up():
    assert_allclose(webxr_to_flu_pose((1, 2, 3), (0, 0, 0, 1)), [-3, -1, 2, 1, 0, 0, 0], atol=1e-15)
    # a turn to the left is about +y in WebXR and about +z in ROS
    assert_allclose(webxr_to_flu_pose((0, 0, 0), (0, HALF, 0, HALF))[3:], [HALF, 0, 0, HALF], atol=1e-15)
    # rolling to the right is about -z in WebXR and about +x in ROS
    assert_allclose(webxr_to_flu_pose((0, 0, 0), (0, 0, -HALF, HALF))[3:], [HALF, HALF, 0, 0], atol=1e-15)
    with pytest.raises(KinematicsError):
        webxr_to_flu_pose((0, 0, 0), (0, 0, 0, 0))


def test_buttons_by_the_touch_plus_profile():
    controller = QuestController(
        button_values=(0.3, 0.7, 0, 0, 1, 0, 0),
        button_pressed=(False, True, False, True, True, False, False),
        axes=(0.0, 0.0, 0.5, -1.0),
    )
    assert (controller.trigger, controller.squeeze) == (0.3, 0.7)
    assert (controller.primary, controller.secondary, controller.thumbstick_pressed) == (True, False, True)
    assert controller.thumbstick == (0.5, -1.0)
    absent = QuestController()
    assert (absent.trigger, absent.primary, absent.thumbstick) == (0.0, False, (0.0, 0.0))


def test_a_silent_operator_holds_the_command():
    state, goal = clutch_step(CONFIG, ClutchState(), None, 10**18, COMMAND, 0.03)
    assert (goal.pose7, goal.width_m, goal.engaged) == (COMMAND, 0.03, False)
    assert "no input" in goal.reason
    assert state == ClutchState()


def test_the_flange_follows_the_hand_from_where_it_is():
    state = engaged()
    state, goal = run([sample(3, 1.0, position=(0.21, 1.13, -0.42))], state=state)
    assert_allclose(goal.pose7[:3], (0.25 + 0.02, -0.01, 0.3 + 0.03), atol=1e-12)
    assert_allclose(goal.pose7[3:], (1, 0, 0, 0), atol=1e-12)
    assert goal.reason == "following"


def test_scale_and_yaw_turn_the_difference():
    config = ClutchConfig(scale=2.0, yaw_rad=math.pi / 2)
    state = engaged(config)
    _, goal = run([sample(3, 1.0, position=(0.2, 1.1, -0.42))], config, state)
    assert_allclose(goal.pose7[:3], (0.25, 0.04, 0.3), atol=1e-12)


def test_rotation_is_a_world_frame_difference():
    flange = (0.25, 0.0, 0.3, *se3.quat_from_rotvec((0.3, 1.2, -0.4)))
    start = (0.0, math.sin(0.2), 0.0, math.cos(0.2))
    small = math.radians(20)
    roll = (0.0, 0.0, -math.sin(small / 2), math.cos(small / 2))
    turned = se3.xyzw_from_wxyz(se3.quat_multiply(se3.wxyz_from_xyzw(roll), se3.wxyz_from_xyzw(start)))
    config = ClutchConfig(yaw_rad=math.pi / 2)
    states = [sample(1, turn=start), sample(2, 1.0, turn=start), sample(3, 1.0, turn=tuple(turned))]
    _, goal = run(states, config, command=flange)
    # the roll about the operator's forward axis is one about the arm's y once the yaw is in
    expected = se3.quat_multiply(se3.quat_from_rotvec((0, small, 0)), flange[3:])
    assert abs(float(np.dot(expected, goal.pose7[3:]))) == pytest.approx(1.0, abs=1e-12)


def test_thresholds_have_hysteresis():
    squeezes = [0.0, 0.5, 0.59, 0.6, 0.5, 0.41, 0.39, 0.5, 0.61]
    state, seen = ClutchState(), []
    for number, squeeze in enumerate(squeezes, start=1):
        state, goal = run([sample(number, squeeze)], state=state)
        seen.append(goal.engaged)
    assert seen == [False, False, False, True, True, True, False, False, True]


def test_release_holds_and_a_second_press_starts_anew():
    state = engaged()
    state, goal = run([sample(3, 1.0, position=(0.2, 1.12, -0.4))], state=state)
    reached = goal.pose7
    state, goal = run(
        [sample(4, 0.0, position=(0.2, 1.1, -0.4)), sample(5, 0.0, position=(0.2, 1.09, -0.4))],
        state=state,
        command=reached,
    )
    assert (goal.pose7, goal.engaged, goal.reason) == (reached, False, "clutch open")
    state, goal = run([sample(6, 1.0, position=(0.2, 1.08, -0.4))], state=state, command=reached)
    assert_allclose(goal.pose7, reached, atol=1e-12)
    state, goal = run([sample(7, 1.0, position=(0.2, 1.09, -0.4))], state=state, command=reached)
    assert_allclose(goal.pose7[2], reached[2] + 0.01, atol=1e-12)


def test_a_grip_held_from_the_start_does_not_engage():
    state, goal = run([sample(1, 1.0), sample(2, 1.0)])
    assert not goal.engaged
    assert "open the grip" in goal.reason
    state, goal = run([sample(3, 0.0), sample(4, 1.0)], state=state)
    assert goal.engaged


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ({"visibility": "hidden"}, "hidden"),
        ({"visibility": "visible-blurred"}, "blurred"),
        ({"connected": False}, "not connected"),
        ({"pose_valid": False}, "not tracked"),
        ({"pose_emulated": True}, "guessed"),
        ({"position": (math.nan, 1.1, -0.4)}, "not finite"),
        ({"turn": (0.0, math.inf, 0.0, 1.0)}, "not finite"),
        ({"turn": (0.0, 0.0, 0.0, 0.0)}, "unit norm"),
        ({"trigger": math.nan}, "not finite"),
        ({"position": (0.26, 1.1, -0.4)}, "jumped (6 cm"),
        ({"turn": (0.0, math.sin(0.35), 0.0, math.cos(0.35))}, "40 deg"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_believed_opens_until_pressed_again(fault, words):
    state, goal = run([sample(3, 1.0, **fault)], state=engaged())
    assert (goal.engaged, goal.pose7, goal.width_m) == (False, COMMAND, 0.05)
    assert words in goal.reason
    state, goal = run([sample(4, 1.0), sample(5, 1.0)], state=state)
    assert not goal.engaged
    assert "open the grip, then squeeze" in goal.reason
    state, goal = run([sample(6, 0.0), sample(7, 1.0)], state=state)
    assert goal.engaged


@pytest.mark.parametrize(
    "gone",
    [
        {"connected": False, "pose_valid": False, "button_values": (), "axes": ()},
        {"visibility": "hidden", "connected": False, "pose_valid": False, "button_values": ()},
        {"visibility": "visible-blurred"},
    ],
)
def test_a_grip_that_could_not_be_seen_is_not_taken_for_open(gone):
    """The controller sleeps, or the headset is off, with the grip held: coming back must not move the arm."""
    state = engaged()
    state, goal = run([sample(3, **gone), sample(4, **gone)], state=state)
    assert not goal.engaged
    state, goal = run([sample(5, squeeze=1.0), sample(6, squeeze=1.0)], state=state)
    assert not goal.engaged
    _, goal = run([sample(7), sample(8, squeeze=1.0)], state=state)
    assert goal.engaged


def test_emulated_positions_by_choice():
    config = ClutchConfig(allow_emulated=True)
    _, goal = run([sample(3, 1.0, pose_emulated=True)], config, engaged(config))
    assert goal.engaged


def test_a_stale_stream_opens_the_clutch():
    state = engaged()
    last = sample(2, 1.0)
    state, goal = clutch_step(CONFIG, state, last, last.stamp_ns + 499_000_000, COMMAND, 0.05)
    assert goal.engaged
    state, goal = clutch_step(CONFIG, state, last, last.stamp_ns + 501_000_000, COMMAND, 0.05)
    assert not goal.engaged
    assert "0.5 s" in goal.reason
    state, goal = run([sample(100, 1.0)], state=state)
    assert not goal.engaged


def test_a_gap_between_samples_opens_although_no_step_saw_it():
    _, goal = run([sample(100, 1.0)], state=engaged())
    assert not goal.engaged
    assert "silent" in goal.reason


def test_what_came_in_a_stall_is_taken_step_by_step():
    came = [sample(3 + k, 1.0, position=(0.2, 1.1, -0.4 - 0.01 * k)) for k in range(13)]
    now_ns = came[-1].stamp_ns
    state, goal = clutch_steps(CONFIG, engaged(), came, now_ns, COMMAND, 0.05)
    assert goal.engaged
    assert_allclose(goal.pose7[:3], (0.25 + 0.12, 0.0, 0.3), atol=1e-12)
    again, held = clutch_steps(CONFIG, state, [], now_ns, COMMAND, 0.05)
    assert (again, held) == (state, goal)
    # the last of them alone is 12 cm from what was believed before
    _, alone = clutch_steps(CONFIG, engaged(), came[-1:], now_ns, COMMAND, 0.05)
    assert not alone.engaged
    assert "jumped" in alone.reason
    # a grip that was opened in between starts anew from the command
    opened = [*came[:6], sample(9, 0.0, position=(0.2, 1.1, -0.46)), *came[7:]]
    _, anew = clutch_steps(CONFIG, engaged(), opened, now_ns, COMMAND, 0.05)
    assert anew.engaged
    assert_allclose(anew.pose7[:3], (0.25 + 0.05, 0.0, 0.3), atol=1e-12)


def test_repeated_and_older_samples_are_no_input():
    state = engaged()
    moved = {"position": (0.2, 1.12, -0.4)}
    now = sample(2).stamp_ns + 1_000_000
    repeated = sample(2, 1.0, **moved)
    older = sample(1, 0.0, **moved)
    late_twin = sample(1, 0.0, stamp_ns=sample(3).stamp_ns, **moved)
    for one in (repeated, older, late_twin):
        after, goal = clutch_step(CONFIG, state, one, now, COMMAND, 0.05)
        assert after == state
        assert_allclose(goal.pose7, COMMAND, atol=1e-12)
        assert goal.engaged


def test_the_sequence_may_start_again_after_silence():
    state, _ = run([sample(1000)])
    restarted = sample(0, 0.0, stamp_ns=sample(1000).stamp_ns + 10**9)
    state, _ = run([restarted], state=state)
    assert (state.sequence, state.armed) == (0, True)


def test_stamps_from_the_future_do_not_block_the_present():
    future = sample(50, 0.0, stamp_ns=10**12)
    state, goal = clutch_step(CONFIG, ClutchState(), future, 0, COMMAND, 0.05)
    assert state == ClutchState()
    state, _ = run([sample(1000)])
    state, _ = clutch_step(CONFIG, state, sample(1001, stamp_ns=PERIOD_NS), PERIOD_NS, COMMAND, 0.05)
    assert state.sequence == 1001
    state, goal = run([sample(1002, 1.0, stamp_ns=2 * PERIOD_NS)], state=state)
    assert goal.engaged


@pytest.mark.parametrize(
    ("inverted", "trigger", "width"),
    [(False, 0.0, 0.07), (False, 1.0, 0.0), (False, 0.25, 0.0525), (True, 1.0, 0.07)],
)
def test_trigger_sets_the_width(inverted, trigger, width):
    config = ClutchConfig(gripper_inverted=inverted)
    _, goal = run([sample(3, 1.0, trigger=trigger)], config, engaged(config))
    assert goal.width_m == pytest.approx(width)


def test_the_trigger_moves_nothing_while_open():
    _, goal = run([sample(1, 0.0, trigger=1.0)])
    assert goal.width_m == 0.05


def test_the_left_hand():
    right = sample(2, 1.0)
    left = replace(right, left=right.right, right=QuestController())
    open_left = replace(sample(1), left=sample(1).right, right=QuestController())
    _, goal = run([open_left, left], ClutchConfig(hand="left"))
    assert goal.engaged


@pytest.mark.parametrize(
    "changes",
    [{"squeeze_off": 0.7}, {"scale": 0.0}, {"stale_s": math.nan}, {"hand": "both"}, {"yaw_rad": math.inf}],
)
def test_settings_that_cannot_work_are_refused(changes):
    with pytest.raises(ConfigError):
        ClutchConfig(**changes)
