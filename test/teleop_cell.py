"""Teleoperation as a process, with a hand of the test and a simulated arm where one is wanted."""

import math
from dataclasses import replace

import numpy as np
import pytest
from clock_site import SetClock
from ros_support import Rig

from piper_collect.config.schema import SessionConfig
from piper_collect.core.kinematics import WORKING_POSE_RAD, PiperKinematics
from piper_collect.core.quest import BUTTON_COUNT, SQUEEZE, TRIGGER, QuestController, QuestSample, XrPose

HEADSET_S = 1.0 / 72.0
STEP_M = 0.01
LAG_M = 1e-4
KINEMATICS = PiperKinematics("s_v1_6_3")
START_POSE = np.array(KINEMATICS.forward(WORKING_POSE_RAD))


def config_of(**teleop):
    """A hand may be late on a busy machine without being taken for silent."""
    base = SessionConfig()
    return replace(base, teleop=replace(base.teleop, **{"stale_s": 2.0, **teleop}))


class Cell:
    """Arm, teleoperation and a hand, with all that was said."""

    def __init__(
        self, rig: Rig, config: SessionConfig, *, with_arm: bool = True, clock: SetClock | None = None
    ) -> None:
        from geometry_msgs.msg import PoseStamped
        from piper_collect.msg import QuestInput, TeleopStatus, TeleopTarget
        from sensor_msgs.msg import JointState

        from piper_collect.nodes.qos import LATCHED_QOS

        self.rig, self.config, self.clock = rig, config, clock
        site = clock.site if clock is not None else None
        self.targets = rig.listen(TeleopTarget, "/teleop/target")
        self.twins = rig.listen(PoseStamped, "/teleop/target_pose")
        self.commands = rig.listen(JointState, "/arm/joint_command")
        self.joints = rig.listen(JointState, "/arm/joint_states")
        self.statuses = rig.listen(TeleopStatus, "/teleop/status", LATCHED_QOS)
        self.input = rig.publisher(QuestInput, "/quest/input")
        self.hand_m = np.array([0.2, 1.1, -0.4])  # WebXR axes
        self.goal_m = self.hand_m.copy()
        self.squeeze = self.trigger = 0.0
        self.sequence = 0
        self.stamp_ns = 0
        self.teleop = rig.start("teleop_node", config, site=site)
        self.arm = rig.start("arm_sim_node", config, site=site) if with_arm else None
        self.hand = rig.every(HEADSET_S, self.send)
        if with_arm:
            heard = (self.targets, self.twins, self.commands, self.joints)
            rig.until(lambda: all(heard) and self.input.get_subscription_count(), "no target")

    def send(self) -> None:
        """One sample of the headset; the hand moves at most a centimetre towards its goal."""
        from piper_collect.nodes.convert import quest_input_msg

        way = self.goal_m - self.hand_m
        self.hand_m += way * min(1.0, STEP_M / max(float(np.linalg.norm(way)), 1e-12))
        values = [0.0] * BUTTON_COUNT
        values[TRIGGER], values[SQUEEZE] = self.trigger, self.squeeze
        x, y, z = map(float, self.hand_m)
        controller = QuestController(
            connected=True,
            pose_valid=True,
            grip_pose=XrPose(position_m=(x, y, z)),
            button_values=tuple(values),
        )
        self.stamp_ns = self.now_ns()
        sample = QuestSample(
            stamp_ns=self.stamp_ns,
            headset_time_ms=self.sequence * 1e3 * HEADSET_S,
            sequence=self.sequence,
            visibility="visible",
            right=controller,
        )
        self.input.publish(quest_input_msg(sample))
        self.sequence += 1

    def now_ns(self) -> int:
        """Now on the clock of the nodes."""
        return self.rig.now_ns() + (self.clock.ahead_ns if self.clock is not None else 0)

    def move(self, forward_m: float, left_m: float = 0.0, up_m: float = 0.0) -> None:
        """Where the hand goes from here, in the arm's axes."""
        self.goal_m = self.hand_m + np.array((-left_m, up_m, -forward_m))

    def hear(self, count: int) -> list:
        """The next ``count`` targets that are made from now on; some of before may still be under way."""
        first, since_ns = len(self.targets), self.now_ns()

        def made() -> list:
            return [t for t in self.targets[first:] if stamp_ns(t) >= since_ns]

        self.rig.until(lambda: len(made()) >= count, "teleoperation is silent")
        return made()[:count]

    def engage(self) -> None:
        """Open the grip, then squeeze it until the arm follows."""
        self.squeeze = 0.0
        sent = self.sequence
        self.rig.until(lambda: self.sequence > sent + 3, "no hand")
        self.hear(20)
        self.squeeze = 1.0
        self.rig.until(lambda: self.targets[-1].engaged, "the clutch does not close")

    def release(self) -> None:
        self.squeeze = 0.0
        self.rig.until(lambda: not self.targets[-1].engaged, "the clutch does not open")

    def until_said(self, state: str, text: str = "", fault: str = "") -> None:
        """Wait for a status."""

        def said() -> bool:
            status = self.statuses[-1] if self.statuses else None
            return (
                status is not None
                and status.state == getattr(type(status), state)
                and text in status.text
                and (fault in status.fault if fault else not status.fault)
            )

        self.rig.until(said, f"it does not say {state} {text} {fault}")

    def until_at(self, position_m) -> None:
        """Wait until the target is there, and the arm as near as its lag lets it."""
        self.rig.until(lambda: distance(self.targets[-1], position_m) < 1e-4, "the target is elsewhere")
        self.rig.until(
            lambda: math.dist(KINEMATICS.forward(self.joints[-1].position[:6])[:3], position_m) < 1e-3,
            "the arm is elsewhere",
        )

    def home(self):
        from std_srvs.srv import Trigger

        return self.rig.call(Trigger, "/arm/home")


