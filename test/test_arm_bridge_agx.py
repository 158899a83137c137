"""The bridge in front of agx_arm_ros, piper_ros's successor: other names, other types, right degrees."""

import pytest
from bridge_rig import ELSEWHERE, REST_RAD, Bridge, stamps_ns
from fake_piper_ros import NAMES

from piper_collect.core.kinematics import PiperKinematics


class FakeAgxArmRos:
    """A node that behaves like agx_arm_ctrl_single_node with its gripper."""

    def __init__(self, rig):
        from agx_arm_msgs.msg import AgxArmStatus
        from geometry_msgs.msg import PoseStamped
        from rclpy.qos import QoSProfile
        from sensor_msgs.msg import JointState
        from std_srvs.srv import SetBool

        depth_1 = QoSProfile(depth=1)
        self.rig, self.q, self.width_m, self.enabled = rig, list(REST_RAD), 0.06, False
        self.names = list(NAMES)
        self.commands = []
        self.joint_states = rig.publisher(JointState, "/feedback/joint_states", depth_1)
        self.tcp_pose = rig.publisher(PoseStamped, "/feedback/tcp_pose", depth_1)
        self.arm_status = rig.publisher(AgxArmStatus, "/feedback/arm_status", depth_1)
        rig.node.create_subscription(JointState, "/control/joint_states", self.obey, depth_1)
        rig.node.create_service(SetBool, "/enable_agx_arm", self.enable)
        rig.every(0.005, self.publish)

    def publish(self):
        from agx_arm_msgs.msg import AgxArmStatus
        from geometry_msgs.msg import PoseStamped
        from sensor_msgs.msg import JointState

        from piper_collect.nodes.convert import pose_msg, stamp_msg

        cells = dict(zip(NAMES, [*self.q, self.width_m], strict=True))
        message = JointState(name=self.names, position=[cells[name] for name in self.names])
        message.velocity, message.effort = [0.0] * len(self.names), [0.0] * len(self.names)
        message.header.stamp = stamp_msg(self.rig.now_ns())
        self.joint_states.publish(message)
        pose = PoseStamped(pose=pose_msg(PiperKinematics("older").forward_scalar(self.q)))
        pose.header.stamp = message.header.stamp  # and no frame
        self.tcp_pose.publish(pose)
        self.arm_status.publish(
            AgxArmStatus(
                ctrl_mode=1,
                mode_feedback=1,
                arm_status=5,
                joint_angle_limit=[False] * 6,
                communication_status_joint=[False, True, False, False, False, False],
            )
        )

    def obey(self, message):
        self.commands.append(message)
        if self.enabled:
            *self.q, self.width_m = message.position

    def enable(self, request, response):
        self.enabled = request.data
        response.success = True
        return response


@pytest.fixture
def agx(rig, vendor_site, monkeypatch):
    site = vendor_site("agx_arm_msgs")
    monkeypatch.syspath_prepend(str(site))
    return Bridge(rig, FakeAgxArmRos(rig), site=site, vendor_name="agx_arm_ros")


def test_joints_status_and_motors_under_the_other_names(agx):
    rig, vendor = agx.rig, agx.vendor
    heard = agx.heard(10)
    for message in heard:
        assert list(message.position) == [*REST_RAD, 0.06]  # its degrees are right: nothing is corrected
    assert len(set(stamps_ns(heard))) == 10
    rig.until(lambda: "joint2: communication failed" in agx.faults(), "the status is not passed on")
    rig.until(lambda: "fits arm.dh_offset: older" in agx.faults(), "the other kinematics are not told")
    assert agx.statuses[-1].control_mode == agx.statuses[-1].CONTROL_POSITION
    assert agx.enable().success
    on = agx.statuses[-1].POWER_ON
    rig.until(lambda: agx.statuses[-1].power == on, "the status does not say that the motors are on")

    rig.until(
        lambda: vendor.q == pytest.approx(ELSEWHERE, abs=1e-12),
        "the arm does not get there",
        meanwhile=lambda: agx.command(ELSEWHERE, 0.02),
    )
    assert vendor.width_m == pytest.approx(0.02)
    for message in vendor.commands:
        assert list(message.name) == NAMES
        assert len(message.position) == 7
        # in its fast mode it would take these for something else than a position command
        assert (list(message.velocity), list(message.effort)) == ([], [])


def test_an_arm_without_its_gripper_is_not_given_one(agx):
    agx.vendor.names = NAMES[:6]
    agx.until_logged("it does not name six joints and the gripper (named joint1, joint2")
    agx.rig.until(lambda: "silent" in agx.faults() or "not been heard" in agx.faults(), "no fault")
