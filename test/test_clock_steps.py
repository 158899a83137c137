"""The clock of the machine is set while a session runs: none takes it for a silence, and silences are told.

All nodes of a session are on a clock that the test sets, which is also that of the headset's stamps.
"""

import asyncio
import json
import re
import signal
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from clock_site import SetClock
from page_support import browser
from ros_support import ROOT, Rig
from teleop_cell import Cell, config_of
from terminal_support import TerminalProcess

from piper_collect.config.load import dump_session
from piper_collect.config.schema import SourceSettings
from piper_collect.core.kinematics import JOINT_NAMES
from piper_collect.nodes.qos import LATCHED_QOS

HOUR_NS = 3600 * 10**9
TRIES = 5
JOINTS = "/arm/joint_states"


class Pages:
    """What a page of the headset and one at the desk are shown, kept by sockets that are read meanwhile."""

    def __init__(self, rig: Rig, quest: str, desk: str) -> None:
        self.rig = rig
        self.heard: dict[str, list[dict]] = {"quest": [], "desk": []}
        self._loop = asyncio.new_event_loop()
        self._ends = asyncio.Event()
        self._reader = self._loop.create_task(self._read(quest, desk))

    def turn(self) -> None:
        """Take what has come."""
        self._loop.run_until_complete(asyncio.sleep(0.001))
        assert not self._reader.done(), self._reader.result()

    async def _read(self, quest: str, desk: str) -> None:
        async with browser() as http, asyncio.TaskGroup() as readers:
            readers.create_task(self._follow(http, quest, "/operator", "quest", None))
            readers.create_task(
                self._follow(http, desk, "/desk/state", "desk", {"type": "watch", "token": ""})
            )

    async def _follow(self, http, url: str, path: str, name: str, first) -> None:
        async with http.ws_connect(f"{url}{path}", headers={"Origin": url}) as socket:
            if first is not None:
                await socket.send_json(first)
            while not self._ends.is_set():
                try:
                    message = await socket.receive(0.1)
                except TimeoutError:
                    continue
                content = json.loads(message.data)
                if content["type"] == "state":
                    self.heard[name].append(content)

    def close(self) -> None:
        self._ends.set()
        self._loop.run_until_complete(self._reader)
        self._loop.close()


