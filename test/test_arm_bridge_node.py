"""The bridge as a process of its own, in front of a node that behaves like piper_ros, on real DDS."""

import math
import re

import numpy as np
import pytest
from bridge_rig import BUS_RAD, ELSEWHERE, REST_RAD, Bridge, RosClock, bridge_config, stamps_ns
from fake_piper_ros import NAMES, REST_DEG, FakePiperRos

from piper_collect.core.kinematics import WORKING_POSE_RAD, PiperKinematics


@pytest.fixture
def alone(rig):
    """Without piper_msgs: joint states and commands only."""
    bridge = Bridge(rig, FakePiperRos(rig))
    rig.until(lambda: bridge.commands.get_subscription_count(), "the bridge is not there")
    return bridge


@pytest.fixture
def piper_msgs(vendor_site, monkeypatch):
    site = vendor_site("piper_msgs")
    monkeypatch.syspath_prepend(str(site))
    return site


# -- from the arm ----------------------------------------------------------------------------------


def test_nothing_is_said_before_the_arm_is_heard_and_each_stamp_once_after(alone):
    alone.until_logged("joint states left out: the stamp is unset")
    assert alone.joints == []
    assert alone.poses == []
    alone.vendor.hear_the_arm()
    heard = alone.heard(40)
    stamps = stamps_ns(heard)
    assert np.all(np.diff(stamps) > 0)
    assert set(stamps) <= set(alone.vendor.sent_stamps)  # the vendor's own stamps, none made up
    sent = [s for s in alone.vendor.sent_stamps if stamps[0] <= s <= stamps[-1]]
    assert len(sent) > len(stamps)  # it repeats itself, the bridge does not
    for message in heard:
        assert list(message.name) == NAMES
        assert list(message.position[:6]) == pytest.approx(REST_RAD, abs=1e-12)
        assert message.position[6] == 0.05
        assert list(message.velocity[:6]) == [0.0] * 6
        assert math.isnan(message.velocity[6])
        assert list(message.effort) == pytest.approx([0.1] * 7)


def test_numbers_that_are_none_and_stamps_that_go_back_are_left_out_and_counted(alone):
    alone.vendor.hear_the_arm()
    alone.heard(5)
    # of what comes faster than it is sent, piper_ros keeps only the last
    alone.until_logged(
        "left out: a position is not a finite number",
        meanwhile=lambda: alone.vendor.publish_joints(position=[math.nan] * 7),
    )
    alone.until_logged(
        "left out: the stamp lies before the one before it",
        meanwhile=lambda: alone.vendor.publish_joints(stamp_ns=stamps_ns(alone.joints)[-1] - 3_000_000),
    )
    alone.heard(20)
    assert not any(math.isnan(v) for m in alone.joints for v in m.position)
    assert np.all(np.diff(stamps_ns(alone.joints)) > 0)
    assert alone.rig.end(alone.process) == 0
    said = alone.process.log()
    for reason in (
        "a position is not a finite number",
        "the stamp lies before the one before it",
        "the stamp came before",
    ):
        assert re.search(rf"[1-9][0-9]* because {reason}", said)


def test_the_pose_of_the_vendor_by_choice_with_its_own_stamp(rig):
    bridge = Bridge(rig, FakePiperRos(rig), flange_pose="vendor")
    bridge.vendor.dh_offset = "older"  # so that it is another than the kinematics of the joints
    bridge.vendor.hear_the_arm()
    rig.until(lambda: len(bridge.poses) >= 10, "no poses")
    expected = PiperKinematics("older").forward_scalar(REST_RAD)
    p = bridge.poses[-1].pose.position
    assert (p.x, p.y, p.z) == pytest.approx(expected[:3], abs=1e-9)
    assert set(stamps_ns(bridge.poses)) <= set(bridge.vendor.sent_stamps)
    assert np.all(np.diff(stamps_ns(bridge.poses)) > 0)


def test_a_pose_without_a_header_is_stamped_when_it_arrives_and_that_is_said(rig):
    bridge = Bridge(rig, FakePiperRos(rig), flange_pose="vendor_unstamped")
    before = rig.now_ns()
    bridge.vendor.hear_the_arm()
    rig.until(lambda: len(bridge.poses) >= 10, "no poses")
    assert "end_pose has no stamp: poses are stamped when they arrive" in bridge.process.log()
    stamps = stamps_ns(bridge.poses)
    assert before < stamps[0] < stamps[-1] <= rig.now_ns()


