"""How long does the target take to follow the hand, while cameras run?

A node of the bench publishes the headset's samples, as quest_node does, in a session that records an episode
of a simulated arm and two simulated cameras. Every sample moves the hand by one step of a straight line, so
each target tells which sample it follows. The time is taken from before the sample is published until the
first target that has it is received here.
"""

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, perf_counter, time_ns
from typing import Any

import numpy as np

from bench._machine import session_cpu_s

GOAL_S, GOAL_P99_S = 0.005, 0.02
STEP_M = 0.0003
STROKE = 200
"""Samples of one squeeze: 60 mm there, and with the next squeeze back."""

DEADLINE_S = 60.0
PATIENCE_S = 2.0
"""A sample that has not been followed by then never is."""

OPEN_SAMPLES = 20
PENDING = 3
"""Messages that are taken between two samples at least, should there be no time to wait for them."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the bench's arguments."""
    parser.add_argument("--rate", type=float, default=72.0, metavar="HZ", help="samples a second")
    parser.add_argument("--samples", type=int, default=2000, metavar="N", help="samples to measure")
    parser.add_argument("--domain", type=int, default=97, metavar="ID", help="ROS domain to be alone in")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Start the nodes, move the hand, and say how late the targets were."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="bench_teleop_")))
        session = stack.enter_context(_nodes(folder, args.domain))
        hand = stack.enter_context(_hand(args.domain, 1.0 / args.rate))
        hand.wait_for_the_arm()
        began_s, before_s = monotonic(), _cpu_s(session)
        while len(hand.delays_s) < args.samples:
            hand.stroke()
        took_s, after_s = monotonic() - began_s, _cpu_s(session)
        delays_s, missed, images = np.array(hand.delays_s), hand.missed, hand.images
    median_s, most_s = float(np.median(delays_s)), float(np.quantile(delays_s, 0.99))
    row = {
        "samples": len(delays_s),
        "never followed": missed,
        "median ms": round(median_s * 1e3, 2),
        "p99 ms": round(most_s * 1e3, 2),
        "images meanwhile": images,
        **{f"{name} %": round(100 * (after_s[name] - before_s[name]) / took_s, 1) for name in before_s},
    }
    return {
        "settings": vars(args),
        "table": [row],
        "goals": {
            f"median {median_s * 1e3:.1f} ms, at most {GOAL_S * 1e3:g}": median_s <= GOAL_S,
            f"99 of 100 within {most_s * 1e3:.1f} ms, at most {GOAL_P99_S * 1e3:g}": most_s <= GOAL_P99_S,
            f"{missed} samples never followed, none expected": missed == 0,
        },
    }


