"""A session that is interrupted, or whose parent is killed: nothing is left, and nothing is lost."""

import os
import random
import shutil
import signal
import time
from dataclasses import replace

import pytest
from ros_support import DEADLINE_S, RosRun, digests, names, record_command

from piper_collect.bag.reader import open_bag
from piper_collect.bag.sidecar import read_record
from piper_collect.config.graph import collection_graph
from piper_collect.config.load import dump_session
from piper_collect.config.schema import CameraSettings, SessionConfig
from piper_collect.pipelines.node_processes import NodeProcesses

SEED = 20260101
FIRST, SECOND = "episode_000000", "episode_000001"


class Session:
    """A session with simulated devices in a process group of its own, as a terminal has it."""

    def __init__(self, run: RosRun, folder, *, first_s: float = 2.0) -> None:
        base = SessionConfig()
        config = replace(
            base,
            session=replace(base.session, root=str(folder / "recordings"), task="stack"),
            cameras={"cam_front": CameraSettings(width=160, height=120)},
            sim=replace(base.sim, episode_s=(first_s, 60.0), outcomes=("save", "save")),
        )
        self.run, self.root, self.temporary = run, folder / "recordings", folder / "tmp"
        self.temporary.mkdir(exist_ok=True)
        self.before = digests(self.root) if self.root.exists() else {}
        self.sessions_before = names(self.root) if self.root.exists() else set()
        file = folder / "session.yaml"
        file.write_text(dump_session(config), encoding="utf-8")
        self.started_s = time.monotonic()
        self.process = run.launch("record", record_command(file), TMPDIR=str(self.temporary))

    def saved(self):
        """Folders of this session's saved episodes."""
        return sorted(p for p in self.root.glob("*/episode_*") if p.parent.name not in self.sessions_before)

    def recording(self, name: str) -> bool:
        """Whether the episode of that name is being recorded."""
        found = self.root.glob(f"*/.recording/{name}")
        return any(p.parent.parent.name not in self.sessions_before for p in found)

    def until(self, holds, what: str) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not holds():
            assert self.process.exit_code() is None, f"{what}: it ended\n{self.process.log()}"
            assert time.monotonic() < deadline, f"{what}: not in time\n{self.process.log()}"
            self.run.alive()
            time.sleep(0.02)

    def wait(self, seconds: float) -> None:
        """Let that much time pass: the moment itself is what is tested."""
        end = time.monotonic() + seconds
        self.until(lambda: time.monotonic() >= end, "waiting")

    def interrupt(self) -> int:
        """Ctrl-C: the signal goes to the whole group. The exit code."""
        self.run.alive()
        os.killpg(self.process.pid, signal.SIGINT)
        return self.process.wait()


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """One recording root for all sessions of this module, so that each could harm those before it."""
    folder = tmp_path_factory.mktemp("interrupted")
    yield folder
    shutil.rmtree(folder)


def check_saved(folder):
    """A saved episode is readable to its end, and whole or marked as interrupted; its outcome."""
    with open_bag(folder) as bag:
        assert (bag.notes, bag.incomplete) == ([], False)
        count = sum(1 for _ in bag.messages())
        record = read_record(bag)
    assert count == sum(info.message_count for info in bag.topics.values())
    assert record.end_ns is not None
    assert (folder / "episode.json").is_file()
    if record.outcome == "success":
        # a starved machine may lose messages: then exactly that is said; or send none for a while
        lost = {f"{topic}: {count} messages lost" for topic, count in record.losses.items() if count}
        assert {reason for reason in record.incomplete_reasons if ": silent for " not in reason} == lost
    else:
        assert record.outcome == "interrupted"
        assert "the recording was interrupted" in record.incomplete_reasons
    return record.outcome


def check_nothing_is_left(session):
    assert session.run.dead_segments() == []
    assert names(session.temporary) == set()
    left = {p.name for s in session.root.glob("*") for p in s.iterdir()} if session.root.exists() else set()
    assert left <= {"session.yaml", "session.json", FIRST, SECOND}
    now = digests(session.root) if session.root.exists() else {}
    assert {path: now.get(path) for path in session.before} == session.before