def test_kinematics_that_are_not_the_arms_are_told_from_its_own_pose(rig):
    bridge = Bridge(rig, FakePiperRos(rig), dh_offset="older")
    bridge.vendor.hear_the_arm()
    bridge.until_logged("fits arm.dh_offset: s_v1_6_3")
    rig.until(lambda: "not older as configured" in bridge.faults(), "the status does not say it")


def test_a_silent_arm_is_a_fault(alone):
    alone.vendor.hear_the_arm()
    alone.heard(5)
    alone.vendor.busy_until = math.inf
    alone.rig.until(lambda: "the arm's joint states are silent" in alone.faults(), "the silence is not told")


# -- to the arm ------------------------------------------------------------------------------------


def test_a_command_reaches_the_arm_whole_and_moves_it_to_the_very_angle(alone):
    alone.vendor.hear_the_arm()
    alone.vendor.enabled = True
    alone.heard(5)
    there = [*ELSEWHERE, 0.03]
    alone.rig.until(
        lambda: alone.joints[-1].position == pytest.approx(there, abs=2 * BUS_RAD),
        "the arm does not get there",
        meanwhile=lambda: alone.command(ELSEWHERE, 0.03),
    )
    assert [math.radians(d) for d in alone.vendor.degrees] == pytest.approx(ELSEWHERE, abs=BUS_RAD)
    assert alone.vendor.gripper_m == pytest.approx(0.03)
    for message in alone.vendor.commands:
        assert list(message.name) == NAMES
        assert len(message.position) == len(message.velocity) == len(message.effort) == 7
        assert (list(message.velocity), list(message.effort)) == ([0.0] * 6 + [100.0], [0.0] * 6 + [1.0])


def test_a_negative_width_closes_the_gripper_and_does_not_open_it(alone):
    alone.vendor.hear_the_arm()
    alone.vendor.enabled = True
    alone.heard(5)
    alone.rig.until(
        lambda: alone.vendor.executed_m, "nothing arrived", meanwhile=lambda: alone.command(REST_RAD, -0.03)
    )
    assert set(alone.vendor.executed_m) == {0.0}


def test_what_the_vendor_multiplies_is_divided_first(rig):
    bridge = Bridge(rig, FakePiperRos(rig, multiple=2.0), gripper_multiple=2.0)
    bridge.vendor.hear_the_arm()
    bridge.vendor.enabled = True
    bridge.heard(5)
    rig.until(
        lambda: bridge.vendor.executed_m, "nothing arrived", meanwhile=lambda: bridge.command(REST_RAD, 0.06)
    )
    assert bridge.vendor.executed_m[-1] == pytest.approx(0.06)


def test_a_jump_does_not_reach_the_arm_and_the_next_good_command_does(alone):
    alone.vendor.hear_the_arm()
    alone.vendor.enabled = True
    alone.heard(5)
    jump = [REST_RAD[0] + 0.8, *REST_RAD[1:]]
    alone.until_logged(
        "joint1: a joint is commanded too far from where it is", meanwhile=lambda: alone.command(jump)
    )
    alone.rig.until(
        lambda: "too far from where it is" in alone.faults(),
        "the status does not say it",
        meanwhile=lambda: alone.command(jump),
    )
    assert alone.vendor.commands == []
    alone.rig.until(lambda: alone.vendor.commands, "not obeyed", meanwhile=lambda: alone.command(ELSEWHERE))
    assert [math.radians(d) for d in alone.vendor.degrees] == pytest.approx(ELSEWHERE, abs=BUS_RAD)


def test_when_commands_stop_nothing_more_is_sent(alone):
    alone.vendor.hear_the_arm()
    alone.vendor.enabled = True
    alone.heard(5)
    alone.rig.until(
        lambda: len(alone.vendor.commands) > 5, "nothing arrived", meanwhile=lambda: alone.command(ELSEWHERE)
    )
    alone.until_logged("commands have stopped: the arm holds its last target")
    alone.heard(5)
    sent = len(alone.vendor.commands)
    alone.heard(60)
    assert len(alone.vendor.commands) == sent


