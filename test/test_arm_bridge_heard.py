"""One bridge that hears its arm, for tests that look at it, or send it what it must not follow."""

import pytest
from bridge_rig import ELSEWHERE, REST_RAD, Bridge, stamps_ns
from fake_piper_ros import REST_DEG, FakePiperRos
from ros_support import rig_in

from piper_collect.core.kinematics import PiperKinematics


@pytest.fixture(scope="module")
def heard(ros_run, tmp_path_factory):
    """Without piper_msgs: joint states and commands only."""
    with rig_in(ros_run, tmp_path_factory.mktemp("heard")) as rig:
        bridge = Bridge(rig, FakePiperRos(rig))
        rig.until(lambda: bridge.commands.get_subscription_count(), "the bridge is not there")
        bridge.vendor.hear_the_arm()
        bridge.vendor.enabled = True
        bridge.heard(5)
        yield bridge


def test_the_flange_pose_is_the_kinematics_of_the_true_joints(heard):
    heard.heard(20)
    heard.rig.until(lambda: len(heard.poses) >= 20, "no poses")
    x, y, z, w, i, j, k = PiperKinematics("s_v1_6_3").forward_scalar(REST_RAD)
    for message in heard.poses[:20]:
        p, q = message.pose.position, message.pose.orientation
        assert (p.x, p.y, p.z) == pytest.approx((x, y, z), abs=1e-9)
        assert (q.w, q.x, q.y, q.z) == pytest.approx((w, i, j, k), abs=1e-9)
        assert message.header.frame_id == "base_link"
    assert set(stamps_ns(heard.poses)) <= set(stamps_ns(heard.joints)) | set(stamps_ns(heard.poses[-2:]))


def test_without_the_vendors_messages_it_says_so_and_runs_on_the_joints(heard):
    heard.until_logged("piper_msgs is not installed here: the arm's status is unknown")
    heard.rig.until(lambda: len(heard.statuses) >= 3, "no status")
    status = heard.statuses[-1]
    assert (status.power, status.control_mode) == (status.POWER_UNKNOWN, status.CONTROL_UNKNOWN)
    assert (status.model, status.firmware) == ("piper", "")
    answer = heard.enable()
    assert not answer.success
    assert "piper_msgs is not installed here" in answer.message


def test_a_command_that_does_not_name_all_seven_never_reaches_the_arm(heard):
    heard.until_logged(
        "not all seven", meanwhile=lambda: heard.command(ELSEWHERE, names=["joint1", "joint2"])
    )
    heard.heard(20)
    assert heard.vendor.commands == []
    assert heard.vendor.degrees == REST_DEG


def test_old_commands_are_not_followed(heard):
    heard.until_logged("stamped too long ago", meanwhile=lambda: heard.command(ELSEWHERE, age_s=2.0))
    assert heard.vendor.commands == []
