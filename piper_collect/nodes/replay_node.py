"""Moves the arm as a recorded episode says: slowly to its first pose, then each target at its time.

``piper-collect replay`` starts it, and it ends with that program however that ends: the arm then holds.
"""

from dataclasses import replace
from pathlib import Path
from time import monotonic

from geometry_msgs.msg import PoseStamped
from sensor_msgs.msg import JointState

from piper_collect.config.names import ARM_STATUS_TOPIC, arm_topics
from piper_collect.core.motion import MotionResult
from piper_collect.core.replay import ReplayState, approach_s, begin_replay, replay_step, stop_replay
from piper_collect.core.replay_log import command_row
from piper_collect.core.session_status import ArmReport, TeleopReport, TeleopState, start_hindrance
from piper_collect.core.tether import agree
from piper_collect.errors import PiperCollectError
from piper_collect.msg import ArmStatus, TeleopStatus, TeleopTarget
from piper_collect.nodes.company import refuse_company
from piper_collect.nodes.convert import (
    arm_report,
    joint_state_msg,
    joints_and_width,
    pose_msg,
    stamp_msg,
    stamp_ns,
    teleop_status_msg,
)
from piper_collect.nodes.qos import LATCHED_QOS, STREAM_QOS
from piper_collect.nodes.runtime import SessionNode, run_node
from piper_collect.pipelines.replay_files import LogWriter, close_log, read_plan

ARM_SILENT_S = 0.5
WAIT_S = 30.0
"""For the arm to report its joints: a real one must be connected to and switched on first."""
STEADY_S = 1.0
"""So long it must have reported its joints without a gap: drivers fall silent while they switch motors on."""
STATUS_S = 0.2
INTERRUPTED = "interrupted"
EXIT_INTERRUPTED = 130

_STATES: dict[str, tuple[TeleopState, str]] = {
    "approach": ("homing", "moving to the first pose"),
    "settle": ("following", "standing at the first pose"),
    "replay": ("following", "replaying"),
    "finish": ("following", "standing at the last pose"),
    "done": ("holding", "replay done"),
    "stopped": ("holding", "replay stopped"),
}


