"""Real recorders ended at seeded moments: at most a second is lost, and the rest is or becomes an episode.

``PIPER_COLLECT_KILLS=50`` kills as many; a few are what a run of all tests has time for.
"""

import json
import os
import signal

import pytest
from ros_support import one_session, rig_in

from recorder_kills import PERIOD_NS, kill_all, make_victims  # isort: skip
from rosbags.highlevel import AnyReader

from piper_collect.bag.folder_writer import LONGEST_UNFLUSHED_S
from piper_collect.bag.reader import open_bag
from piper_collect.bag.session_folder import find_unfinished
from piper_collect.config.profile import load_profile
from piper_collect.pipelines.bag_episodes import ExportOptions
from piper_collect.pipelines.export import export
from piper_collect.pipelines.recover import recover

KILLS = int(os.environ.get("PIPER_COLLECT_KILLS", "10"))
AT_ONCE = 10
LONG = 130
"""Messages of which enough are left for an export, whatever the kill took."""


@pytest.fixture(scope="module")
def killed(ros_run, tmp_path_factory):
    """The victims, dead."""
    folder = tmp_path_factory.mktemp("kills")
    victims = make_victims(folder, KILLS)
    for first in range(0, KILLS, AT_ONCE):
        with rig_in(ros_run, folder) as rig:
            kill_all(rig, victims[first : first + AT_ONCE])
    return victims


@pytest.fixture(scope="module")
def told_to_end(ros_run, tmp_path_factory):
    """Recorders that were told to end by SIGINT and by SIGTERM, as many of each."""
    folder = tmp_path_factory.mktemp("told")
    victims = make_victims(folder, 2 * KILLS, seed=4, most=100, ends=(signal.SIGINT, signal.SIGTERM))
    for first in range(0, len(victims), 2 * AT_ONCE):
        with rig_in(ros_run, folder) as rig:
            kill_all(rig, victims[first : first + 2 * AT_ONCE])
    return victims


def stamps(bag):
    found = {}
    for message in bag.messages():
        stamp_ns = bag.header_stamp_ns(message.topic, message.payload)
        found.setdefault(message.topic, []).append(stamp_ns)
    return found


def rosbags_stamps(folder):
    found = {}
    with AnyReader([folder]) as reader:
        for connection, _time, payload in reader.messages():
            stamp = reader.deserialize(payload, connection.msgtype).header.stamp
            found.setdefault(connection.topic, []).append(stamp.sec * 10**9 + stamp.nanosec)
    return found


@pytest.mark.kills
@pytest.mark.parametrize("number", range(KILLS))
def test_at_most_a_second_is_lost_and_nothing_else(killed, number, tmp_path, tally):
    victim = killed[number]
    (left,) = find_unfinished(victim.root)
    with open_bag(left, salvage=True) as bag:
        flushed = stamps(bag)
    (result,) = recover([victim.root])
    session = one_session(victim.root)
    assert (result.status, result.bag) == ("recovered", session / "episode_000000")
    assert result.most_missing_s == LONGEST_UNFLUSHED_S
    with open_bag(result.bag) as bag:
        assert (bag.notes, bag.incomplete) == ([], False)
        kept = stamps(bag)
        custom = bag.custom_data
    assert kept == flushed == rosbags_stamps(result.bag)
    assert set(kept) <= set(victim.topics)
    for topic in victim.topics:
        found = kept.get(topic, [])
        assert found == victim.sent[: len(found)]
        last_ns = found[-1] if found else victim.sent[0] - PERIOD_NS
        assert (victim.sent[-1] - last_ns) / 1e9 <= LONGEST_UNFLUSHED_S
    tally("kills survived")
    tally("messages checked", sum(map(len, kept.values())))
    assert (custom["session"], custom["task"], custom["complete"]) == (session.name, "stack", "false")
    assert custom["session_config"] == (session / "session.yaml").read_text()
    said = json.loads((result.bag / "episode.json").read_text())
    assert (said["episode"], said["complete"], said["outcome"]) == (0, False, "interrupted")
    if victim.kill_after < LONG:
        return  # what is left may be too short for a row
    piper = load_profile("piper")
    for allow, status in ((False, "skipped"), (True, "exported")):
        options = ExportOptions(profile=piper, allow_incomplete=allow)
        (bag,) = export([victim.root], tmp_path / "ds", options).bags
        assert (bag.status, bag.rows > 0) == (status, allow), bag.reason


@pytest.mark.kills
@pytest.mark.parametrize("number", range(2 * KILLS))
def test_one_that_is_told_to_end_saves_what_it_has_marked_as_interrupted(told_to_end, number, tally):
    victim = told_to_end[number]
    session = one_session(victim.root)
    assert find_unfinished(victim.root) == []
    with open_bag(session / "episode_000000") as bag:
        assert (bag.notes, bag.incomplete) == ([], False)
        kept = stamps(bag)
    assert kept == rosbags_stamps(session / "episode_000000")
    for topic in victim.topics:
        found = kept.get(topic, [])
        assert found == victim.sent[: len(found)]
        last_ns = found[-1] if found else victim.sent[0] - PERIOD_NS
        assert (victim.sent[-1] - last_ns) / 1e9 <= LONGEST_UNFLUSHED_S
    said = json.loads((session / "episode_000000" / "episode.json").read_text())
    assert (said["outcome"], said["complete"]) == ("interrupted", False)
    assert said["messages_in_bag"] == {topic: len(kept.get(topic, [])) for topic in said["messages_in_bag"]}
    tally(f"{victim.end.name} survived")
    tally("messages checked", sum(map(len, kept.values())))
