"""From the headset to the arm: clutch, motion layer, one target a control tick."""

import time
from dataclasses import replace

from geometry_msgs.msg import PoseStamped
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger

from piper_collect.config.motion import motion_config
from piper_collect.config.names import ARM_STATUS_TOPIC, QUEST_INPUT_TOPIC, arm_topics
from piper_collect.core.clutch import AGAIN, ClutchConfig, ClutchState, clutch_steps
from piper_collect.core.motion import (
    MotionResult,
    MotionState,
    motion_step,
    start_home,
    start_motion,
    stop_motion,
)
from piper_collect.core.quest import QuestSample
from piper_collect.core.sent_age import SentAge
from piper_collect.core.session_status import TeleopReport, TeleopState, arm_faults
from piper_collect.core.tether import agree, tether, under_way
from piper_collect.errors import PiperCollectError
from piper_collect.msg import ArmStatus, QuestInput, TeleopStatus, TeleopTarget
from piper_collect.nodes.company import several
from piper_collect.nodes.convert import (
    arm_report,
    joint_state_msg,
    joints_and_width,
    pose_msg,
    quest_sample,
    stamp_msg,
    stamp_ns,
    teleop_status_msg,
)
from piper_collect.nodes.qos import LATCHED_QOS, LATEST_QOS, STREAM_QOS
from piper_collect.nodes.runtime import SessionNode, run_node