class ReplayNode(SessionNode):
    """Publishes what teleoperation would, so that a replay can be watched and recorded as a session is."""

    def __init__(self) -> None:
        super().__init__("replay", extra_parameters=("plan", "log"))
        self._plan = read_plan(self.extra["plan"], self.config)
        self._state: ReplayState | None = None
        self._measured: tuple[tuple[float, ...], float] | None = None
        self._heard_q: tuple[float, ...] = ()
        self._measured_s = self._steady_s = 0.0
        self._stamp_ns = self._tick_ns = self._shown_ns = 0
        self._arm: ArmReport | None = None
        self._company = self._reason = ""
        self._told = ""
        self._shown = TeleopReport(heard_ns=0, state="waiting")
        self._log: LogWriter | None = None
        topics = arm_topics(self.config.arm.preset)
        self._joint_topic = self.resolve_topic_name(topics.joint_states)
        self._command_topic = self.resolve_topic_name(topics.joint_command)
        self.create_subscription(JointState, topics.joint_states, self._take_joints, STREAM_QOS)
        self.create_subscription(ArmStatus, ARM_STATUS_TOPIC, self._take_status, STREAM_QOS)
        self._target = self.create_publisher(TeleopTarget, "teleop/target", STREAM_QOS)
        self._twin = self.create_publisher(PoseStamped, "teleop/target_pose", STREAM_QOS)
        self._command = self.create_publisher(JointState, topics.joint_command, STREAM_QOS)
        self._status = self.create_publisher(TeleopStatus, "teleop/status", LATCHED_QOS)
        refuse_company(self, topics.joint_command)

    def start(self) -> None:
        """Open the log and wait for the arm."""
        self._log = LogWriter(Path(self.extra["log"]))
        self._started_s = monotonic()
        self.create_timer(self._plan.motion.control_period_s, self._tick)
        self.create_timer(STATUS_S, self._look_around)

    def stop(self) -> bool:
        """Stop moving, and say how it ended."""
        if not self.finished:
            self._end(INTERRUPTED, EXIT_INTERRUPTED)
        if self._log is not None:
            close_log(self._log, self._state, self._reason)
            self._log = None
        return True

    def _take_joints(self, message: JointState) -> None:
        measured = joints_and_width(message)
        if measured is None or self._log is None:
            return
        before_ns, self._stamp_ns = self._stamp_ns, stamp_ns(message.header.stamp)
        if self._stamp_ns:
            if self._stamp_ns == before_ns:  # some drivers go on sending the last there was
                return
            self._log.measured((self._stamp_ns, *measured[0], measured[1]))
        before_q, self._heard_q = self._heard_q, measured[0]
        if agree(self._plan.motion, before_q, self._heard_q):
            if self._measured is None or self._is_silent():
                self._steady_s = monotonic()
            self._measured, self._measured_s = measured, monotonic()

    def _take_status(self, message: ArmStatus) -> None:
        self._arm = arm_report(message, self.steady_ns())

    def _tick(self) -> None:
        if self.finished:
            return
        now_ns, steady_ns = self.now_ns(), self.steady_ns()
        dt_s = (steady_ns - self._tick_ns) / 1e9 if self._tick_ns else 0.0
        self._tick_ns = steady_ns
        fault = self._fault(steady_ns)
        if self._state is None:
            self._wait(now_ns, fault)
            return
        self._state, result = replay_step(self._plan, self._state, self._measured[0], fault, dt_s)
        self._publish(now_ns, result)
        if self._state.phase == "done":
            self._end("", 0)
        elif self._state.phase == "stopped":
            self._end(self._state.reason, 1)

    def _wait(self, now_ns: int, fault: str) -> None:
        """Begin where the arm is, once it keeps saying where, and nothing is wrong with it."""
        if self._company:
            self._end(self._company, 1)
            return
        if self._measured is None or self._is_silent():
            self._report(now_ns, "waiting", "waiting for the arm to report its joints")
            if monotonic() - self._started_s > WAIT_S:
                self._end(f"{self._joint_topic}: the arm has not reported its joints in {WAIT_S:g} s", 1)
            return
        if monotonic() - self._steady_s < STEADY_S:
            return
        if fault:
            self._end(fault, 1)
            return
        try:
            self._state = begin_replay(self._plan, *self._measured)
        except PiperCollectError as err:
            self._end(str(err), 1)
            return
        seconds = approach_s(self._plan, self._measured[0])
        self.get_logger().info(f"moving to the first pose, {seconds:.1f} s")

    def _fault(self, steady_ns: int) -> str:
        """Why the arm must not move; empty if it may."""
        if self._is_silent():
            return f"the arm's joint states are silent for {ARM_SILENT_S:g} s"
        return self._company or start_hindrance(None, self._arm, None, steady_ns)

    def _look_around(self) -> None:
        if self.count_publishers(self._command_topic) > 1:
            self._company = f"{self._command_topic}: another node has begun to drive the arm"
        elif self.count_publishers(self._joint_topic) > 1:
            self._company = f"{self._joint_topic}: two arms report their joints here"

    def _is_silent(self) -> bool:
        """By a clock that nobody sets."""
        return self._measured is not None and monotonic() - self._measured_s > ARM_SILENT_S

    def _publish(self, now_ns: int, result: MotionResult) -> None:
        state = self._state
        target = TeleopTarget(
            flange_pose=pose_msg(result.pose7), gripper_width=result.width_m, engaged=state.phase == "replay"
        )
        target.header.stamp = stamp_msg(now_ns)
        target.header.frame_id = self.config.arm.base_frame
        self._target.publish(target)
        self._twin.publish(PoseStamped(header=target.header, pose=target.flange_pose))
        if not self._is_silent():
            self._command.publish(joint_state_msg(now_ns, result.q_cmd, result.width_m))
        self._log.command(command_row(now_ns, state, result))
        self._report(now_ns, *_STATES[state.phase], state.reason)

    def _report(self, now_ns: int, word: TeleopState, text: str, fault: str = "") -> None:
        if text != self._told:
            self._told = text
            self.get_logger().info(text)
        report = TeleopReport(heard_ns=now_ns, state=word, text=text, fault=fault)
        shown, steady_ns = self._shown, self.steady_ns()
        if replace(report, heard_ns=shown.heard_ns) != shown or steady_ns - self._shown_ns >= STATUS_S * 1e9:
            self._shown, self._shown_ns = report, steady_ns
            self._status.publish(teleop_status_msg(report))

    def _end(self, reason: str, exit_code: int) -> None:
        """End with the arm where its last command put it."""
        if self._state is not None and reason:
            self._state = stop_replay(self._state, reason)
        if reason and reason != INTERRUPTED:
            self.get_logger().error(reason)
        if self._state is not None or reason:
            self._report(self.now_ns(), *_STATES["stopped" if reason else "done"], reason)
        self._reason, self.exit_code, self.finished = reason, exit_code, True


def main(arguments: list[str] | None = None) -> int:
    """Replay until the end of the episode, or until told to stop."""
    return run_node(ReplayNode, arguments)
