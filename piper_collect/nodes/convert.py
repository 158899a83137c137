"""Between our values and ROS messages: int64 ns, pose7 (wxyz) here; stamps and xyzw there."""

from collections.abc import Sequence

from builtin_interfaces.msg import Duration, Time
from geometry_msgs.msg import Pose
from sensor_msgs.msg import JointState

from piper_collect.core.arm_report import MotorPower
from piper_collect.core.desk import TopicReport
from piper_collect.core.haptics import Pulse
from piper_collect.core.kinematics import GRIPPER_NAME, JOINT_NAMES
from piper_collect.core.quest import QuestController, QuestSample, XrPose
from piper_collect.core.session_status import (
    ArmReport,
    RecorderReport,
    RecorderState,
    SessionState,
    SessionView,
    TeleopReport,
    TeleopState,
)
from piper_collect.core.topics import TopicMonitor
from piper_collect.msg import (
    ArmStatus,
    HapticPulse,
    QuestInput,
    RecorderStatus,
    SessionStatus,
    TeleopStatus,
    TopicStatus,
)
from piper_collect.msg import QuestController as QuestControllerMsg

QUEST_FRAME = "quest_local_floor"
_NS = 1_000_000_000

_POWERS: dict[int, MotorPower] = {
    ArmStatus.POWER_UNKNOWN: "unknown",
    ArmStatus.POWER_OFF: "off",
    ArmStatus.POWER_ON: "on",
}
_RECORDER_STATES: dict[int, RecorderState] = {
    RecorderStatus.STATE_WAITING: "waiting",
    RecorderStatus.STATE_READY: "ready",
    RecorderStatus.STATE_RECORDING: "recording",
    RecorderStatus.STATE_SAVING: "saving",
    RecorderStatus.STATE_FAULT: "fault",
}
_TELEOP_STATES: dict[int, TeleopState] = {
    TeleopStatus.STATE_WAITING: "waiting",
    TeleopStatus.STATE_HOLDING: "holding",
    TeleopStatus.STATE_FOLLOWING: "following",
    TeleopStatus.STATE_HOMING: "homing",
}
_SESSION_STATES: dict[int, SessionState] = {
    SessionStatus.STATE_NOT_READY: "not_ready",
    SessionStatus.STATE_READY: "ready",
    SessionStatus.STATE_RECORDING: "recording",
    SessionStatus.STATE_SAVING: "saving",
    SessionStatus.STATE_HOMING: "homing",
    SessionStatus.STATE_FAULT: "fault",
}


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


def pose7_of(pose: Pose) -> tuple[float, ...]:
    """The inverse of ``pose_msg``."""
    p, q = pose.position, pose.orientation
    return (p.x, p.y, p.z, q.w, q.x, q.y, q.z)


def position_and_xyzw(pose: Pose) -> tuple[tuple[float, float, float], tuple[float, float, float, float]]:
    """A Pose as position (m) and quaternion in its own order (x, y, z, w)."""
    p, q = pose.position, pose.orientation
    return (p.x, p.y, p.z), (q.x, q.y, q.z, q.w)


