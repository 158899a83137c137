"""What vendor nodes send, put right; and what they may be sent. Numbers are those of their source code."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from piper_collect.core.kinematics import JOINT_LIMITS_RAD, PiperKinematics
from piper_collect.core.vendor_arm import (
    CLOCK_SET_BACK,
    COMMANDED_FACTOR,
    EARLIER,
    NOT_FINITE,
    REPEATED,
    REPORTED_FACTOR,
    UNMEASURED,
    UNNAMED,
    UNSET,
    ArmSample,
    JointFeedback,
    StampFilter,
)
from piper_collect.core.vendor_command import CommandRules, vendor_command
from piper_collect.core.vendor_pose import NOT_UNIT, OTHER_FRAME, PoseFeedback, dh_verdict, pose_verdict
from piper_collect.errors import KinematicsError

NAMES = ["joint1", "joint2", "joint3", "joint4", "joint5", "joint6", "gripper"]
OLDER = ["joint0", "joint1", "joint2", "joint3", "joint4", "joint5", "joint6"]
Q = (0.1, 1.2, -1.0, 0.3, 0.5, -0.2)
MS = 1_000_000
NOW = 1_700_000_000_000_000_000


def take(feedback, position=(*Q, 0.05), *, names=NAMES, stamp_ns=NOW, velocity=(), effort=()):
    return feedback.take(names=names, position=position, velocity=velocity, effort=effort, stamp_ns=stamp_ns)


def piper_ros_reports(degrees):
    """The arithmetic of piper_ros: the arm's 0.001 degrees to what it calls radians."""
    return round(degrees * 1000) / 1000 * 0.017444


def piper_ros_executes(radians):
    """The arithmetic of piper_ros: commanded radians to the arm's 0.001 degrees, here in degrees."""
    return round(radians * 57324.840764) / 1000


# -- degrees ---------------------------------------------------------------------------------------


def test_the_wrong_degree_constant_costs_more_than_a_milliradian_and_is_undone():
    reported = piper_ros_reports(150.0)
    assert reported == pytest.approx(2.6166)
    assert math.radians(150.0) - reported == pytest.approx(1.394e-3, abs=1e-6)
    corrected = take(JointFeedback(joint_factor=REPORTED_FACTOR), (reported, *Q[1:], 0.05))
    assert corrected.q[0] == pytest.approx(math.radians(150.0), abs=1e-12)
    as_sent = take(JointFeedback(), (reported, *Q[1:], 0.05))
    assert as_sent.q[0] == reported
    assert pytest.approx(1.000533, abs=5e-7) == REPORTED_FACTOR


def test_a_command_goes_where_it_says_within_the_resolution_of_the_bus():
    wanted = math.radians(149.0)
    assert math.radians(piper_ros_executes(wanted)) - wanted == pytest.approx(1.319e-3, abs=1e-5)
    rules = CommandRules(joint_factor=COMMANDED_FACTOR)
    sent = vendor_command(rules, (wanted, *Q[1:]), 0.05, (wanted, *Q[1:])).position[0]
    assert piper_ros_executes(sent) == 149.0


@settings(deadline=None, max_examples=60)
@given(st.tuples(*(st.floats(low, high) for low, high in JOINT_LIMITS_RAD)))
def test_what_is_commanded_is_what_comes_back(q):
    """Uncorrected, the two constants hide each other in the numbers, and the arm stands elsewhere."""
    command = vendor_command(CommandRules(joint_factor=COMMANDED_FACTOR), q, 0.0, q)
    executed_deg = [piper_ros_executes(value) for value in command.position[:6]]
    back = take(JointFeedback(joint_factor=REPORTED_FACTOR), (*map(piper_ros_reports, executed_deg), 0.001))
    resolution_rad = math.radians(0.001)
    assert back.q == pytest.approx(q, abs=resolution_rad)
    assert [math.radians(d) for d in executed_deg] == pytest.approx(q, abs=resolution_rad)


# -- joint states ----------------------------------------------------------------------------------


def test_a_whole_message_becomes_a_sample():
    sample = take(JointFeedback(), velocity=[1, 2, 3, 4, 5, 6], effort=[1, 2, 3, 4, 5, 6, 7])
    assert (sample.stamp_ns, sample.q, sample.width_m) == (NOW, Q, 0.05)
    assert sample.velocity[:6] == (1, 2, 3, 4, 5, 6)
    assert math.isnan(sample.velocity[6])  # nobody measures the gripper's speed
    assert sample.effort == (1, 2, 3, 4, 5, 6, 7)


def test_the_seventh_velocity_is_a_constant_of_the_vendor_and_no_measurement():
    assert math.isnan(take(JointFeedback(), velocity=[0.0] * 7).velocity[6])
    assert take(JointFeedback()).velocity == ()


def test_joints_are_taken_by_name_in_any_order():
    names = ["gripper", *reversed(NAMES[:6])]
    sample = take(JointFeedback(), (0.05, *reversed(Q)), names=names, velocity=[9, 6, 5, 4, 3, 2, 1])
    assert (sample.q, sample.width_m) == (Q, 0.05)
    assert sample.velocity[:6] == (1, 2, 3, 4, 5, 6)


