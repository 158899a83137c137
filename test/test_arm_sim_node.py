"""The simulated arm as a process of its own: what it says and what it obeys."""

import math
from dataclasses import replace

import numpy as np
import pytest
from ros_support import Rig

from piper_collect.config.schema import SessionConfig
from piper_collect.core.kinematics import GRIPPER_WIDTH_M, JOINT_NAMES, WORKING_POSE_RAD, PiperKinematics

NAMES = [*JOINT_NAMES, "gripper"]
AT_REST = [*WORKING_POSE_RAD, GRIPPER_WIDTH_M[1]]
ELSEWHERE = (0.3, 1.0, -1.2, 0.2, 0.4, -0.3)
ELSEWHERE_WIDTH_M = 0.02


class Arm:
    """A simulated arm and what it said."""

    def __init__(self, rig: Rig, *, preset="piper_collect", dh_offset="s_v1_6_3") -> None:
        from geometry_msgs.msg import PoseStamped
        from piper_collect.msg import ArmStatus
        from sensor_msgs.msg import JointState

        ours = preset == "piper_collect"
        base = SessionConfig()
        config = replace(base, arm=replace(base.arm, preset=preset, dh_offset=dh_offset))
        self.rig = rig
        self.kinematics = PiperKinematics(dh_offset)
        self.joints = rig.listen(JointState, "/arm/joint_states" if ours else "/joint_states_single")
        self.poses = rig.listen(PoseStamped, "/arm/flange_pose" if ours else "/end_pose_stamped")
        self.echo = rig.listen(JointState, "/joint_ctrl")
        self.statuses = rig.listen(ArmStatus, "/arm/status")
        self.commands = rig.publisher(JointState, "/arm/joint_command" if ours else "/joint_ctrl_single")
        self.process = rig.start("arm_sim_node", config)
        rig.until(lambda: self.joints and self.commands.get_subscription_count(), "the arm is not there")

    def hear(self, count: int) -> list[list[float]]:
        """Positions of the next ``count`` joint states."""
        first = len(self.joints)
        self.rig.until(lambda: len(self.joints) >= first + count, "the arm is silent")
        return [list(m.position) for m in self.joints[first : first + count]]

    def command(self, q, width_m, names=NAMES) -> None:
        from sensor_msgs.msg import JointState

        self.commands.publish(JointState(name=list(names), position=[*q, width_m][: len(names)]))

    def distance(self, wanted) -> float:
        return max(abs(a - b) for a, b in zip(self.joints[-1].position, wanted, strict=True))


@pytest.fixture
def arm(rig):
    return Arm(rig)


def stamps_ns(messages):
    return np.array([m.header.stamp.sec * 10**9 + m.header.stamp.nanosec for m in messages])


def check_poses_belong_to_joints(arm):
    """Every pose is the forward kinematics of the joints of the same stamp."""
    joints = dict(zip(stamps_ns(arm.joints).tolist(), arm.joints, strict=True))
    checked = 0
    for stamp_ns, message in zip(stamps_ns(arm.poses).tolist(), arm.poses, strict=True):
        if stamp_ns in joints:
            x, y, z, w, i, j, k = arm.kinematics.forward(joints[stamp_ns].position[:6])
            p, q = message.pose.position, message.pose.orientation
            assert (p.x, p.y, p.z) == pytest.approx((x, y, z), abs=1e-9)
            assert (q.w, q.x, q.y, q.z) == pytest.approx((w, i, j, k), abs=1e-9)
            assert message.header.frame_id == "base_link"
            checked += 1
    return checked


def test_an_arm_that_nobody_commands_says_where_it_stands_and_stays(arm):
    assert arm.hear(300) == [AT_REST] * 300
    for message in arm.joints:
        assert list(message.name) == NAMES
        assert (list(message.velocity), list(message.effort)) == ([0.0] * 7, [])
    stamps = stamps_ns(arm.joints)
    steps_ms = np.diff(stamps) / 1e6
    assert steps_ms.min() > 0
    assert 4.0 < np.median(steps_ms) < 20.0  # 5 ms where the machine keeps up
    assert abs(arm.rig.now_ns() - stamps[-1]) < 60e9
    assert arm.echo == []


def test_the_flange_pose_is_that_of_the_joints_of_the_same_stamp(arm):
    arm.command(ELSEWHERE, ELSEWHERE_WIDTH_M)
    arm.hear(200)
    moved = {tuple(m.position) for m in arm.joints}
    assert len(moved) > 20
    assert check_poses_belong_to_joints(arm) > 150


