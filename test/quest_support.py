"""A session that a person drives from a headset, what its episode left, and where its arm belonged."""

import json
import math
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from ros_support import Rig, RosRun, one_session, record_command
from xr_support import Operator

from piper_collect.bag.extras import write_quest_jsonl
from piper_collect.bag.reader import open_bag
from piper_collect.config.load import dump_session
from piper_collect.config.profile import load_profile
from piper_collect.config.schema import CameraSettings, SessionConfig
from piper_collect.core.clutch import OPEN
from piper_collect.core.hand_path import hand_at
from piper_collect.core.se3 import (
    pose_error,
    quat_conjugate,
    quat_multiply,
    quat_rotate,
    yaw_quat,
)
from piper_collect.dataset.reader import DatasetReader, open_dataset
from piper_collect.pipelines.bag_episodes import ExportOptions
from piper_collect.pipelines.export import export

SEED = 11
YAW_RAD, SCALE = 0.4, 0.8
STALE_S = 2.0  # frames are drawn in software here, beside everything else: they may come late
STALL_NS = 400_000_000  # what came in a stall is followed at once, from the first to the last of it
REACH_NS = round(STALE_S * 1e9)
TRIES = 5
REST_M = 2e-3  # springs and frames leave the arm 1 mm off
MOST_M, MOST_RAD = 1e-3, np.radians(0.5)