def test_the_older_branch_counts_joints_from_zero_and_its_last_is_the_gripper():
    sample = take(JointFeedback(), names=OLDER)
    assert (sample.q, sample.width_m) == (Q, 0.05)


@pytest.mark.parametrize(
    ("names", "position"),
    [(NAMES[:6], Q), (NAMES, Q), (["a"] * 7, (*Q, 0.05)), ([], ()), (OLDER[:6], Q)],
    ids=["no gripper", "a position short", "other names", "empty", "older without gripper"],
)
def test_what_is_missing_is_never_made_up(names, position):
    feedback = JointFeedback()
    assert take(feedback, position, names=names) == UNNAMED
    assert feedback.dropped == {UNNAMED: 1}


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("index", [0, 5, 6])
def test_numbers_that_are_none_are_left_out_and_do_not_use_up_the_stamp(wrong, index):
    feedback = JointFeedback()
    cells = [*Q, 0.05]
    cells[index] = wrong
    assert take(feedback, cells) == NOT_FINITE
    assert isinstance(take(feedback), ArmSample)


def test_the_gripper_comes_in_full_width_with_its_sign():
    assert take(JointFeedback(width_factor=2.0), (*Q, 0.02)).width_m == pytest.approx(0.04)
    assert take(JointFeedback(width_factor=-1.0), (*Q, -0.035)).width_m == pytest.approx(0.035)


def test_a_node_that_has_not_heard_the_arm_says_zero_everywhere():
    feedback = JointFeedback()
    nothing = [0.0] * 7
    assert [take(feedback, nothing, stamp_ns=NOW + k) for k in range(2)] == [UNMEASURED] * 2
    assert take(feedback, nothing, stamp_ns=0) == UNSET
    assert isinstance(take(feedback, stamp_ns=NOW + 5), ArmSample)
    at_zero = take(feedback, nothing, stamp_ns=NOW + 6)
    assert isinstance(at_zero, ArmSample)  # an arm that was heard may stand there
    assert feedback.dropped == {UNMEASURED: 2, UNSET: 1}


# -- stamps ----------------------------------------------------------------------------------------


def test_each_stamp_comes_through_once_and_in_order():
    stamps = StampFilter()
    given = [0, 5 * MS, 5 * MS, 10 * MS, 7 * MS, 10 * MS, 15 * MS]
    assert [stamps.refusal(NOW + s if s else 0) for s in given] == [
        UNSET, "", REPEATED, "", EARLIER, REPEATED, "",
    ]  # fmt: skip
    assert stamps.dropped == {UNSET: 1, REPEATED: 2, EARLIER: 1}


def test_a_clock_that_is_set_back_is_followed_and_counted():
    stamps = StampFilter()
    assert stamps.refusal(NOW) == ""
    assert stamps.refusal(NOW - 3_600_000 * MS) == ""
    assert stamps.refusal(NOW - 3_600_000 * MS + 5 * MS) == ""
    assert stamps.dropped == {CLOCK_SET_BACK: 1}


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 900), max_size=40))
def test_what_comes_through_strictly_increases(steps_ms):
    stamps, through = StampFilter(), []
    for step in steps_ms:
        if not stamps.refusal(NOW + step * MS):
            through.append(step)
    assert through == sorted(set(through))
    assert len(through) + sum(stamps.dropped.values()) == len(steps_ms)


# -- poses -----------------------------------------------------------------------------------------


def test_a_pose_is_taken_with_w_first_and_not_below_zero():
    poses = PoseFeedback(["base_link"])
    got = poses.take((0.1, 0.2, 0.3), (0.0, 0.6, 0.0, -0.8), frame_id="/base_link", stamp_ns=NOW)
    assert got == (0.1, 0.2, 0.3, 0.8, 0.0, -0.6, 0.0)


@pytest.mark.parametrize(
    ("position", "xyzw", "frame", "stamp_ns", "reason"),
    [
        ((math.nan, 0, 0), (0, 0, 0, 1), "base_link", NOW, NOT_FINITE),
        ((0, 0, 0), (0, 0, 0, 0), "base_link", NOW, NOT_UNIT),
        ((0, 0, 0), (0, 0, 0, 1), "", NOW, OTHER_FRAME),
        ((0, 0, 0), (0, 0, 0, 1), "base_link", 0, UNSET),
    ],
)
def test_a_pose_that_is_none_is_left_out(position, xyzw, frame, stamp_ns, reason):
    poses = PoseFeedback(["base_link"])
    assert poses.take(position, xyzw, frame_id=frame, stamp_ns=stamp_ns) == reason
    assert poses.dropped == {reason: 1}


