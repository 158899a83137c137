"""Replays as processes: one driver at a time, and the arm holds however a replay ends."""

import re
import signal
import sys
from dataclasses import replace

import numpy as np
import pytest
from replay_cases import joints_over, motion_of, plan_of, write_ours
from ros_support import Rig, rig_in
from terminal_support import TerminalProcess

from piper_collect.config.load import dump_session
from piper_collect.config.schema import SessionConfig
from piper_collect.pipelines.replay_files import read_log, write_plan

ROWS = 600
TRIES = 5


def config_of(**devices):
    base = SessionConfig()
    return replace(base, devices=replace(base.devices, **devices), cameras={})


class Stage:
    """An arm that goes on when a replay ends, and what is said on the topics."""

    def __init__(self, rig: Rig, folder) -> None:
        from piper_collect.msg import TeleopTarget
        from sensor_msgs.msg import JointState

        self.rig, self.folder = rig, folder
        self.file = folder / "session.yaml"
        self.file.write_text(dump_session(config_of(arm="none")))
        write_ours(folder / "ds", "piper", rows=ROWS)
        self.joints = rig.listen(JointState, "/arm/joint_states")
        self.targets = rig.listen(TeleopTarget, "/teleop/target")
        rig.start("arm_sim_node", config_of())
        rig.until(lambda: self.joints, "the arm is silent")

    def command(self, *words):
        """The program, driving this arm."""
        command = [sys.executable, "-m", "piper_collect.cli.main", "replay", str(self.folder / "ds")]
        return [*command, "--episode", "0", "--config", str(self.file), *words]

    def node(self, log):
        """The node alone, with a plan of 20 s."""
        plan = self.folder / "plan.json"
        write_plan(plan, plan_of(motion_of(*joints_over(20.0))))
        log.mkdir()
        process = self.rig.start("replay_node", config_of(), plan=str(plan), log=str(log))
        process.may_end = True
        return process

    def replaying(self, start):
        """Start a replay and wait until the arm is led through the episode.

        Where it held, as it must, because some process stood still, it is started again.
        """
        for _ in range(TRIES):
            first, process = len(self.targets), start()

            def led(first=first):
                return sum(t.engaged for t in self.targets[first:]) > 20

            self.rig.until(
                lambda process=process, led=led: led() or process.exit_code() is not None,
                "it does not replay",
            )
            if process.exit_code() is None:
                return process
            assert "silent" in process.log(), process.log()
        raise AssertionError(f"in each of {TRIES} replays a process stood still")

    def stands_still(self):
        """Whether nobody leads the arm any more and it stands."""
        for _ in range(2):  # what was sent before the end is heard in the first
            led, first = len(self.targets), len(self.joints)
            self.rig.until(lambda first=first: len(self.joints) > first + 150, "the arm is silent")
        last = np.array([m.position for m in self.joints[-50:]])
        return len(self.targets) == led and np.ptp(last, axis=0).max() < 1e-3


@pytest.fixture(scope="module")
def stage(ros_run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("stage")
    with rig_in(ros_run, folder) as rig:
        yield Stage(rig, folder)


def driver_of_the_test(stage):
    from sensor_msgs.msg import JointState

    return stage.rig.publisher(JointState, "/arm/joint_command")


def test_where_another_node_drives_the_arm_nothing_is_replayed(stage):
    other = driver_of_the_test(stage)
    process = stage.node(stage.folder / "refused")
    assert process.wait() == 1
    stage.rig.node.destroy_publisher(other)
    assert "another session is running: /bench publishes this topic" in process.log()
    assert read_log(stage.folder / "refused") is None
    assert not stage.targets


def test_another_driver_that_begins_ends_it_and_the_log_says_so(stage):
    logs = []

    def start():
        logs.append(stage.folder / f"log_{len(logs)}")
        return stage.node(logs[-1])

    def ended():
        process = stage.replaying(start)
        other = driver_of_the_test(stage)
        stage.rig.until(lambda: process.exit_code() is not None, "it goes on beside another driver")
        stage.rig.node.destroy_publisher(other)
        assert process.wait() == 1
        return read_log(logs[-1])

    log = ended()
    while "silent" in log.reason and len(logs) < TRIES:  # some process stood still before
        log = ended()
    assert (log.phase, log.reason) == (
        "stopped",
        "/arm/joint_command: another node has begun to drive the arm",
    )
    assert log.running.any()
    assert log.clock_s.max() < 20.0
    assert stage.stands_still()


def test_the_arm_holds_when_the_program_is_killed_and_no_process_is_left(stage):
    def start():
        process = stage.rig.add(stage.rig.run.launch("replay", stage.command("--yes")))
        process.may_end = True
        return process

    process = stage.replaying(start)
    process.send(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL

    def left():
        return [command for command in stage.rig.run.alive().values() if "replay" in command]

    stage.rig.until(lambda: not left(), "its node lives on")
    assert stage.stands_still()


def test_a_person_says_yes_and_the_space_bar_holds_and_reports_what_was_done(stage):
    def start():
        process = TerminalProcess(stage.rig.run, "replay", stage.command())
        stage.rig.processes.append(process)
        process.until(lambda: process.shows('Type "yes" to start'), "it does not ask")
        assert not stage.rig.node.get_publishers_info_by_topic("/arm/joint_command")
        process.type("yes\n")
        return process

    process = stage.replaying(start)
    process.until(process.reads_keys, "it reads no keys")
    process.type(" ")
    assert process.wait() == 130, process.log()
    said = " ".join(process.log().split())
    assert re.search(r"stopped after [\d.]+ of 19\.\d+ s: interrupted; reproduced within", said)
    assert "measured, against what was recorded" in said
    assert "Traceback" not in said
    assert process.settings() == process.settings_before
    assert stage.stands_still()
