"""A node that behaves like piper_ros (piper_ctrl_single_node) with all that is wrong with it, and its arm.

What it does, and in which order, follows its source; the arm moves at once to what it is told.
"""

import math
import time

from ros_support import Rig

from piper_collect.core.kinematics import JOINT_NAMES, PiperKinematics

NAMES = [*JOINT_NAMES, "gripper"]
REST_DEG = [10.0, 60.0, -55.0, 5.0, 20.0, -8.0]
PERIOD_NS = 5_000_000


class FakePiperRos:
    """Publishes whatever ``spin`` finds due, twice as often as the arm says something new.

    Args:
        rig: Whose node it runs in.
        messages: Whether ``piper_msgs`` can be imported, so that it has a status and the enabling service.
        multiple: Its parameter ``gripper_val_mutiple``.
        deaf: Whether its service is there and never answers.
    """

    def __init__(
        self, rig: Rig, *, messages: bool = False, multiple: float = 1.0, deaf: bool = False
    ) -> None:
        from geometry_msgs.msg import Pose, PoseStamped
        from rclpy.qos import QoSProfile
        from sensor_msgs.msg import JointState

        depth_1 = QoSProfile(depth=1)
        self.rig, self.multiple = rig, multiple
        self.degrees, self.gripper_m, self.stamp_ns = list(REST_DEG), 0.05, 0
        self.enabled = False
        self.busy_until = 0.0
        self.sent_stamps: list[int] = []
        self.commands: list[object] = []
        self.executed_m: list[float] = []
        self.dh_offset = "s_v1_6_3"
        self.joint_states = rig.publisher(JointState, "/joint_states_single", depth_1)
        self.end_pose = rig.publisher(Pose, "/end_pose", depth_1)
        self.end_pose_stamped = rig.publisher(PoseStamped, "/end_pose_stamped", depth_1)
        rig.node.create_subscription(JointState, "/joint_ctrl_single", self.obey, depth_1)
        self.status = None
        if messages:
            from piper_msgs.msg import PiperStatusMsg
            from piper_msgs.srv import Enable

            self.status = PiperStatusMsg(mode_feedback=1)
            self.arm_status = rig.publisher(PiperStatusMsg, "/arm_status", depth_1)
            node = rig.deaf_node() if deaf else rig.node
            node.create_service(Enable, "/enable_srv", self.enable)
        self.calls: list[bool] = []
        rig.every(PERIOD_NS / 2e9, self.publish)

    def hear_the_arm(self) -> None:
        """From now on frames come from the bus."""
        self.stamp_ns = self.rig.now_ns()

    def publish(self) -> None:
        """The publishing thread: once a turn, whether anything is new or not."""
        if time.monotonic() < self.busy_until:
            return
        if self.stamp_ns and self.rig.now_ns() - self.stamp_ns > PERIOD_NS:
            self.stamp_ns = self.rig.now_ns()
        self.publish_joints()
        self.publish_pose()
        if self.status is not None:
            self.arm_status.publish(self.status)

    def publish_joints(self, position=None, stamp_ns=None) -> None:
        from sensor_msgs.msg import JointState

        from piper_collect.nodes.convert import stamp_msg

        reported = [round(d * 1000) / 1000 * 0.017444 for d in self.degrees]
        cells = [*reported, self.gripper_m] if self.stamp_ns else [0.0] * 7
        message = JointState(name=NAMES, position=position or cells)
        message.velocity, message.effort = [0.0] * 6, [0.1] * 7
        message.header.stamp = stamp_msg(self.stamp_ns if stamp_ns is None else stamp_ns)
        self.joint_states.publish(message)
        self.sent_stamps.append(self.stamp_ns)

    def publish_pose(self) -> None:
        from geometry_msgs.msg import PoseStamped

        from piper_collect.nodes.convert import pose_msg, stamp_msg

        q = [math.radians(d) for d in self.degrees]
        message = PoseStamped(pose=pose_msg(PiperKinematics(self.dh_offset).forward_scalar(q)))
        message.header.frame_id = "base_link"
        message.header.stamp = stamp_msg(self.stamp_ns)
        self.end_pose_stamped.publish(message)
        self.end_pose.publish(message.pose)

    def obey(self, message) -> None:
        """Joints by name, those not named to zero; the gripper by place, made positive."""
        self.commands.append(message)
        if not self.enabled:
            return
        by_name = dict(zip(message.name, message.position, strict=False))
        self.degrees = [round(by_name.get(name, 0.0) * 57324.840764) / 1000 for name in JOINT_NAMES]
        self.gripper_m = abs(message.position[6] * self.multiple)
        self.executed_m.append(self.gripper_m)

    def enable(self, request, response):
        """Shuts the gripper, and publishes nothing while it is at it; first a message of before arrives."""
        self.calls.append(request.enable_request)
        self.stamp_ns = self.rig.now_ns()
        self.publish_joints()
        self.enabled = request.enable_request
        self.gripper_m = 0.0
        self.busy_until = time.monotonic() + 0.3
        response.enable_response = True
        return response
