"""A real arm behind its vendor's node: what it says put right, what it is told checked once more."""

import time
from collections import Counter

from geometry_msgs.msg import Pose, PoseStamped
from rclpy.callback_groups import ReentrantCallbackGroup
from sensor_msgs.msg import JointState
from std_srvs.srv import SetBool

from piper_collect.config.bridge import vendor_names
from piper_collect.config.names import ARM_STATUS_TOPIC, arm_topics
from piper_collect.core.arm_report import ArmReport, fault_words
from piper_collect.core.host_clock import told_steps
from piper_collect.core.kinematics import PiperKinematics, Pose7
from piper_collect.core.sent_age import SentAge, age_refusal
from piper_collect.core.vendor_arm import (
    COMMANDED_FACTOR,
    REPEATED,
    REPORTED_FACTOR,
    ArmSample,
    JointFeedback,
)
from piper_collect.core.vendor_command import CommandRules, vendor_command
from piper_collect.core.vendor_pose import PoseFeedback, dh_verdict, pose_verdict
from piper_collect.errors import KinematicsError
from piper_collect.msg import ArmStatus
from piper_collect.nodes.company import several
from piper_collect.nodes.convert import (
    joint_state_msg,
    joints_and_width,
    pose_msg,
    position_and_xyzw,
    power_code,
    stamp_msg,
    stamp_ns,
)
from piper_collect.nodes.motor_switch import MotorSwitch
from piper_collect.nodes.qos import LATEST_QOS, STREAM_QOS
from piper_collect.nodes.runtime import SessionNode, run_node
from piper_collect.nodes.vendor_types import vendor_report, vendor_type

STATUS_S = 0.1
STATUS_STALE_S = 1.0
CHECK_S = 1.0
TOLD_S = 5.0
AT_REST_RAD = 1e-3
TOGETHER_NS = 20_000_000
SWITCHING = "the motors are being switched"


