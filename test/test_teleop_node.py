"""Teleoperation and the simulated arm as processes, driven by a hand of the test."""

import numpy as np
import pytest
from teleop_cell import (
    START_POSE,
    Cell,
    check_speed,
    check_targets_belong_to_commands,
    config_of,
    distance,
    held,
    pose7,
    shifted,
    stamp_ns,
)

from piper_collect.core.kinematics import GRIPPER_WIDTH_M, WORKING_POSE_RAD


@pytest.fixture
def cell(rig):
    return Cell(rig, config_of())


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
    cell.until_said("STATE_WAITING", "waiting for the arm")


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
    cell.until_said("STATE_FOLLOWING", "following")
    cell.release()
    cell.until_said("STATE_HOLDING", "clutch open")
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
    cell.until_said("STATE_HOMING", "moving home")
    cell.rig.until(lambda: list(cell.commands[-1].position[:6]) == home, "the arm does not come home")
    cell.until_said("STATE_HOLDING", "clutch open")
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
    cell.until_said("STATE_HOLDING", "open the grip", "homing stopped: the clutch was engaged")
    said_ns = stamp_ns(cell.statuses[-1])
    cell.rig.until(lambda: stamp_ns(cell.targets[-1]) > said_ns + 250_000_000, "time stands still")
    targets = [t for t in cell.targets if stamp_ns(t) > said_ns]
    assert held(targets)
    assert distance(targets[-1], START_POSE) > 1e-3


# -- another driver -----------------------------------------------------------------------------


def test_nothing_is_commanded_while_another_node_drives_the_arm(cell):
    from sensor_msgs.msg import JointState

    from piper_collect.nodes.convert import joint_state_msg

    other = cell.rig.publisher(JointState, "/arm/joint_command")
    cell.until_said("STATE_WAITING", fault="another node drives the arm")
    stood = list(cell.joints[-1].position)

    def send_other():  # it is not followed either while both are there
        other.publish(joint_state_msg(cell.rig.now_ns(), [0.5, 0.6, -0.5, 0.1, 0.1, 0.1], 0.0))

    told = "several nodes send /arm/joint_command"
    cell.rig.until(lambda: told in cell.arm.log(), "the arm does not say it", meanwhile=send_other)
    for _ in range(2):  # what was sent before is heard in the first
        sent, first = len(cell.commands), len(cell.joints)
        for _ in range(20):
            send_other()
        cell.rig.until(lambda first=first: len(cell.joints) > first + 100, "the arm is silent")
    ours = [c for c in cell.commands[sent:] if c.position[0] != 0.5]
    assert ours == []
    assert list(cell.joints[-1].position) == pytest.approx(stood, abs=1e-6)
    cell.rig.node.destroy_publisher(other)
    cell.until_said("STATE_HOLDING", "clutch open")
    cell.engage()
    cell.move(0.03)
    cell.until_at(shifted(0.03, 0.0, 0.0))
    cell.release()
    second_hand_leads_nowhere(cell)


def second_hand_leads_nowhere(cell):
    """Two hands at once would make one that nobody moves; the arm waits until one is left."""
    from piper_collect.msg import QuestInput

    there = pose7(cell.targets[-1])
    other = cell.rig.publisher(QuestInput, "/quest/input")
    cell.until_said("STATE_WAITING", fault="several nodes send /quest/input")
    cell.squeeze = 1.0
    cell.move(0.05)
    first = len(cell.joints)
    cell.rig.until(lambda: len(cell.joints) > first + 200, "the arm is silent")
    cell.rig.node.destroy_publisher(other)
    cell.until_said("STATE_HOLDING")
    assert distance(cell.targets[-1], there[:3]) < 1e-3
    assert not cell.targets[-1].engaged
