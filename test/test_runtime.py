"""How every node starts and ends: one line for a wrong setting, a clean end on a signal at any time."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from piper_collect.nodes.start import NODES, start_node

ROOT = Path(__file__).resolve().parents[1]
GOOD = "/**:\n  ros__parameters:\n    session: {task: stack}\n"


WRONG_SETTINGS = (
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
)
WRONG_PARAMETERS = (
    (
        "camera_sim_node",
        "camera:=cam_frnt",
        "parameter camera: no such camera (got cam_frnt); did you mean 'cam_front'?",
    ),
    (
        "camera_sim_node",
        "camrea:=cam_front",
        "parameters.camrea: unknown setting (got camrea); did you mean 'camera'?",
    ),
    ("recorder_node", "foo:=1", "parameters.foo: unknown setting (got foo) Valid: look_s, arm, bridge, "),
    (
        "teleop_node",
        "teleop.scael:=2.0",
        "parameters.teleop.scael: unknown setting (got scael); did you mean 'scale'?",
    ),
    ("recorder_node", "look_s:=-1.0", "parameter look_s: not a usable time (expected 0 to 60 s, got -1.0)"),
    (
        "recorder_node",
        "session:=1",
        "parameters.session: is a setting and a map of settings (got session.task)",
    ),
)
UNREADABLE = ("/**:\n  ros__parameters: [1, {a: 2}]\n", "/**: [\n")
AT_ONCE = 4
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def ended(ros_run, tmp_path_factory):
    """Exit code and output of every node that is started wrongly here, by node, file and parameter."""
    folder = tmp_path_factory.mktemp("wrong")
    starts = [
        *((executable, text, "") for executable, text, _ in WRONG_SETTINGS),
        *((executable, GOOD, word) for executable, word, _ in WRONG_PARAMETERS),
        *(("recorder_node", text, "") for text in UNREADABLE),
    ]
    found = {}
    for first in range(0, len(starts), AT_ONCE):
        running = {}
        for number, (executable, text, word) in enumerate(starts[first : first + AT_ONCE], start=first):
            file = folder / f"{number}_session.yaml"
            file.write_text(text, encoding="utf-8")
            command = [sys.executable, "-m", "piper_collect.nodes", executable, "--ros-args"]
            command += ["--params-file", str(file), *(("-p", word) if word else ())]
            running[executable, text, word] = ros_run.launch(executable, command)
        try:
            found |= {start: (process.wait(), process.log()) for start, process in running.items()}
        finally:
            for process in running.values():
                process.end()
    return found


@pytest.mark.parametrize(("executable", "text", "expected"), WRONG_SETTINGS)
def test_a_wrong_setting_is_one_line_and_exit_1(ended, executable, text, expected):
    code, said = ended[executable, text, ""]
    assert code == 1
    assert said.startswith("error: ")
    assert expected in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(("executable", "word", "expected"), WRONG_PARAMETERS)
def test_a_wrong_parameter_on_the_command_line_is_one_line_with_the_nearest_name(
    ended, executable, word, expected
):
    code, said = ended[executable, GOOD, word]
    assert code == 1
    assert said.startswith(f"error: {expected}")
    assert said.count("\n") == 1


@pytest.mark.parametrize("text", UNREADABLE)
def test_a_file_that_ros_cannot_read_is_told_without_a_traceback(ended, text):
    code, said = ended["recorder_node", text, ""]
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


# a replay needs a plan, and its exit code tells that it was interrupted; view_node needs Rerun
STARTING = sorted(set(NODES) - {"replay_node", "view_node"})


@pytest.fixture(scope="module")
def told_early(ros_run, tmp_path_factory):
    """Exit code and output of every node, each told to end as soon as it listens."""
    folder = tmp_path_factory.mktemp("early")
    file = folder / "session.yaml"
    file.write_text(GOOD + f"    quest: {{port: 0, certificate_dir: {folder}}}\n", encoding="utf-8")
    found = {}
    for first in range(0, len(STARTING), AT_ONCE):
        running = {}
        for executable in STARTING[first : first + AT_ONCE]:
            command = [sys.executable, "-m", "piper_collect.nodes", executable, "--ros-args"]
            command += ["--params-file", str(file)]
            command += ["-p", "camera:=cam_front"] if "camera" in executable else []
            running[executable] = ros_run.launch(executable, command)
        try:
            waiting = list(running.values())
            deadline = time.monotonic() + PATIENCE_S
            while waiting:
                assert time.monotonic() < deadline, [process.log() for process in waiting]
                for process in [p for p in waiting if p.exit_code() is not None or catches(p.pid)]:
                    process.send(signal.SIGTERM)
                    process.send(signal.SIGINT)
                    waiting.remove(process)
                time.sleep(0.001)
            found |= {name: (process.wait(), process.log()) for name, process in running.items()}
        finally:
            for process in running.values():
                process.end()
    return found


@pytest.mark.parametrize("executable", STARTING)
def test_a_node_told_to_end_while_it_still_starts_ends_cleanly(told_early, executable):
    code, said = told_early[executable]
    assert code == 0, said
    assert not any(word in said for word in ("Traceback", "[ERROR]", "error:")), said


STUCK = """\
import ctypes, sys
from piper_collect.nodes import runtime

class Stuck(runtime.SessionNode):
    def start(self):
        self.finished = True

    def destroy_node(self):
        ctypes.PyDLL(None).sleep(3600)  # keeps the interpreter's lock

runtime.LEAVE_S = 0.5
sys.exit(runtime.run_node(lambda: Stuck("stuck")))
"""


def test_a_signal_that_comes_when_python_already_ends_does_not_kill():
    program = """
import os, signal
from piper_collect.nodes import signals
signals.listen()
class Last:
    def __del__(self, kill=os.kill, pid=os.getpid(), number=signal.SIGINT):
        kill(pid, number)
last = Last()
"""
    done = subprocess.run([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.returncode == 0


def test_a_node_whose_middleware_hangs_when_all_is_done_ends_all_the_same(ros_run):
    process = ros_run.launch("stuck", [sys.executable, "-c", STUCK])
    try:
        assert ros_run.wait_until_gone() == {}
        assert process.wait() == 1
        assert process.log() == ""
    finally:
        process.end()
        ros_run.remove_dead_segments()


def catches(pid, number=signal.SIGTERM):
    """Whether the process has a handler of its own for a signal: the first thing that a node does."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    caught = next((int(line.split()[1], 16) for line in lines if line.startswith("SigCgt:")), 0)
    return bool(caught >> (number - 1) & 1)


def test_the_executable_of_a_node_keeps_a_signal_that_comes_before_it_listens(tmp_path):
    """The signal comes as soon as the program imports anything of ours."""
    package = tmp_path / "piper_collect"
    (package / "cli").mkdir(parents=True)
    (package / "__init__.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    (package / "cli" / "__init__.py").write_text("")
    listens = f"import sys\nsys.path.insert(0, {str(ROOT / 'piper_collect' / 'nodes')!r})\nimport signals\n"
    called = "def main_as_called():\n    signals.listen()\n    return 0 if signals.stop_asked() else 7\n"
    (package / "cli" / "main.py").write_text(listens + called)
    program = tmp_path / "some_node"
    program.write_text((ROOT / "scripts" / "verb").read_text())
    done = subprocess.run([sys.executable, program], env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert done.returncode == 0