class Session:
    """A session of real nodes with all that shows it, and a hand that drives."""

    def __init__(self, rig: Rig, folder: Path) -> None:
        from piper_collect.msg import RecorderStatus, SessionStatus
        from visualization_msgs.msg import MarkerArray

        self.rig, self.clock = rig, SetClock(folder)
        base = config_of()
        joints = SourceSettings(topic=JOINTS, field="position", select=JOINT_NAMES)
        config = replace(
            base,
            session=replace(base.session, root=str(folder / "recordings"), task="stack the cups"),
            cameras={},
            sources={"arm_joint": joints},
            recorder=replace(base.recorder, fresh_s=2.0, min_free_gb=0.0, clock_step="flag"),
            desk=replace(base.desk, port=0),
            quest=replace(base.quest, port=0, certificate_dir=str(folder / "certificate")),
        )
        self.sessions = rig.listen(SessionStatus, "/session/status", LATCHED_QOS)
        self.recorders = rig.listen(RecorderStatus, "/recorder/status", LATCHED_QOS)
        self.markers = rig.listen(MarkerArray, "/display/markers")
        start = partial(rig.start, config=config, site=self.clock.site)
        self.recorder, self.session = start("recorder_node", look_s="0.1"), start("session_node")
        self.display, self.desk = start("display_node"), start("desk_node")
        file = folder / "page.yaml"
        file.write_text(dump_session(config), encoding="utf-8")
        quest = [*self._command("quest_node", file), "-r", "quest/input:=page/input"]  # the test has the hand
        self.quest = rig.add(rig.run.launch("quest_node", quest, PYTHONPATH=self._path()))
        self.terminal = TerminalProcess(
            rig.run, "keyboard", self._command("keyboard_node", file), PYTHONPATH=self._path()
        )
        self.cell = Cell(rig, config, clock=self.clock)
        rig.until(lambda: re.search(r"https://localhost:\d+", self.quest.log()), "no page for the headset")
        rig.until(lambda: re.search(r"http://localhost:\d+", self.desk.log()), "no page at the desk")
        quest, desk = (
            re.search(rf"{kind}://localhost:\d+", node.log())[0]
            for kind, node in (("https", self.quest), ("http", self.desk))
        )
        self.pages = Pages(rig, quest, desk)

    def _path(self) -> str:
        return f"{ROOT}:{self.clock.site}"

    def _command(self, executable: str, file: Path) -> list[str]:
        command = [sys.executable, "-m", "piper_collect.nodes", executable]
        return [*command, "--ros-args", "--params-file", str(file)]

    def close(self) -> None:
        self.pages.close()
        self.terminal.end()

    def until(self, holds, what: str) -> None:
        self.rig.until(holds, what, meanwhile=self.pages.turn)

    def call(self, name: str):
        from std_srvs.srv import Trigger

        future = self.rig.ask(Trigger, f"/session/{name}")
        self.until(future.done, f"no answer of {name}")
        return future.result()

    def state(self) -> str:
        """What the display shows."""
        texts = [m.text for m in self.markers[-1].markers if m.ns == "state"] if self.markers else [""]
        return texts[0]

    def topic(self, name: str):
        """What the recorder says of a topic."""
        return next(topic for topic in self.recorders[-1].topics if topic.name == name)

    def page(self, name: str) -> dict:
        heard = self.pages.heard[name]
        return heard[-1] if heard else {"state": "", "faults": [], "elapsed_ms": 0.0, "topics": None}

    def is_well(self) -> bool:
        """Everybody hears everybody, and the arm follows."""
        status = self.sessions[-1] if self.sessions else None
        return (
            status is not None
            and status.state == status.STATE_RECORDING
            and not status.faults
            and self.cell.targets[-1].engaged
            and self.state().startswith("REC 00:")
            and self.terminal.line().startswith(" REC 00:")
            and all(self.page(name)["state"] == "recording" for name in ("quest", "desk"))
            and self.page("desk")["topics"] is not None
        )

    def trouble(self, look) -> set[str]:
        """What is told that is not so while ``look`` goes on, in words."""
        found: set[str] = set()
        lists = (self.sessions, self.recorders, self.cell.statuses, self.markers, *self.pages.heard.values())
        first = [len(heard) for heard in lists]

        def seen() -> bool:
            found.update(self._untrue())
            return look() and all(len(heard) > was + 5 for heard, was in zip(lists, first, strict=True))

        self.until(seen, "somebody is silent")
        sessions, recorders, teleops, _, *pages = (h[was:] for h, was in zip(lists, first, strict=True))
        found |= {fault for status in sessions for fault in status.faults}
        found |= {t.reason for status in recorders for t in status.topics if "silent" in t.reason}
        found |= {status.text for status in teleops if status.state != status.STATE_FOLLOWING}
        found |= {f"{status.elapsed.sec} s" for status in recorders if not 0 <= status.elapsed.sec < 3000}
        found |= {fault for page in pages for state in page for fault in state["faults"]}
        return found

    def _untrue(self) -> set[str]:
        shown = self.state().splitlines()[0], self.terminal.line()
        return {text for text in shown if not re.match(" ?REC 0", text)}


@pytest.fixture
def session(rig, tmp_path):
    session = Session(rig, tmp_path)
    yield session
    session.close()


def test_a_clock_that_is_set_trips_nobody_and_hides_no_silence(session, tally):
    session.until(lambda: session.sessions, "no session")
    session.until(lambda: session.sessions[-1].state == session.sessions[-1].STATE_READY, "never ready")
    answer = session.call("start")
    assert answer.success, answer.message
    for step_ns in (HOUR_NS, -2 * HOUR_NS):
        for _ in range(TRIES):  # a busy machine may hold somebody up for so long, though not each time
            session.cell.engage()
            session.until(session.is_well, "it is not well")
            session.clock.set(session.clock.ahead_ns + step_ns)
            found = session.trouble(lambda: True)
            if not found:
                tally("steps of the clock survived")
                break
        assert not found
    answer = session.call("stop")
    assert answer.success
    assert "silent" not in answer.message
    assert re.search(r"episode 0 saved: [0-9]{1,3}\.[0-9] s", answer.message), answer.message

    # the clock was set back by two hours just now: what falls silent is told all the same
    cell = session.cell
    cell.hand.cancel()
    cell.until_said("STATE_HOLDING", "no sample from the headset for more than 2 s")
    cell.arm.send(signal.SIGSTOP)
    session.until(lambda: "silent for" in session.topic(JOINTS).reason, "the recorder is blind")
    session.until(
        lambda: "the arm's status is silent" in session.sessions[-1].faults,
        "the session is blind for the arm",
    )
    session.recorder.send(signal.SIGSTOP)
    silent = "the recorder is silent"
    session.until(lambda: silent in session.sessions[-1].faults, "the session is blind for the recorder")
    session.until(lambda: session.page("desk")["topics"] is None, "the desk is blind for the recorder")
    session.session.send(signal.SIGSTOP)
    for name in ("quest", "desk"):
        session.until(
            lambda name=name: session.page(name)["faults"] == ["the session is silent"], f"{name} is blind"
        )
    session.until(lambda: session.state().startswith("NO SESSION"), "the display is blind")
    session.until(lambda: "NO SESSION" in session.terminal.line(), "the keyboard is blind")