def quest_session(root: Path) -> SessionConfig:
    """A small simulated cell that a headset drives."""
    base = SessionConfig()
    small = CameraSettings(width=160, height=120, fps=15.0, max_age_ms=1000.0)
    return replace(
        base,
        session=replace(base.session, root=str(root / "recordings"), task="follow the hand", fps=15.0),
        devices=replace(base.devices, operator="quest"),
        desk=replace(base.desk, serve=False),
        teleop=replace(base.teleop, yaw_rad=YAW_RAD, scale=SCALE, stale_s=STALE_S),
        quest=replace(base.quest, port=0, certificate_dir=str(root / "certificate")),
        cameras={"cam_front": small, "cam_wrist": small},
        sources={name: replace(source, max_age_ms=1000.0) for name, source in base.sources.items()},
        recorder=replace(base.recorder, fresh_s=STALE_S),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A running session with a paired headset, and a node that listens."""

    rig: Rig
    operator: Operator
    process: Any
    root: Path

    def both(self, holds: Any, what: str) -> None:
        """Wait while browser and node go on."""

        def step() -> bool:
            for _ in range(200):
                self.rig.spin(0.0005)
            return bool(holds())

        self.operator.until(step, f"{what}\n{self.process.log()}")

    def squeeze(self, targets: list[Any]) -> None:
        """Hold the grip until the arm follows; open it between tries, as teleoperation demands."""
        for _ in range(10):
            self.operator.press("right", "squeeze")
            for _ in range(20):
                self.both(lambda: True, "")
                if targets[-1].engaged:
                    return
            self.operator.press("right", "squeeze", 0.0)
            self.both(lambda: True, "")
        raise AssertionError(f"the clutch does not close\n{self.process.log()}")

    def press(self, hand: str, button: str, until: Any, what: str) -> None:
        """Press and let go until it has worked, as a person does."""
        for _ in range(10):
            self.operator.press(hand, button)
            self.operator.tab.wait_for_timeout(200)
            self.operator.press(hand, button, 0.0)
            self.operator.tab.wait_for_timeout(300)
            for _ in range(30):
                if until():
                    return
                self.both(lambda: True, what)
                self.operator.tab.wait_for_timeout(100)
        raise AssertionError(f"{what}\n{self.process.log()}")

    def follow(self, script: list[list[float]], teleop: list[Any]) -> bool:
        """Start an episode and let the hand follow its script; whether the arm was led both times.

        Without processor time the session lets go by itself, as it must.
        """
        self.press("right", "a-button", lambda: self.operator.shown() == "REC", "it does not record")
        count = len(teleop)
        self.operator.run(f"emulator.follow({json.dumps(script)})")
        self.both(lambda: self.operator.run("emulator.path === null"), "the hand does not come to its end")
        end_s = time.time()
        self.both(lambda: teleop[-1].header.stamp.sec > end_s, "teleoperation is silent")
        since = teleop[count - 1 :]
        following = [s.state == s.STATE_FOLLOWING for s in since]
        begun = sum(now and not before for before, now in pairwise(following))
        ends = [
            s.text for s, (before, now) in zip(since[1:], pairwise(following), strict=True) if before > now
        ]
        return begun == 2 and ends == [OPEN, OPEN] and not any(s.fault for s in since)

    def wait_for_rest(self) -> None:
        """Wait until the arm stands where it was led to."""
        from geometry_msgs.msg import PoseStamped

        wanted = self.rig.listen(PoseStamped, "/teleop/target_pose")
        measured = self.rig.listen(PoseStamped, "/arm/flange_pose")

        def at_rest() -> bool:
            if not wanted or not measured:
                return False
            goal, place = wanted[-1].pose.position, measured[-1].pose.position
            return math.dist((goal.x, goal.y, goal.z), (place.x, place.y, place.z)) < REST_M

        self.both(at_rest, "the arm does not come to where its target is")


@contextmanager
def open_stage(run: RosRun, root: Path, rig: Rig, browser: Any, config: SessionConfig) -> Iterator[Stage]:
    """Start the session, pair the headset, and enter VR."""
    file = root / "session.yaml"
    file.write_text(dump_session(config), encoding="utf-8")
    # with the package's own DDS profile, as a user runs it
    own_profile = {"FASTRTPS_DEFAULT_PROFILES_FILE": None, "FASTDDS_DEFAULT_PROFILES_FILE": None}
    process = run.launch("record", record_command(file), **own_profile)
    try:
        rig.until(lambda: "Pairing code" in process.log(), "the page does not open")
        log = process.log()
        port = re.search(r"https://localhost:(\d+)/", log)[1]
        code = re.search(r"Pairing code: (\d{3}) (\d{3})", log)
        with browser.visit(f"https://localhost:{port}/") as operator:
            operator.pair(code[1] + code[2])
            operator.enter()
            yield Stage(rig=rig, operator=operator, process=process, root=root)
            assert operator.errors == []
    finally:
        process.end()


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What one episode left, and what the emulator says it gave.

    Attributes:
        frames: What the emulated headset gave at each of its frames, by its own account.
        inputs: QuestInput of the bag, as JSON has it.
        targets: TeleopTarget of the bag.
        session: The session's folder.
        dataset: What was exported of it.
        pulses: What was felt.
        log: All that the session printed.
    """

    frames: list[dict[str, Any]]
    inputs: list[dict[str, Any]]
    targets: list["Target"]
    session: Path
    dataset: DatasetReader
    pulses: list[dict[str, Any]]
    log: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One TeleopTarget of a bag; pose7 of the flange."""

    stamp_ns: int
    receive_ns: int
    pose7: np.ndarray
    engaged: bool


def script_of_the_hand(duration_s: float) -> list[list[float]]:
    """The scripted hand every 10 ms: [ms, position, quaternion, squeeze, trigger]."""
    points = []
    for ms in range(0, int(duration_s * 1000) + 1, 10):
        hand = hand_at(SEED, 0, duration_s, ms / 1000, "right")
        pose = (*hand.grip_pose.position_m, *hand.grip_pose.orientation_xyzw)
        points.append([float(ms), *pose, hand.squeeze, hand.trigger])
    return points


def record_an_episode(stage: Stage, duration_s: float) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """A in the headset starts, the hand follows its script, A stops and saves.

    Args:
        stage: The session.
        duration_s: Of the hand's script.

    Returns:
        Frames and pulses as ``Made`` has them.
    """
    from piper_collect.msg import SessionStatus, TeleopStatus

    from piper_collect.nodes.qos import LATCHED_QOS

    status = stage.rig.listen(SessionStatus, "/session/status", LATCHED_QOS)
    teleop = stage.rig.listen(TeleopStatus, "/teleop/status", LATCHED_QOS)
    operator = stage.operator
    stage.both(lambda: operator.shown() == "READY", "the session is never ready")
    for _ in range(TRIES):
        if stage.follow(script_of_the_hand(duration_s), teleop):
            break
        stage.press("right", "b-button", lambda: operator.shown() == "READY", "it is not discarded")
        operator.run("emulator.pulses.splice(0)")
    else:
        raise AssertionError(f"the hand was let go in each of {TRIES} episodes\n{stage.process.log()}")
    stage.wait_for_rest()
    stage.press("right", "a-button", lambda: operator.shown() == "READY", "it does not save")
    stage.both(lambda: status[-1].episodes_saved == 1, "the episode is not counted")
    operator.until(lambda: "1 saved" in operator.tab.text_content("#state-aside"), "nor shown")
    return operator.frames(), operator.run("emulator.pulses")


def made_of(stage: Stage, frames: list[dict[str, Any]], pulses: list[dict[str, Any]]) -> Made:
    """Export the episode that was recorded on a stage."""
    root = stage.root
    session = one_session(root / "recordings")
    (bag,) = session.glob("episode_*")
    options = ExportOptions(profile=load_profile("piper"), allow_incomplete=True)  # a process may stand still
    exported = export([session], root / "dataset", options)
    (outcome,) = exported.bags
    assert outcome.status == "exported", outcome.reason
    record = json.loads((bag / "episode.json").read_text())
    with open_bag(bag) as opened:
        lines = root / "quest.jsonl"
        write_quest_jsonl(opened, "/quest/input", record["episode_start_ns"], record["episode_end_ns"], lines)
    return Made(
        frames=frames,
        inputs=[json.loads(line) for line in lines.read_text().splitlines()],
        targets=read_targets(bag),
        session=session,
        dataset=open_dataset(root / "dataset"),
        pulses=pulses,
        log=stage.process.log(),
    )


def read_targets(bag: Path) -> list[Target]:
    """Every TeleopTarget of the bag."""
    from rosbags.highlevel import AnyReader

    found = []
    with AnyReader([bag]) as reader:
        wanted = [c for c in reader.connections if c.topic == "/teleop/target"]
        for connection, receive_ns, payload in reader.messages(wanted):
            message = reader.deserialize(payload, connection.msgtype)
            stamp_ns = message.header.stamp.sec * 10**9 + message.header.stamp.nanosec
            p, q = message.flange_pose.position, message.flange_pose.orientation
            pose = np.array([p.x, p.y, p.z, q.w, q.x, q.y, q.z])
            found.append(
                Target(stamp_ns=stamp_ns, receive_ns=receive_ns, pose7=pose, engaged=message.engaged)
            )
    return found


def flu(grip: list[float]) -> np.ndarray:
    """WebXR (x right, y up, z back) to x forward, y left, z up; written out here once more."""
    x, y, z, qx, qy, qz, qw = grip
    return np.array([-z, -x, y, qw, -qz, -qx, qy])


def mapped(hand: np.ndarray, origin: np.ndarray, flange: np.ndarray) -> np.ndarray:
    """Where the flange belongs: the hand's move since the squeeze, turned and scaled, from where it was."""
    yaw = yaw_quat(YAW_RAD)
    shift = SCALE * quat_rotate(yaw, hand[:3] - origin[:3])
    turn = quat_multiply(hand[3:], quat_conjugate(origin[3:]))
    turn = quat_multiply(quat_multiply(yaw, turn), quat_conjugate(yaw))
    return np.concatenate((flange[:3] + shift, quat_multiply(turn, flange[3:])))


def squeezes(made: Made) -> list[tuple[int, int]]:
    """First and last input of each time that the emulator's grip was held, by its own account."""
    order = {frame["time"]: frame for frame in made.frames}
    held = [order[line["headset_time_ms"]]["right"]["values"][1] for line in made.inputs]
    runs, start = [], None
    for k, squeeze in enumerate(held):
        if start is None and squeeze >= 0.6:
            start = k
        if start is not None and squeeze < 0.4:
            runs.append((start, k))
            start = None
    return runs


def way_to(point: np.ndarray, a: np.ndarray, b: np.ndarray) -> float:
    """Distance from a point to the straight way between two."""
    way = b - a
    share = 0.0 if not way.any() else float(np.clip(np.dot(point - a, way) / np.dot(way, way), 0.0, 1.0))
    return float(np.linalg.norm(point - (a + share * way)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Grip:
    """One time that the grip was held: and where its inputs lead the flange.

    Attributes:
        first: Index of the input that closed the clutch.
        last: Index of the input that opened it.
        engaged: Indexes of the targets that followed.
        path: Where each of the inputs leads the flange, pose7 [last - first + 1, 7].
    """

    first: int
    last: int
    engaged: list[int]
    path: np.ndarray


def grips(made: Made) -> list[Grip]:
    """From the emulator's own poses, through the mapping as written here."""
    frames = {frame["time"]: frame for frame in made.frames}
    stamps = input_stamps(made)
    hands = np.array([flu(frames[i["headset_time_ms"]]["right"]["grip"]) for i in made.inputs])
    found = []
    for first, last in squeezes(made):
        inside = range(len(made.targets))
        engaged = [
            k
            for k in inside
            if made.targets[k].engaged and stamps[first] <= made.targets[k].stamp_ns <= stamps[last]
        ]
        flange = made.targets[engaged[0] - 1].pose7  # what was commanded when the clutch closed
        path = np.array([mapped(hand, hands[first], flange) for hand in hands[first : last + 1]])
        found.append(Grip(first=first, last=last, engaged=engaged, path=path))
    return found


def input_stamps(made: Made) -> np.ndarray:
    """When each input arrived on the host."""
    return np.array([i["header"]["stamp_ns"] for i in made.inputs])


def check_actions(made: Made) -> None:
    """The dataset's actions are the emulator's path of the hand, mapped to the arm."""
    stamps, target_ns = input_stamps(made), np.array([t.stamp_ns for t in made.targets])
    actions = np.array(made.dataset.rows(0).column("action.arm_eef").to_pylist())
    held = grips(made)
    assert len(held) == 2
    errors: list[tuple[float, float]] = []
    for grip in held:
        begin, end = target_ns[grip.engaged[0]], target_ns[grip.engaged[-1]]
        for action, stamp in zip(actions, row_stamps(made, target_ns), strict=True):
            if begin <= stamp <= end:
                errors.append(off_the_path(action, int(stamp), grip, stamps))
    worst_m, worst_rad = np.max(errors, axis=0)
    print(f"{len(errors)} rows; worst {worst_m * 1e3:.4f} mm, {np.degrees(worst_rad):.4f} deg")
    assert len(errors) >= 10
    assert min(np.ptp(grip.path[:, :3], axis=0).max() for grip in held) > 0.01
    assert worst_m <= MOST_M
    assert worst_rad <= MOST_RAD


def off_the_path(action: np.ndarray, stamp: int, grip: Grip, stamps: np.ndarray) -> tuple[float, float]:
    """How far an action is from the way between two inputs that it may have come from: m and rad."""
    span = range(grip.first, grip.last + 1)
    near = [k - grip.first for k in span if stamp - REACH_NS <= stamps[k] <= stamp or k == grip.first]
    at = stamps[grip.first :]
    ways = [(a, b) for a in near for b in near if a <= b and at[b] - at[a] <= STALL_NS]
    away_m = min(way_to(action[:3], grip.path[a, :3], grip.path[b, :3]) for a, b in ways)
    return away_m, min(float(pose_error(grip.path[k], action)[1]) for k in near)


def row_stamps(made: Made, target_ns: np.ndarray) -> np.ndarray:
    """Stamps of the targets that the rows are: ``timestamp`` is float32 seconds after T0."""
    t0_ns = made.dataset.sources[0]["t0_ns"]
    seconds = np.array(made.dataset.rows(0).column("timestamp").to_pylist())
    offsets = (target_ns - t0_ns) / 1e9
    nearest = np.abs(offsets[None, :] - seconds[:, None]).argmin(axis=1)
    assert np.array_equal(offsets[nearest].astype(np.float32), seconds.astype(np.float32))
    return target_ns[nearest]
