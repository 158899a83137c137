"""Teleoperation and the simulated arm as processes, driven by a hand of the test."""

import math
from dataclasses import replace

import numpy as np
import pytest
from ros_support import Rig

from piper_collect.config.schema import SessionConfig
from piper_collect.core.kinematics import GRIPPER_WIDTH_M, WORKING_POSE_RAD, PiperKinematics
from piper_collect.core.quest import BUTTON_COUNT, SQUEEZE, TRIGGER, QuestController, QuestSample, XrPose

HEADSET_S = 1.0 / 72.0
STEP_M = 0.01
KINEMATICS = PiperKinematics("s_v1_6_3")
START_POSE = np.array(KINEMATICS.forward(WORKING_POSE_RAD))
SILENT = "the arm's joint states are silent"


def config_of(**teleop):
    base = SessionConfig()
    return replace(base, teleop=replace(base.teleop, **teleop))


class Cell:
    """Arm, teleoperation and a hand, with all that was said."""

    def __init__(self, rig: Rig, config: SessionConfig, *, with_arm: bool = True) -> None:
        from geometry_msgs.msg import PoseStamped
        from piper_collect.msg import QuestInput, TeleopTarget
        from sensor_msgs.msg import JointState

        self.rig, self.config = rig, config
        self.targets = rig.listen(TeleopTarget, "/teleop/target")
        self.twins = rig.listen(PoseStamped, "/teleop/target_pose")
        self.commands = rig.listen(JointState, "/arm/joint_command")
        self.joints = rig.listen(JointState, "/arm/joint_states")
        self.input = rig.publisher(QuestInput, "/quest/input")
        self.hand_m = np.array([0.2, 1.1, -0.4])  # WebXR axes
        self.goal_m = self.hand_m.copy()
        self.squeeze = self.trigger = 0.0
        self.sequence = 0
        self.stamp_ns = 0
        self.teleop = rig.start("teleop_node", config)
        self.arm = rig.start("arm_sim_node", config) if with_arm else None
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
        self.stamp_ns = self.rig.now_ns()
        sample = QuestSample(
            stamp_ns=self.stamp_ns,
            headset_time_ms=self.sequence * 1e3 * HEADSET_S,
            sequence=self.sequence,
            visibility="visible",
            right=controller,
        )
        self.input.publish(quest_input_msg(sample))
        self.sequence += 1

    def move(self, forward_m: float, left_m: float = 0.0, up_m: float = 0.0) -> None:
        """Where the hand goes from here, in the arm's axes."""
        self.goal_m = self.hand_m + np.array((-left_m, up_m, -forward_m))

    def hear(self, count: int) -> list:
        """The next ``count`` targets."""
        first = len(self.targets)
        self.rig.until(lambda: len(self.targets) >= first + count, "teleoperation is silent")
        return self.targets[first : first + count]

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


@pytest.fixture
def cell(rig):
    return Cell(rig, config_of())


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
    """Whether all of them are the same and none is engaged."""
    first = targets[0]
    return all(
        np.array_equal(pose7(t), pose7(first)) and t.gripper_width == first.gripper_width and not t.engaged
        for t in targets
    )


# -- the clutch ---------------------------------------------------------------------------------


def test_nothing_is_commanded_before_the_arm_has_spoken(rig):
    cell = Cell(rig, config_of(), with_arm=False)
    cell.squeeze = 1.0
    answer = cell.home()
    assert not answer.success
    assert "has not reported its joints yet" in answer.message
    sent = cell.sequence
    rig.until(lambda: cell.sequence > sent + 50, "no hand")
    assert (cell.targets, cell.commands) == ([], [])


def test_the_target_is_published_at_the_control_rate_and_held_while_the_clutch_is_open(cell):
    cell.move(0.05, 0.05, 0.05)
    targets = cell.hear(300)
    assert held(targets)
    assert pose7(targets[0]) == pytest.approx(START_POSE, abs=1e-9)
    assert targets[0].gripper_width == GRIPPER_WIDTH_M[1]
    steps_ms = np.diff([stamp_ns(t) for t in targets]) / 1e6
    assert steps_ms.min() > 0
    assert 4.0 < np.median(steps_ms) < 20.0  # 5 ms where the machine keeps up
    assert list(cell.joints[-1].position[:6]) == list(WORKING_POSE_RAD)


def test_the_arm_follows_the_hand_and_stays_where_it_is_let_go(cell):
    cell.engage()
    cell.move(0.05, -0.03, 0.04)
    cell.trigger = 0.5
    wanted = shifted(0.05, -0.03, 0.04)
    cell.until_at(wanted)
    cell.rig.until(lambda: abs(cell.targets[-1].gripper_width - 0.035) < 1e-9, "the gripper does not close")
    assert pose7(cell.targets[-1])[3:] == pytest.approx(START_POSE[3:], abs=1e-3)
    cell.release()
    cell.trigger = 0.0
    cell.move(-0.1, 0.1, 0.0)
    assert held(cell.hear(100))
    assert distance(cell.targets[-1], wanted) < 1e-3
    cell.engage()
    cell.move(-0.05, 0.03, -0.04)
    cell.until_at(START_POSE[:3])
    assert check_targets_belong_to_commands(cell) > 100
    check_speed(cell)
    assert len({t.engaged for t in cell.targets}) == 2


