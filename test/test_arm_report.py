"""What a Piper says of itself, in words."""

import pytest

from piper_collect.core.arm_report import (
    ArmReport,
    driven_fault_words,
    fault_words,
    holding_fault,
    lost_control,
)

ON = 1 << 6


def report(**changes):
    usual = {
        "control_mode": 1,
        "arm_status": 0,
        "move_mode": 1,
        "error_code": 0,
        "motor_flags": (ON,) * 6,
        "gripper_flags": ON | 1 << 7,
    }
    return ArmReport(**{**usual, **changes})


def flags(joint, bit):
    return tuple(ON | (1 << bit if n == joint else 0) for n in range(1, 7))


def test_an_arm_that_is_well_has_no_words() -> None:
    assert fault_words(report()) == ()
    assert holding_fault(report()) == ""
    assert lost_control(report(), 1) == ""
    assert report().enabled == (True,) * 6


@pytest.mark.parametrize(
    ("changes", "words", "holds"),
    [
        ({"arm_status": 1}, "emergency stop", True),
        ({"arm_status": 2}, "no solution for the target", False),
        ({"arm_status": 4}, "target beyond the joint limits", False),
        ({"arm_status": 5}, "joint communication failed", True),
        ({"arm_status": 7}, "collision", True),
        ({"arm_status": 14}, "main controller too hot", True),
        ({"arm_status": 255}, "arm status 255", True),
        ({"error_code": 0x0001}, "joint1: communication failed", True),
        ({"error_code": 0x0020}, "joint6: communication failed", True),
        ({"error_code": 0x0100}, "joint1: beyond its angle limit", False),
        ({"error_code": 0x2000}, "joint6: beyond its angle limit", False),
        ({"motor_flags": flags(3, 0)}, "joint3: voltage too low", True),
        ({"motor_flags": flags(2, 4)}, "joint2: collision protection", True),
        ({"motor_flags": flags(5, 7)}, "joint5: stalled", True),
        ({"gripper_flags": ON | 1 << 7 | 1 << 4}, "gripper: sensor error", False),
        ({"gripper_flags": 1 << 1}, "gripper: motor too hot", False),
    ],
)
def test_a_fault_in_words_and_whether_the_arm_stands_still_on_it(changes, words, holds) -> None:
    assert fault_words(report(**changes)) == (words,)
    assert holding_fault(report(**changes)) == (words if holds else "")
    assert driven_fault_words(report(**changes)) == (f"{words}: holding" if holds else words,)


@pytest.mark.parametrize("status", [11, 12, 13])
def test_teaching_is_no_fault(status) -> None:
    assert fault_words(report(arm_status=status)) == ()


def test_several_faults_are_all_told() -> None:
    told = fault_words(report(arm_status=4, error_code=0x0201, motor_flags=flags(1, 3)))
    assert told == (
        "target beyond the joint limits",
        "joint1: communication failed",
        "joint2: beyond its angle limit",
        "joint1: driver too hot",
    )


@pytest.mark.parametrize(
    ("changes", "mode", "why"),
    [
        ({"motor_flags": (ON, ON, 0, ON, 0, ON)}, 1, "motors off: joint3, joint5"),
        ({"arm_status": 1}, 1, "emergency stop"),
        ({"control_mode": 0}, 1, "the arm is in standby"),
        ({"control_mode": 2}, 1, "the arm is in teach mode"),
        ({"control_mode": 99}, 1, "the arm is in control mode 99"),
        ({"move_mode": 0}, 1, "the arm is in move mode 0, not 1: another program commands it"),
        ({"move_mode": 1}, 4, "the arm is in move mode 1, not 4: another program commands it"),
    ],
)
def test_why_an_arm_does_not_obey(changes, mode, why) -> None:
    assert lost_control(report(**changes), mode) == why


@pytest.mark.parametrize(
    ("control_mode", "move_mode", "controlled"),
    [
        (0, 1, "standby"),
        (1, 1, "position"),
        (1, 4, "impedance"),
        (2, 1, "teach"),
        (3, 1, "unknown"),
        (255, 1, "unknown"),
    ],
)
def test_how_it_is_controlled(control_mode, move_mode, controlled) -> None:
    assert report(control_mode=control_mode, move_mode=move_mode).controlled == controlled
