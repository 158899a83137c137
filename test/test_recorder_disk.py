"""A recorder process whose disk fills up, and one whose disk is slow."""

import json

from recorder_studio import (
    JOINTS,
    READY,
    RECORDING,
    TARGET,
    Studio,
    config_of,
    stamps_by_every_reader,
)
from ros_support import digests, names, one_session
from small_disk import small_disk

from piper_collect.bag.reader import open_bag

STALL = """
import time
from pathlib import Path

from piper_collect.bag.folder_writer import FolderWriter

_write = FolderWriter.write


def write(self, *args, **kwargs):
    if Path({marker!r}).exists():
        Path({marker!r}).unlink()
        time.sleep(2.0)
    _write(self, *args, **kwargs)


FolderWriter.write = write
"""
"""Python runs this at the start of the recorder: one write takes 2 s, as on a disk that is busy."""


def test_an_episode_is_ended_while_there_is_room_to_save_it_and_none_begins_below_the_floor(rig):
    with small_disk(rig.folder / "disk", 8) as disk:
        studio = Studio(
            rig, config_of(disk.path / "recordings", min_free_gb=0.003, stop_free_gb=0.001, drain_s=0.1)
        )
        studio.record(20)
        session = one_session(studio.root)
        first = digests(session / "episode_000000")
        assert studio.start().success
        studio.feed(20)
        disk.fill(900_000)
        studio.rig.until(lambda: studio.status.state != RECORDING, "it records on", meanwhile=studio.send)
        assert studio.status.episodes_saved == 2
        assert "INCOMPLETE: it was stopped: only 0.00 GB free at" in studio.status.message
        answer = studio.start()
        assert not answer.success
        assert "not started: only 0.00 GB free" in answer.message
        assert digests(session / "episode_000000") == first
        record = json.loads((session / "episode_000001" / "episode.json").read_text())
        assert (record["outcome"], record["complete"]) == ("interrupted", False)
        assert record["incomplete_reasons"][0].startswith("it was stopped: only 0.00 GB free at")
        for topic in (JOINTS, TARGET):
            counts = record["topics"][topic]
            assert counts["messages"] >= 20
            assert counts["messages"] == record["messages_in_bag"][topic]
            assert counts["lost"] == 0
        with open_bag(session / "episode_000001") as bag:
            assert (bag.notes, bag.incomplete) == ([], False)
            assert sum(1 for _ in bag.messages()) == sum(record["messages_in_bag"].values())
        disk.empty()
        studio.until_state(READY, meanwhile=studio.send)
        assert studio.start().success
        studio.trigger("stop_episode")
        assert names(session) >= {"episode_000000", "episode_000001", "episode_000002"}
        assert studio.rig.end(studio.process) == 0


def test_a_disk_that_stands_still_for_two_seconds_costs_nothing_that_is_not_counted(rig, tally):
    site, marker = rig.folder / "site", rig.folder / "stall"
    site.mkdir()
    (site / "sitecustomize.py").write_text(STALL.format(marker=str(marker)))
    studio = Studio(rig, config_of(rig.folder / "recordings"), site=site)
    studio.ready()
    assert studio.start().success
    studio.feed(10)
    marker.touch()
    studio.send()
    rig.until(lambda: not marker.exists(), "the disk is not slow")
    for _ in range(400):  # what the arm sends in these two seconds
        studio.send()
        rig.spin(0.0)
    rig.until(
        lambda: all(
            studio.topic(t).messages + studio.topic(t).lost == len(studio.sent[t]) for t in studio.sent
        ),
        "recorded and lost messages do not add up to the published ones",
    )
    lost = {topic: studio.topic(topic).lost for topic in studio.sent}
    answer = studio.trigger("stop_episode")
    episode = one_session(studio.root) / "episode_000000"
    record = json.loads((episode / "episode.json").read_text())
    assert {topic: record["topics"][topic]["lost"] for topic in lost} == lost
    assert record["complete"] == ("INCOMPLETE" not in answer.message) == (not any(lost.values()))
    ours, theirs, _ = stamps_by_every_reader(episode)
    assert ours == theirs
    for topic, sent in studio.sent.items():
        assert len(ours[topic]) + lost[topic] == len(sent)
        assert set(ours[topic]) <= set(sent)
        tally("messages checked", len(sent))
