"""Real recorders that are killed at seeded moments, several at once, each in a namespace of its own.

A publisher here sends at 100 Hz at most, and never has more than ``WINDOW`` messages on their way: what a
kill can cost is then bounded however busy the machine is. Stamps are as regular as a sensor's.
"""

import random
import signal
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from recorder_studio import LOOK_S
from ros_support import Rig

from piper_collect.config.load import dump_session
from piper_collect.config.schema import SessionConfig

PERIOD_NS = 10_000_000
WINDOW = 20
READY, RECORDING = 1, 2
TOPICS = ("arm/joint_states", "arm/flange_pose", "teleop/target")


@dataclass
class Victim:
    """A recorder, what it is sent, and when it dies.

    Attributes:
        number: Which kill it is.
        root: Its recording root.
        storage: ``mcap`` or ``sqlite3``.
        kill_after: Messages a topic that are sent before.
        delay_s: How long after the last of them.
        end: The signal that ends it.
        sent: Header stamps of the episode, the same on every topic, in ns.
        dead: Whether it was killed.
    """

    number: int
    root: Path
    storage: str
    kill_after: int
    delay_s: float
    end: signal.Signals = signal.SIGKILL
    sent: list[int] = field(default_factory=list)
    dead: bool = False

    @property
    def name(self) -> str:
        return f"kill_{self.number}"

    @property
    def topics(self) -> list[str]:
        return [f"/{self.name}/{topic}" for topic in TOPICS]

    def config(self) -> SessionConfig:
        base = SessionConfig(cameras={})
        session = replace(base.session, root=str(self.root), task="stack", namespace=self.name)
        recorder = replace(
            base.recorder, fresh_s=60.0, min_free_gb=0.0, storage=self.storage, storage_backend="pip"
        )
        return replace(base, session=session, recorder=recorder)


def make_victims(
    folder: Path,
    count: int,
    seed: int = 3,
    *,
    most: int = 240,
    ends: tuple[signal.Signals, ...] = (signal.SIGKILL,),
) -> list[Victim]:
    """Every other one writes sqlite3; each signal of ``ends`` ends as many."""
    chance = random.Random(seed)
    return [
        Victim(
            number=number,
            root=folder / f"root_{number}",
            storage=("mcap", "sqlite3")[number % 2],
            kill_after=chance.randrange(10, most),
            delay_s=chance.uniform(0.0, 0.3),
            end=ends[number // 2 % len(ends)],
        )
        for number in range(count)
    ]


class Assassin:
    """Feeds one recorder and kills it."""

    def __init__(self, rig: Rig, victim: Victim) -> None:
        from geometry_msgs.msg import PoseStamped
        from piper_collect.msg import RecorderStatus, TeleopTarget
        from rclpy.qos import DurabilityPolicy, QoSProfile
        from sensor_msgs.msg import JointState

        self.rig, self.victim = rig, victim
        file = rig.folder / f"{victim.name}.yaml"
        file.write_text(dump_session(victim.config()), encoding="utf-8")
        command = [sys.executable, "-m", "piper_collect.nodes", "recorder_node", "--ros-args"]
        command += ["-r", f"__ns:=/{victim.name}", "--params-file", str(file), "-p", f"look_s:={LOOK_S}"]
        self.process = rig.add(rig.run.launch(victim.name, command))
        latched = QoSProfile(depth=100, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self.statuses = rig.listen(RecorderStatus, f"/{victim.name}/recorder/status", latched)
        kinds = (JointState, PoseStamped, TeleopTarget)
        self.publishers = [rig.publisher(k, t) for k, t in zip(kinds, victim.topics, strict=True)]
        self._next_s = 0.0
        self._due_s: float | None = None
        self._start_ns = 0

    def state(self) -> int:
        return self.statuses[-1].state if self.statuses else -1

    def send(self, stamp_ns: int, number: int) -> None:
        from geometry_msgs.msg import PoseStamped
        from piper_collect.msg import TeleopTarget

        from piper_collect.nodes.convert import joint_state_msg, stamp_msg

        pose, target = PoseStamped(), TeleopTarget(gripper_width=0.05, engaged=True)
        for message, place in ((pose, pose.pose), (target, target.flange_pose)):
            message.header.stamp = stamp_msg(stamp_ns)
            message.header.frame_id = "base_link"
            place.position.x = number * 1e-4
            place.orientation.w = 1.0
        joints = joint_state_msg(stamp_ns, [number * 1e-4] * 6, 0.05)
        for publisher, message in zip(self.publishers, (joints, pose, target), strict=True):
            publisher.publish(message)

    def warm_up(self) -> None:
        """Send now and then until it can start."""
        now_s = time.monotonic()
        if now_s >= self._next_s and self.state() != READY:
            self._next_s = now_s + 0.05
            self.send(self.rig.now_ns(), 0)

    def begin(self):
        from piper_collect.srv import StartEpisode

        return self.rig.ask(StartEpisode, f"/{self.victim.name}/recorder/start_episode", task="stack")

    def act(self) -> None:
        """Send the next messages if they are due, or kill."""
        victim, now_s = self.victim, time.monotonic()
        if victim.dead:
            return
        if len(victim.sent) >= victim.kill_after:
            self._due_s = self._due_s or now_s + victim.delay_s
            if now_s >= self._due_s:
                victim.dead = True
                self.process.may_end = True
                self.process.send(victim.end)
            return
        self._start_ns = self._start_ns or self.rig.now_ns()
        if now_s < self._next_s or len(victim.sent) - self._written() >= WINDOW:
            return
        self._next_s = now_s + PERIOD_NS / 1e9
        stamp_ns = self._start_ns + len(victim.sent) * PERIOD_NS
        self.send(stamp_ns, len(victim.sent))
        victim.sent.append(stamp_ns)

    def _written(self) -> int:
        """Messages that it says it has of every topic; none before it says that it records."""
        status = self.statuses[-1]
        counts = {topic.name: topic.messages for topic in status.topics}
        return min(counts[name] for name in self.victim.topics) if status.state == RECORDING else 0


def kill_all(rig: Rig, victims: list[Victim]) -> None:
    """Record one episode with each of them until its kill."""
    hands = [Assassin(rig, victim) for victim in victims]

    def everyone(act):
        return lambda: [act(hand) for hand in hands]

    rig.until(
        lambda: all(hand.state() == READY for hand in hands),
        "not every recorder can start",
        meanwhile=everyone(Assassin.warm_up),
    )
    answers = [hand.begin() for hand in hands]
    rig.until(lambda: all(answer.done() for answer in answers), "not every recorder answers")
    assert all(answer.result().success for answer in answers), [a.result().message for a in answers]
    rig.until(
        lambda: all(v.dead for v in victims), "not everyone was killed", meanwhile=everyone(Assassin.act)
    )
    codes = [-victim.end if victim.end == signal.SIGKILL else 0 for victim in victims]
    assert [hand.process.wait() for hand in hands] == codes
