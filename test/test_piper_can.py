"""The driver with the real piper_sdk on a virtual CAN bus, against an arm at the level of frames."""

import math
import sys
import time
from itertools import pairwise

import pytest
from piper_rig import can, connected, emulated, until

from piper_collect.core.kinematics import PiperKinematics
from piper_collect.devices.piper_can import PiperCan
from piper_collect.errors import ArmError


def raw(snapshot):
    return tuple(round(math.degrees(angle) * 1e3) for angle in snapshot.q)


def sweep(arm):
    """The arm moves all its joints all the time."""
    arm.enabled, arm.control_mode, arm.move_mode, arm.speed_percent = [True] * 6, 1, 1, 30


def test_every_reading_is_one_the_arm_said_whole_and_none_is_lost(can_channel):
    with emulated(can_channel) as arm, connected(can_channel) as (device, heard):
        sweep(arm)
        first, said = len(heard), len(arm.readings)
        until(lambda: len(heard) > first + 200, "no readings")
        late = len(heard) - first + device.torn, len(arm.readings) - said
        known = set(arm.readings)
        assert {raw(snapshot) for snapshot in heard} <= known
        assert len({raw(snapshot) for snapshot in heard}) > 50
        assert abs(late[0] - late[1]) <= 2
        stamps = [snapshot.stamp_ns for snapshot in heard]
        assert all(a < b for a, b in pairwise(stamps))
        assert abs(stamps[-1] - time.time_ns()) < 5e9
        mean_s = (stamps[-1] - stamps[first]) / 1e9 / (len(stamps) - 1 - first)
        assert 0.0045 < mean_s < 0.02  # 5 ms where the machine keeps up


def test_values_are_si(can_channel):
    with emulated(can_channel, width_m=0.0321) as arm, connected(can_channel) as (device, heard):
        until(lambda: heard[-1].qdot is not None, "no speeds")
        snapshot = heard[-1]
        assert snapshot.q == pytest.approx(arm.q, abs=1e-5)
        assert snapshot.width_m == pytest.approx(0.0321)
        assert snapshot.gripper_effort_n_m == pytest.approx(0.5)
        # 100, 200, ... mA times the SDK's factors
        assert snapshot.effort_n_m == pytest.approx(
            (0.118125, 0.23625, 0.354375, 0.383376, 0.47922, 0.575064)
        )
        sweep(arm)
        until(lambda: heard[-1].qdot[1] > 0.5, "it does not move")
        until(lambda: device.report().enabled == (True,) * 6, "the motors are off")


def test_our_flange_pose_is_the_one_the_arm_says(can_channel):
    with emulated(can_channel) as arm, connected(can_channel) as (device, heard):
        x, y, z, *_ = PiperKinematics("s_v1_6_3").forward_scalar(heard[-1].q)
        until(lambda: device._sdk.GetArmEndPoseMsgs().end_pose.Z_axis, "no pose")
        pose = device._sdk.GetArmEndPoseMsgs().end_pose
        assert (x, y, z) == pytest.approx((pose.X_axis / 1e6, pose.Y_axis / 1e6, pose.Z_axis / 1e6), abs=2e-6)
        assert arm.ticks


@pytest.mark.parametrize("lost", [{0x2A5}, {0x2A6}, {0x2A7}, {0x2A6, 0x2A7}])
def test_a_reading_with_a_lost_frame_is_left_out_and_counted(can_channel, lost):
    with emulated(can_channel) as arm, connected(can_channel) as (device, heard):
        sweep(arm)
        until(lambda: arm.moved(arm.readings[0]) and len(heard) > 20, "no readings")
        for _ in range(4):
            arm.mute = set(lost)
            count = arm.ticks
            until(lambda since=count: arm.ticks > since + 3, "the arm stands")
            arm.mute = set()
            count = len(heard)
            until(lambda since=count: len(heard) > since + 5, "no readings afterwards")
        assert {raw(snapshot) for snapshot in heard} <= set(arm.readings)
        assert device.torn >= 4


def test_frames_lost_across_two_readings_do_not_make_one_of_both(can_channel):
    with emulated(can_channel) as arm, connected(can_channel) as (device, heard):
        sweep(arm)
        until(lambda: arm.moved(arm.readings[0]) and len(heard) > 20, "no readings")
        arm.mute_next = [{0x2A6, 0x2A7}, {0x2A5}, set()] * 10
        until(lambda: not arm.mute_next, "the arm stands")
        count = len(heard)
        until(lambda: len(heard) > count + 5, "no readings afterwards")
        assert {raw(snapshot) for snapshot in heard} <= set(arm.readings)
        assert device.torn >= 10


def test_a_reading_that_the_sdk_leaves_out_for_its_values_is_not_mixed_with_the_last(can_channel):
    with emulated(can_channel) as arm, connected(can_channel) as (device, heard):
        sweep(arm)
        until(lambda: arm.moved(arm.readings[0]) and len(heard) > 20, "no readings")
        arm.wild = True
        until(lambda: device.torn > 5, "the wild readings are not counted")
        arm.wild = False
        count = len(heard)
        until(lambda: len(heard) > count + 5, "no readings afterwards")
        assert {raw(snapshot) for snapshot in heard} <= set(arm.readings)


