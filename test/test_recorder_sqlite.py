"""A session recorded to sqlite3: the same messages as published, and what a killed recorder leaves."""

import json
import signal
from dataclasses import replace

from recorder_studio import JOINTS, READY, Studio, config_of
from ros_support import names, one_session
from rosbags.highlevel import AnyReader
from sample_bags import make_writer

from piper_collect.bag.episode import read_episode
from piper_collect.bag.reader import open_bag
from piper_collect.bag.session_folder import find_unfinished
from piper_collect.bag.sidecar import read_record
from piper_collect.pipelines.validate_bag import validate_bag

STORAGE = {"backend": "pip", "storage": "sqlite3", "library": "sqlite"}


def stamps(bag, topic):
    return [bag.header_stamp_ns(topic, m.payload) for m in bag.messages([topic])]


def as_mcap(bag, uri):
    """The same messages and custom data in the other storage."""
    writer = make_writer("mcap")
    writer.open(uri, bag.custom_data)
    for info in bag.topics.values():
        writer.create_topic(replace(info, message_count=0))
    for message in bag.messages():
        writer.write(message.topic, message.payload, message.receive_ns)
    writer.close()
    return uri


def episode_of(path, config):
    with open_bag(path) as bag:
        episode = read_episode(bag, config)
    return {key: (s.stamp_ns.tolist(), s.values.tolist()) for key, s in episode.streams.items()}, (
        episode.start_ns,
        episode.end_ns,
        episode.task,
    )


def record(studio, count):
    """One episode; what is published after its end shows that all before it has come."""
    from std_srvs.srv import Trigger

    studio.ready()
    assert studio.start(sent_before=True).success

    def publish() -> None:
        studio.send()
        studio.rig.spin(0.003)

    for _ in range(count):
        publish()
    studio.rig.ask(Trigger, "recorder/stop_episode")
    studio.until_state(READY, meanwhile=publish)


def test_a_session_in_sqlite3_and_what_a_kill_leaves_of_it(rig):
    settings = {"storage": "sqlite3", "storage_backend": "pip", "drain_s": 60.0}
    studio = Studio(rig, config_of(rig.folder / "recordings", **settings))
    record(studio, 60)
    session = one_session(studio.root)
    saved = session / "episode_000000"
    assert {p.name for p in saved.iterdir()} == {"episode_000000_0.db3", "metadata.yaml", "episode.json"}
    assert "bags are stored as sqlite3, by pip (sqlite 3." in studio.process.log()
    said = json.loads((saved / "episode.json").read_text())["storage"]
    provenance = json.loads((session / "session.json").read_text())["recording"]["storage"]
    assert said == provenance == {**STORAGE, "version": said["version"]}
    with open_bag(saved) as bag:
        assert (bag.notes, bag.incomplete) == ([], False)
        start_ns, end_ns = read_record(bag).start_ns, read_record(bag).end_ns
        for topic, sent in studio.sent.items():
            inside = [stamp for stamp in sent if start_ns <= stamp <= end_ns]
            assert [stamp for stamp in stamps(bag, topic) if start_ns <= stamp <= end_ns] == inside
            assert len(inside) >= 60
        held = [(m.topic, m.receive_ns, m.payload) for m in bag.messages()]
        assert (bag.topics[JOINTS].qos[0].reliability, bag.topics[JOINTS].type_hash[:7]) == (
            "reliable",
            "RIHS01_",
        )
        copy = as_mcap(bag, rig.folder / "copy")
    with AnyReader([saved]) as bag:
        assert [(c.topic, receive_ns, raw) for c, receive_ns, raw in bag.messages()] == held
    assert episode_of(saved, studio.config) == episode_of(copy, studio.config)

    assert studio.start().success
    studio.feed(300)
    assert rig.end(studio.process, signal.SIGKILL) == -signal.SIGKILL
    assert names(session) == {"session.yaml", "session.json", "episode_000000", ".recording"}
    (left,) = find_unfinished(studio.root)
    assert {p.name for p in left.iterdir()} >= {"episode_000001_0.db3", "episode_000001_0.db3-wal"}
    with open_bag(left) as bag:
        assert [note.code for note in bag.notes] == ["no-metadata", "not-closed"]
        assert read_record(bag).outcome == "interrupted"
        kept = [stamp for stamp in stamps(bag, JOINTS) if stamp >= studio.sent[JOINTS][0]]
    assert kept
    assert kept == studio.sent[JOINTS][: len(kept)]
    assert {"not-closed", "incomplete"} <= {finding.code for finding in validate_bag(left).findings}
