"""Teleoperation beside an arm that falls silent, stays behind, fails, or says what cannot be."""

import signal

import numpy as np
from teleop_cell import KINEMATICS, START_POSE, Cell, config_of, distance, held, pose7, shifted, stamp_ns

from piper_collect.core.kinematics import WORKING_POSE_RAD

SILENT = "the arm's joint states are silent"
SLOWLY_RAD_S = 0.02
"""So slow that no way home comes to its end in a test."""


def lead(cell: Cell, *way_m: float) -> None:
    """Squeeze and move the hand until the arm is led; again where a busy machine let go of it."""
    before = pose7(cell.targets[-1])

    def led() -> bool:
        if not cell.targets[-1].engaged:
            cell.engage()
            cell.move(*way_m)
        return distance(cell.targets[-1], before) > 0.01

    cell.rig.until(led, "the arm is not led")


def start_home(cell: Cell) -> None:
    """Ask for the way home until the arm is on it."""

    def homes() -> bool:
        return cell.home().success and cell.statuses[-1].state == cell.statuses[-1].STATE_HOMING

    cell.rig.until(homes, "it does not go home")


def test_when_the_arm_falls_silent_it_holds_and_starts_again_from_where_the_arm_is(rig):
    cell = Cell(rig, config_of())
    cell.engage()
    cell.move(0.06, 0.02)
    cell.until_at(shifted(0.06, 0.02, 0.0))
    assert cell.rig.end(cell.arm) == 0
    cell.rig.until(lambda: not cell.targets[-1].engaged, "it goes on without an arm")
    cell.move(-0.03)
    assert held(cell.hear(100))
    assert SILENT in cell.teleop.log()
    cell.until_said("STATE_HOLDING", fault=SILENT)
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


def test_an_arm_that_stays_behind_is_held_where_it_is(rig):
    from sensor_msgs.msg import JointState

    from piper_collect.nodes.convert import joint_state_msg

    cell = Cell(rig, config_of(max_deviation_rad=0.1), with_arm=False)
    states = rig.publisher(JointState, "/arm/joint_states")
    stuck = rig.every(0.01, lambda: states.publish(joint_state_msg(rig.now_ns(), WORKING_POSE_RAD, 0.05)))
    rig.until(lambda: cell.targets and cell.input.get_subscription_count(), "no target")
    cell.engage()
    cell.move(0.15)
    cell.until_said("STATE_HOLDING", "open the grip", fault="deg behind its command: holding")
    assert distance(cell.hear(1)[0], START_POSE) < 1e-9  # where the arm is
    assert held(cell.hear(50))
    assert max(distance(target, START_POSE) for target in cell.targets) < 0.1
    stuck.cancel()


def test_an_arm_at_fault_is_not_led_on_and_goes_on_from_where_it_is(rig):
    from piper_collect.msg import ArmStatus
    from sensor_msgs.msg import JointState

    from piper_collect.nodes.convert import joint_state_msg

    cell = Cell(rig, config_of(home_speed_rad_s=SLOWLY_RAD_S), with_arm=False)
    states, status = rig.publisher(JointState, "/arm/joint_states"), rig.publisher(ArmStatus, "/arm/status")
    off, on = ArmStatus(power=ArmStatus.POWER_OFF), ArmStatus(power=ArmStatus.POWER_ON)
    there_rad = (0.4, *WORKING_POSE_RAD[1:])
    there = KINEMATICS.forward(there_rad)
    saying = rig.every(0.01, lambda: states.publish(joint_state_msg(rig.now_ns(), there_rad, 0.05)))
    rig.until(
        lambda: cell.targets and cell.input.get_subscription_count() and status.get_subscription_count(),
        "no target",
    )
    lead(cell, 0.05)
    status.publish(off)
    cell.until_said("STATE_HOLDING", fault="the arm reports a fault: holding")
    said_ns = stamp_ns(cell.statuses[-1])
    assert held([t for t in cell.hear(50) if stamp_ns(t) > said_ns])
    status.publish(on)
    rig.until(lambda: distance(cell.targets[-1], there) < 1e-9, "it does not start from the arm")
    assert held(cell.hear(50))  # the grip is still squeezed
    cell.until_said("STATE_HOLDING", "following given up: arm: the motors are off; open the grip")
    cell.release()
    status.publish(off)
    cell.until_said("STATE_HOLDING")
    start_home(cell)
    status.publish(on)  # whose motors go on is not where it was led meanwhile
    cell.until_said("STATE_HOLDING", "homing given up: the arm has recovered from: arm: the motors are off")
    rig.until(lambda: distance(cell.targets[-1], there) < 1e-9, "it does not start from the arm")
    lead(cell, 0.0, 0.03)
    saying.cancel()  # a driver that has lost its arm may go on sending the last there was
    last = joint_state_msg(rig.now_ns(), there_rad, 0.05)
    rig.every(0.01, lambda: states.publish(last))
    cell.until_said("STATE_HOLDING", fault=SILENT)


