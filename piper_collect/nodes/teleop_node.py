"""From the headset to the arm: clutch, motion layer, one target a control tick."""

from dataclasses import replace

from geometry_msgs.msg import PoseStamped
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger

from piper_collect.config.names import arm_topics
from piper_collect.core.clutch import ClutchConfig, ClutchState, clutch_step
from piper_collect.core.motion import (
    MotionConfig,
    MotionResult,
    MotionState,
    motion_step,
    start_home,
    start_motion,
    stop_motion,
)
from piper_collect.core.quest import QuestSample
from piper_collect.errors import PiperCollectError
from piper_collect.msg import QuestInput, TeleopTarget
from piper_collect.nodes.convert import joint_state_msg, joints_and_width, pose_msg, quest_sample, stamp_msg
from piper_collect.nodes.qos import LATEST_QOS, STREAM_QOS
from piper_collect.nodes.runtime import SessionNode, run_node

ARM_STALE_S = 0.5
# a clamp that lasts shorter is the step from one headset sample to the next, not worth a line
LIMITED_TICKS = 40
ARM_SILENT = "the arm's joint states are silent"


class TeleopNode(SessionNode):
    """Steps clutch and motion at the control rate; publishes the target also while it is held."""

    def __init__(self) -> None:
        super().__init__("teleop")
        settings = self.config.teleop
        self._period_s = 1.0 / self.config.session.control_rate_hz
        self._clutch_config = ClutchConfig(
            hand=settings.hand,
            scale=settings.scale,
            yaw_rad=settings.yaw_rad,
            gripper_inverted=settings.gripper_inverted,
            stale_s=settings.stale_s,
            jump_m=settings.jump_m,
            jump_rad=settings.jump_rad,
        )
        self._motion_config = MotionConfig(
            dh_offset=self.config.arm.dh_offset,
            workspace_min_m=settings.workspace_min_m,
            workspace_max_m=settings.workspace_max_m,
            max_linear_m_s=settings.max_linear_m_s,
            max_angular_rad_s=settings.max_angular_rad_s,
            max_gripper_m_s=settings.max_gripper_m_s,
            joint_speed_scale=settings.joint_speed_scale,
            home_speed_rad_s=settings.home_speed_rad_s,
            control_period_s=self._period_s,
        )
        self._clutch = ClutchState()
        self._motion: MotionState | None = None
        self._sample: QuestSample | None = None
        self._arm_seen_ns = 0
        self._tick_ns = 0
        self._told = ""
        self._limited_ticks = 0
        topics = arm_topics(self.config.arm.preset)
        self.create_subscription(QuestInput, "quest/input", self._take_input, STREAM_QOS)
        self.create_subscription(JointState, topics.joint_states, self._take_joints, LATEST_QOS)
        self._target = self.create_publisher(TeleopTarget, "teleop/target", STREAM_QOS)
        self._twin = self.create_publisher(PoseStamped, "teleop/target_pose", STREAM_QOS)
        self._command = self.create_publisher(JointState, topics.joint_command, STREAM_QOS)
        self.create_service(Trigger, "arm/home", self._home)
        self.create_timer(self._period_s, self._tick)

    def _take_input(self, message: QuestInput) -> None:
        self._sample = quest_sample(message)

    def _take_joints(self, message: JointState) -> None:
        measured = joints_and_width(message)
        if measured is None:
            return
        now_ns = self.now_ns()
        if self._motion is None or self._arm_is_silent(now_ns):
            self._start_from(measured)
        self._arm_seen_ns = now_ns

    def _start_from(self, measured: tuple[tuple[float, ...], float]) -> None:
        """Command what is measured: at the start, and after a silence, when the arm may stand elsewhere."""
        try:
            self._motion = replace(start_motion(self._motion_config, *measured), needs_release=True)
        except PiperCollectError as err:
            self._motion = None
            self._tell(str(err))

    def _arm_is_silent(self, now_ns: int) -> bool:
        return (now_ns - self._arm_seen_ns) / 1e9 > ARM_STALE_S

    def _tick(self) -> None:
        now_ns = self.now_ns()
        dt_s = (now_ns - self._tick_ns) / 1e9 if self._tick_ns else self._period_s
        self._tick_ns = now_ns
        if self._motion is None:
            return
        self._clutch, goal = clutch_step(
            self._clutch_config,
            self._clutch,
            self._sample,
            now_ns,
            self._motion.pose_cmd,
            self._motion.width_cmd,
        )
        silent = self._arm_is_silent(now_ns)
        if silent:
            self._motion = stop_motion(self._motion, ARM_SILENT)
        self._motion, result = motion_step(self._motion_config, self._motion, goal, dt_s)
        moving = goal.engaged and not self._motion.needs_release
        self._publish(now_ns, result, engaged=moving)
        if not silent:
            self._command.publish(joint_state_msg(now_ns, result.q_cmd, result.width_m))
        self._limited_ticks = self._limited_ticks + 1 if result.limited else 0
        limited = ", ".join(result.limited) if self._limited_ticks > LIMITED_TICKS else ""
        self._tell(ARM_SILENT if silent else self._motion.fault or limited or goal.reason)

    def _publish(self, now_ns: int, result: MotionResult, *, engaged: bool) -> None:
        target = TeleopTarget(
            flange_pose=pose_msg(result.pose7), gripper_width=result.width_m, engaged=engaged
        )
        target.header.stamp = stamp_msg(now_ns)
        target.header.frame_id = self.config.arm.base_frame
        self._target.publish(target)
        self._twin.publish(PoseStamped(header=target.header, pose=target.flange_pose))

    def _home(self, _request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        if self._motion is None:
            response.message = "homing refused: the arm has not reported its joints yet"
            return response
        if self._arm_is_silent(self.now_ns()):
            response.message = f"homing refused: {ARM_SILENT}"
            return response
        try:
            self._motion = start_home(self._motion_config, self._motion)
        except PiperCollectError as err:
            response.message = str(err)
            return response
        response.success = True
        response.message = "moving home"
        return response

    def _tell(self, text: str) -> None:
        if text != self._told:
            self._told = text
            self.get_logger().info(text or "ready")


def main(arguments: list[str] | None = None) -> int:
    """Run teleoperation until it is told to stop."""
    return run_node(TeleopNode, arguments)