class ArmBridgeNode(SessionNode):
    """Speaks our names to the session and the vendor's to the arm."""

    def __init__(self) -> None:
        super().__init__("arm_bridge")
        settings, arm = self.config.bridge, self.config.arm
        self._settings = settings
        self._names = vendor_names(settings)
        corrected = settings.corrects_degrees
        self._feedback = JointFeedback(
            joint_factor=REPORTED_FACTOR if corrected else 1.0, width_factor=settings.gripper_factor
        )
        # agx_arm_ros and forks of piper_ros name no frame; for a comparison that is good enough
        unnamed = arm.allow_empty_frame or settings.flange_pose == "kinematics"
        self._poses = PoseFeedback([arm.base_frame, *([""] if unnamed else [])])
        self._rules = CommandRules(
            joint_factor=COMMANDED_FACTOR if corrected else 1.0,
            width_multiple=settings.gripper_multiple,
            max_width_m=settings.gripper_max_m,
            max_step_rad=settings.max_step_rad,
            speed_percent=settings.speed_percent if settings.vendor == "piper_ros" else None,
            effort_n_m=settings.gripper_effort_n_m,
        )
        self._kinematics = PiperKinematics(arm.dh_offset)
        self._sample: ArmSample | None = None
        self._heard_ns = 0
        self._pose: tuple[int, Pose7] | None = None
        self._checked: ArmSample | None = None
        self._verdict = ""
        self._command: tuple[tuple[float, ...], float] | None = None
        self._commanded_ns = 0
        self._command_age_ns = 0
        self._ages = SentAge(time.time_ns, time.monotonic_ns)
        self._refusal = ""
        self._vendor: ArmReport | None = None
        self._vendor_ns = 0
        self._told: dict[str, int] = {}
        self._withheld: Counter[str] = Counter()
        self._said: tuple[object, ...] | None = None
        self._switch = MotorSwitch(self, settings)
        self._asked_at_start = False
        self._publish_ours()
        self._listen()

    def _publish_ours(self) -> None:
        ours = arm_topics("piper_collect")
        self._joint_states = self.create_publisher(JointState, ours.joint_states, STREAM_QOS)
        self._flange_pose = self.create_publisher(PoseStamped, ours.flange_pose, STREAM_QOS)
        self._status = self.create_publisher(ArmStatus, ARM_STATUS_TOPIC, STREAM_QOS)
        self._command_topic = ours.joint_command
        self.create_subscription(JointState, ours.joint_command, self._take_command, LATEST_QOS)
        # in a group of its own: the answer takes seconds, and everything else goes on
        self.create_service(SetBool, "arm/enable", self._enable, callback_group=ReentrantCallbackGroup())

    def _listen(self) -> None:
        names = self._names
        self._vendor_topic = names.joint_command
        self._to_arm = self.create_publisher(JointState, names.joint_command, LATEST_QOS)
        self.create_subscription(JointState, names.joint_states, self._take_joints, STREAM_QOS)
        if self._settings.flange_pose == "vendor_unstamped":
            self.create_subscription(Pose, names.end_pose_unstamped, self._take_bare_pose, STREAM_QOS)
        else:
            self.create_subscription(PoseStamped, names.end_pose, self._take_pose, STREAM_QOS)
        self._status_type = vendor_type("msg", names.status_type)
        if self._status_type is not None:
            self.create_subscription(self._status_type, names.arm_status, self._take_status, STREAM_QOS)

    def start(self) -> None:
        """Say what is missing here, and begin."""
        log, names = self.get_logger(), self._names
        log.info(f"waiting for {self._settings.vendor} on {self._to_arm.topic_name} and {names.joint_states}")
        if self._status_type is None:
            log.warning(
                f"{names.status_type.partition('/')[0]} is not installed here: the arm's status is unknown,"
                " whether the motors are on too; the bridge runs on the joint states alone"
            )
        elif self._switch.missing:
            log.warning(f"the motors cannot be switched from here: {self._switch.missing}")
        if self._settings.flange_pose == "vendor_unstamped":
            log.warning(f"{names.end_pose_unstamped} has no stamp: poses are stamped when they arrive")
        if self._status_type is not None:
            log.info(f"{names.arm_status} has no stamp: arm/status is stamped when it arrives")
        self.create_timer(1.0 / self._settings.command_rate_hz, self._tick)
        self.create_timer(STATUS_S, self._publish_status)
        self.create_timer(CHECK_S, self._check_kinematics)

    def stop(self) -> bool:
        """Say what was left out; nothing is sent any more, and the arm holds its last target."""
        for what, counts in (
            ("joint states", self._feedback.dropped + self._withheld),
            ("end poses", self._poses.dropped),
        ):
            if counts:
                parts = ", ".join(f"{count} because {reason}" for reason, count in sorted(counts.items()))
                self.get_logger().info(f"{what} left out: {parts}")
        return True

    # -- from the arm --------------------------------------------------------------------------

    def _take_joints(self, message: JointState) -> None:
        now_ns = time.monotonic_ns()
        sample = self._feedback.take(
            names=message.name,
            position=message.position,
            velocity=message.velocity,
            effort=message.effort,
            stamp_ns=stamp_ns(message.header.stamp),
        )
        if isinstance(sample, str):
            if sample != REPEATED:
                self._tell(sample, f"joint states left out: {sample} (named {', '.join(message.name)})")
            return
        was_silent = (now_ns - self._heard_ns) / 1e9 > STATUS_STALE_S
        self._sample, self._heard_ns = sample, now_ns
        if was_silent:
            self._publish_status(changed=True)  # what is over shall not be taken for a fault any longer
        said = self._switch.measured(sample, now_ns)
        if said:
            self.get_logger().info(said)
        if self._switch.busy:
            self._withheld[SWITCHING] += 1  # nobody shall start from a gripper that is on its way
            return
        self._publish(sample)
        if self._settings.enable_on_start and not self._asked_at_start and self._switch.ready:
            self._asked_at_start = True
            answer = self._switch.ask(True, sample.width_m, now_ns)
            answer.add_done_callback(lambda future: self.get_logger().info(future.result()[1]))

    def _publish(self, sample: ArmSample) -> None:
        measured = joint_state_msg(sample.stamp_ns, sample.q, sample.width_m)
        measured.velocity, measured.effort = list(sample.velocity), list(sample.effort)
        self._joint_states.publish(measured)
        if self._settings.flange_pose == "kinematics":
            self._publish_pose(sample.stamp_ns, self._kinematics.forward_scalar(sample.q))

    def _publish_pose(self, at_ns: int, pose7: Pose7) -> None:
        pose = PoseStamped(pose=pose_msg(pose7))
        pose.header.stamp = stamp_msg(at_ns)
        pose.header.frame_id = self.config.arm.base_frame
        self._flange_pose.publish(pose)

    def _take_pose(self, message: PoseStamped) -> None:
        self._take_vendor_pose(message.pose, message.header.frame_id, stamp_ns(message.header.stamp))

    def _take_bare_pose(self, message: Pose) -> None:
        self._take_vendor_pose(message, self.config.arm.base_frame, self.now_ns())

    def _take_vendor_pose(self, message: Pose, frame_id: str, at_ns: int) -> None:
        pose = self._poses.take(*position_and_xyzw(message), frame_id=frame_id, stamp_ns=at_ns)
        used = self._settings.flange_pose != "kinematics"
        if isinstance(pose, str):
            if used and pose != REPEATED:
                self._tell(pose, f"end poses left out: {pose} (frame {frame_id!r})")
            return
        self._pose = (at_ns, pose)
        if used:
            self._publish_pose(at_ns, pose)

    def _take_status(self, message: object) -> None:
        self._vendor, self._vendor_ns = vendor_report(message), time.monotonic_ns()
        self._publish_status(changed=True)

    def _check_kinematics(self) -> None:
        """Hold the arm's own end pose against ours while it is at rest."""
        before, self._checked = self._checked, self._sample
        now = self._sample
        if before is None or now is None or self._pose is None or now is before:
            return
        at_rest = max(abs(a - b) for a, b in zip(before.q, now.q, strict=True)) < AT_REST_RAD
        stamped = self._settings.flange_pose != "vendor_unstamped"
        if not at_rest or (stamped and abs(self._pose[0] - now.stamp_ns) > TOGETHER_NS):
            return
        pose7, used = self._pose[1], self._settings.flange_pose != "kinematics"
        verdict = dh_verdict(now.q, pose7, self.config.arm.dh_offset)
        verdict = verdict or (pose_verdict(now.q, pose7) if used else "")
        if verdict and verdict != self._verdict:
            self.get_logger().error(verdict)
        self._verdict = verdict

    # -- to the arm ----------------------------------------------------------------------------

    def _take_command(self, message: JointState) -> None:
        command = joints_and_width(message)
        if command is None:
            self._tell("named", f"command not passed on: it names {list(message.name)}, not all seven")
            return
        if refusal := several(self, self._command_topic):
            self._command = None  # nothing is passed on, and the arm holds its last target
            self._tell("several", refusal)
            return
        self._command, self._commanded_ns = command, time.monotonic_ns()
        self._command_age_ns = self._ages.age_ns(stamp_ns(message.header.stamp), self.now_ns())

    def _tick(self) -> None:
        now_ns = time.monotonic_ns()
        if step := self._ages.look():
            self.get_logger().warning(told_steps([step]))
        self._switch.poll(now_ns)
        hold = self._switch.hold
        if hold is not None:
            self._send(hold.q, hold.width_m)
            return
        refusal = said = self._why_not(now_ns)
        if not refusal and self._command is not None:
            try:
                self._send(*self._command)
            except KinematicsError as err:
                refusal, said = err.what, str(err)
        if refusal:
            self._tell(refusal, f"command not passed on: {said}")
        if refusal != self._refusal:
            self._refusal = refusal
            self._publish_status(changed=True)

    def _why_not(self, now_ns: int) -> str:
        """Why no command may go out now; empty when one may, or when there is none to send."""
        if self._command is None:
            return ""
        if refusal := several(self, self._vendor_topic):
            return refusal
        waited_ns, watchdog_s = now_ns - self._commanded_ns, self._settings.watchdog_s
        if waited_ns > watchdog_s * 1e9:
            self._command = None
            self.get_logger().info("commands have stopped: the arm holds its last target")
            return ""
        age_ns = self._command_age_ns  # when it came; how old one from the future is nobody knows
        if refusal := age_refusal(age_ns + waited_ns if age_ns > 0 else age_ns, watchdog_s):
            return refusal
        if self._switch.busy:
            return SWITCHING
        if (now_ns - self._heard_ns) / 1e9 > self._settings.silence_s:
            return "the arm's joint states are silent"
        if self._switch.power == "off":
            return "the motors are off"
        return ""

    def _send(self, q: tuple[float, ...], width_m: float) -> None:
        """Pass a command on.

        Raises:
            KinematicsError: It is none that the arm may get.
        """
        command = vendor_command(self._rules, q, width_m, self._sample.q)
        message = JointState(name=list(command.names), position=list(command.position))
        message.velocity, message.effort = list(command.velocity), list(command.effort)
        message.header.stamp = stamp_msg(self.now_ns())
        self._to_arm.publish(message)

    async def _enable(self, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        width_m = self._sample.width_m if self._sample else None
        response.success, response.message = await self._switch.ask(
            request.data, width_m, time.monotonic_ns()
        )
        self.get_logger().info(response.message)
        return response

    # -- what people see -----------------------------------------------------------------------

    def _publish_status(self, *, changed: bool = False) -> None:
        """Publish the arm's status; with ``changed`` only if it is another than the last."""
        now_ns = time.monotonic_ns()
        if (now_ns - max(self._heard_ns, self._switch.answered_ns)) / 1e9 > STATUS_STALE_S:
            self._switch.power = "unknown"  # of an arm that fell silent after its answer
        vendor = self._vendor if (now_ns - self._vendor_ns) / 1e9 <= STATUS_STALE_S else None
        mode = vendor.controlled if vendor else "unknown"
        status = ArmStatus(
            model=self.config.arm.model,
            power=power_code(self._switch.power),
            control_mode=getattr(ArmStatus, f"CONTROL_{mode.upper()}"),
            error_code=vendor.error_code if vendor else 0,
            faults=self._faults(vendor, now_ns),
        )
        said = (status.power, status.control_mode, status.error_code, *status.faults)
        if changed and said == self._said:
            return
        self._said = said
        status.header.stamp = stamp_msg(self.now_ns())
        self._status.publish(status)

    def _faults(self, vendor: ArmReport | None, now_ns: int) -> list[str]:
        faults = list(fault_words(vendor)) if vendor else []
        if self._vendor is not None and vendor is None:
            faults.append("the arm's status is silent")
        if self._sample is None:
            faults.append("the arm has not been heard yet")
        elif (now_ns - self._heard_ns) / 1e9 > STATUS_STALE_S:
            faults.append("the arm's joint states are silent")
        if self._refusal:
            faults.append(f"commands are not passed on: {self._refusal}")
        return [*faults, self._verdict] if self._verdict else faults

    def _tell(self, key: str, text: str) -> None:
        """A warning, at most every few seconds for each ``key``."""
        now_ns = time.monotonic_ns()
        if now_ns - self._told.get(key, 0) >= TOLD_S * 1e9:
            self._told[key] = now_ns
            self.get_logger().warning(text)


def main(arguments: list[str] | None = None) -> int:
    """Run the bridge until it is told to stop."""
    return run_node(ArmBridgeNode, arguments)