def stamp_ns(message):
    return message.header.stamp.sec * 10**9 + message.header.stamp.nanosec


def pose7(target):
    p, q = target.flange_pose.position, target.flange_pose.orientation
    return np.array([p.x, p.y, p.z, q.w, q.x, q.y, q.z])


def shifted(forward_m, left_m, up_m):
    """A place beside the flange's at the start."""
    return START_POSE[:3] + np.array((forward_m, left_m, up_m))


def distance(target, position_m):
    return float(np.linalg.norm(pose7(target)[:3] - np.asarray(position_m)[:3]))


def check_targets_belong_to_commands(cell):
    """Every target is the forward kinematics of the joint command of the same stamp; so is its twin."""
    commands = {stamp_ns(m): m for m in cell.commands}
    twins = {stamp_ns(m): m for m in cell.twins}
    checked = 0
    for target in cell.targets:
        command, twin = commands.get(stamp_ns(target)), twins.get(stamp_ns(target))
        if command is None or twin is None:
            continue
        assert pose7(target) == pytest.approx(KINEMATICS.forward(command.position[:6]), abs=1e-9)
        assert target.gripper_width == command.position[6]
        assert twin.pose == target.flange_pose
        assert target.header.frame_id == twin.header.frame_id == "base_link"
        checked += 1
    return checked


def check_speed(cell):
    """No step of the target is faster than the configuration allows."""
    settings, most_s = cell.config.teleop, 2.0 / cell.config.session.control_rate_hz
    for before, after in zip(cell.targets, cell.targets[1:], strict=False):
        dt_s = min((stamp_ns(after) - stamp_ns(before)) / 1e9, most_s)
        assert distance(after, pose7(before)) <= settings.max_linear_m_s * dt_s * 1.01 + 1e-9
        width_m = abs(after.gripper_width - before.gripper_width)
        assert width_m <= settings.max_gripper_m_s * dt_s * 1.01 + 1e-9


def held(targets):
    """Whether all of them are the same and none is engaged.

    The same within what an arm lags: after a silence of half a second it is held where it was measured.
    """
    first = targets[0]
    return all(
        np.allclose(pose7(t), pose7(first), rtol=0.0, atol=LAG_M)
        and abs(t.gripper_width - first.gripper_width) <= LAG_M
        and not t.engaged
        for t in targets
    )