@contextmanager
def _nodes(folder: Path, domain: int) -> Iterator["subprocess.Popen[bytes]"]:
    """A session as a user runs it, without an operator."""
    from piper_collect.config.load import dump_session
    from piper_collect.config.schema import CameraSettings, SessionConfig

    base = SessionConfig()
    config = replace(
        base,
        session=replace(base.session, root=str(folder / "recordings"), task="follow the hand"),
        devices=replace(base.devices, operator="none"),
        cameras={"cam_front": CameraSettings(), "cam_wrist": CameraSettings()},
    )
    file, log = folder / "session.yaml", folder / "log.txt"
    file.write_text(dump_session(config), encoding="utf-8")
    command = [sys.executable, "-m", "piper_collect.cli.main", "record", "--config", str(file)]
    environment = {**os.environ, "ROS_DOMAIN_ID": str(domain), "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}
    with log.open("wb") as out:
        session = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield session
    except BaseException:
        sys.stderr.write(log.read_text(encoding="utf-8", errors="replace"))
        raise
    finally:
        session.send_signal(signal.SIGINT)
        session.wait(DEADLINE_S)


def _cpu_s(session: "subprocess.Popen[bytes]") -> dict[str, float]:
    """Processor time so far of each node of a session, by its name."""
    children = Path(f"/proc/{session.pid}/task/{session.pid}/children").read_text().split()
    words = {int(pid): Path(f"/proc/{pid}/cmdline").read_text() for pid in children}
    named = {pid: text.partition("__node:=")[2].partition("\0")[0] for pid, text in words.items()}
    return {name: session_cpu_s(pid) for pid, name in named.items() if name}


@contextmanager
def _hand(domain: int, period_s: float) -> Iterator["Hand"]:
    """A hand on the domain of the session."""
    import rclpy

    os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
    rclpy.init(domain_id=domain)
    try:
        yield Hand(rclpy.create_node("bench_hand"), period_s)
    finally:
        rclpy.shutdown()


class Hand:
    """Publishes samples at an even pace, and notes when each was followed.

    Args:
        node: Its node.
        period_s: Between samples.
    """

    def __init__(self, node: Any, period_s: float) -> None:
        from piper_collect.msg import QuestInput, TeleopTarget
        from sensor_msgs.msg import CameraInfo
        from std_srvs.srv import Trigger

        from piper_collect.nodes.executor import make_executor
        from piper_collect.nodes.qos import STREAM_QOS

        self.delays_s: list[float] = []
        self.missed = self.images = 0
        self._executor = make_executor()
        self._executor.add_node(node)
        self._period_s = period_s
        self._due_s = perf_counter()
        self._at_m, self._way, self._sequence = 0.0, 1.0, 0
        self._squeeze = 0.0
        self._target: Any = None
        self._began_m = 0.0
        self._sent_s: list[float] = []
        self._followed = 0
        self._input = node.create_publisher(QuestInput, "quest/input", STREAM_QOS)
        self._start = node.create_client(Trigger, "session/start")
        node.create_subscription(TeleopTarget, "teleop/target", self._take, STREAM_QOS)
        for camera in ("cam_front", "cam_wrist"):
            node.create_subscription(CameraInfo, f"{camera}/camera_info", self._count, STREAM_QOS)

    def wait_for_the_arm(self) -> None:
        """Wait until an episode is recorded and targets come."""
        from std_srvs.srv import Trigger

        deadline_s = monotonic() + DEADLINE_S
        started = None
        while started is None or not (started.done() and started.result().success):
            if monotonic() > deadline_s:
                raise TimeoutError("no episode starts")
            if self._start.service_is_ready() and (started is None or started.done()):
                started = self._start.call_async(Trigger.Request())
            self._publish()
        self._until(lambda: self._target is not None, "no targets")

    def stroke(self) -> None:
        """Squeeze, move one way, let go; the next one goes back."""
        for _ in range(OPEN_SAMPLES):
            self._publish()
        self._squeeze = 1.0
        self._until(lambda: self._target.engaged, "the clutch does not close")
        self._began_m, self._sent_s, self._followed = self._target.flange_pose.position.x, [], 0
        for _ in range(STROKE):
            self._at_m += self._way * STEP_M
            self._publish(moved=True)
        deadline_s = monotonic() + PATIENCE_S
        while self._followed < len(self._sent_s) and monotonic() < deadline_s:
            self._publish()
        self.missed += len(self._sent_s) - self._followed
        self._sent_s = []
        self._way = -self._way
        self._squeeze = 0.0
        self._until(lambda: not self._target.engaged, "the clutch does not open")

    def _until(self, holds: Callable[[], bool], what: str) -> None:
        deadline_s = monotonic() + DEADLINE_S
        while not holds():
            if monotonic() > deadline_s:
                raise TimeoutError(what)
            self._publish()

    def _publish(self, *, moved: bool = False) -> None:
        """Take what comes until the next sample is due, then send it."""
        left_s = self._due_s - perf_counter()
        while left_s > 0.0:
            self._executor.spin_once(timeout_sec=left_s)
            left_s = self._due_s - perf_counter()
        for _ in range(PENDING):
            self._executor.spin_once(timeout_sec=0.0)
        self._due_s = max(self._due_s + self._period_s, perf_counter())
        message = self._sample()
        if moved:
            self._sent_s.append(perf_counter())
        self._input.publish(message)

    def _sample(self) -> Any:
        from piper_collect.core.quest import BUTTON_COUNT, QuestController, QuestSample, XrPose
        from piper_collect.nodes.convert import quest_input_msg

        self._sequence += 1
        controller = QuestController(
            connected=True,
            pose_valid=True,
            grip_pose=XrPose(position_m=(0.2, 1.1, -0.4 - self._at_m)),
            button_values=(0.0, self._squeeze, *[0.0] * (BUTTON_COUNT - 2)),
            button_pressed=(False, self._squeeze > 0.5, *[False] * (BUTTON_COUNT - 2)),
            button_touched=(False,) * BUTTON_COUNT,
        )
        return quest_input_msg(
            QuestSample(
                stamp_ns=time_ns(),
                headset_time_ms=self._sequence * self._period_s * 1e3,
                sequence=self._sequence,
                visibility="visible",
                right=controller,
            )
        )

    def _take(self, target: Any) -> None:
        now_s = perf_counter()
        self._target = target
        gone_m = abs(target.flange_pose.position.x - self._began_m)
        followed = min(int(gone_m / STEP_M + 0.1), len(self._sent_s))
        self.delays_s += [now_s - sent_s for sent_s in self._sent_s[self._followed : followed]]
        self._followed = max(self._followed, followed)

    def _count(self, _info: Any) -> None:
        self.images += 1
