"""Whole sessions driven by the keys of a real (pseudo-)terminal, with real nodes."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from ros_support import DEADLINE_S, names, one_session, record_command
from rosbags.highlevel import AnyReader
from terminal_support import TerminalProcess

from piper_collect.config.load import dump_session
from piper_collect.config.schema import SessionConfig
from piper_collect.core.arbitration import MOMENT_S

TASK = "stack the cups"


class Desk:
    """A session without a headset: simulated arm, no cameras, and the keys."""

    def __init__(self, run, folder: Path) -> None:
        base = SessionConfig()
        self.run, self.folder, self.root = run, folder, folder / "recordings"
        self.config = replace(
            base,
            session=replace(base.session, root=str(self.root), task=TASK),
            devices=replace(base.devices, operator="none"),
            desk=replace(base.desk, serve=False),
            cameras={},
        )
        self.file = folder / "session.yaml"
        self.file.write_text(dump_session(self.config), encoding="utf-8")
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        self.environment = {"TMPDIR": str(self.temporary)}

    def in_terminal(self, command: list[str] | None = None, **options) -> TerminalProcess:
        """Run a session, or ``command``, in a terminal."""
        return TerminalProcess(
            self.run, "record", command or record_command(self.file), **options, **self.environment
        )

    def episodes(self) -> dict[str, dict]:
        """What each saved episode says of itself."""
        return {
            path.parent.name: json.loads(path.read_text())
            for path in sorted(self.root.glob("*/episode_*/episode.json"))
        }

    def outcomes(self) -> list[str]:
        return [record["outcome"] for record in self.episodes().values()]

    def check_nothing_is_left(self, terminal: TerminalProcess) -> None:
        """The terminal is as it was, no process and no temporary file is left."""
        assert terminal.settings() == terminal.settings_before
        assert self.run.wait_until_gone() == {}
        assert names(self.temporary) == set()
        assert not list(self.root.glob("*/.recording"))


@pytest.fixture
def desk(ros_run, tmp_path):
    return Desk(ros_run, tmp_path)


def recording(terminal: TerminalProcess, seconds: float = 0.0, *, first: bool = True) -> None:
    """Start an episode with the space bar, and let it run for a while."""
    terminal.until_state("READY")
    if not first:
        settle(terminal)
    ask(terminal, " ", lambda: terminal.line().startswith(" REC "), "it does not record")
    end = time.monotonic() + seconds
    terminal.until(lambda: time.monotonic() >= end, "waiting")


def saved(terminal: TerminalProcess, count: int) -> None:
    """Stop the episode as a person does who has seen it begin, and wait until it is saved."""
    settle(terminal)
    ask(terminal, " ", lambda: f"· {count} saved ·" in terminal.line(), "it is not saved")


def ask(terminal: TerminalProcess, key: str, done: Callable[[], object], what: str) -> None:
    """Press a key; once more where it was refused because some process had stood still just then."""
    for _ in range(5):
        terminal.type(key)
        end = time.monotonic() + 10.0
        terminal.until(lambda end=end: done() or time.monotonic() > end, what)
        if done():
            return
    raise AssertionError(f"{what}:\n{terminal.log()}")


def twice(terminal: TerminalProcess, key: str, question: str, done) -> None:
    """Press a key twice; where the machine is too busy to see the second in time, try again."""
    for _ in range(5):
        settle(terminal)
        terminal.type(key)
        terminal.until_line(question)
        terminal.type(key)
        end = time.monotonic() + 10.0
        while time.monotonic() < end:
            if done():
                return
            time.sleep(0.05)
    raise AssertionError(f"{key} {key} does nothing:\n{terminal.log()}")


def settle(terminal: TerminalProcess) -> None:
    """Let the moment pass in which what was seen to begin or end must not be undone."""
    end = time.monotonic() + MOMENT_S + 0.1
    terminal.until(lambda: time.monotonic() >= end, "waiting")


def in_shell(desk: Desk) -> TerminalProcess:
    """A shell with job control, at its prompt."""
    if not shutil.which("bash"):
        pytest.skip("there is no bash here, whose job control this is about")
    terminal = desk.in_terminal(["bash", "--norc", "--noprofile", "--noediting", "-i"], PS1="$ ")
    terminal.until_line("$")
    return terminal


def keyboard_pid(run) -> int:
    (pid,) = [pid for pid, command in run.alive().items() if "keyboard_node" in command]
    return pid


def targets_of(episode: Path) -> tuple[np.ndarray, set[bool]]:
    """Commanded positions and whether the clutch was closed, as the bag has them."""
    rows, engaged = [], set()
    with AnyReader([episode]) as reader:
        wanted = [c for c in reader.connections if c.topic == "/teleop/target"]
        for connection, _time, payload in reader.messages(wanted):
            message = reader.deserialize(payload, connection.msgtype)
            position = message.flange_pose.position
            rows.append((position.x, position.y, position.z))
            engaged.add(message.engaged)
    return np.array(rows), engaged


def test_a_whole_session_by_keys_without_a_headset(desk, ros_run):
    terminal = desk.in_terminal()
    try:
        terminal.until(terminal.reads_keys, "keys are not read")
        terminal.type("?")
        terminal.until(lambda: terminal.shows("discard the running episode"), "no help")
        recording(terminal, 1.2)
        assert "episode 0" in terminal.line()
        assert " lost · 0 saved" in terminal.line()
        bells = terminal.screen.bells
        terminal.type("h")
        terminal.until_line("stop or discard it first")
        assert terminal.screen.bells == bells + 1
        saved(terminal, 1)
        recording(terminal, first=False)
        terminal.type("d")
        terminal.until_line("episode 1 discarded")
        recording(terminal, first=False)
        saved(terminal, 2)
        assert sorted(desk.episodes()) == ["episode_000000", "episode_000001"]
        question = "x again deletes the last saved episode (2 saved)"
        twice(terminal, "x", question, lambda: "· 1 saved ·" in terminal.line())
        terminal.type("h")
        terminal.until_line("moving home")  # where the simulated arm stands already
        terminal.type("q")
        assert terminal.wait() == 0, terminal.log()
    finally:
        terminal.end()
    said = terminal.log()
    assert "Traceback" not in said
    (record,) = desk.episodes().values()
    assert (record["outcome"], record["task"]) == ("success", TASK)
    session = one_session(desk.root)
    positions, engaged = targets_of(session / "episode_000000")
    assert len(positions) > 100
    assert engaged == {False}
    assert np.ptp(positions, axis=0).max() == 0.0  # without a headset the arm holds
    summary = f"saved 1 episode, {record_seconds(record):.1f} s, {lost(record)} messages lost: {session}"
    assert summary in joined(said)
    desk.check_nothing_is_left(terminal)
    check_no_row_is_garbled(terminal)
    if kept := os.environ.get("PIPER_COLLECT_TRANSCRIPT"):
        Path(kept).write_text(said + "\n", encoding="utf-8")


def record_seconds(record: dict) -> float:
    return (record["episode_end_ns"] - record["episode_start_ns"]) / 1e9


def lost(record: dict) -> int:
    """Messages that did not arrive, which on a busy machine happens."""
    return sum(topic["lost"] for topic in record["topics"].values())


def joined(said: str) -> str:
    """The screen with its long lines in one piece again."""
    return said.replace("\n", "")


def check_no_row_is_garbled(terminal: TerminalProcess) -> None:
    """Every row above the last is one of a log, the help or the summary, or the rest of a long one."""
    starts = (
        r"\[(INFO|WARN)\] \[\d+\.\d+\] \[\w+\]: |  (space|d|x x|h|q|\?)  |saved \d|  episode_0.* INCOMPLETE"
    )
    rows = terminal.log().rstrip("\n").split("\n")
    for before, row in zip(["", *rows[:-1]], rows, strict=True):
        assert re.match(starts, row) or len(before) == terminal.screen.width, f"{row!r} follows {before!r}"
        assert not re.search(r"(READY|REC|SAVING|HOMING|ENDING) .*( saved|recorded)", row), row


def test_quitting_asks_again_while_an_episode_runs_and_saves_it_as_interrupted(desk):
    terminal = desk.in_terminal(PYTHONIOENCODING="ascii")  # a terminal that has no · and no …
    try:
        recording(terminal, 0.5)
        question = "q again ends the session: episode 0 is saved as interrupted"
        twice(terminal, "q", question, lambda: terminal.line().startswith(" ENDING ") or desk.episodes())
        assert terminal.wait() == 0, terminal.log()
    finally:
        terminal.end()
    assert desk.outcomes() == ["interrupted"]
    assert "saved 1 episode" in terminal.log()
    assert "episode_000000 is INCOMPLETE: the recorder was told to end" in terminal.log()
    assert "Traceback" not in terminal.log()
    desk.check_nothing_is_left(terminal)


def test_a_session_outlives_its_keyboard_and_sigterm_leaves_the_terminal_as_it_was(desk, ros_run):
    terminal = desk.in_terminal()
    try:
        recording(terminal, 0.3)
        os.kill(keyboard_pid(ros_run), signal.SIGKILL)
        terminal.until(lambda: terminal.shows("the keyboard has ended with exit code -9"), "not told")
        assert terminal.reads_keys()  # nobody could set it back yet
        terminal.type("x")
        settle(terminal)
        terminal.send(signal.SIGTERM)
        assert terminal.wait() == 0, terminal.log()
    finally:
        terminal.end()
    assert "saving it as interrupted" in terminal.log()
    assert desk.outcomes() == ["interrupted"]
    desk.check_nothing_is_left(terminal)


def test_the_terminal_is_as_it_was_when_the_whole_program_is_killed(desk, ros_run):
    terminal = in_shell(desk)
    try:
        shell = terminal.settings()
        terminal.type(shlex.join(record_command(desk.file)) + "\n")
        recording(terminal, 0.5)
        (pid,) = [pid for pid, command in ros_run.alive().items() if "cli.main record" in command]
        os.kill(pid, signal.SIGKILL)
        terminal.until(lambda: terminal.shows("Killed"), "it is not killed")
        terminal.until(lambda: terminal.settings() == shell, "the shell has not its terminal")
        terminal.until(lambda: list(ros_run.alive()) == [terminal.pid], "nodes are left")
        terminal.type("exit\n")
        terminal.wait()
        assert ros_run.wait_until_gone() == {}
    finally:
        terminal.end()
    ros_run.remove_dead_segments()
    assert desk.outcomes() == ["interrupted"]


def test_a_closed_terminal_ends_the_session_and_saves_what_runs(desk, ros_run):
    terminal = desk.in_terminal()
    try:
        recording(terminal, 0.5)
        terminal.hang_up()
        assert terminal.wait() == 0
        assert ros_run.wait_until_gone() == {}
    finally:
        terminal.end()
    assert desk.outcomes() == ["interrupted"]
    assert names(desk.temporary) == set()


def test_ctrl_z_gives_the_terminal_to_the_shell_and_fg_takes_it_again(desk, ros_run):
    """The nodes go on meanwhile: an episode that runs is not cut short."""
    terminal = in_shell(desk)
    try:
        shell = terminal.settings()
        terminal.type(shlex.join(record_command(desk.file)) + "\n")
        recording(terminal, 0.5)
        assert terminal.reads_keys()
        terminal.type("\x1a")
        terminal.until(lambda: terminal.shows("Stopped"), "it is not suspended")
        terminal.until(lambda: terminal.settings() == shell, "the shell has not its terminal")
        terminal.type("echo $((6 * 7))\n")  # would be keys if they were read
        terminal.until(lambda: terminal.shows("\n42"), "the shell does not answer")
        (bag,) = desk.root.glob("*/.recording/episode_000000/*.mcap")
        before = bag.stat().st_size
        terminal.until(lambda: bag.stat().st_size > before, "the recorder does not go on")
        terminal.type("fg\n")
        terminal.until(terminal.reads_keys, "keys are not read again")
        terminal.until_state("REC")
        terminal.type("\x03")
        terminal.until(lambda: terminal.shows("saved 1 episode"), "it does not end")
        terminal.until(lambda: terminal.settings() == shell, "the shell has not its terminal")
        terminal.type("exit $?\n")
        assert terminal.wait() == 0, terminal.log()
    finally:
        terminal.end()
    (record,) = desk.episodes().values()
    assert record["outcome"] == "interrupted"
    assert record["incomplete_reasons"][0] == "the recorder was told to end while the episode was running"
    assert ros_run.wait_until_gone() == {}


def test_text_that_is_piped_in_is_not_typed_but_another_terminal_has_keys_and_a_second_session_is_refused(
    desk, ros_run
):
    """Piped neither into a session, which then has no keys, nor into a keyboard, which then has no use."""
    script = f"echo ' q q q' | {shlex.join(record_command(desk.file))}"
    session = desk.in_terminal(["sh", "-c", script])
    command = [sys.executable, "-m", "piper_collect.cli.main", "keyboard"]
    keys = second = None
    try:
        piped = subprocess.run(
            command, env=ros_run.environment(), input=" q", capture_output=True, text=True, timeout=DEADLINE_S
        )
        assert (piped.returncode, piped.stdout) == (1, "")
        assert piped.stderr == (
            "error: keyboard: keys are read from a terminal only, and this is none"
            " -> start it in a terminal, without pipes\n"
        )
        keys = desk.in_terminal(command)
        keys.until_state("READY")  # nothing was typed by what was piped in
        session.type(" ")
        settle(session)
        assert not session.reads_keys()
        assert "keyboard_node" not in " ".join(ros_run.alive().values())  # it is the other terminal's
        keys.until_state("READY")
        recording(keys, 0.5)
        second = ros_run.launch("second", record_command(desk.file))
        assert second.wait() == 1
        (told,) = second.log().splitlines()
        assert told.startswith("error: /recorder/status: another session is running: /recorder publishes ")
        assert f"both have {ros_run.domain}" in told
        assert desk.root.is_dir()
        saved(keys, 1)
        assert keys.shows("recording: stack the cups")  # the answers, since no log is shown here
        keys.type("q")
        assert keys.wait() == 0
        assert keys.settings() == keys.settings_before
        assert session.exit_code() is None
        session.type("\x03")
        session.wait()
        assert ros_run.wait_until_gone() == {}
    finally:
        for each in (keys, second, session):
            if each is not None:
                each.end()
    (record,) = desk.episodes().values()
    assert record["outcome"] == "success"
    assert {topic["publisher_restarts"] for topic in record["topics"].values()} == {0}  # nobody else sent
    said = joined(session.log())
    assert f"saved 1 episode, {record_seconds(record):.1f} s, {lost(record)} messages lost" in said


def test_a_recorder_that_dies_ends_the_session_with_an_error_that_says_so(desk, ros_run):
    terminal = desk.in_terminal()
    try:
        recording(terminal, 0.3)
        saved(terminal, 1)
        recording(terminal, 1.0, first=False)
        (pid,) = [pid for pid, command in ros_run.alive().items() if "recorder_node" in command]
        os.kill(pid, signal.SIGKILL)
        assert terminal.wait() == 1
    finally:
        terminal.end()
    said = joined(terminal.log())
    assert "error: recorder was killed by SIGKILL; the session was stopped" in said
    assert "saved 1 episode" in said
    session = one_session(desk.root)
    assert f"never finished, and kept: {session}/.recording/episode_000001" in said
    assert terminal.settings() == terminal.settings_before
    ros_run.remove_dead_segments()
