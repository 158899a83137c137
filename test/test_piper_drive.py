"""An arm driven through the real piper_sdk: it switches on, reaches, springs, holds, and lets go."""

from dataclasses import replace

import pytest
from can_sessions import SPRINGS
from piper_rig import WIDTH_M, drive, drive_for, driving, emulated, until

from piper_collect.config.schema import ImpedanceSettings
from piper_collect.core.gravity import GravityModel
from piper_collect.core.kinematics import WORKING_POSE_RAD, PiperKinematics
from piper_collect.core.mit import gains_record
from piper_collect.errors import ArmError

HERE = WORKING_POSE_RAD
THERE = (0.15, 1.1, -1.1, 0.1, 0.4, -0.1)


def distance(arm, wanted):
    return arm.moved(wanted)


@pytest.mark.parametrize("springs", [None, SPRINGS])
def test_switching_on_moves_neither_the_arm_nor_the_gripper(can_channel, springs):
    with (
        emulated(can_channel, width_m=WIDTH_M) as arm,
        driving(can_channel, impedance=springs) as (control, _),
    ):
        assert control.condition().power == "on"
        drive_for(control, arm, 60)
        assert arm.moved(HERE) < 0.01
        assert arm.widths == {round(WIDTH_M * 1e6)}
        assert arm.gripper_on
        assert (arm.control_mode, arm.move_mode) == ((1, 1) if springs is None else (1, 4))
        assert control.condition().control == ("position" if springs is None else "impedance")
        assert control.condition().faults == ()


@pytest.mark.parametrize("firmware", ["S-V1.8-5", "S-V1.8-2", "S-V1.7-2"])
@pytest.mark.parametrize("springs", [None, replace(SPRINGS, kp=(40.0,) * 6, kd=(2.0,) * 6)])
def test_a_commanded_pose_is_reached_whatever_the_firmware(can_channel, firmware, springs):
    emulator = emulated(can_channel, firmware=firmware, width_m=WIDTH_M)
    with emulator as arm, driving(can_channel, impedance=springs) as (control, heard):
        drive(control, lambda: distance(arm, THERE) < 0.01, "it does not get there", q=THERE, width_m=0.02)
        drive(control, lambda: abs(heard[-1].width_m - 0.02) < 1e-4, "no width", q=THERE, width_m=0.02)
        assert heard[-1].q == pytest.approx(THERE, abs=0.02)
        assert arm.bad_checksums == 0
        assert control.condition().firmware == firmware
        assert control.condition().faults == ()


def test_the_frames_say_what_the_record_says(can_channel):
    springs = ImpedanceSettings(
        kp=(10.0, 12.5, 33.3, 5.0, 7.7, 1.0),
        kd=(0.8, 1.0, 0.5, 0.33, 0.2, 0.1),
        t_ff=(1, -1, 0.5, 0, 0.25, -0.1),
    )
    for firmware in ("S-V1.8-5", "S-V1.7-2"):
        record = gains_record(springs.kp, springs.kd, springs.t_ff, firmware)
        with (
            emulated(can_channel, firmware=firmware) as arm,
            driving(can_channel, impedance=springs) as (control, _),
        ):
            drive_for(control, arm, 5)
            old = firmware == "S-V1.7-2"
            assert [kp for _, _, kp, _, _ in arm.mit] == pytest.approx(record["quantised"]["kp"])
            assert [kd for _, _, _, kd, _ in arm.mit] == pytest.approx(record["quantised"]["kd"])
            signs = (-1, -1, 1, -1, 1, -1) if old else (1,) * 6
            times = (4, 4, 4, 1, 1, 1) if old else (1,) * 6
            executed = [s * n * t for s, n, (*_, t) in zip(signs, times, arm.mit, strict=True)]
            assert executed == pytest.approx(record["quantised"]["t_ff"])
            positions = [s * p for s, (p, *_) in zip(signs, arm.mit, strict=True)]
            assert positions == pytest.approx(HERE, abs=5e-4)
            assert [v for _, v, *_ in arm.mit] == pytest.approx([-0.010989] * 6, abs=1e-6)


def test_gravity_feed_forward_carries_the_arm(can_channel):
    load = GravityModel(PiperKinematics("s_v1_6_3"))
    sunk = {}
    for gravity_ff in (True, False):
        springs = replace(SPRINGS, kp=(60.0,) * 6, kd=(3.0,) * 6, gravity_ff=gravity_ff)
        with (
            emulated(can_channel, gravity=load) as arm,
            driving(can_channel, impedance=springs) as (control, _),
        ):
            drive_for(control, arm, 200)
            sunk[gravity_ff] = arm.moved(HERE)
    assert sunk[True] < 0.01
    assert sunk[False] > 5 * sunk[True]


def test_when_the_commands_stop_the_arm_stays_where_it_is(can_channel):
    with emulated(can_channel) as arm, driving(can_channel, watchdog_s=0.1, speed_percent=20) as (control, _):
        drive(control, lambda: arm.moved(HERE) > 0.03, "it does not move", q=THERE)
        drive(control, lambda: "no joint command" in str(control.condition().faults), "no watchdog")
        drive_for(control, arm, 40)
        at = tuple(arm.q)
        drive_for(control, arm, 40)
        assert arm.moved(at) < 1e-4
        assert distance(arm, THERE) > 0.01
        drive(control, lambda: distance(arm, THERE) < 0.01, "it does not go on", q=THERE)


