"""A recorder process with the two topics that it needs, for the tests of the recorder."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

from clock_site import SetClock
from ros_support import Rig

from piper_collect.bag.reader import open_bag
from piper_collect.config.schema import SessionConfig, SourceSettings
from piper_collect.core.kinematics import JOINT_NAMES
from piper_collect.nodes.qos import STREAM_QOS

JOINTS, TARGET = "/arm/joint_states", "/teleop/target"
LOOK_S = "0.1"
"""No other session is in the domain of a test run, and none needs to be looked for."""

KEPT = STREAM_QOS.depth - 10
WAITING, READY, RECORDING, SAVING, FAULT = range(5)


def config_of(root, *, extra=(), **recorder):
    base = SessionConfig()
    settings = {"fresh_s": 20.0, "drain_s": 0.1, "extra_topics": tuple(extra), "min_free_gb": 0.0, **recorder}
    return replace(
        base,
        session=replace(base.session, root=str(root), task="stack the cups"),
        cameras={},
        sources={
            "arm_joint": SourceSettings(topic="arm/joint_states", field="position", select=JOINT_NAMES),
            "target_eef": SourceSettings(topic="teleop/target", field="flange_pose", unit="m"),
        },
        recorder=replace(base.recorder, **settings),
    )


class Studio:
    """A recorder, the two topics that it needs, and what the test hears of it."""

    def __init__(
        self,
        rig: Rig,
        config: SessionConfig,
        *,
        site: Path | None = None,
        clock: SetClock | None = None,
    ) -> None:
        from piper_collect.msg import RecorderStatus, TeleopTarget
        from rclpy.qos import DurabilityPolicy, QoSProfile
        from sensor_msgs.msg import JointState

        self.rig, self.config, self.clock = rig, config, clock
        site = clock.site if clock is not None else site
        self.root = rig.folder / config.session.root
        self.process = rig.start("recorder_node", config, site=site, look_s=LOOK_S)
        latched = QoSProfile(depth=100, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self.statuses = rig.listen(RecorderStatus, "recorder/status", latched)
        self.publishers = {
            JOINTS: rig.publisher(JointState, JOINTS),
            TARGET: rig.publisher(TeleopTarget, TARGET),
        }
        self.sent: dict[str, list[int]] = {JOINTS: [], TARGET: []}
        self.ahead_ns: dict[str, int] = {}

    def send(self, *topics: str) -> None:
        """Publish one message on each of ``topics``, or on both."""
        from piper_collect.msg import TeleopTarget

        from piper_collect.nodes.convert import joint_state_msg, stamp_msg

        for topic in topics or (JOINTS, TARGET):
            stamp_ns = self.now_ns() + self.ahead_ns.get(topic, 0)
            count = len(self.sent[topic])
            if topic == JOINTS:
                message = joint_state_msg(stamp_ns, [count + k / 8 for k in range(6)], 0.05)
            else:
                message = TeleopTarget(gripper_width=float(count), engaged=True)
                message.header.stamp = stamp_msg(stamp_ns)
                message.header.frame_id = "base_link"
            self.publishers[topic].publish(message)
            self.sent[topic].append(stamp_ns)

    def now_ns(self) -> int:
        """Now on the clock of recorder and publishers."""
        return self.rig.now_ns() + (self.clock.ahead_ns if self.clock is not None else 0)

    @property
    def status(self):
        return self.statuses[-1] if self.statuses else None

    def topic(self, name: str):
        return next(t for t in self.status.topics if t.name == name)

    def until_state(self, *states: int, meanwhile=None) -> None:
        first = len(self.statuses)
        self.rig.until(
            lambda: len(self.statuses) > first and self.status.state in states,
            f"recorder state is none of {states}",
            meanwhile=meanwhile,
        )

    def ready(self) -> None:
        """Feed it until it can start, and until nothing that was sent is still on its way."""
        self.until_state(READY, meanwhile=self.send)
        self.rig.until(
            lambda: all(self.heard_ns(topic) > sent[-1] - 10**6 for topic, sent in self.sent.items() if sent),
            "the recorder does not hear what was sent",
        )

    def heard_ns(self, topic: str) -> int:
        """Header stamp of the newest message that the recorder has of a topic, to the microsecond."""
        stamp = self.status.header.stamp
        return stamp.sec * 10**9 + stamp.nanosec - round(self.topic(topic).age_s * 1e9)

    def start(self, task: str = "", *, sent_before: bool = False):
        from piper_collect.srv import StartEpisode

        answer = self.rig.call(StartEpisode, "recorder/start_episode", task=task)
        if answer.success and not sent_before:
            self.sent = {topic: [] for topic in self.sent}
        return answer

    def trigger(self, name: str):
        from std_srvs.srv import Trigger

        return self.rig.call(Trigger, f"recorder/{name}")

    def feed(self, count: int) -> None:
        """Publish ``count`` messages a topic and wait until the recorder says that it wrote them.

        Never more at once than DDS keeps for a recorder that stands still.
        """
        for number in range(1, count + 1):
            self.send()
            self.rig.spin(0.003)
            if number == count or number % KEPT == 0:
                self.rig.until(
                    lambda: all(self.topic(t).messages >= len(self.sent[t]) for t in self.sent),
                    "the recorder did not count what was published",
                )

    def record(self, count: int = 20) -> None:
        """One saved episode."""
        self.ready()
        assert self.start().success
        self.feed(count)
        assert self.trigger("stop_episode").success


def stamps_by_every_reader(folder):
    """Header stamps by topic as three readers see them: ours, and those of rosbags and mcap."""
    from mcap.reader import make_reader
    from rosbags.highlevel import AnyReader

    ours: dict[str, list[int]] = {}
    with open_bag(folder) as bag:
        for message in bag.messages():
            ours.setdefault(message.topic, []).append(bag.header_stamp_ns(message.topic, message.payload))
    theirs: dict[str, list[int]] = {}
    with AnyReader([folder]) as reader:
        for connection, _time, payload in reader.messages():
            stamp = reader.deserialize(payload, connection.msgtype).header.stamp
            theirs.setdefault(connection.topic, []).append(stamp.sec * 10**9 + stamp.nanosec)
    plain: Counter[str] = Counter()
    (file,) = folder.glob("*.mcap")
    with file.open("rb") as stream:
        for _schema, channel, _message in make_reader(stream).iter_messages():
            plain[channel.topic] += 1
    return ours, theirs, dict(plain)