def test_a_clock_that_is_set_neither_stops_the_arm_nor_keeps_old_commands_alive(rig, tally):
    """Stamps are of simulation time, which a test may set; ages and timers are of one that nobody sets."""
    bridge = Bridge(rig, FakePiperRos(rig), parameters={"use_sim_time": "true"}, watchdog_s=2.0)
    clock, obeyed = RosClock(rig), bridge.vendor.commands
    bridge.vendor.hear_the_arm()
    bridge.vendor.enabled = True

    def command(off_s=0):
        clock.show()
        bridge.command(ELSEWHERE, at_ns=clock.now_ns() + off_s * 10**9)

    rig.until(lambda: len(obeyed) > 20, "nothing is passed on", meanwhile=command)
    for step_s in (3600, -7200):
        clock.ahead_ns += step_s * 10**9
        sent = len(obeyed)
        rig.until(lambda sent=sent: len(obeyed) > sent + 100, "nothing is passed on", meanwhile=command)
        tally("steps of the clock survived")
    assert "commands have stopped" not in bridge.process.log()
    bridge.until_logged("commands have stopped: the arm holds its last target", meanwhile=clock.show)
    bridge.heard(5)  # and what was still under way
    sent = len(obeyed)
    for off_s, said in ((-60, "stamped too long ago"), (60, "stamped ahead of this machine's clock")):
        bridge.until_logged(said, meanwhile=lambda off_s=off_s: command(off_s))
        assert len(obeyed) == sent


def test_nothing_is_sent_while_the_arm_is_not_heard(alone):
    alone.until_logged("the arm's joint states are silent", meanwhile=lambda: alone.command(REST_RAD))
    assert alone.vendor.commands == []


# -- motors ----------------------------------------------------------------------------------------


def test_enabling_brings_the_gripper_back_and_blocks_nothing(rig, piper_msgs):
    bridge = Bridge(rig, FakePiperRos(rig, messages=True), site=piper_msgs)
    vendor = bridge.vendor
    vendor.hear_the_arm()
    bridge.heard(5)
    answer = bridge.enable()
    assert answer.success, answer.message
    assert vendor.calls == [True]
    bridge.until_logged("the gripper is back: it was 50.0 mm open and is 50.0 mm")
    assert vendor.gripper_m == pytest.approx(0.05)
    assert vendor.degrees == pytest.approx(REST_DEG, abs=0.002)
    rig.until(lambda: bridge.statuses, "no status")

    def on():
        bridge.heard(1)
        status = bridge.statuses[-1]
        if status.power == status.POWER_UNKNOWN:  # a process stood still for so long that nobody knows
            assert bridge.enable().success
        return status.power == status.POWER_ON

    rig.until(on, "the status does not say that they are on")
    seen = {round(m.position[6], 3) for m in bridge.heard(10)}
    assert seen == {0.05}
    assert {round(m.position[6], 3) for m in bridge.joints} == {0.05}  # nobody was shown a closed gripper
    vendor.busy_until = math.inf  # what it does now, nobody knows
    rig.until(
        lambda: bridge.statuses[-1].power == bridge.statuses[-1].POWER_UNKNOWN,
        "after a silence they are said to be on",
    )


def test_a_gripper_that_cannot_open_again_is_told_and_the_arm_goes_on(rig, piper_msgs):
    bridge = Bridge(rig, FakePiperRos(rig, messages=True, multiple=0.0), site=piper_msgs)
    bridge.vendor.hear_the_arm()
    bridge.heard(5)
    assert bridge.enable().success
    bridge.until_logged("the gripper did not come back: it was 50.0 mm open and is 0.0 mm")
    assert bridge.heard(5)[-1].position[6] == 0.0


def test_motors_that_are_off_get_no_commands(rig, piper_msgs):
    bridge = Bridge(rig, FakePiperRos(rig, messages=True), site=piper_msgs)
    bridge.vendor.hear_the_arm()
    bridge.heard(5)
    assert bridge.enable(False).success
    bridge.until_logged(
        "command not passed on: the motors are off", meanwhile=lambda: bridge.command(ELSEWHERE)
    )
    assert bridge.vendor.commands == []
    rig.until(
        lambda: bridge.statuses and bridge.statuses[-1].power == bridge.statuses[-1].POWER_OFF,
        "the status does not say that the motors are off",
    )


