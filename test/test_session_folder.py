"""The folder of a session and the life of one episode in it, without ROS."""

import json
from dataclasses import replace
from importlib.metadata import version

import pytest

from piper_collect import __version__
from piper_collect.bag.backends import choose_storage
from piper_collect.bag.reader import open_bag
from piper_collect.bag.recording import INTERRUPTED, SUCCESS, EpisodeRecording
from piper_collect.bag.session_folder import SessionFolder, check_root, find_unfinished, free_bytes
from piper_collect.bag.sidecar import read_record
from piper_collect.bag.storage import TopicInfo
from piper_collect.errors import BagError, SessionError

MCAP = choose_storage("mcap", "pip")
RECORD = {"session": "stack_20260101_120000", "task": "stack", "arm": {"firmware": None}}
TOPIC = TopicInfo(
    name="/count",
    type="std_msgs/msg/UInt8",
    type_hash="RIHS01_00",
    message_definition="uint8 data",
)
COUNTS = {"/count": {"type": TOPIC.type, "required": True, "messages": 3, "lost": 0}}


@pytest.fixture
def folder(tmp_path):
    made = SessionFolder(tmp_path / "root", RECORD["session"])
    made.prepare("/**: {}\n", RECORD)
    return made


def record(folder, *, task="stack", topics=(TOPIC,), start_ns=1_000, storage=MCAP):
    return EpisodeRecording(
        folder,
        storage=storage,
        topics=topics,
        task=task,
        start_ns=start_ns,
        session_yaml="/**: {}\n",
        session_record=RECORD,
    )


def cdr(number):
    return bytes([0, 1, 0, 0, number])


def save(folder, outcome=SUCCESS, reasons=()):
    episode = record(folder)
    for number in range(3):
        episode.write("/count", cdr(number), 2_000 + number)
    return episode.finish(end_ns=9_000, outcome=outcome, incomplete_reasons=list(reasons), topics=COUNTS)


def listing(path):
    return sorted(str(p.relative_to(path)) for p in path.rglob("*"))


def test_nothing_is_made_before_the_first_episode(tmp_path):
    folder = SessionFolder(tmp_path / "root", "stack_20260101_120000")
    assert (folder.episodes(), folder.next_index()) == ([], 0)
    folder.close()
    assert list(tmp_path.iterdir()) == []


def test_prepare_writes_configuration_and_provenance_and_may_be_repeated(folder):
    folder.prepare("/**: {changed: 1}\n", {**RECORD, "arm": {"firmware": "S-V1.8-5"}})
    assert listing(folder.path) == [".recording", "session.json", "session.yaml"]
    assert (folder.path / "session.yaml").read_text() == "/**: {changed: 1}\n"
    assert json.loads((folder.path / "session.json").read_text())["arm"] == {"firmware": "S-V1.8-5"}


def test_a_second_recorder_never_shares_a_folder(folder):
    save(folder)
    before = listing(folder.path)
    second = SessionFolder(folder.path.parent, folder.name)
    with pytest.raises(SessionError, match="there is a session of that name already") as caught:
        second.prepare("/**: {other: 1}\n", RECORD)
    second.close()
    assert str(folder.path) in str(caught.value)
    assert listing(folder.path) == before
    assert (folder.path / "session.yaml").read_text() == "/**: {}\n"
    assert folder.next_index() == 1


def test_a_root_that_is_no_folder_is_one_clear_error(tmp_path):
    (tmp_path / "root").write_text("a file")
    with pytest.raises(SessionError, match="cannot be written") as caught:
        SessionFolder(tmp_path / "root", "s").prepare("", RECORD)
    assert "--root" in str(caught.value)


def test_a_finished_episode_is_moved_into_place_with_its_record(folder):
    path, summary = save(folder)
    assert path == folder.path / "episode_000000"
    assert listing(folder.path) == [
        ".recording",
        "episode_000000",
        "episode_000000/episode.json",
        "episode_000000/episode_000000_0.mcap",
        "episode_000000/metadata.yaml",
        "session.json",
        "session.yaml",
    ]
    assert (summary.message_count, summary.counts) == (3, {"/count": 3})
    assert json.loads((path / "episode.json").read_text()) == {
        "session": RECORD["session"],
        "episode": 0,
        "task": "stack",
        "outcome": "success",
        "complete": True,
        "incomplete_reasons": [],
        "episode_start_ns": 1_000,
        "episode_end_ns": 9_000,
        "topics": COUNTS,
        "messages_in_bag": {"/count": 3},
        "storage": {"backend": "pip", "storage": "mcap", "library": "mcap", "version": version("mcap")},
        "tool_version": __version__,
    }
    with open_bag(path) as bag:
        assert [m.payload[4] for m in bag.messages()] == [0, 1, 2]
        read = read_record(bag)
    assert (read.session, read.task, read.outcome) == (RECORD["session"], "stack", "success")
    assert (read.start_ns, read.end_ns, read.incomplete_reasons) == (1_000, 9_000, ())
    assert read.session_record == RECORD


@pytest.mark.parametrize(
    ("outcome", "reasons"), [(INTERRUPTED, []), (SUCCESS, ["/count: 4 messages lost"])], ids=["cut", "lost"]
)
def test_an_episode_that_is_not_whole_says_so_twice(folder, outcome, reasons):
    path, _ = save(folder, outcome, reasons)
    said = json.loads((path / "episode.json").read_text())
    assert (said["outcome"], said["complete"], said["incomplete_reasons"]) == (outcome, False, reasons)
    (path / "episode.json").unlink()
    with open_bag(path) as bag:
        assert bag.custom_data["complete"] == "false"
        assert read_record(bag).incomplete_reasons