def test_the_older_dh_variant_moves_the_flange_not_the_joints(rig):
    arm = Arm(rig, dh_offset="older")
    assert arm.hear(20) == [AT_REST] * 20
    assert check_poses_belong_to_joints(arm) > 5
    newer = PiperKinematics("s_v1_6_3").forward(WORKING_POSE_RAD)
    p = arm.poses[-1].pose.position
    assert math.dist((p.x, p.y, p.z), newer[:3]) > 5e-3


def test_the_arm_follows_a_command_without_overshoot_and_stays(arm):
    arm.command(ELSEWHERE, ELSEWHERE_WIDTH_M)
    wanted = [*ELSEWHERE, ELSEWHERE_WIDTH_M]
    arm.rig.until(lambda: arm.distance(wanted) < 1e-4, "the arm does not get there")
    path = np.array([m.position for m in arm.joints])
    sign = np.sign(np.array(wanted) - np.array(AT_REST))
    assert np.all(np.diff(path, axis=0) * sign >= 0)
    assert np.all((np.array(wanted) - path) * sign >= -1e-12)
    fastest = max(max(map(abs, m.velocity)) for m in arm.joints)
    assert 0.5 < fastest <= 3.0
    arm.hear(100)
    assert arm.distance(wanted) < 1e-4


def test_a_command_that_does_not_name_every_joint_is_ignored_and_told(arm):
    arm.command(ELSEWHERE, 0.0, names=JOINT_NAMES[:5])
    arm.command(ELSEWHERE, 0.0, names=[*JOINT_NAMES, "claw"])
    arm.rig.until(lambda: "command ignored" in arm.process.log(), "the ignored command is not told")
    assert "not all six joints and the gripper" in arm.process.log()
    assert arm.hear(50) == [AT_REST] * 50


def test_a_command_that_is_no_number_is_ignored_and_the_next_is_obeyed(arm):
    arm.command((math.nan, *ELSEWHERE[1:]), ELSEWHERE_WIDTH_M)
    arm.rig.until(lambda: "command ignored" in arm.process.log(), "the bad command is not told")
    assert arm.hear(50) == [AT_REST] * 50
    arm.command(ELSEWHERE, ELSEWHERE_WIDTH_M, names=NAMES)
    wanted = [*ELSEWHERE, ELSEWHERE_WIDTH_M]
    arm.rig.until(lambda: arm.distance(wanted) < 1e-3, "the good command is not obeyed")


def test_the_status_names_the_firmware(arm):
    arm.rig.until(lambda: len(arm.statuses) >= 3, "no status")
    for status in arm.statuses:
        assert (status.model, status.firmware, status.power) == ("piper", "S-V1.8-5", status.POWER_ON)
        assert status.control_mode == status.CONTROL_POSITION
    assert stamps_ns(arm.statuses).min() > 0


def test_the_preset_speaks_the_names_of_piper_ros(rig):
    arm = Arm(rig, preset="piper_ros")
    assert arm.hear(20) == [AT_REST] * 20
    assert arm.echo == []
    arm.command(ELSEWHERE, ELSEWHERE_WIDTH_M)
    arm.rig.until(lambda: len(arm.echo) >= 20, "the accepted command is not echoed")
    for message in arm.echo:
        assert list(message.name) == NAMES
        assert list(message.position) == [*ELSEWHERE, ELSEWHERE_WIDTH_M]
    assert check_poses_belong_to_joints(arm) > 10
    echoed = set(stamps_ns(arm.echo))
    arm.hear(10)
    assert echoed <= set(stamps_ns(arm.joints))
    topics = {name for name, _ in rig.node.get_topic_names_and_types()}
    assert not any(name.startswith("/arm/") for name in topics - {"/arm/status"})


def test_the_arm_writes_what_it_did_and_ends_with_0(rig, tmp_path):
    base = SessionConfig()
    config = replace(base, sim=replace(base.sim, truth_dir=str(tmp_path / "truth")))
    from sensor_msgs.msg import JointState

    heard = rig.listen(JointState, "/arm/joint_states")
    process = rig.start("arm_sim_node", config)
    rig.until(lambda: len(heard) >= 50, "the arm is silent")
    assert rig.end(process) == 0
    head, *lines = (tmp_path / "truth" / "joints.csv").read_text().splitlines()
    assert head == "stamp_ns,joint1,joint2,joint3,joint4,joint5,joint6,width_m"
    truth = {int(line.split(",")[0]): [float(v) for v in line.split(",")[1:]] for line in lines}
    for stamp_ns, message in zip(stamps_ns(heard).tolist(), heard, strict=True):
        assert truth[stamp_ns] == list(message.position)
