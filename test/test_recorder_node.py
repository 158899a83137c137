"""The recorder as a process of its own, fed over DDS by publishers of the test."""

import json
import resource
import signal
from collections import Counter
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import yaml
from ros_support import Rig, digests, names, one_session, rig_in

from piper_collect import __version__
from piper_collect.bag.reader import open_bag
from piper_collect.config.load import session_from_text
from piper_collect.config.schema import SessionConfig, SourceSettings
from piper_collect.core.kinematics import JOINT_NAMES

JOINTS, TARGET = "/arm/joint_states", "/teleop/target"
NAMES = [*JOINT_NAMES, "gripper"]
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

    def __init__(self, rig: Rig, config: SessionConfig) -> None:
        from piper_collect.msg import RecorderStatus, TeleopTarget
        from rclpy.qos import DurabilityPolicy, QoSProfile
        from sensor_msgs.msg import JointState

        self.rig, self.config = rig, config
        self.root = rig.folder / config.session.root
        self.process = rig.start("recorder_node", config)
        latched = QoSProfile(depth=100, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self.statuses = rig.listen(RecorderStatus, "recorder/status", latched)
        self.publishers = {
            JOINTS: rig.publisher(JointState, JOINTS),
            TARGET: rig.publisher(TeleopTarget, TARGET),
        }
        self.sent: dict[str, list[int]] = {JOINTS: [], TARGET: []}

    def send(self, *topics: str) -> None:
        """Publish one message on each of ``topics``, or on both."""
        from piper_collect.msg import TeleopTarget

        from piper_collect.nodes.convert import joint_state_msg, stamp_msg

        for topic in topics or (JOINTS, TARGET):
            stamp_ns = self.rig.now_ns()
            count = len(self.sent[topic])
            if topic == JOINTS:
                message = joint_state_msg(stamp_ns, [count + k / 8 for k in range(6)], 0.05)
            else:
                message = TeleopTarget(gripper_width=float(count), engaged=True)
                message.header.stamp = stamp_msg(stamp_ns)
            self.publishers[topic].publish(message)
            self.sent[topic].append(stamp_ns)

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
        """Feed it until it can start."""
        self.until_state(READY, meanwhile=self.send)

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
        """Publish ``count`` messages a topic and wait until the recorder says that it wrote them."""
        for _ in range(count):
            self.send()
            self.rig.spin(0.003)
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


@pytest.fixture
def studio(rig):
    return Studio(rig, config_of(rig.folder / "recordings"))


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


# -- starting -----------------------------------------------------------------------------------


def test_no_episode_starts_while_a_required_topic_is_silent(studio):
    studio.until_state(WAITING)
    refused = studio.start()
    assert (refused.success, refused.episode_index) == (False, -1)
    assert JOINTS in refused.message
    assert TARGET in refused.message
    studio.rig.until(
        lambda: studio.topic(JOINTS).age_s >= 0 and not studio.topic(JOINTS).reason,
        "the joints are not heard",
        meanwhile=partial(studio.send, JOINTS),
    )
    assert studio.status.state == WAITING
    assert studio.status.message == f"{TARGET}: no message yet"
    refused = studio.start()
    assert not refused.success
    assert JOINTS not in refused.message
    assert f"{TARGET}: no message yet" in refused.message
    assert not studio.root.exists()


def test_no_episode_starts_without_a_task_or_disk(rig):
    base = config_of(rig.folder / "recordings", min_free_gb=1e9)
    studio = Studio(rig, replace(base, session=replace(base.session, task="")))
    studio.ready()
    assert "the task is empty" in studio.start().message
    assert "the task is empty" in studio.start("  ").message
    answer = studio.start("stack")
    assert (answer.success, answer.episode_index) == (False, -1)
    assert "1000000000.0 are needed" in answer.message
    assert not studio.root.exists()


def test_two_publishers_on_one_required_topic_are_refused(studio):
    from sensor_msgs.msg import JointState

    studio.ready()
    second = studio.rig.publisher(JointState, JOINTS)
    studio.until_state(WAITING, meanwhile=studio.send)
    answer = studio.start()
    assert not answer.success
    assert f"{JOINTS}: 2 publishers send on it" in answer.message
    studio.rig.node.destroy_publisher(second)
    studio.ready()
    assert studio.start().success


# -- one episode --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recorded(ros_run, tmp_path_factory):
    """An episode of 300 messages a topic, and what was said and seen around it."""
    with rig_in(ros_run, tmp_path_factory.mktemp("recorded")) as rig:
        studio = Studio(rig, config_of(rig.folder / "recordings"))
        studio.ready()
        studio.before = studio.status
        studio.offered = {t: rig.node.get_publishers_info_by_topic(t)[0] for t in studio.publishers}
        studio.started = studio.start("sort the cups")
        studio.refused = studio.start()
        studio.feed(300)
        studio.during = studio.status
        studio.lower_ns = rig.now_ns()
        studio.stopped = studio.trigger("stop_episode")
        studio.upper_ns = rig.now_ns()
        studio.after_stop = studio.trigger("stop_episode")
        studio.until_state(READY)
        studio.after = studio.status
    studio.session = one_session(studio.root)
    studio.episode = studio.session / "episode_000000"
    return studio


def test_start_and_stop_say_what_they_did(recorded):
    assert recorded.started.success
    assert recorded.started.episode_index == 0
    assert (recorded.refused.success, recorded.refused.episode_index) == (False, -1)
    assert "an episode is running" in recorded.refused.message
    assert recorded.stopped.success
    assert "episode 0 saved" in recorded.stopped.message
    assert "600 messages" in recorded.stopped.message
    assert "INCOMPLETE" not in recorded.stopped.message
    assert not recorded.after_stop.success
    assert "no episode is running" in recorded.after_stop.message


def test_the_bag_holds_exactly_what_was_published(recorded):
    ours, theirs, plain = stamps_by_every_reader(recorded.episode)
    assert ours == recorded.sent
    assert theirs == recorded.sent
    assert plain == {JOINTS: 300, TARGET: 300}
    with open_bag(recorded.episode) as bag:
        got = [bag.decode(JOINTS, m.payload).position for m in bag.messages([JOINTS])]
        assert (bag.notes, bag.incomplete) == ([], False)
    wanted = [[k + j / 8 for j in range(6)] + [0.05] for k in range(300)]
    assert np.array_equal(np.array(got), np.array(wanted))


def test_the_bag_knows_qos_and_type_as_they_were_offered(recorded):
    with open_bag(recorded.episode) as bag:
        topics = bag.topics
    for name, endpoint in recorded.offered.items():
        (qos,) = topics[name].qos
        assert (qos.reliability, qos.durability) == ("reliable", "volatile")
        assert topics[name].type == endpoint.topic_type
        assert topics[name].type_hash == str(endpoint.topic_type_hash)
        assert topics[name].type_hash.startswith("RIHS01_")


def test_custom_data_and_episode_json_say_the_same(recorded):
    information = yaml.safe_load((recorded.episode / "metadata.yaml").read_text())[
        "rosbag2_bagfile_information"
    ]
    custom = information["custom_data"]
    assert information["message_count"] == 600
    record = json.loads((recorded.episode / "episode.json").read_text())
    assert set(custom) == {
        *("session", "episode", "task", "tool_version", "episode_start_ns", "episode_end_ns"),
        *("session_record", "session_config", "outcome", "complete", "incomplete_reasons", "losses"),
    }
    assert (custom["session"], record["session"]) == (recorded.session.name, recorded.session.name)
    assert (custom["episode"], record["episode"]) == ("0", 0)
    assert (custom["task"], record["task"]) == ("sort the cups", "sort the cups")
    assert (custom["tool_version"], record["tool_version"]) == (__version__, __version__)
    assert (custom["outcome"], record["outcome"]) == ("success", "success")
    assert (custom["complete"], record["complete"]) == ("true", True)
    assert (json.loads(custom["incomplete_reasons"]), record["incomplete_reasons"]) == ([], [])
    assert json.loads(custom["losses"]) == {JOINTS: 0, TARGET: 0}
    assert custom["episode_start_ns"] == str(record["episode_start_ns"])
    assert custom["episode_end_ns"] == str(record["episode_end_ns"])
    assert record["episode_start_ns"] < recorded.sent[JOINTS][0]
    assert recorded.lower_ns <= record["episode_end_ns"] <= recorded.upper_ns
    assert record["messages_in_bag"] == {JOINTS: 300, TARGET: 300}
    assert {name: t["messages"] for name, t in record["topics"].items()} == {JOINTS: 300, TARGET: 300}
    assert session_from_text(custom["session_config"], "bag") == recorded.config
    assert (recorded.session / "session.yaml").read_text() == custom["session_config"]
    provenance = json.loads(custom["session_record"])
    assert provenance == json.loads((recorded.session / "session.json").read_text())
    assert (provenance["session"], provenance["input_device"]) == (recorded.session.name, "simulated_quest")


def test_the_status_follows_the_episode(recorded):
    before, during, after = recorded.before, recorded.during, recorded.after
    assert recorded.statuses[0].state == WAITING
    assert (before.state, before.episode_index, before.episodes_saved) == (READY, 0, 0)
    assert before.session == ""
    assert (before.task, before.elapsed.sec, before.elapsed.nanosec) == ("stack the cups", 0, 0)
    assert (during.state, during.episode_index, during.task) == (RECORDING, 0, "sort the cups")
    assert during.elapsed.sec + during.elapsed.nanosec > 0
    assert during.bytes_free > 0
    by_name = {t.name: t for t in during.topics}
    assert set(by_name) == {JOINTS, TARGET}
    for name, kind in ((JOINTS, "sensor_msgs/msg/JointState"), (TARGET, "piper_collect/msg/TeleopTarget")):
        assert (by_name[name].type, by_name[name].required) == (kind, True)
        assert (by_name[name].messages, by_name[name].lost, by_name[name].reason) == (300, 0, "")
        assert by_name[name].rate_hz > 0
        assert by_name[name].age_s >= 0
    assert (after.state, after.episode_index, after.episodes_saved) == (READY, 1, 1)
    assert [t.messages for t in after.topics] == [0, 0]
    assert after.session == recorded.session.name
    states = [s.state for s in recorded.statuses]
    assert states.index(RECORDING) < states.index(SAVING)


# -- several episodes ---------------------------------------------------------------------------


def test_discard_leaves_nothing_and_delete_last_takes_the_newest(studio):
    assert not studio.trigger("discard_episode").success
    studio.record()
    session = one_session(studio.root)
    first = digests(session)
    assert studio.start("other").success
    studio.feed(5)
    assert not studio.trigger("delete_last_episode").success
    assert studio.trigger("discard_episode").success
    assert digests(session) == first
    assert names(session / ".recording") == set()
    assert (studio.start().episode_index, studio.trigger("discard_episode").success) == (1, True)
    studio.record()
    assert names(session) >= {"episode_000000", "episode_000001"}
    answer = studio.trigger("delete_last_episode")
    assert (answer.success, answer.message) == (True, "episode 1 deleted")
    assert digests(session) == first
    assert studio.trigger("delete_last_episode").success
    answer = studio.trigger("delete_last_episode")
    assert not answer.success
    assert "no saved episode" in answer.message
    assert studio.rig.end(studio.process) == 0
    assert list(studio.root.iterdir()) == []


def test_best_effort_latched_and_late_publishers_are_recorded(rig):
    from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
    from sensor_msgs.msg import JointState

    from piper_collect.nodes.convert import joint_state_msg

    studio = Studio(rig, config_of(rig.folder / "recordings", extra=("hasty", "latched", "late", "absent")))
    hasty_qos = QoSProfile(depth=100, reliability=ReliabilityPolicy.BEST_EFFORT)
    hasty = rig.publisher(JointState, "hasty", hasty_qos)
    latched_qos = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    latched = rig.publisher(JointState, "latched", latched_qos)
    latched.publish(joint_state_msg(11, [0.0] * 6, 0.0))
    latched.publish(joint_state_msg(12, [0.0] * 6, 0.0))
    hasty_stamps = []

    def send_hastily():
        hasty_stamps.append(rig.now_ns())
        hasty.publish(joint_state_msg(hasty_stamps[-1], [0.0] * 6, 0.0))

    rig.until(lambda: studio.status and studio.topic("/hasty").age_s >= 0, "unheard", meanwhile=send_hastily)
    rig.until(lambda: studio.topic("/latched").age_s >= 0, "the latched message is not heard")
    studio.ready()
    begun = studio.statuses[0].header.stamp.sec
    rig.until(lambda: studio.status.header.stamp.sec > begun + 2, "time stands still", meanwhile=studio.send)
    assert studio.start().success
    hasty_stamps.clear()
    for _ in range(20):
        send_hastily()
        studio.feed(1)
    late = rig.publisher(JointState, "late")
    rig.until(late.get_subscription_count, "nobody subscribes to the late topic")
    late.publish(joint_state_msg(13, [0.0] * 6, 0.0))
    rig.until(lambda: studio.topic("/late").messages == 1, "the late topic is not recorded")
    answer = studio.trigger("stop_episode")
    assert answer.success
    episode = one_session(studio.root) / "episode_000000"
    ours, theirs, plain = stamps_by_every_reader(episode)
    assert ours == theirs
    assert {t: len(s) for t, s in ours.items()} == plain
    assert ours["/latched"] == [12]
    assert ours["/late"] == [13]
    lost = json.loads((episode / "episode.json").read_text())["topics"]["/hasty"]["lost"]
    assert ours["/hasty"]
    assert set(ours["/hasty"]) <= set(hasty_stamps)
    assert len(ours["/hasty"]) + lost <= 20
    with open_bag(episode) as bag:
        offered = {
            name: (info.qos[0].reliability, info.qos[0].durability) for name, info in bag.topics.items()
        }
    assert offered["/hasty"] == ("best_effort", "volatile")
    assert offered["/latched"] == ("reliable", "transient_local")
    assert "/absent" not in offered


def test_messages_that_were_overwritten_before_they_arrived_are_counted(studio):
    from rclpy.qos import QoSProfile
    from sensor_msgs.msg import JointState

    studio.rig.node.destroy_publisher(studio.publishers[JOINTS])
    studio.publishers[JOINTS] = studio.rig.publisher(JointState, JOINTS, QoSProfile(depth=5))
    studio.ready()
    assert studio.start().success
    studio.feed(10)
    studio.process.send(signal.SIGSTOP)
    for _ in range(3000):
        studio.send(JOINTS)
    studio.process.send(signal.SIGCONT)
    studio.rig.until(
        lambda: studio.topic(JOINTS).messages + studio.topic(JOINTS).lost == len(studio.sent[JOINTS]),
        "recorded and lost messages do not add up to the published ones",
    )
    lost = studio.topic(JOINTS).lost
    answer = studio.trigger("stop_episode")
    assert lost > 0
    assert f"INCOMPLETE: {JOINTS}: {lost} messages lost" in answer.message
    episode = one_session(studio.root) / "episode_000000"
    record = json.loads((episode / "episode.json").read_text())
    assert (record["outcome"], record["complete"]) == ("success", False)
    assert record["topics"][JOINTS]["lost"] == lost
    ours, _, _ = stamps_by_every_reader(episode)
    assert len(ours[JOINTS]) + lost == len(studio.sent[JOINTS])


# -- ends that nobody planned -------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_the_running_episode_as_interrupted(studio, number):
    studio.record()
    session = one_session(studio.root)
    first = digests(session / "episode_000000")
    assert studio.start().success
    studio.feed(30)
    studio.process.may_end = True
    studio.process.send(number)
    assert studio.rig.end(studio.process, number) == 0
    assert "saving it as interrupted" in studio.process.log()
    assert names(session) == {"session.yaml", "session.json", "episode_000000", "episode_000001"}
    assert digests(session / "episode_000000") == first
    record = json.loads((session / "episode_000001" / "episode.json").read_text())
    assert (record["outcome"], record["complete"]) == ("interrupted", False)
    assert record["messages_in_bag"] == {JOINTS: 30, TARGET: 30}
    ours, theirs, _ = stamps_by_every_reader(session / "episode_000001")
    assert ours == theirs == studio.sent


def test_a_signal_while_a_stop_waits_for_late_messages_cuts_nothing_short(rig):
    from std_srvs.srv import Trigger

    studio = Studio(rig, config_of(rig.folder / "recordings", drain_s=3.0))
    studio.ready()
    assert studio.start().success
    studio.feed(10)
    rig.ask(Trigger, "recorder/stop_episode")
    studio.until_state(SAVING)
    assert rig.end(studio.process) == 0
    assert "episode 0 saved" in studio.process.log()
    session = one_session(studio.root)
    assert names(session) == {"session.yaml", "session.json", "episode_000000"}
    record = json.loads((session / "episode_000000" / "episode.json").read_text())
    assert (record["outcome"], record["complete"]) == ("success", True)


def test_a_kill_leaves_the_recording_and_the_next_recorder_names_it(studio):
    studio.record()
    session = one_session(studio.root)
    first = digests(session / "episode_000000")
    assert studio.start().success
    studio.feed(400)
    assert studio.rig.end(studio.process, signal.SIGKILL) == -signal.SIGKILL
    unfinished = session / ".recording" / "episode_000001"
    assert names(session) == {"session.yaml", "session.json", "episode_000000", ".recording"}
    assert digests(session / "episode_000000") == first
    left = digests(unfinished)
    assert set(left) == {"episode_000001_0.mcap"}
    with open_bag(unfinished, salvage=True) as bag:
        assert bag.incomplete
        kept = [bag.header_stamp_ns(JOINTS, m.payload) for m in bag.messages([JOINTS])]
    assert kept
    assert kept == studio.sent[JOINTS][: len(kept)]
    after = studio.rig.start("recorder_node", studio.config)
    studio.rig.until(lambda: str(unfinished) in after.log(), "the next recorder does not name what it found")
    assert "never finished" in after.log()
    assert studio.rig.end(after) == 0
    assert digests(unfinished) == left
    assert digests(session / "episode_000000") == first


def test_a_full_disk_is_told_and_what_was_written_is_kept(rig):
    studio = Studio(rig, config_of(rig.folder / "recordings"))
    studio.ready()
    assert studio.start().success
    studio.feed(10)
    # a limit on the size of its files fails its writes as a full disk does
    resource.prlimit(studio.process.pid, resource.RLIMIT_FSIZE, (20_000, 20_000))
    studio.until_state(FAULT, meanwhile=studio.send)
    kept = one_session(studio.root) / ".recording" / "episode_000000"
    assert "not saved" in studio.status.message
    assert str(kept) in studio.status.message
    assert kept.is_dir()
    answer = studio.trigger("stop_episode")
    assert not answer.success
    assert not (one_session(studio.root) / "episode_000000").exists()
    assert studio.rig.end(studio.process) == 1
