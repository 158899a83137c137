"""A simulated Piper: moves only when commanded, with a lag; says what it measures at the control rate."""

from geometry_msgs.msg import Pose, PoseStamped
from rclpy.publisher import Publisher
from sensor_msgs.msg import JointState

from piper_collect.config.names import arm_topics
from piper_collect.core.arm_sim import SimArm, SimArmState, sim_arm_step
from piper_collect.core.kinematics import GRIPPER_WIDTH_M, JOINT_NAMES, WORKING_POSE_RAD, PiperKinematics
from piper_collect.errors import KinematicsError
from piper_collect.msg import ArmStatus
from piper_collect.nodes.company import several
from piper_collect.nodes.convert import joint_state_msg, joints_and_width, pose_msg, stamp_msg
from piper_collect.nodes.qos import STREAM_QOS
from piper_collect.nodes.runtime import SessionNode, run_node
from piper_collect.nodes.truth_log import TruthLog

STATUS_S = 0.1
TELL_S = 5.0


class ArmSimNode(SessionNode):
    """Speaks our topic names, or those of piper_ros by preset (its piper_msgs topics excepted)."""

    def __init__(self) -> None:
        super().__init__("arm_sim")
        self._period_s = 1.0 / self.config.session.control_rate_hz
        self._arm = SimArm(tau_s=self.config.sim.lag_s)
        self._state = SimArmState(q=WORKING_POSE_RAD, width_m=GRIPPER_WIDTH_M[1])
        self._kinematics = PiperKinematics(self.config.arm.dh_offset)
        self._command: tuple[tuple[float, ...], float] | None = None
        self._tick_ns = 0
        self._truth: TruthLog | None = None
        topics = arm_topics(self.config.arm.preset)
        self._joint_states = self.create_publisher(JointState, topics.joint_states, STREAM_QOS)
        self._flange_pose = self.create_publisher(PoseStamped, topics.flange_pose, STREAM_QOS)
        self._echo = self._optional(JointState, topics.command_echo)
        self._twin = self._optional(JointState, topics.joint_states_twin)
        self._bare_pose = self._optional(Pose, topics.bare_pose)
        self._status = self.create_publisher(ArmStatus, "arm/status", STREAM_QOS)
        self._command_topic = topics.joint_command
        self.create_subscription(JointState, self._command_topic, self._take_command, STREAM_QOS)

    def _optional(self, message: type, topic: str) -> Publisher | None:
        return self.create_publisher(message, topic, STREAM_QOS) if topic else None

    def start(self) -> None:
        """Open the truth log and let time pass."""
        self._truth = TruthLog(self.config.sim.truth_dir, "joints", ("stamp_ns", *JOINT_NAMES, "width_m"))
        self.create_timer(self._period_s, self._tick)
        self.create_timer(STATUS_S, self._publish_status)

    def stop(self) -> bool:
        """Close the truth log."""
        if self._truth is not None:
            self._truth.close()
        return True

    def _take_command(self, message: JointState) -> None:
        command = joints_and_width(message)
        if command is None:
            self.get_logger().warning(
                f"command ignored: it names {list(message.name)}, not all six joints and the gripper",
                throttle_duration_sec=TELL_S,
            )
            return
        if refusal := several(self, self._command_topic):
            self._command = None  # it stays where it is
            self.get_logger().error(refusal, throttle_duration_sec=TELL_S)
            return
        self._command = command

    def _tick(self) -> None:
        now_ns, steady_ns = self.now_ns(), self.steady_ns()
        dt_s = (steady_ns - self._tick_ns) / 1e9 if self._tick_ns else 0.0
        self._tick_ns = steady_ns
        joints, width = self._command or (None, None)
        try:
            self._state = sim_arm_step(self._arm, self._state, joints, width, dt_s)
        except KinematicsError as err:
            self._command = None
            self.get_logger().error(f"command ignored: {err}")
        self._publish(now_ns)

    def _publish(self, now_ns: int) -> None:
        state = self._state
        self._truth.write(now_ns, *state.q, state.width_m)
        measured = joint_state_msg(now_ns, state.q, state.width_m)
        # piper_ros gives the six joints' velocities only
        measured.velocity = [*state.qdot] if self.config.arm.preset == "piper_ros" else [*state.qdot, 0.0]
        self._joint_states.publish(measured)
        pose = PoseStamped(pose=pose_msg(self._kinematics.forward_scalar(state.q)))
        pose.header.stamp = measured.header.stamp
        pose.header.frame_id = self.config.arm.base_frame
        self._flange_pose.publish(pose)
        if self._twin is not None:
            self._twin.publish(measured)
        if self._bare_pose is not None:
            self._bare_pose.publish(pose.pose)
        if self._echo is not None and self._command is not None:
            self._echo.publish(joint_state_msg(now_ns, *self._command))

    def _publish_status(self) -> None:
        status = ArmStatus(
            model=self.config.arm.model,
            power=ArmStatus.POWER_ON,
            control_mode=ArmStatus.CONTROL_POSITION,
            firmware=self.config.sim.firmware,
        )
        status.header.stamp = stamp_msg(self.now_ns())
        self._status.publish(status)


def main(arguments: list[str] | None = None) -> int:
    """Run the simulated arm until it is told to stop."""
    return run_node(ArmSimNode, arguments)