def topic_status_msg(
    monitor: TopicMonitor, now_ns: int, wall_ns: int, fresh_ns: int, *, running: bool
) -> TopicStatus:
    """What the recorder's status says of one topic; counts are those of the episode that is ``running``.

    What spoiled that episode stays told when it is over. ``now_ns`` is by the clock that arrivals are counted
    by, ``wall_ns`` by that of the stamps.
    """
    return TopicStatus(
        name=monitor.name,
        type=monitor.type,
        required=monitor.required,
        messages=monitor.messages if running else 0,
        rate_hz=monitor.rate_hz(now_ns),
        age_s=monitor.age_s(now_ns, wall_ns),
        lost=monitor.lost if running else 0,
        reason=monitor.advice(now_ns, fresh_ns) or ("; ".join(monitor.flaws) if running else ""),
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


def recorder_report(status: RecorderStatus, heard_ns: int) -> RecorderReport:
    """What the recorder said, as the session's status is made of it."""
    elapsed_ns = status.elapsed.sec * _NS + status.elapsed.nanosec
    return RecorderReport(
        heard_ns=heard_ns,
        state=_RECORDER_STATES.get(status.state, "fault"),
        episode_index=status.episode_index,
        start_ns=heard_ns - elapsed_ns if elapsed_ns else 0,
        saved=status.episodes_saved,
        task=status.task,
        message=status.message,
    )


def topic_reports(status: RecorderStatus) -> tuple[TopicReport, ...]:
    """What the recorder said of its topics."""
    return tuple(
        TopicReport(
            name=topic.name,
            required=topic.required,
            rate_hz=topic.rate_hz,
            age_s=topic.age_s,
            lost=topic.lost,
            reason=topic.reason,
        )
        for topic in status.topics
    )


def arm_report(status: ArmStatus, heard_ns: int) -> ArmReport:
    """What the arm said of itself."""
    return ArmReport(
        heard_ns=heard_ns,
        power=_POWERS.get(status.power, "unknown"),
        error_code=status.error_code,
        faults=tuple(status.faults),
    )


def power_code(power: MotorPower) -> int:
    """The constant of ArmStatus."""
    return next(code for code, word in _POWERS.items() if word == power)


def teleop_report(status: TeleopStatus, heard_ns: int) -> TeleopReport:
    """What teleoperation said."""
    return TeleopReport(
        heard_ns=heard_ns,
        state=_TELEOP_STATES.get(status.state, "waiting"),
        text=status.text,
        fault=status.fault,
    )


def teleop_status_msg(report: TeleopReport) -> TeleopStatus:
    """The inverse of ``teleop_report``; ``heard_ns`` is the stamp."""
    states = {word: number for number, word in _TELEOP_STATES.items()}
    status = TeleopStatus(state=states[report.state], text=report.text, fault=report.fault)
    status.header.stamp = stamp_msg(report.heard_ns)
    return status


def session_status_msg(view: SessionView, now_ns: int, steady_ns: int) -> SessionStatus:
    """The state of the session as the operator sees it, as a message.

    Args:
        view: The state.
        now_ns: Now, for the stamps.
        steady_ns: Now by the clock of the view's ``start_ns``.
    """
    start_ns = now_ns - (steady_ns - view.start_ns) if view.start_ns else 0
    states = {word: number for number, word in _SESSION_STATES.items()}
    status = SessionStatus(
        state=states[view.state],
        episode_index=view.episode_index,
        episode_start=stamp_msg(start_ns),
        episodes_saved=view.saved,
        task=view.task,
        text=view.text,
        teleop=view.teleop,
        faults=list(view.faults),
    )
    status.header.stamp = stamp_msg(now_ns)
    return status


def session_view_of(status: SessionStatus, heard_ns: int) -> SessionView:
    """The inverse of ``session_status_msg``, but that ``start_ns`` is by the clock of ``heard_ns``.

    The stamp and the start in the message are by one clock: their difference is the length so far.
    """
    start_ns = stamp_ns(status.episode_start)
    return SessionView(
        state=_SESSION_STATES.get(status.state, "fault"),
        episode_index=status.episode_index,
        start_ns=heard_ns - (stamp_ns(status.header.stamp) - start_ns) if start_ns else 0,
        saved=status.episodes_saved,
        task=status.task,
        text=status.text,
        teleop=status.teleop,
        faults=tuple(status.faults),
    )


def pulse_msg(pulse: Pulse, now_ns: int) -> HapticPulse:
    """One pulse as a message."""
    message = HapticPulse(
        hand=HapticPulse.HAND_LEFT if pulse.hand == "left" else HapticPulse.HAND_RIGHT,
        intensity=pulse.intensity,
        duration_s=pulse.duration_s,
    )
    message.header.stamp = stamp_msg(now_ns)
    return message


def pulse_of(message: HapticPulse) -> Pulse:
    """The inverse of ``pulse_msg``."""
    return Pulse(
        hand="left" if message.hand == HapticPulse.HAND_LEFT else "right",
        intensity=message.intensity,
        duration_s=message.duration_s,
    )
