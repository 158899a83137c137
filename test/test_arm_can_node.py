"""arm_can_node on real DDS with the real piper_sdk, and an emulated arm in a process of its own."""

import itertools
import json
import signal
import sys
import time
from dataclasses import replace
from itertools import pairwise

import pytest
from can_sessions import can_session, multicast_group
from clock_site import SetClock
from ros_support import ROOT, Rig

from piper_collect.core.kinematics import JOINT_NAMES, WORKING_POSE_RAD, PiperKinematics

pytest.importorskip("can", reason="python-can is not installed: pip install 'piper_collect[can]'")
pytest.importorskip("piper_sdk", reason="piper_sdk is not installed: pip install 'piper_collect[can]'")

NAMES = [*JOINT_NAMES, "gripper"]
THERE = (0.2, 1.1, -1.1, 0.1, 0.4, -0.2)


@pytest.fixture
def group():
    """The only user on this machine of the one port that all multicast CAN buses share."""
    with multicast_group() as group:
        yield group


class Arm:
    """An emulated arm, the node that drives it, and what the node says."""

    def __init__(
        self,
        rig: Rig,
        group: str,
        *,
        q=WORKING_POSE_RAD,
        clock: SetClock | None = None,
        watchdog_s: float = 0.3,
    ) -> None:
        from geometry_msgs.msg import PoseStamped
        from piper_collect.msg import ArmStatus
        from sensor_msgs.msg import JointState

        self.rig, self.clock = rig, clock
        self.config = can_session(channel=group, interface="udp_multicast", watchdog_s=watchdog_s)
        self.joints = rig.listen(JointState, "/arm/joint_states")
        self.poses = rig.listen(PoseStamped, "/arm/flange_pose")
        self.statuses = rig.listen(ArmStatus, "/arm/status")
        self.commands = rig.publisher(JointState, "/arm/joint_command")
        self._file = rig.folder / "emulator.json"
        command = [sys.executable, str(ROOT / "test" / "piper_emulator.py"), "--channel", group]
        command += ["--report", str(self._file), "--q", *map(str, q)]
        self.emulator = rig.add(rig.run.launch("emulator", command))
        rig.until(lambda: "running" in self.emulator.log(), "the emulator does not start")
        self.node = rig.start("arm_can_node", self.config, site=clock.site if clock is not None else None)
        rig.until(lambda: self.joints and self.commands.get_subscription_count(), "the arm is not there")
        rig.until(lambda: self.statuses and self.powered(), "the arm is not switched on")

    def command(self, q, width_m, names=NAMES, *, off_ns=0) -> None:
        from sensor_msgs.msg import JointState

        message = JointState(name=list(names), position=[*q, width_m][: len(names)])
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(self.now_ns() + off_ns, 10**9)
        self.commands.publish(message)

    def now_ns(self) -> int:
        """Now on the clock of the node."""
        return time.time_ns() + (self.clock.ahead_ns if self.clock is not None else 0)

    def distance(self, wanted) -> float:
        return max(abs(a - b) for a, b in zip(self.joints[-1].position, wanted, strict=False))

    def powered(self) -> bool:
        return self.statuses[-1].power == self.statuses[-1].POWER_ON

    def faults(self) -> str:
        return "; ".join(self.statuses[-1].faults)

    def end(self) -> dict:
        """End the node, then the arm; what the arm has seen."""
        assert self.rig.end(self.node) == 0, self.node.log()
        assert self.rig.end(self.emulator, signal.SIGTERM) == 0, self.emulator.log()
        return json.loads(self._file.read_text(encoding="utf-8"))


def stamps_ns(messages):
    return [m.header.stamp.sec * 10**9 + m.header.stamp.nanosec for m in messages]


def check_messages(arm) -> None:
    stamps = stamps_ns(arm.joints)
    assert all(a < b for a, b in pairwise(stamps))
    assert abs(stamps[-1] - time.time_ns()) < 30e9
    poses = dict(zip(stamps_ns(arm.poses), arm.poses, strict=True))
    kinematics, checked = PiperKinematics("s_v1_6_3"), 0
    for stamp, message in zip(stamps, arm.joints, strict=True):
        assert list(message.name) == NAMES
        if stamp in poses:
            p, o = poses[stamp].pose.position, poses[stamp].pose.orientation
            flange = kinematics.forward(message.position[:6])
            assert (p.x, p.y, p.z, o.w, o.x, o.y, o.z) == pytest.approx(flange, abs=1e-9)
            assert poses[stamp].header.frame_id == "base_link"
            checked += 1
    assert checked > 50


