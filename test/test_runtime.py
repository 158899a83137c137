"""How every node starts and ends: one line for a wrong setting, a clean end on a signal at any time."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from piper_collect.nodes.start import NODES, start_node

ROOT = Path(__file__).resolve().parents[1]
GOOD = "/**:\n  ros__parameters:\n    session: {task: stack}\n"


@pytest.fixture
def ended(ros_run, tmp_path):
    """Start a node with a parameter file; its exit code and what it printed, once it ended by itself."""

    def run(executable, text, *words):
        file = tmp_path / "session.yaml"
        file.write_text(text, encoding="utf-8")
        command = [sys.executable, "-m", "piper_collect.nodes", executable, "--ros-args"]
        process = ros_run.launch(executable, [*command, "--params-file", str(file), *words])
        try:
            return process.wait(), process.log()
        finally:
            process.end()

    return run


@pytest.mark.parametrize(
    ("executable", "text", "expected"),
    [
        (
            "recorder_node",
            GOOD + "    recorder: {min_fre_gb: 2.0}\n",
            "error: parameters.recorder.min_fre_gb: unknown setting (got min_fre_gb); did you mean 'min_free",
        ),
        ("arm_sim_node", GOOD + "    arn: {model: piper}\n", "error: parameters.arn: unknown setting"),
        ("teleop_node", GOOD + "    teleop: {scale: wide}\n", "expected a number, got 'wide'"),
        ("teleop_node", GOOD + "    teleop: {hand: middle}\n", "Valid: right, left."),
        ("session_node", GOOD + "    sim: {episode_s: [4.0], outcomes: [save, save]}\n", "outcomes 2"),
        ("arm_sim_node", GOOD + "    sim: {truth_dir: /dev/null/truth}\n", "error: sim.truth_dir: "),
    ],
)
def test_a_wrong_setting_is_one_line_and_exit_1(ended, executable, text, expected):
    code, said = ended(executable, text)
    assert code == 1
    assert said.startswith("error: ")
    assert expected in said
    assert said.count("\n") == 1


def test_an_unknown_camera_is_one_line_and_exit_1(ended):
    code, said = ended("camera_sim_node", GOOD, "-p", "camera:=cam_frnt")
    assert code == 1
    assert said.startswith(
        "error: parameter camera: no such camera (got cam_frnt); did you mean 'cam_front'?"
    )
    assert said.count("\n") == 1


@pytest.mark.parametrize("text", ["/**:\n  ros__parameters: [1, {a: 2}]\n", "/**: [\n"])
def test_a_file_that_ros_cannot_read_is_told_without_a_traceback(ended, text):
    code, said = ended("recorder_node", text)
    assert code == 1
    assert "error: --ros-args: the ROS arguments cannot be used" in said
    assert "session.yaml" in said
    assert "Traceback" not in said


def test_a_node_that_is_none_is_one_line(capsys):
    assert start_node("recoder_node", []) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: no such node (got recoder_node); did you mean 'recorder_node'? Valid: ")
    assert said.count("\n") == 1


def test_without_ros_a_node_says_what_it_needs():
    program = (
        "import sys; sys.modules['rclpy'] = None\n"
        "from piper_collect.nodes.start import start_node\n"
        "sys.exit(start_node('recorder_node', []))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, timeout=120
    )
    assert ran.returncode == 1
    assert ran.stderr.startswith("error: recorder_node: rclpy")
    assert "is not installed: nodes need ROS 2 -> " in ran.stderr
    assert ran.stderr.count("\n") == 1


@pytest.mark.parametrize("executable", sorted(NODES))
def test_a_node_told_to_end_while_it_still_starts_ends_cleanly(ros_run, executable, tmp_path):
    file = tmp_path / "session.yaml"
    file.write_text(GOOD, encoding="utf-8")
    command = [sys.executable, "-m", "piper_collect.nodes", executable, "--ros-args"]
    command += ["--params-file", str(file), "-p", "camera:=cam_front"][
        : None if "camera" in executable else 2
    ]
    process = ros_run.launch(executable, command)
    try:
        wait_until_caught(process.pid, signal.SIGTERM)
        process.send(signal.SIGTERM)
        process.send(signal.SIGINT)
        assert process.wait() == 0
        assert process.log() == ""
    finally:
        process.end()


STUCK = """\
import ctypes, sys
from piper_collect.nodes import runtime

class Stuck(runtime.SessionNode):
    def start(self):
        self.finished = True

    def destroy_node(self):
        ctypes.PyDLL(None).sleep(3600)  # keeps the interpreter's lock

runtime._LEAVE_S = 0.5
sys.exit(runtime.run_node(lambda: Stuck("stuck")))
"""


def test_a_node_whose_middleware_hangs_when_all_is_done_ends_all_the_same(ros_run):
    process = ros_run.launch("stuck", [sys.executable, "-c", STUCK])
    try:
        assert ros_run.wait_until_gone() == {}
        assert process.wait() == 1
        assert process.log() == ""
    finally:
        process.end()
        ros_run.remove_dead_segments()


def wait_until_caught(pid, number):
    """Wait until the process has a handler of its own for a signal: the first thing that a node does."""
    deadline = time.monotonic() + 60.0
    while time.monotonic() < deadline:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("SigCgt:") and int(line.split()[1], 16) >> (number - 1) & 1:
                return
        time.sleep(0.001)
    raise AssertionError(f"process {pid} never listened to {number}")
