"""The recorder as a process of its own, fed over DDS by publishers of the test."""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import yaml
from dataset_cases import episode, open_writer
from mcap.reader import make_reader
from recorder_studio import (
    JOINTS,
    READY,
    RECORDING,
    SAVING,
    TARGET,
    WAITING,
    Studio,
    config_of,
    stamps_by_every_reader,
)
from ros_support import digests, names, one_session, rig_in

from piper_collect import __version__
from piper_collect.bag.find import content_hash
from piper_collect.bag.reader import open_bag
from piper_collect.config.load import session_from_text
from piper_collect.dataset.guard import locked
from piper_collect.dataset.reader import open_dataset
from piper_collect.dataset.stage import EpisodeIdentity


@pytest.fixture
def studio(rig):
    return Studio(rig, config_of(rig.folder / "recordings"))


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
    assert f"{JOINTS}: 2 publishers send on it (/bench, /bench)" in answer.message
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


def test_mcap_keeps_the_time_at_which_a_message_was_published(recorded):
    (file,) = recorded.episode.glob("*.mcap")
    with file.open("rb") as stream:
        times = [(m.publish_time, m.log_time) for _, c, m in make_reader(stream).iter_messages([JOINTS])]
    assert len(times) == 300
    for stamp_ns, (publish_ns, log_ns) in zip(recorded.sent[JOINTS], times, strict=True):
        assert stamp_ns <= publish_ns < log_ns


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


def test_best_effort_latched_and_late_publishers_are_recorded(rig, tally):
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
        studio.send()
        rig.spin(0.003)
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
    tally("publishers recorded", 3)
    assert "/absent" not in offered


def test_delete_last_reaches_the_dataset_and_is_refused_while_an_export_writes(rig):
    root = rig.folder / "dataset"
    base = config_of(rig.folder / "recordings")
    studio = Studio(rig, replace(base, session=replace(base.session, dataset=str(root))))
    studio.record()
    studio.record()
    session = one_session(studio.root)
    writer = open_writer(root)
    for folder in sorted(session.glob("episode_*")):
        writer.add_episode(
            episode(),
            identity=EpisodeIdentity(
                session=session.name, bag=folder.name, content_hash=content_hash(folder)
            ),
            session_record={"session": session.name},
        )
    before = digests(session), digests(root)
    with locked(root):
        answer = studio.trigger("delete_last_episode")
    assert not answer.success
    assert "not deleted" in answer.message
    assert "another process is writing this dataset" in answer.message
    assert (digests(session), digests(root)) == before
    answer = studio.trigger("delete_last_episode")
    assert (answer.success, answer.message) == (True, f"episode 1 deleted, and from {root}")
    assert not (session / "episode_000001").exists()
    assert [line["bag"] for line in open_dataset(root).sources.values()] == ["episode_000000"]
    studio.record()
    assert studio.trigger("delete_last_episode").message == "episode 1 deleted"
    assert names(session) >= {"episode_000000"}
    assert len(open_dataset(root).episodes) == 1