def early(session, moments):
    session.wait(moments.uniform(0.1, 0.5))


def while_the_nodes_start(session, moments):
    session.until(lambda: len(session.run.alive()) > 1, "no node is started")
    session.wait(moments.uniform(0.0, 1.0))


def about_when_they_find_each_other(session, moments):
    session.until(lambda: len(session.run.alive()) > 1, "no node is started")
    session.wait(moments.uniform(1.0, 2.5))


def about_when_the_first_is_saved(session, moments):
    session.until(lambda: session.recording(FIRST), "the first episode does not start")
    session.wait(moments.uniform(1.9, 2.6))


def well_into_the_second(session, moments):
    session.until(lambda: session.recording(SECOND), "the second episode does not start")
    session.wait(moments.uniform(0.5, 1.0))


MOMENTS = (
    early,
    while_the_nodes_start,
    about_when_they_find_each_other,
    about_when_the_first_is_saved,
    well_into_the_second,
)


@pytest.mark.parametrize("moment", MOMENTS, ids=lambda moment: moment.__name__)
def test_ctrl_c_ends_a_session_whole(ros_run, place, moment):
    session = Session(ros_run, place)
    try:
        moment(session, random.Random(f"{SEED} {moment.__name__}"))
        finished = {folder: digests(folder) for folder in session.saved()}
        code = session.interrupt()
        assert ros_run.alive() == {}
    finally:
        session.process.end()
    if moment is early:  # perhaps before the program was there at all
        assert code in (0, 130, -signal.SIGINT)
    else:
        assert code == 0, session.process.log()
        assert "Traceback" not in session.process.log()
        assert "[ERROR]" not in session.process.log()  # the operator takes it for no fault
    check_nothing_is_left(session)
    for folder, was in finished.items():
        assert digests(folder) == was
    outcomes = [check_saved(folder) for folder in session.saved()]
    if moment is well_into_the_second:
        assert outcomes == ["success", "interrupted"]
        assert len(finished) == 1


def test_nodes_that_are_stopped_as_soon_as_they_are_started_end_quietly(ros_run, tmp_path, capfd):
    config = replace(SessionConfig(), cameras={"cam_front": CameraSettings(width=160, height=120)})
    file = tmp_path / "session.yaml"
    file.write_text(dump_session(config), encoding="utf-8")
    graph = collection_graph(config)
    nodes = NodeProcesses(graph, file, ros_run.environment())
    nodes.start(graph.nodes)
    assert nodes.stop() == ()
    assert len(nodes.ended()) == len(graph.nodes)
    assert set(nodes.ended().values()) <= {0, 1}  # 1 where DDS hung at the very end
    assert "Traceback" not in capfd.readouterr().err
    assert ros_run.alive() == {}


def test_nodes_end_by_themselves_when_their_parent_is_killed(ros_run, place):
    session = Session(ros_run, place, first_s=60.0)
    try:
        session.until(lambda: session.recording(FIRST), "the first episode does not start")
        session.wait(0.5)
        session.process.send(signal.SIGKILL)
        assert session.process.wait() == -signal.SIGKILL
        assert ros_run.wait_until_gone() == {}
    finally:
        session.process.end()
    shutil.rmtree(session.temporary)  # nobody was left to remove the session file
    session.temporary.mkdir()
    ros_run.remove_dead_segments()
    check_nothing_is_left(session)
    assert [check_saved(folder) for folder in session.saved()] == ["interrupted"]


def test_an_impatient_ctrl_c_cuts_nothing_short(ros_run, place):
    session = Session(ros_run, place, first_s=60.0)
    try:
        session.until(lambda: session.recording(FIRST), "the first episode does not start")
        session.wait(0.5)
        for _ in range(3):
            os.killpg(session.process.pid, signal.SIGINT)
        assert session.interrupt() == 0
        assert ros_run.alive() == {}
    finally:
        session.process.end()
    assert "Traceback" not in session.process.log()
    check_nothing_is_left(session)
    assert [check_saved(folder) for folder in session.saved()] == ["interrupted"]