ARM_STALE_S = 0.5
# a clamp that lasts shorter is the step from one headset sample to the next, not worth a line
LIMITED_TICKS = 40
ARM_SILENT = "the arm's joint states are silent"
ARM_WAS_SILENT = "the arm's joint states were silent"
ARM_FAULT = "the arm reports a fault: holding"
NO_ARM = "waiting for the arm to report its joints"
MOVING_HOME = "moving home"
OTHER_DRIVER = "another node drives the arm: end it first"
STATUS_S = 0.2


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
        self._motion_config = motion_config(self.config)
        self._clutch = ClutchState()
        self._motion: MotionState | None = None
        self._samples: list[QuestSample] = []
        self._heard_q: tuple[float, ...] = ()
        self._measured_q: tuple[float, ...] = ()
        self._arm_faults: tuple[str, ...] = ()
        self._arm_seen_ns = 0
        self._ages = SentAge(self.now_ns, time.monotonic_ns)
        self._stamp_ns = 0
        self._tick_ns = 0
        self._told = ""
        self._given_up = ""
        self._unusable = ""
        self._status_shown = TeleopReport(heard_ns=0, state="waiting")
        self._shown_ns = 0
        self._limited_ticks = 0
        self._alone = True
        topics = arm_topics(self.config.arm.preset)
        # every sample counts: the clutch believes no move that is too far from one to the next
        self.create_subscription(QuestInput, QUEST_INPUT_TOPIC, self._take_input, STREAM_QOS)
        self.create_subscription(JointState, topics.joint_states, self._take_joints, LATEST_QOS)
        self.create_subscription(ArmStatus, ARM_STATUS_TOPIC, self._take_status, STREAM_QOS)
        self._target = self.create_publisher(TeleopTarget, "teleop/target", STREAM_QOS)
        self._twin = self.create_publisher(PoseStamped, "teleop/target_pose", STREAM_QOS)
        self._command = self.create_publisher(JointState, topics.joint_command, STREAM_QOS)
        self._status = self.create_publisher(TeleopStatus, "teleop/status", LATCHED_QOS)
        self.create_service(Trigger, "arm/home", self._home)
        self._command_topic = topics.joint_command
        self.create_timer(self._period_s, self._tick)
        self.create_timer(STATUS_S, self._look_around)

    def _take_input(self, message: QuestInput) -> None:
        if self._alone and not several(self, QUEST_INPUT_TOPIC):
            sample = quest_sample(message)
            # the clutch counts how old each is, and how long there was none: by a clock that nobody sets
            self._samples.append(replace(sample, stamp_ns=self._ages.steady_ns(sample.stamp_ns)))

    def _take_joints(self, message: JointState) -> None:
        measured = joints_and_width(message)
        if measured is None or not self._alone or self._is_repeated(message):
            return
        before_q, self._heard_q = self._heard_q, measured[0]
        if not agree(self._motion_config, before_q, self._heard_q):
            return
        if self._motion is None or self._arm_is_silent():
            self._give_up(ARM_WAS_SILENT)
            self._start_from(measured)
        self._arm_seen_ns, self._measured_q = self.steady_ns(), measured[0]

    def _is_repeated(self, message: JointState) -> bool:
        """Whether it is one that was heard before: some drivers go on sending the last there was."""
        before_ns, self._stamp_ns = self._stamp_ns, stamp_ns(message.header.stamp)
        return self._stamp_ns != 0 and self._stamp_ns == before_ns

    def _take_status(self, message: ArmStatus) -> None:
        """An arm that begins to fail is not led on, and one that has recovered goes on from where it is."""
        before, self._arm_faults = self._arm_faults, arm_faults(arm_report(message, self.steady_ns()))
        if self._motion is None or self._arm_faults == before:
            return
        self._give_up("; ".join(self._arm_faults) or f"the arm has recovered from: {'; '.join(before)}")
        if not self._arm_faults:
            self._motion = None
        elif self._motion.engaged or self._motion.mode == "home":
            self._motion = stop_motion(self._motion, ARM_FAULT)

    def _look_around(self) -> None:
        """Nothing is commanded while another node commands or sends a hand; then it starts at the arm."""
        refusal = OTHER_DRIVER if self.count_publishers(self._command_topic) > 1 else ""
        refusal = refusal or several(self, QUEST_INPUT_TOPIC)
        self._alone = not refusal
        if refusal:
            self._give_up(refusal)
            self._motion, self._unusable = None, refusal
            self._samples.clear()
            self._tell(refusal)

    def _give_up(self, reason: str) -> None:
        """Say that the motion which is under way, if there is one, ends here.

        The status shows it until the arm is moved again: what ends the motion may be over by the next tick.
        """
        if what := under_way(self._motion):
            self._given_up = f"{what} given up: {reason}"
            self.get_logger().warning(self._given_up)

    def _start_from(self, measured: tuple[tuple[float, ...], float]) -> None:
        """Command what is measured: at the start, and after a silence, when the arm may stand elsewhere."""
        try:
            self._motion = replace(start_motion(self._motion_config, *measured), needs_release=True)
            self._unusable = ""
        except PiperCollectError as err:
            self._motion = None
            self._unusable = str(err)
            self._tell(self._unusable)

    def _arm_is_silent(self) -> bool:
        """By a clock that nobody sets."""
        return self.steady_ns() - self._arm_seen_ns > ARM_STALE_S * 1e9

    def _tick(self) -> None:
        self._ages.look()
        now_ns, steady_ns = self.now_ns(), self.steady_ns()
        dt_s = (steady_ns - self._tick_ns) / 1e9 if self._tick_ns else self._period_s
        self._tick_ns = steady_ns
        samples, self._samples = self._samples, []
        if self._motion is None:
            self._report(now_ns, "waiting", self._given_up or NO_ARM, self._unusable)
            return
        at, width_m = self._motion.pose_cmd, self._motion.width_cmd
        self._clutch, goal = clutch_steps(self._clutch_config, self._clutch, samples, steady_ns, at, width_m)
        silent = self._arm_is_silent()
        if silent:
            self._give_up(ARM_WAS_SILENT)
            self._motion = stop_motion(self._motion, ARM_SILENT)
        else:
            self._motion = tether(self._motion_config, self._motion, self._measured_q)
        self._motion, result = motion_step(self._motion_config, self._motion, goal, dt_s)
        moving = goal.engaged and not self._motion.needs_release
        if moving:
            self._given_up = ""
        self._publish(now_ns, result, engaged=moving)
        if not silent:
            self._command.publish(joint_state_msg(now_ns, result.q_cmd, result.width_m))
        self._limited_ticks = self._limited_ticks + 1 if result.limited else 0
        limited = ", ".join(result.limited) if self._limited_ticks > LIMITED_TICKS else ""
        fault = ARM_SILENT if silent else self._motion.fault
        self._tell(fault or limited or goal.reason)
        if self._motion.mode == "home":
            self._report(now_ns, "homing", MOVING_HOME, fault)
            return
        again = AGAIN if goal.engaged and not moving else ""
        text = (self._given_up + again).removeprefix("; ") or limited or goal.reason
        self._report(now_ns, "following" if moving else "holding", text, fault)

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
        if self._arm_is_silent():
            response.message = f"homing refused: {ARM_SILENT}"
            return response
        try:
            self._motion = start_home(self._motion_config, self._motion)
        except PiperCollectError as err:
            response.message = str(err)
            return response
        self._given_up = ""
        response.success = True
        response.message = MOVING_HOME
        return response

    def _report(self, now_ns: int, state: TeleopState, text: str, fault: str) -> None:
        report = TeleopReport(heard_ns=now_ns, state=state, text=text, fault=fault)
        shown, steady_ns = self._status_shown, self.steady_ns()
        if replace(report, heard_ns=shown.heard_ns) != shown or steady_ns - self._shown_ns >= STATUS_S * 1e9:
            self._status_shown, self._shown_ns = report, steady_ns
            self._status.publish(teleop_status_msg(report))

    def _tell(self, text: str) -> None:
        if text != self._told:
            self._told = text
            self.get_logger().info(text or "ready")


def main(arguments: list[str] | None = None) -> int:
    """Run teleoperation until it is told to stop."""
    return run_node(TeleopNode, arguments)