def test_what_others_send_under_the_arms_numbers_is_not_taken(can_channel):
    strange = [
        {"is_extended_id": True},
        {"is_error_frame": True, "is_extended_id": False},
        {"is_remote_frame": True, "dlc": 8, "is_extended_id": False},
        {"data": bytes(4), "is_extended_id": False},
    ]
    with (
        emulated(can_channel, width_m=0.05),
        can.Bus(interface="virtual", channel=can_channel) as bus,
        connected(can_channel) as (device, heard),
    ):
        count = len(heard)
        while len(heard) < count + 50:
            for kind in strange:
                number = {} if "is_remote_frame" in kind else {"data": bytes(8)}
                bus.send(can.Message(arbitration_id=0x2A8, **{**number, **kind}))
            time.sleep(0.002)
        assert {snapshot.width_m for snapshot in heard} == {0.05}
        assert device.send_error() == ""


def test_speeds_that_the_arm_does_not_say_are_not_made_up(can_channel):
    with emulated(can_channel) as arm:
        arm.mute = {0x253}
        with connected(can_channel) as (_, heard):
            until(lambda: len(heard) > 20, "no readings")
            assert all(s.qdot is None and s.effort_n_m is None for s in heard)


def test_the_firmware_is_asked_for_until_it_is_whole(can_channel):
    with (
        emulated(can_channel, firmware="S-V1.7-2", deaf_requests=3) as arm,
        connected(can_channel) as (device, _),
    ):
        assert device.firmware == "S-V1.7-2"
        assert len(arm.frames(0x4AF)) >= 4


def test_a_firmware_that_is_not_said_is_unknown(can_channel, monkeypatch):
    monkeypatch.setattr("piper_collect.devices.piper_can._FIRMWARE_TRIES", 2)
    with emulated(can_channel, deaf_requests=99), connected(can_channel) as (device, heard):
        assert device.firmware == ""
        assert heard


def test_feedback_that_stops_is_named(can_channel):
    with emulated(can_channel) as arm, connected(can_channel, silence_s=0.1) as (device, heard):
        until(lambda: not device.silence(), "it is silent")
        for mute, words in (
            ({0x2A6}, "joints"),
            ({0x2A8}, "gripper"),
            ({0x2A1}, "status"),
            ({0x264}, "motors"),
        ):
            arm.mute = mute
            told = f"no feedback of the {words} on {can_channel}"
            until(lambda text=told: device.silence() == text, f"the silence of the {words} is not told")
            arm.mute = set()
            until(lambda: not device.silence(), "it stays silent")
        arm.silent = True
        told = f"no feedback from the arm on {can_channel}"
        until(lambda: device.silence() == told, "the SDK does not see it")
        assert not device._sdk.isOk()
        count = len(heard)
        arm.silent = False
        until(lambda: len(heard) > count + 5, "nothing comes afterwards")


def test_a_bus_without_an_arm_is_one_line(can_channel):
    device = PiperCan(channel=can_channel, interface="virtual", connect_timeout_s=0.2)
    with pytest.raises(
        ArmError, match=rf"virtual {can_channel}: no whole feedback .* within 0.2 s .*nothing"
    ):
        device.open(lambda _snapshot: None)


def test_an_arm_without_a_gripper_is_refused(can_channel):
    with emulated(can_channel) as arm:
        arm.mute = {0x2A8}
        with (
            pytest.raises(ArmError, match=r"CAN ids 251.*2A1.* an arm without a gripper cannot be used"),
            connected(can_channel, connect_timeout_s=0.3),
        ):
            pass


def test_a_channel_can_be_opened_again_in_the_same_process(can_channel):
    with emulated(can_channel, firmware="S-V1.8-5"):
        for _ in range(2):
            with connected(can_channel) as (device, heard):
                assert device.firmware == "S-V1.8-5"
                until(lambda now=heard: len(now) > 10, "no readings")
            device.close()
            count = len(heard)
            time.sleep(0.05)
            assert len(heard) == count


def test_a_send_that_failed_is_told_once(can_channel):
    with emulated(can_channel), connected(can_channel) as (device, heard):
        assert device.send_error() == ""
        device._sdk.GetCanBus().send_bus.shutdown()
        device.send_position(heard[-1].q)
        assert "piper_sdk: JointCtrl_J56 send failed" in device.send_error()
        assert device.send_error() == ""


def test_what_goes_wrong_in_the_reading_thread_is_told(can_channel):
    with emulated(can_channel), connected(can_channel) as (device, _):
        device._on_snapshot = lambda _snapshot: 1 / 0
        told = []
        until(lambda: told.append(device.send_error()) or told[-1], "it is swallowed")
        device._on_snapshot = lambda _snapshot: None
        assert "a CAN frame could not be taken: ZeroDivisionError" in told[-1]


def test_a_bus_that_cannot_be_opened_is_one_line():
    device = PiperCan(channel="no.such.group.invalid", interface="udp_multicast")
    with pytest.raises(ArmError, match=r"no\.such\.group\.invalid: the CAN bus cannot be opened"):
        device.open(lambda _snapshot: None)


def test_without_the_sdk_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "piper_sdk", None)
    with pytest.raises(ArmError, match=r"piper_sdk is not installed .*pip install 'piper_collect\[can\]'"):
        PiperCan(channel="can0").open(lambda _snapshot: None)
