"""Ends of a recording that nobody planned: losses, signals, a kill, a full disk."""

import json
import re
import resource
import signal
from dataclasses import replace
from functools import partial

import pytest
from recorder_studio import (
    FAULT,
    JOINTS,
    LOOK_S,
    SAVING,
    TARGET,
    WAITING,
    Studio,
    config_of,
    stamps_by_every_reader,
)
from ros_support import digests, names, one_session

from piper_collect.bag.reader import open_bag


@pytest.fixture
def studio(rig):
    return Studio(rig, config_of(rig.folder / "recordings"))


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


def test_a_topic_that_falls_silent_before_the_stop_makes_the_episode_incomplete(rig, tally):
    studio = Studio(rig, config_of(rig.folder / "recordings", fresh_s=1.0))
    studio.ready()
    began_ns = studio.rig.now_ns()
    studio.rig.until(lambda: studio.start().success, "it does not start", meanwhile=studio.send)
    studio.feed(3)
    last_ns = studio.sent[TARGET][-1]
    studio.rig.until(
        lambda: studio.rig.now_ns() > last_ns + 2_000_000_000,
        "time stands still",
        meanwhile=partial(studio.send, JOINTS),
    )
    answer = studio.trigger("stop_episode")
    assert answer.success
    record = json.loads((one_session(studio.root) / "episode_000000" / "episode.json").read_text())
    assert (record["outcome"], record["complete"]) == ("success", False)
    (silent,) = [text for text in record["incomplete_reasons"] if text.startswith(TARGET)]
    seconds = re.fullmatch(rf"{TARGET}: silent for (\d+\.\d) s", silent)
    assert seconds is not None
    assert 1.0 <= float(seconds[1]) <= (studio.rig.now_ns() - began_ns) / 1e9
    tally("episodes marked")


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
    assert set(left) == {"episode.json", "episode_000001_0.mcap"}
    with open_bag(unfinished, salvage=True) as bag:
        assert bag.incomplete
        kept = [bag.header_stamp_ns(JOINTS, m.payload) for m in bag.messages([JOINTS])]
    assert kept
    assert kept == studio.sent[JOINTS][: len(kept)]
    after = studio.rig.start("recorder_node", studio.config, look_s=LOOK_S)
    studio.rig.until(lambda: str(unfinished) in after.log(), "the next recorder does not name what it found")
    assert "never finished" in after.log()
    assert "piper-collect recover makes an episode of it" in after.log()
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


# -- what can never be recorded -----------------------------------------------------------------


def test_a_mistyped_field_ends_the_recorder_once_the_type_is_known(rig):
    base = config_of(rig.folder / "recordings")
    arm = replace(base.sources["arm_joint"], field="positions")
    studio = Studio(rig, replace(base, sources={**base.sources, "arm_joint": arm}))
    studio.process.may_end = True
    assert studio.process.wait() == 1
    said = studio.process.log()
    assert (
        "sources.arm_joint.field (topic /arm/joint_states): sensor_msgs/msg/JointState has no such field"
        in said
    )
    assert "(got positions); did you mean 'position'?" in said
    assert "Traceback" not in said
    assert not studio.root.exists()


def test_no_episode_starts_while_a_source_cannot_be_read_from_what_is_sent(rig):
    base = config_of(rig.folder / "recordings")
    arm = replace(base.sources["arm_joint"], select=("joint1", "joint7"))
    studio = Studio(rig, replace(base, sources={**base.sources, "arm_joint": arm}))
    studio.rig.until(
        lambda: studio.status and studio.topic(JOINTS).reason.startswith("source arm_joint"),
        "the fault is not told",
        meanwhile=studio.send,
    )
    assert studio.status.state == WAITING
    answer = studio.start()
    assert not answer.success
    assert "the message does not name the joint (expected joint7, got joint1, joint2," in answer.message
    assert not studio.root.exists()


def test_a_source_that_can_be_read_after_all_is_no_longer_at_fault(rig):
    from piper_collect.msg import TeleopTarget

    studio = Studio(rig, config_of(rig.folder / "recordings"))
    studio.rig.until(
        lambda: studio.status and "another frame" in studio.topic(TARGET).reason,
        "the fault is not told",
        meanwhile=lambda: studio.publishers[TARGET].publish(TeleopTarget()),
    )
    studio.ready()
    assert studio.topic(TARGET).reason == ""


def test_a_root_that_cannot_be_written_ends_the_recorder(rig):
    (rig.folder / "file").write_text("x")
    process = rig.start("recorder_node", config_of(rig.folder / "file" / "recordings"))
    process.may_end = True
    assert process.wait() == 1
    (told,) = [line for line in process.log().splitlines() if not line.startswith("[RTPS_")]
    assert told.startswith(f"error: {rig.folder}/file/recordings: the recording root cannot be written")