def test_the_arms_own_pose_tells_which_kinematics_are_its():
    older = PiperKinematics("older").forward_scalar(Q)
    assert dh_verdict(Q, older, "older") == ""
    said = dh_verdict(Q, older, "s_v1_6_3")
    assert said == (
        "the arm's own end pose fits arm.dh_offset: older (0.0 mm off),"
        " not s_v1_6_3 as configured (9.9 mm off)"
    )
    x, y, z, *quat = PiperKinematics("s_v1_6_3").forward_scalar(Q)
    assert dh_verdict(Q, (x, y, z + 0.002, *quat), "s_v1_6_3") == ""
    with_tool = (x, y, z + 0.1, *quat)
    assert dh_verdict(Q, with_tool, "s_v1_6_3") == dh_verdict(Q, with_tool, "older") == ""
    assert "lies 100 mm from" in pose_verdict(Q, with_tool)
    assert pose_verdict(Q, older) == pose_verdict(Q, (x, y, z, *quat)) == ""


def test_the_orientation_of_older_piper_ros_is_recognised():
    """It hands degrees to a function of radians."""
    from scipy.spatial.transform import Rotation

    x, y, z, qw, qx, qy, qz = PiperKinematics("s_v1_6_3").forward_scalar(Q)
    degrees = Rotation.from_quat([qx, qy, qz, qw]).as_euler("xyz", degrees=True)
    wrong = Rotation.from_euler("xyz", degrees).as_quat()
    said = pose_verdict(Q, (x, y, z, wrong[3], *wrong[:3]))
    assert "degrees from the kinematics of the joints" in said
    assert "do not use it" in said


# -- commands --------------------------------------------------------------------------------------


def test_a_command_says_all_seven_always_with_speed_and_torque_in_their_places():
    command = vendor_command(CommandRules(speed_percent=30, effort_n_m=1.5), Q, 0.05, Q)
    assert command.names == tuple(NAMES)
    assert command.position == (*Q, 0.05)
    assert command.velocity == (0, 0, 0, 0, 0, 0, 30)
    assert command.effort == (0, 0, 0, 0, 0, 0, 1.5)


@pytest.mark.parametrize(("asked", "sent"), [(0.1, 0.5), (0.5, 0.5), (3.0, 3.0), (9.0, 3.0)])
def test_the_torque_stays_in_what_the_node_lets_through(asked, sent):
    assert vendor_command(CommandRules(effort_n_m=asked), Q, 0.05, Q).effort[6] == sent


@pytest.mark.parametrize(("asked", "sent"), [(0, 1), (250, 100)])
def test_the_speed_stays_in_percent(asked, sent):
    assert vendor_command(CommandRules(speed_percent=asked), Q, 0.05, Q).velocity[6] == sent


def test_a_node_that_takes_neither_gets_positions_only():
    command = vendor_command(CommandRules(speed_percent=None), Q, 0.05, Q)
    assert (command.velocity, command.effort) == ((), ())


@pytest.mark.parametrize(("asked", "sent"), [(-0.02, 0.0), (-1e-9, 0.0), (0.2, 0.07), (0.05, 0.05)])
def test_the_width_is_never_negative_which_would_open_the_gripper(asked, sent):
    assert vendor_command(CommandRules(), Q, asked, Q).position[6] == sent


def test_the_width_is_divided_by_what_the_node_multiplies_it_with():
    assert vendor_command(CommandRules(width_multiple=2.0), Q, 0.06, Q).position[6] == 0.03


def test_joints_are_sent_to_their_limits_at_most():
    measured = (2.6, *Q[1:])
    assert vendor_command(CommandRules(), (2.9, *Q[1:]), 0.05, measured).position[0] == 2.6179


def test_a_joint_that_would_jump_is_not_sent():
    with pytest.raises(
        KinematicsError, match=r"joint3: .*too far.*at most 0\.5 rad from -1\.000.*got -1\.600"
    ):
        vendor_command(CommandRules(), (*Q[:2], -1.6, *Q[3:]), 0.05, Q)


@pytest.mark.parametrize("command", [(*Q[:5], math.nan), (*Q[:5], math.inf), Q[:5], ()])
def test_a_command_that_is_not_six_numbers_is_not_sent(command):
    with pytest.raises(KinematicsError, match="six finite angles"):
        vendor_command(CommandRules(), command, 0.05, Q)


def test_a_width_that_is_no_number_is_not_sent():
    with pytest.raises(KinematicsError, match="six finite angles"):
        vendor_command(CommandRules(), Q, math.nan, Q)


numbers = st.floats(allow_nan=True, allow_infinity=True)


@settings(deadline=None, max_examples=150)
@given(st.tuples(*[numbers] * 6) | st.tuples(*[st.floats(-4, 4)] * 6), numbers)
def test_whatever_is_commanded_what_goes_out_keeps_the_rules(q, width_m):
    rules = CommandRules(joint_factor=COMMANDED_FACTOR, width_multiple=2.0)
    try:
        command = vendor_command(rules, q, width_m, Q)
    except KinematicsError:
        return
    assert all(map(math.isfinite, command.position))
    for sent, (low, high), there in zip(command.position, JOINT_LIMITS_RAD, Q, strict=False):
        executed = sent / COMMANDED_FACTOR
        assert low - 1e-9 <= executed <= high + 1e-9
        assert abs(executed - there) <= rules.max_step_rad + 1e-9
    assert 0.0 <= command.position[6] * 2.0 <= 0.07 + 1e-12