def test_a_topic_may_come_while_the_episode_runs_and_is_announced_once(folder):
    episode = record(folder, topics=())
    late = replace(TOPIC, name="/late")
    episode.add_topic(late)
    episode.add_topic(late)
    episode.write("/late", cdr(7), 3_000)
    with pytest.raises(BagError, match="no such topic"):
        episode.write("/count", cdr(1), 3_001)
    path, summary = episode.finish(end_ns=9, outcome=SUCCESS, incomplete_reasons=[], topics={})
    assert summary.counts == {"/late": 1}
    with open_bag(path) as bag:
        assert [(m.topic, m.receive_ns) for m in bag.messages()] == [("/late", 3_000)]


def test_an_abandoned_episode_leaves_nothing_and_its_number_is_free(folder):
    before = listing(folder.path)
    episode = record(folder)
    episode.write("/count", cdr(1), 2_000)
    assert folder.next_index() == 1
    episode.abandon()
    assert listing(folder.path) == before
    assert folder.next_index() == 0


def test_an_episode_that_cannot_begin_leaves_nothing(folder):
    before = listing(folder.path)
    with pytest.raises(BagError, match="cannot be written"):
        record(folder, topics=(TOPIC, replace(TOPIC, name="/odd", message_definition="\ud800")))
    (folder.path / ".recording" / "episode_000000").write_text("in the way")
    with pytest.raises(BagError, match="folder that does not exist"):
        record(folder)
    assert listing(folder.path) == sorted([*before, ".recording/episode_000000"])


def test_what_is_left_after_a_storage_failure_stays_and_is_found(folder):
    episode = record(folder)
    episode.write("/count", cdr(1), 2_000)
    episode.leave([], {})
    assert find_unfinished(folder.path.parent) == [folder.path / ".recording" / "episode_000000"]
    assert folder.next_index() == 1
    save(folder)
    assert folder.episodes() == [1]
    folder.close()
    with open_bag(folder.path / ".recording" / "episode_000000") as bag:
        assert [m.payload[4] for m in bag.messages()] == [1]


def test_commit_never_replaces_an_episode(folder):
    save(folder)
    recording = folder.recording_path(0)
    recording.mkdir()
    with pytest.raises(SessionError, match="an episode of that number is there already"):
        folder.commit(0, {"episode": 0})
    assert recording.is_dir()


def test_delete_last_takes_the_newest_and_its_number_is_used_again(folder):
    save(folder)
    kept = (folder.path / "episode_000000" / "episode.json").read_bytes()
    save(folder)
    assert folder.delete_last() == 1
    assert (folder.episodes(), folder.next_index()) == ([0], 1)
    assert (folder.path / "episode_000000" / "episode.json").read_bytes() == kept
    save(folder)
    assert folder.episodes() == [0, 1]
    assert (folder.delete_last(), folder.delete_last()) == (1, 0)
    with pytest.raises(SessionError, match="no saved episode"):
        folder.delete_last()


def test_an_episode_that_cannot_be_deleted_is_one_clear_error(folder):
    save(folder)
    (folder.path / ".recording" / "deleted_000000").write_text("in the way")
    with pytest.raises(SessionError, match="cannot be removed"):
        folder.delete_last()
    assert folder.episodes() == [0]


def test_what_a_killed_deletion_left_is_not_in_the_way_of_the_next(folder):
    save(folder)
    (folder.path / ".recording" / "deleted_000000" / "left").mkdir(parents=True)
    assert folder.delete_last() == 0
    assert list((folder.path / ".recording").iterdir()) == []


def test_close_keeps_what_holds_anything(folder):
    unfinished = record(folder)
    folder.close()
    assert unfinished.path.is_dir()
    unfinished.abandon()
    folder.close()
    assert list(folder.path.parent.iterdir()) == []


def test_close_removes_only_the_empty_recording_folder_beside_episodes(folder):
    save(folder)
    folder.close()
    assert {p.name for p in folder.path.iterdir()} == {"episode_000000", "session.yaml", "session.json"}


def test_free_disk_is_known_before_the_root_is_there(tmp_path):
    assert free_bytes(tmp_path / "not" / "yet") > 0


def test_a_root_that_can_be_written_passes_and_nothing_is_made(tmp_path):
    check_root(tmp_path)
    check_root(tmp_path / "not" / "yet")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("root", ["a file", "a file/below", "/dev/null/x", "/proc/here"])
def test_a_root_that_cannot_be_written_is_refused_in_one_line(tmp_path, root):
    (tmp_path / "a file").write_text("x")
    with pytest.raises(SessionError, match=r"the recording root cannot be written: .*--root") as caught:
        check_root(tmp_path / root)
    assert str(tmp_path / root) in str(caught.value)


def test_a_flush_is_due_by_the_time_of_the_messages_too(folder, monkeypatch):
    recording = record(folder)
    flushes = []
    monkeypatch.setattr(recording._writer, "_flush", lambda: flushes.append(recording._writer._end_ns))
    monkeypatch.setattr("time.monotonic", lambda: 5.0)  # all of it is written at once
    begin_ns = 2_000_000_000_000_000_000
    for k in range(400):
        recording.write("/count", cdr(k % 250), begin_ns + k * 5_000_000)
    assert [(end_ns - begin_ns) / 1e9 for end_ns in flushes] == pytest.approx([0.0, 0.5, 1.0, 1.5], abs=0.006)
    recording.abandon()