def test_a_hand_that_falls_silent_is_let_go_and_needs_a_new_squeeze(cell):
    cell.engage()
    cell.move(0.08)
    cell.rig.until(lambda: distance(cell.targets[-1], START_POSE) > 0.01, "the arm does not follow")
    cell.hand.cancel()
    last_ns = cell.stamp_ns
    stale_ns = round(cell.config.teleop.stale_s * 1e9)
    cell.rig.until(lambda: stamp_ns(cell.targets[-1]) > last_ns + 2 * stale_ns, "time stands still")
    late = [t for t in cell.targets if stamp_ns(t) > last_ns + stale_ns]
    assert held(late)
    assert any(t.engaged for t in cell.targets if stamp_ns(t) <= last_ns + stale_ns)
    cell.hand.reset()
    cell.move(0.05)
    sent = cell.sequence
    cell.rig.until(lambda: cell.sequence > sent + 20, "no hand")
    assert held([late[0], *cell.hear(50)])
    assert "open the grip, then squeeze" in cell.teleop.log()
    cell.engage()
    before = pose7(cell.targets[-1])
    cell.move(0.0, 0.04)
    cell.rig.until(lambda: distance(cell.targets[-1], before) > 0.03, "the arm does not follow again")
    check_speed(cell)


# -- limits -------------------------------------------------------------------------------------


def test_the_target_stays_in_the_workspace(rig):
    x, y, z = map(float, START_POSE[:3])
    cell = Cell(rig, config_of(workspace_max_m=(x + 0.03, 0.45, z + 0.02)))
    cell.engage()
    cell.move(0.10, 0.0, 0.10)
    cell.until_at((x + 0.03, y, z + 0.02))
    cell.rig.until(lambda: "workspace" in cell.teleop.log(), "the clamp is not told")
    cell.hear(50)
    positions = np.array([pose7(t)[:3] for t in cell.targets])
    assert np.all(positions <= (x + 0.03 + 1e-6, 0.45, z + 0.02 + 1e-6))
    assert cell.targets[-1].engaged
    check_speed(cell)


def test_home_moves_the_arm_back_and_only_with_the_clutch_open(cell):
    cell.engage()
    cell.move(0.05, 0.05)
    cell.until_at(shifted(0.05, 0.05, 0.0))
    answer = cell.home()
    assert not answer.success
    assert "homing refused: the clutch is engaged" in answer.message
    cell.release()
    there = len(cell.targets)
    answer = cell.home()
    assert (answer.success, answer.message) == (True, "moving home")
    home = list(WORKING_POSE_RAD)
    cell.rig.until(lambda: list(cell.commands[-1].position[:6]) == home, "the arm does not come home")
    cell.until_at(START_POSE[:3])
    assert not any(t.engaged for t in cell.targets[there:])
    assert check_targets_belong_to_commands(cell) > 100


def test_the_clutch_stops_the_way_home(cell):
    cell.engage()
    cell.move(0.06, 0.06)
    cell.until_at(shifted(0.06, 0.06, 0.0))
    cell.release()
    assert cell.home().success
    cell.squeeze = 1.0
    cell.rig.until(lambda: "homing stopped" in cell.teleop.log(), "the way home is not stopped")
    targets = cell.hear(50)
    assert held(targets)
    assert distance(targets[-1], START_POSE) > 1e-3


# -- an arm that falls silent -------------------------------------------------------------------


def test_when_the_arm_falls_silent_it_holds_and_starts_again_from_where_the_arm_is(cell):
    cell.engage()
    cell.move(0.06, 0.02)
    cell.until_at(shifted(0.06, 0.02, 0.0))
    assert cell.rig.end(cell.arm) == 0
    cell.rig.until(lambda: not cell.targets[-1].engaged, "it goes on without an arm")
    cell.move(-0.03)
    assert held(cell.hear(100))
    assert SILENT in cell.teleop.log()
    at = cell.targets[-1]
    answer = cell.home()
    assert not answer.success
    assert SILENT in answer.message
    cell.squeeze = 0.0
    sent = cell.sequence
    cell.rig.until(lambda: cell.sequence > sent + 5, "no hand")
    cell.hear(20)
    first = len(cell.targets)
    cell.move(-0.05)
    cell.squeeze = 1.0
    cell.hear(100)
    assert held([at, *cell.targets[first:]])
    # an arm that comes back somewhere else is not thrown to where it was
    assert stamp_ns(cell.commands[-1]) < stamp_ns(at)
    first = len(cell.joints)
    cell.arm = cell.rig.start("arm_sim_node", cell.config)
    cell.rig.until(lambda: len(cell.joints) > first + 200, "the arm does not come back")
    moved = np.array([m.position for m in cell.joints[first:]])
    assert np.abs(moved - moved[0]).max() < 1e-9
    cell.rig.until(lambda: distance(cell.targets[-1], START_POSE) < 1e-9, "it does not start from the arm")
    assert held(cell.hear(50))
    cell.engage()
    cell.move(0.0, 0.03)
    cell.until_at(shifted(0.0, 0.03, 0.0))
