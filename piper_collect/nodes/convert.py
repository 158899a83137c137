"""Between our values and ROS messages: int64 ns, pose7 (wxyz) here; stamps and xyzw there."""

from collections.abc import Sequence

from builtin_interfaces.msg import Duration, Time
from geometry_msgs.msg import Pose
from sensor_msgs.msg import JointState

from piper_collect.core.kinematics import GRIPPER_NAME, JOINT_NAMES
from piper_collect.core.quest import QuestController, QuestSample, XrPose
from piper_collect.core.topics import TopicMonitor
from piper_collect.msg import QuestController as QuestControllerMsg
from piper_collect.msg import QuestInput, TopicStatus

QUEST_FRAME = "quest_local_floor"
_NS = 1_000_000_000


def stamp_msg(stamp_ns: int) -> Time:
    """int64 ns to a ROS time."""
    return Time(sec=stamp_ns // _NS, nanosec=stamp_ns % _NS)


def stamp_ns(stamp: Time) -> int:
    """A ROS time to int64 ns."""
    return stamp.sec * _NS + stamp.nanosec


def duration_msg(duration_ns: int) -> Duration:
    """int64 ns to a ROS duration."""
    return Duration(sec=duration_ns // _NS, nanosec=duration_ns % _NS)


def pose_msg(pose7: Sequence[float]) -> Pose:
    """pose7 ``[x, y, z, qw, qx, qy, qz]`` to a Pose (x, y, z, w)."""
    pose = Pose()
    pose.position.x, pose.position.y, pose.position.z = (float(v) for v in pose7[:3])
    q = pose.orientation
    q.w, q.x, q.y, q.z = (float(v) for v in pose7[3:])
    return pose


def position_and_xyzw(pose: Pose) -> tuple[tuple[float, float, float], tuple[float, float, float, float]]:
    """A Pose as position (m) and quaternion in its own order (x, y, z, w)."""
    p, q = pose.position, pose.orientation
    return (p.x, p.y, p.z), (q.x, q.y, q.z, q.w)


def topic_status_msg(monitor: TopicMonitor, now_ns: int, fresh_ns: int, *, running: bool) -> TopicStatus:
    """What the recorder's status says of one topic; counts are those of the episode that is ``running``."""
    return TopicStatus(
        name=monitor.name,
        type=monitor.type,
        required=monitor.required,
        messages=monitor.messages if running else 0,
        rate_hz=monitor.rate_hz(now_ns),
        age_s=monitor.age_s(now_ns),
        lost=monitor.lost if running else 0,
        reason=monitor.reason(now_ns, fresh_ns),
    )


def xr_pose(pose: Pose) -> XrPose:
    """A Pose in WebXR axes as the core has it."""
    position, xyzw = position_and_xyzw(pose)
    return XrPose(position_m=position, orientation_xyzw=xyzw)


def xr_pose_msg(pose: XrPose) -> Pose:
    """The inverse of ``xr_pose``."""
    message = Pose()
    p, q = message.position, message.orientation
    p.x, p.y, p.z = pose.position_m
    q.x, q.y, q.z, q.w = pose.orientation_xyzw
    return message


def quest_sample(message: QuestInput) -> QuestSample:
    """A QuestInput message as the core has it, field for field."""
    return QuestSample(
        stamp_ns=stamp_ns(message.header.stamp),
        headset_time_ms=message.headset_time_ms,
        sequence=message.sequence,
        visibility=message.visibility,
        head_valid=message.head_valid,
        head_pose=xr_pose(message.head_pose),
        left=_controller(message.left),
        right=_controller(message.right),
    )


def quest_input_msg(sample: QuestSample) -> QuestInput:
    """The inverse of ``quest_sample``."""
    message = QuestInput(
        headset_time_ms=sample.headset_time_ms,
        sequence=sample.sequence,
        visibility=sample.visibility,
        head_valid=sample.head_valid,
        head_pose=xr_pose_msg(sample.head_pose),
        left=_controller_msg(sample.left),
        right=_controller_msg(sample.right),
    )
    message.header.stamp = stamp_msg(sample.stamp_ns)
    message.header.frame_id = QUEST_FRAME
    return message


def _controller(message: QuestControllerMsg) -> QuestController:
    return QuestController(
        connected=message.connected,
        profiles=tuple(message.profiles),
        pose_valid=message.pose_valid,
        pose_emulated=message.pose_emulated,
        grip_pose=xr_pose(message.grip_pose),
        aim_valid=message.aim_valid,
        aim_pose=xr_pose(message.aim_pose),
        button_values=tuple(message.button_values),
        button_pressed=tuple(message.button_pressed),
        button_touched=tuple(message.button_touched),
        axes=tuple(message.axes),
    )


def _controller_msg(controller: QuestController) -> QuestControllerMsg:
    return QuestControllerMsg(
        connected=controller.connected,
        profiles=list(controller.profiles),
        pose_valid=controller.pose_valid,
        pose_emulated=controller.pose_emulated,
        grip_pose=xr_pose_msg(controller.grip_pose),
        aim_valid=controller.aim_valid,
        aim_pose=xr_pose_msg(controller.aim_pose),
        button_values=list(controller.button_values),
        button_pressed=list(controller.button_pressed),
        button_touched=list(controller.button_touched),
        axes=list(controller.axes),
    )


def joint_state_msg(stamp: int, q: Sequence[float], width_m: float) -> JointState:
    """Six joints (rad) and the gripper's full width (m) as a JointState; positions only."""
    message = JointState(name=[*JOINT_NAMES, GRIPPER_NAME], position=[*map(float, q), float(width_m)])
    message.header.stamp = stamp_msg(stamp)
    return message


def joints_and_width(message: JointState) -> tuple[tuple[float, ...], float] | None:
    """The six joints and the gripper width of a JointState by name; None when one is missing."""
    by_name = dict(zip(message.name, message.position, strict=False))
    if not by_name.keys() >= {*JOINT_NAMES, GRIPPER_NAME}:
        return None
    return tuple(by_name[name] for name in JOINT_NAMES), by_name[GRIPPER_NAME]