def stand_still(cell: Cell, process) -> None:
    """Stop a process for longer than an arm may be silent."""
    process.send(signal.SIGSTOP)
    first_ns = cell.rig.now_ns()
    cell.rig.until(lambda: cell.rig.now_ns() - first_ns > 7e8, "time stands still")
    process.send(signal.SIGCONT)


def until_given_up(cell: Cell, begin, happens, told: str) -> None:
    """Have something happen to a motion that is under way; all over where another stall ended it first."""

    def given_up() -> bool:
        begin()
        logged = len(cell.teleop.log())
        happens()
        cell.rig.until(lambda: "given up" in cell.statuses[-1].text, "it is not told")
        assert cell.statuses[-1].state == cell.statuses[-1].STATE_HOLDING
        if told not in cell.statuses[-1].text:
            return False
        assert told in cell.teleop.log()[logged:]
        after = cell.hear(50)
        assert not any(target.engaged for target in after)
        assert max(distance(target, pose7(after[0])) for target in after) < 1e-3  # all that the arm lagged
        return True

    cell.rig.until(given_up, f"not told: {told}")


def test_a_motion_that_ends_because_a_process_stood_still_is_told_and_the_arm_does_not_leap(rig):
    from piper_collect.msg import ArmStatus

    cell = Cell(rig, config_of(home_speed_rad_s=SLOWLY_RAD_S))
    status = rig.publisher(ArmStatus, "/arm/status")
    lead(cell, 0.06, 0.05)
    cell.release()
    silent, off = "the arm's joint states were silent", "arm: the motors are off"

    def say_off() -> None:  # and the arm says at once that it is well
        status.publish(ArmStatus(power=ArmStatus.POWER_OFF))

    def home() -> None:
        start_home(cell)

    def follow() -> None:
        lead(cell, -0.02)

    until_given_up(cell, home, lambda: stand_still(cell, cell.arm), f"homing given up: {silent}")
    until_given_up(cell, home, lambda: stand_still(cell, cell.teleop), f"homing given up: {silent}")
    until_given_up(cell, home, say_off, f"homing given up: {off}")
    until_given_up(cell, follow, lambda: stand_still(cell, cell.teleop), f"following given up: {silent}")
    for messages in (cell.commands, cell.joints):
        assert np.abs(np.diff([m.position[:6] for m in messages], axis=0)).max() < 0.1


def test_one_mistaken_measurement_moves_nothing(rig):
    from sensor_msgs.msg import JointState

    from piper_collect.nodes.convert import joint_state_msg

    cell = Cell(rig, config_of(), with_arm=False)
    states = rig.publisher(JointState, "/arm/joint_states")
    said = []

    def say():
        tenth, between = divmod(len(said), 10)
        mistaken = (0.6 * (tenth % 9) - 2.4, 3.0, -0.1, 0.0, 1.0, 0.0)  # no two that follow are alike
        said.append(WORKING_POSE_RAD if between else mistaken)
        states.publish(joint_state_msg(rig.now_ns(), said[-1], 0.05))

    rig.every(0.01, say)
    rig.until(lambda: cell.targets and cell.input.get_subscription_count(), "no target")
    lead(cell, 0.03)
    count = len(said)
    rig.until(lambda: len(said) > count + 50, "nothing is said")
    assert max(distance(target, START_POSE) for target in cell.targets) < 0.2  # the mistaken ones are farther
    assert not any("behind its command" in status.fault for status in cell.statuses)