def test_a_far_command_moves_nothing(can_channel):
    with emulated(can_channel) as arm, driving(can_channel) as (control, _):
        drive_for(control, arm, 40, q=(0.5, *HERE[1:]))
        assert arm.moved(HERE) < 1e-4
        assert control.condition().faults == (
            "joint1 is commanded more than 0.3 rad from where it stands: holding",
        )


def test_a_silent_bus_is_sent_nothing(can_channel):
    with emulated(can_channel) as arm, driving(can_channel, silence_s=0.1) as (control, _):
        drive(control, lambda: distance(arm, THERE) < 0.2, "it does not move", q=THERE)
        arm.silent = True
        drive(control, lambda: "no feedback" in str(control.condition().faults), "not seen", q=THERE)
        assert control.condition().power == "unknown"
        drive_for(control, arm, 10, q=THERE)
        count = len(arm.received)
        drive_for(control, arm, 20, q=THERE)
        assert len(arm.received) == count
        arm.silent = False
        drive(control, lambda: control.condition().power == "on", "it stays silent")
        drive(control, lambda: distance(arm, THERE) < 0.01, "it does not go on", q=THERE)


def test_faults_are_told_in_words_and_held_on(can_channel):
    with emulated(can_channel) as arm, driving(can_channel) as (control, _):
        drive(control, lambda: arm.moved(HERE) > 0.02, "it does not move", q=THERE)
        arm.arm_status, arm.error_code, arm.motor_bits[2] = 7, 0x0102, 1 << 7
        told = (
            "collision: holding",
            "joint1: beyond its angle limit",
            "joint2: communication failed: holding",
            "joint3: stalled: holding",
        )
        drive(control, lambda: control.condition().faults == told, "the faults are not told", q=THERE)
        assert control.condition().error_code == 0x0102
        drive_for(control, arm, 40, q=THERE)
        at = tuple(arm.q)
        drive_for(control, arm, 20, q=THERE)
        assert arm.moved(at) < 1e-4
        arm.arm_status = arm.error_code = arm.motor_bits[2] = 0
        drive(control, lambda: distance(arm, THERE) < 0.01, "it does not go on", q=THERE)


def test_a_motor_that_drops_out_ends_it_and_no_other_is_switched_on_again(can_channel):
    with emulated(can_channel) as arm, driving(can_channel) as (control, _):
        drive_for(control, arm, 5, q=HERE)
        arm.enabled[3] = False
        drive(control, lambda: "motors off: joint4" in str(control.condition().faults), "not seen", q=HERE)
        assert control.condition().power == "off"
        arm.received.clear()
        drive_for(control, arm, 40, q=HERE)
        assert arm.received == []


def test_teach_mode_takes_the_arm_away(can_channel):
    with emulated(can_channel) as arm, driving(can_channel) as (control, _):
        arm.taught = True
        drive(control, lambda: control.condition().control == "teach", "it is not seen", q=HERE)
        drive(control, lambda: "teach mode" in str(control.condition().faults), "it is not told", q=HERE)
        arm.received.clear()
        drive_for(control, arm, 20, q=HERE)
        assert arm.received == []


def test_a_motor_that_does_not_switch_on_is_an_error_and_nothing_moves(can_channel):
    with (
        emulated(can_channel, stuck=(5,)) as arm,
        pytest.raises(ArmError, match=r"joint5: the motors did not switch on within 0.5 s"),
        driving(can_channel, enable_timeout_s=0.5),
    ):
        pass
    assert arm.frames(0x151) == arm.frames(0x159) == []
    assert arm.moved(HERE) == 0.0


@pytest.mark.parametrize("springs", [None, SPRINGS])
def test_at_the_end_the_arm_holds_itself(can_channel, springs):
    with emulated(can_channel, width_m=WIDTH_M) as arm:
        with driving(can_channel, impedance=springs) as (control, _):
            drive(control, lambda: arm.moved(HERE) > 0.03, "it does not move", q=THERE)
        until(
            lambda: (arm.control_mode, arm.move_mode, arm.mit_switch) == (1, 1, 0), "not in position control"
        )
        at, end = tuple(arm.q), arm.ticks + 60
        until(lambda: arm.ticks > end, "the arm stands")
        assert arm.moved(at) < 0.05
        assert all(arm.enabled)
        assert not [data for data in arm.frames(0x471) if data[1] == 1]
        assert arm.widths == {round(WIDTH_M * 1e6)}


def test_where_it_is_configured_so_the_motors_go_off_at_the_end(can_channel):
    with emulated(can_channel) as arm:
        with driving(can_channel, on_stop="disable"):
            pass
        until(lambda: not any(arm.enabled), "the motors are on")


def test_only_listened_to_the_arm_hears_nothing_but_the_question_for_its_firmware(can_channel):
    with emulated(can_channel) as arm, driving(can_channel, enable_on_start=False) as (control, heard):
        drive_for(control, arm, 20, q=HERE)
        assert heard
        assert {number for number, _ in arm.received} == {0x4AF}