def test_a_service_that_never_answers_is_given_up_and_nothing_waits_for_it(rig, piper_msgs):
    from std_srvs.srv import SetBool

    vendor = FakePiperRos(rig, messages=True, deaf=True)
    bridge = Bridge(rig, vendor, site=piper_msgs, enable_timeout_s=3.0)
    vendor.hear_the_arm()
    bridge.heard(5)
    asked = rig.ask(SetBool, "/arm/enable", data=True)
    statuses = len(bridge.statuses)
    bridge.until_logged(
        "command not passed on: the motors are being switched", meanwhile=lambda: bridge.command(ELSEWHERE)
    )
    passed_on = len(vendor.commands)  # before the bridge heard of the request
    rig.until(
        lambda: len(bridge.statuses) > statuses + 3,
        "the bridge stands still meanwhile",
        meanwhile=lambda: bridge.command(ELSEWHERE),
    )
    assert not asked.done()
    assert len(vendor.commands) == passed_on
    again = rig.call(SetBool, "/arm/enable", data=True)
    assert not again.success
    assert "already" in again.message
    rig.until(asked.done, "no answer")
    assert (asked.result().success, asked.result().message) == (False, "no answer within 3 s")
    bridge.heard(5)


def test_the_motors_are_switched_on_at_the_start_when_that_is_asked_for(rig, piper_msgs):
    bridge = Bridge(rig, FakePiperRos(rig, messages=True), site=piper_msgs, enable_on_start=True)
    bridge.vendor.hear_the_arm()
    bridge.until_logged("the motors are on")
    bridge.until_logged("the gripper is back")
    assert bridge.vendor.calls == [True]


def test_the_status_of_the_arm_in_words_stamped_when_it_arrives(rig, piper_msgs):
    bridge = Bridge(rig, FakePiperRos(rig, messages=True), site=piper_msgs)
    before = rig.now_ns()
    vendor = bridge.vendor
    vendor.hear_the_arm()
    vendor.status.ctrl_mode, vendor.status.arm_status = 2, 7
    vendor.status.joint_2_angle_limit = vendor.status.communication_status_joint_1 = True
    rig.until(lambda: bridge.statuses and bridge.statuses[-1].error_code, "the status is not passed on")
    status = bridge.statuses[-1]
    assert (status.control_mode, status.error_code) == (status.CONTROL_TEACH, 0x0201)
    assert list(status.faults)[:3] == [
        "collision",
        "joint1: communication failed",
        "joint2: beyond its angle limit",
    ]
    assert before < stamps_ns([status])[0] <= rig.now_ns()
    assert "arm_status has no stamp: arm/status is stamped when it arrives" in bridge.process.log()
    vendor.status.ctrl_mode, vendor.status.arm_status = 1, 0
    rig.until(lambda: bridge.statuses[-1].control_mode == status.CONTROL_POSITION, "the change is not told")


def test_teleoperation_goes_home_through_the_bridge(rig):
    from piper_collect.msg import TeleopStatus
    from std_srvs.srv import Trigger

    from piper_collect.nodes.qos import LATCHED_QOS

    bridge = Bridge(rig, FakePiperRos(rig))
    rig.node.destroy_publisher(bridge.commands)  # one driver at a time
    teleop = rig.start("teleop_node", bridge_config())
    said = rig.listen(TeleopStatus, "/teleop/status", LATCHED_QOS)
    bridge.vendor.hear_the_arm()
    bridge.vendor.enabled = True
    rig.until(lambda: bridge.vendor.commands, "teleoperation does not command")
    assert bridge.vendor.degrees == pytest.approx(REST_DEG, abs=0.002)  # it begins where the arm stands
    asked = []

    def home():
        given_up = teleop.log().count("homing given up: ")
        if len(asked) == given_up:  # at first, and when a process that stood still has ended the way
            answer = rig.call(Trigger, "/arm/home")
            assert answer.success or answer.message.startswith("homing refused: the arm")
            asked.extend([answer] * answer.success)
        return bridge.joints[-1].position[:6] == pytest.approx(WORKING_POSE_RAD, abs=2 * BUS_RAD)

    rig.until(home, "the arm does not get home")
    steps = np.abs(np.diff([m.position[:6] for m in bridge.joints], axis=0))
    assert steps.max() < 0.2  # no leap on the way
    rig.until(lambda: not said[-1].fault and bridge.faults() == "", "a fault is left")
