"""A Piper on its CAN bus: says what it measures as it comes, obeys joint commands through a guard."""

import math
import time
from collections import deque

from geometry_msgs.msg import PoseStamped
from sensor_msgs.msg import JointState

from piper_collect.config.names import ARM_STATUS_TOPIC, arm_topics
from piper_collect.core.host_clock import told_steps
from piper_collect.core.kinematics import PiperKinematics
from piper_collect.core.sent_age import AHEAD, SentAge, age_refusal
from piper_collect.devices.arm import ArmSnapshot
from piper_collect.devices.arm_control import ArmCondition
from piper_collect.devices.piper_setup import cautions, piper_control
from piper_collect.msg import ArmStatus
from piper_collect.nodes import signals
from piper_collect.nodes.company import several
from piper_collect.nodes.convert import (
    joint_state_msg,
    joints_and_width,
    pose_msg,
    power_code,
    stamp_msg,
    stamp_ns,
)
from piper_collect.nodes.qos import LATEST_QOS, STREAM_QOS
from piper_collect.nodes.runtime import SessionNode, run_node

STATUS_S = 0.1
TELL_S = 5.0
CONTROL_MODES = {
    "standby": ArmStatus.CONTROL_STANDBY,
    "position": ArmStatus.CONTROL_POSITION,
    "impedance": ArmStatus.CONTROL_IMPEDANCE,
    "teach": ArmStatus.CONTROL_TEACH,
    "unknown": ArmStatus.CONTROL_UNKNOWN,
}


class ArmCanNode(SessionNode):
    """Speaks our topic names, or those of piper_ros by preset (its piper_msgs topics excepted)."""

    def __init__(self) -> None:
        super().__init__("arm_can")
        self._control = piper_control(self.config)
        self._kinematics = PiperKinematics(self.config.arm.dh_offset)
        self._told: ArmCondition | None = None
        self._ages = SentAge(time.time_ns, time.monotonic_ns)
        topics = arm_topics(self.config.arm.preset)
        self._joint_states = self.create_publisher(JointState, topics.joint_states, STREAM_QOS)
        self._flange_pose = self.create_publisher(PoseStamped, topics.flange_pose, STREAM_QOS)
        self._status = self.create_publisher(ArmStatus, ARM_STATUS_TOPIC, STREAM_QOS)
        # only the newest command counts: a queue of old ones would be followed late
        self._command_topic = topics.joint_command
        self.create_subscription(JointState, self._command_topic, self._take_command, LATEST_QOS)
        # snapshots come in the driver's thread; the condition wakes this node's own
        self._waiting: deque[ArmSnapshot] = deque()
        self._arrived = self.create_guard_condition(self._publish_waiting)

    def start(self) -> None:
        """Connect to the arm, and take control of it where it stands."""
        if signals.stop_asked():
            return
        for caution in cautions(self.config):
            self.get_logger().warning(caution)
        self._control.start(self._take_snapshot, signals.stop_asked)
        firmware = self._control.firmware or "unknown: the arm does not report it"
        self.get_logger().info(f"connected to the arm on {self.config.can.channel}, firmware {firmware}")
        self.create_timer(1.0 / self.config.session.control_rate_hz, self._step)
        self.create_timer(STATUS_S, lambda: self._publish_status(self._control.condition()))

    def stop(self) -> bool:
        """Leave the arm holding itself, or switched off if so configured."""
        self._control.stop()
        return True

    def destroy_node(self) -> None:
        """Also after an error the arm is left holding itself."""
        self._control.stop()
        super().destroy_node()

    def _take_snapshot(self, snapshot: ArmSnapshot) -> None:
        self._waiting.append(snapshot)
        self._arrived.trigger()

    def _publish_waiting(self) -> None:
        while self._waiting:
            self._publish(self._waiting.popleft())

    def _publish(self, snapshot: ArmSnapshot) -> None:
        measured = joint_state_msg(snapshot.stamp_ns, snapshot.q, snapshot.width_m)
        if snapshot.qdot is not None and snapshot.effort_n_m is not None:
            measured.velocity = [*snapshot.qdot, math.nan]  # nobody measures the gripper's
            measured.effort = [*snapshot.effort_n_m, snapshot.gripper_effort_n_m]
        self._joint_states.publish(measured)
        pose = PoseStamped(pose=pose_msg(self._kinematics.forward_scalar(snapshot.q)))
        pose.header.stamp = measured.header.stamp
        pose.header.frame_id = self.config.arm.base_frame
        self._flange_pose.publish(pose)

    def _take_command(self, message: JointState) -> None:
        command = joints_and_width(message)
        if command is None:
            self.get_logger().warning(
                f"command ignored: it names {list(message.name)}, not all six joints and the gripper",
                throttle_duration_sec=TELL_S,
            )
            return
        if refusal := several(self, self._command_topic):
            self.get_logger().error(refusal, throttle_duration_sec=TELL_S)
            return  # without commands the arm is held
        age_ns = self._ages.age_ns(stamp_ns(message.header.stamp), self.now_ns())
        if age_refusal(age_ns, self.config.can.watchdog_s) == AHEAD:
            self.get_logger().error(f"command ignored: {AHEAD}", throttle_duration_sec=TELL_S)
            return
        self._control.command(*command, max(0.0, age_ns / 1e9))

    def _step(self) -> None:
        if step := self._ages.look():
            self.get_logger().warning(told_steps([step]))
        self._control.step()
        condition = self._control.condition()
        if condition != self._told:
            self._publish_status(condition)
            self._tell(condition)
            self._told = condition

    def _publish_status(self, condition: ArmCondition) -> None:
        status = ArmStatus(
            model=self.config.arm.model,
            power=power_code(condition.power),
            control_mode=CONTROL_MODES[condition.control],
            error_code=condition.error_code,
            faults=list(condition.faults),
            firmware=condition.firmware,
        )
        status.header.stamp = stamp_msg(self.now_ns())
        self._status.publish(status)

    def _tell(self, condition: ArmCondition) -> None:
        before = self._told.faults if self._told is not None else ()
        for fault in condition.faults:
            if fault not in before:
                self.get_logger().warning(fault)
        if before and not condition.faults:
            self.get_logger().info("no faults any more")


def main(arguments: list[str] | None = None) -> int:
    """Run the arm until told to stop."""
    return run_node(ArmCanNode, arguments)