def test_the_node_says_obeys_holds_and_hands_back(rig, group):
    arm = Arm(rig, group)
    status = arm.statuses[-1]
    assert (status.model, status.firmware, status.error_code) == ("piper", "S-V1.8-5", 0)
    assert status.control_mode == status.CONTROL_POSITION
    assert list(status.faults) == []
    p, o = arm.poses[-1].pose.position, arm.poses[-1].pose.orientation
    assert (p.x, p.y, p.z) == pytest.approx((0.259706, 0.0, 0.341493), abs=1e-5)
    assert (o.w, o.x, o.y, o.z) == pytest.approx((0.460920, 0.0, 0.887442, 0.0), abs=1e-5)
    assert len(arm.joints[-1].velocity) == len(arm.joints[-1].effort) == 7

    arm.command(THERE, 0.0, names=JOINT_NAMES[:5])
    rig.until(lambda: "command ignored" in arm.node.log(), "the ignored command is not told")

    sender = rig.every(0.005, lambda: arm.command(THERE, 0.03))
    rig.until(lambda: arm.distance([*THERE, 0.03]) < 2e-3, "it does not get there")

    arm.emulator.send(signal.SIGSTOP)
    rig.until(lambda: "no feedback" in arm.faults(), "the silence is not told")
    assert arm.statuses[-1].power == status.POWER_UNKNOWN
    arm.emulator.send(signal.SIGCONT)
    rig.until(lambda: arm.powered() and not arm.faults(), "it stays silent")
    rig.until(lambda: arm.distance([*THERE, 0.03]) < 2e-3, "it does not go on")

    sender.cancel()
    rig.until(lambda: arm.faults() == "no joint command for 0.3 s: holding", "the watchdog is not told")
    check_messages(arm)
    seen = arm.end()
    assert seen["enabled"] == [True] * 6
    assert (seen["control_mode"], seen["move_mode"]) == (1, 1)
    assert seen["target"] == pytest.approx(THERE, abs=5e-3)
    assert seen["least_width_m"] == pytest.approx(0.03, abs=1e-4)


def test_a_clock_that_is_set_neither_stops_the_arm_nor_keeps_old_commands_alive(rig, group, tmp_path, tally):
    """Stamps of commands, of frames and of the node all come from the clock that the test sets."""
    clock = SetClock(tmp_path, can=True)
    arm = Arm(rig, group, clock=clock, watchdog_s=2.0)
    goals = itertools.cycle((THERE, WORKING_POSE_RAD))

    def drive() -> tuple[float, ...]:
        goal = next(goals)
        sender = rig.every(0.005, lambda: arm.command(goal, 0.03))
        rig.until(lambda: arm.distance(goal) < 2e-3, "it does not get there")
        sender.cancel()
        return goal

    drive()
    for step_s in (3600.0, -7200.0, -0.4):
        began = len(arm.statuses)
        clock.set(clock.ahead_ns + round(step_s * 1e9))
        at = drive()
        told = {fault for status in arm.statuses[began:] for fault in status.faults}
        assert not told, step_s  # neither the arm nor its commands count as silent
        assert abs(stamps_ns(arm.joints)[-1] - arm.now_ns()) < 30e9
        tally("steps of the clock survived")
    rig.until(lambda: arm.faults() == "no joint command for 2 s: holding", "the watchdog is not told")
    for off_s, said in ((-60, ""), (60, "stamped ahead of this machine's clock")):
        heard = len(arm.joints)
        rig.until(
            lambda said=said, heard=heard: said in arm.node.log() and len(arm.joints) > heard + 100,
            f"not told: {said}",
            meanwhile=lambda off_s=off_s: arm.command(next(goals), 0.03, off_ns=off_s * 10**9),
        )
        assert arm.distance(at) < 5e-3
    arm.end()


def test_teleoperation_drives_it_home(rig, group):
    from std_srvs.srv import Trigger

    arm = Arm(rig, group, q=THERE)
    wanted = rig.listen(type(arm.joints[-1]), "/arm/joint_command")
    rig.node.destroy_publisher(arm.commands)  # one driver at a time
    rig.start("teleop_node", arm.config)
    rig.until(lambda: wanted, "teleoperation does not command")
    answer = rig.call(Trigger, "/arm/home")
    assert answer.success, answer.message
    rig.until(lambda: arm.distance(WORKING_POSE_RAD) < 2e-3, "it does not come home")
    assert arm.faults() == ""


def test_without_an_arm_it_ends_with_one_line(rig, group):
    config = can_session(channel=group, interface="udp_multicast", connect_timeout_s=0.3)
    process = rig.start("arm_can_node", config)
    process.may_end = True
    assert process.wait() == 1
    (line,) = [line for line in process.log().splitlines() if line.startswith("error: ")]
    assert "no whole feedback from the arm within 0.3 s" in line


def test_settings_that_cannot_be_used_end_it_before_anything_is_opened(rig):
    base = can_session()
    config = replace(base, control=replace(base.control, backend="impedance"))
    process = rig.start("arm_can_node", config)
    process.may_end = True
    assert process.wait() == 1
    assert (
        "error: control.impedance.kp: one gain a joint is needed (expected 6 numbers, got 0)" in process.log()
    )
