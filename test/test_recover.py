"""``piper-collect recover`` of what our recorder left: all that is there, and nothing made up."""

import json
import os
import shutil
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
import recover_cases
from mcap.reader import make_reader
from recover_cases import CONFIG, RECORD, SESSION, Studio, arm_rows, rows_of, tree
from rosbags.highlevel import AnyReader
from sample_bags import MS, START

from piper_collect import __version__
from piper_collect.bag.claim import Claim
from piper_collect.bag.find import find_bags
from piper_collect.bag.mcap_writer import McapBagWriter
from piper_collect.bag.reader import open_bag
from piper_collect.bag.rosbag2 import load_rosbag2
from piper_collect.bag.session_folder import SessionFolder, find_unfinished
from piper_collect.bag.sidecar import read_record
from piper_collect.cli import main as cli
from piper_collect.config.profile import load_profile
from piper_collect.errors import BagError, ConfigError, SessionError
from piper_collect.pipelines.bag_episodes import ExportOptions
from piper_collect.pipelines.episode_ledger import EpisodeLedger
from piper_collect.pipelines.export import export
from piper_collect.pipelines.recover import recover
from piper_collect.pipelines.session_summary import saved_sessions, told

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.usefixtures("no_sync")
END_LOST = "the recorder did not close the bag: at most 1 s are missing at its end"


@pytest.fixture(params=["mcap", "sqlite3"])
def storage(request):
    return request.param


@pytest.fixture
def studio(tmp_path):
    return Studio(tmp_path / "root")


def test_a_killed_recording_becomes_the_episode_of_its_number(tmp_path, storage):
    studio = Studio(tmp_path / "root", storage)
    saved = studio.save()
    before = tree(saved)
    left = studio.kill()
    original = tree(left)
    (result,) = recover([tmp_path / "root"])
    assert (result.status, result.source) == ("recovered", left)
    assert result.bag == studio.folder.path / "episode_000001"
    assert result.original == studio.folder.path / ".recording" / "original_of_episode_000001"
    assert tree(result.original) == original
    assert tree(saved) == before
    rows = arm_rows(200)
    assert rows_of(result.bag) == rows
    assert result.counts == dict.fromkeys(("/arm/joint_states", "/arm/flange_pose", "/teleop/target"), 200)
    assert (result.start_ns, result.end_ns) == (rows[0][1], rows[-1][1])
    assert (result.most_missing_s, result.reasons, dict(result.lost)) == (1.0, (END_LOST,), {})
    assert find_unfinished(tmp_path / "root") == []
    with AnyReader([result.bag]) as reader:
        assert [(c.topic, at, raw) for c, at, raw in reader.messages()] == rows
    if storage == "mcap":
        with next(result.bag.glob("*.mcap")).open("rb") as file:
            assert len(list(make_reader(file).iter_messages())) == len(rows)
    assert recover([tmp_path / "root"]) == ()


def test_rosbag2_py_opens_it_too(tmp_path, storage):
    try:
        load_rosbag2(storage)
    except ConfigError as err:
        pytest.skip(str(err))
    Studio(tmp_path / "root", storage).kill()
    (result,) = recover([tmp_path / "root"])
    with open_bag(result.bag, backend="rosbag2_py") as bag:
        assert [(m.topic, m.receive_ns, m.payload) for m in bag.messages()] == arm_rows(200)


def test_what_was_not_flushed_is_missing_and_nothing_else(studio):
    left = studio.kill(200, flush_each=70)
    (result,) = recover([left])
    assert rows_of(result.bag) == arm_rows(200)[:560]


def test_the_recovered_bag_says_what_it_is(studio):
    studio.kill()
    (result,) = recover([studio.folder.path])
    with open_bag(result.bag) as bag:
        custom = bag.custom_data
        record = read_record(bag)
    assert (custom["session"], custom["episode"], custom["task"]) == (SESSION, "0", "pick the cube")
    assert custom["session_config"] == CONFIG
    assert json.loads(custom["session_record"])["arm"] == RECORD["arm"]
    assert (custom["outcome"], custom["complete"]) == ("interrupted", "false")
    assert (record.start_ns, record.end_ns, record.outcome) == (START, None, "interrupted")
    assert record.incomplete_reasons == (END_LOST, "the recording was interrupted")
    said = json.loads((result.bag / "episode.json").read_text())
    assert said["messages_in_bag"] == dict(result.counts)
    assert {name: topic["lost"] for name, topic in said["topics"].items()} == dict.fromkeys(result.counts)
    origin = said["recovered"]
    assert (origin["original"], origin["tool_version"]) == ("episode_000000", __version__)
    assert (origin["most_missing_s"], origin["damaged_places"]) == (1.0, 0)
    # what else reads records of episodes
    (session,) = saved_sessions(studio.folder.path.parent, (), CONFIG)
    assert any(END_LOST in line for line in told([session]))
    (row,) = EpisodeLedger().rows(studio.folder.path)
    assert (row.number, row.outcome, row.lost, row.seconds) == (0, "interrupted", 0, 0.996)


def test_export_refuses_it_unless_told(tmp_path, studio):
    left = studio.kill()
    (result,) = recover([studio.folder.path])
    shutil.copytree(result.original, left)
    piper = load_profile("piper")
    refused = export([studio.folder.path], tmp_path / "ds", ExportOptions(profile=piper))
    assert [(b.status, b.rows) for b in refused.bags] == [("skipped", 0)]
    assert END_LOST in refused.bags[0].reason
    (note,) = refused.notes
    assert note.startswith(f"left out, since it was never finished: {left} (piper-collect recover")
    taken = export([studio.folder.path], tmp_path / "ds", ExportOptions(profile=piper, allow_incomplete=True))
    assert [(b.bag, b.status) for b in taken.bags] == [(result.bag, "exported")]
    assert taken.bags[0].rows > 20


def test_a_number_that_is_taken_gets_the_next_free_one(studio):
    studio.save()
    studio.save()
    left = studio.kill()
    moved = left.with_name("episode_000001")
    left.rename(moved)
    before = tree(studio.folder.path / "episode_000001")
    (result,) = recover([moved])
    assert result.bag.name == "episode_000002"
    assert result.original.name == "original_of_episode_000002"
    assert tree(studio.folder.path / "episode_000001") == before
    with open_bag(result.bag) as bag:
        assert bag.custom_data["episode"] == "2"
        assert [path.name for path in bag.storage_paths] == ["episode_000002_0.mcap"]
    assert json.loads((result.bag / "episode.json").read_text())["episode"] == 2


def test_one_that_was_closed_but_not_moved_is_whole(studio, monkeypatch):
    recording = studio.begin()
    for topic, at, payload in arm_rows(50):
        recording.write(topic, payload, at)

    def refuse(*_):
        raise SessionError("no")

    monkeypatch.setattr(SessionFolder, "commit", refuse)
    with pytest.raises(SessionError):
        recording.finish(end_ns=START + 250 * MS, outcome="success", incomplete_reasons=[], topics={})
    for missing in ("", "metadata.yaml"):
        (recording.path / missing).unlink() if missing else None
        (looked,) = recover([recording.path], dry_run=True)
        assert (looked.status, looked.reasons, looked.most_missing_s) == ("recoverable", (), 0.0)
    (result,) = recover([recording.path])
    with open_bag(result.bag) as bag:
        record = read_record(bag)
    assert (record.outcome, record.incomplete_reasons) == ("success", ())
    assert (record.start_ns, record.end_ns) == (START, START + 250 * MS)
    assert rows_of(result.bag) == arm_rows(50)


def test_cut_anywhere_every_whole_message_is_recovered(studio):
    left = studio.kill(30, flush_each=20)
    file = left / "episode_000000_0.mcap"
    content, rows = file.read_bytes(), arm_rows(30)
    again = left.parent / "again"
    shutil.copytree(left, again)
    kept = []
    for size in [*range(len(content) // 3, len(content), len(content) // 12), len(content) - 1]:
        file.write_bytes(content[:size])
        (result,) = recover([left], delete_original=True)
        found = rows_of(result.bag) if result.bag else []
        assert result.status == ("recovered" if found else "empty")
        assert found == rows[: len(found)]
        kept.append(len(found))
        shutil.rmtree(result.bag or left)
        shutil.copytree(again, left)
    assert kept == sorted(kept)
    assert kept[0] == 0
    assert kept[-1] == 80
    assert any(count % 20 for count in kept)  # of a chunk that is cut, too


def test_a_damaged_chunk_is_counted_in_the_reasons(studio):
    left = studio.kill(60, flush_each=45)
    file = left / "episode_000000_0.mcap"
    content, rows = file.read_bytes(), arm_rows(60)
    at = content.index(rows[50][2][20:])
    file.write_bytes(content[:at] + b"?" + content[at + 1 :])
    (result,) = recover([left])
    assert rows_of(result.bag) == rows[:45] + rows[90:]
    assert sum(result.lost.values()) == 45
    assert (
        result.reasons[1]
        == "1 damaged place in the storage left out: at most 0.08 s; 45 lost messages are known of"
    )
    assert result.most_missing_s == pytest.approx(1.08)
    said = json.loads((result.bag / "episode.json").read_text())
    assert {topic["lost"] for topic in said["topics"].values()} == {15}


def test_the_log_of_sqlite3_may_be_cut_anywhere(tmp_path):
    studio = Studio(tmp_path / "root", "sqlite3")
    left = studio.kill(40, flush_each=20)
    log = left / "episode_000000_0.db3-wal"
    content, rows = log.read_bytes(), arm_rows(40)
    again = left.parent / "again"
    shutil.copytree(left, again)
    kept = []
    for size in [*range(0, len(content), len(content) // 8), len(content)]:
        log.write_bytes(content[:size])
        (result,) = recover([left], delete_original=True)
        found = rows_of(result.bag) if result.bag else []
        assert result.status == ("recovered" if found else "empty")
        assert found == rows[: len(found)]
        kept.append(len(found))
        shutil.rmtree(result.bag or left)
        shutil.copytree(again, left)
    assert kept == sorted(kept)
    assert (kept[0], kept[-1]) == (0, 120)


def test_custom_data_survives_a_bag_that_has_lost_it(studio):
    left = studio.kill()
    file = left / "episode_000000_0.mcap"
    content = file.read_bytes()
    at = content.index(b"serialized_metadata")
    file.write_bytes(content[:at] + b"x" + content[at + 1 :])
    (result,) = recover([left])
    with open_bag(result.bag) as bag:
        custom, record = bag.custom_data, read_record(bag)
    assert (custom["session"], custom["task"], custom["session_config"]) == (SESSION, "pick the cube", CONFIG)
    assert json.loads(custom["session_record"])["arm"] == RECORD["arm"]
    assert (record.start_ns, record.outcome) == (START, "interrupted")


def test_a_reindexed_bag_has_its_custom_data_still(studio):
    saved = studio.save()
    text = (saved / "metadata.yaml").read_text()
    before = text[: text.index("  custom_data:")]
    (saved / "metadata.yaml").write_text(f"{before}  custom_data: ~\n  ros_distro: jazzy\n")
    with open_bag(saved) as bag:
        assert (bag.custom_data["task"], bag.custom_data["outcome"]) == ("pick the cube", "success")


# -- safety -----------------------------------------------------------------------------------


@pytest.mark.parametrize("delete", [False, True])
def test_killed_at_any_step_the_next_run_goes_on(fast_path, tally, delete):
    words = [sys.executable, recover_cases.__file__, str(fast_path), *(["delete"] if delete else [])]
    paths = os.pathsep.join(map(str, [ROOT, ROOT / "test"]))
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": paths})
    assert done.returncode == 0, done.stderr
    assert 10 < int(done.stdout) < 59
    tally("kills survived", int(done.stdout))


def test_an_interruption_leaves_the_original_and_nothing_else(studio):
    left = studio.kill()
    before = tree(studio.folder.path)

    def stop(number, bags, name, word, done, total):
        if word == "reading back":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        recover([left], on_progress=stop)
    assert tree(studio.folder.path) == before
    assert sorted(p.name for p in left.parent.iterdir()) == ["episode_000000"]


def test_a_recording_that_goes_on_is_left_alone(studio):
    recording = studio.begin()
    recording.write("/arm/joint_states", arm_rows(1)[0][2], START)
    (result,) = recover([studio.folder.path])
    assert (result.status, result.bag) == ("busy", None)
    recording.leave([], {})
    claim = Claim.take(recording.path)
    assert claim is not None
    claim.release()


def test_a_bag_that_changes_under_the_hand_is_not_taken(studio):
    left = studio.kill()
    file = left / "episode_000000_0.mcap"

    def grow(number, bags, name, word, done, total):
        if word == "reading back":
            with file.open("ab") as stream:
                stream.write(b"\0")

    (result,) = recover([left], on_progress=grow)
    assert result.status == "failed"
    assert "the bag changed while it was read" in result.error
    assert studio.folder.episodes() == []
    assert [p.name for p in left.parent.iterdir()] == ["episode_000000"]


def test_what_reads_back_otherwise_is_not_taken(studio, monkeypatch):
    left = studio.kill()
    before = tree(studio.folder.path)
    real = McapBagWriter.write

    def bad_disk(writer, topic, payload, receive_ns, publish_ns=None):
        real(writer, topic, payload[:-1] + b"\x07", receive_ns, publish_ns)

    monkeypatch.setattr(McapBagWriter, "write", bad_disk)
    (result,) = recover([left])
    assert "reads other than it was written" in result.error
    assert tree(studio.folder.path) == before


def test_a_session_that_cannot_be_written_is_one_error(studio, monkeypatch):
    left = studio.kill()
    before = tree(studio.folder.path)
    monkeypatch.setattr("piper_collect.pipelines.recover.free_bytes", lambda _: 1000)
    (result,) = recover([left])
    assert "not enough room" in result.error
    assert tree(studio.folder.path) == before


# -- the program -------------------------------------------------------------------------------


def test_the_program_tells_and_a_dry_run_changes_nothing(studio, capsys):
    studio.save()
    left = studio.kill(201, flush_each=3)
    before = tree(studio.folder.path)
    assert cli.main(["recover", str(studio.folder.path), "--dry-run"]) == 0
    assert "can be recovered, 603 messages, 1.00 s" in capsys.readouterr().out
    assert tree(studio.folder.path) == before
    assert cli.main(["recover", str(left), "--json"]) == 0
    (bag,) = json.loads(capsys.readouterr().out)["bags"]
    assert (bag["status"], bag["bag"]) == ("recovered", str(studio.folder.path / "episode_000001"))
    assert bag["reasons"] == [END_LOST]
    assert cli.main(["recover", str(studio.folder.path)]) == 0
    assert capsys.readouterr().out == "nothing to recover\n"
    assert cli.main(["recover", str(studio.folder.path / "episode_000001")]) == 0
    assert "is whole: nothing to do" in capsys.readouterr().out


def test_the_table_has_every_topic_the_span_and_what_can_be_missing(studio, capsys):
    studio.kill()
    assert cli.main(["recover", str(studio.folder.path), "--delete-original"]) == 0
    out = capsys.readouterr().out
    for words in (
        "/arm/joint_states",
        "/teleop/target",
        "missing at most: 1.00 s; after a power cut also",
        f"not whole: {END_LOST}",
        "the original was removed",
        "1 recovered",
    ):
        assert words in out
    assert sorted(p.name for p in studio.folder.path.iterdir()) == [
        "episode_000000",
        "session.json",
        "session.yaml",
    ]


def test_what_cannot_be_recovered_is_an_error_and_the_rest_is_done(studio, capsys):
    left = studio.kill()
    broken = left.with_name("episode_000007")
    broken.mkdir()
    (broken / "episode_000007_0.mcap").write_bytes(b"")
    assert cli.main(["recover", str(studio.folder.path)]) == 1
    captured = capsys.readouterr()
    assert "1 recovered, 1 failed" in captured.out
    assert "episode_000007_0.mcap: the storage file is empty (0 bytes)" in captured.err
    assert captured.err.count("error:") == 1
    assert broken.is_dir()


def test_a_recording_without_a_message_is_told_and_left(studio, capsys):
    recording = studio.begin()
    aside = recording.path.with_name("aside")
    shutil.copytree(recording.path, aside)
    recording.abandon()
    aside.rename(recording.path)
    assert cli.main(["recover", str(studio.folder.path)]) == 0
    assert "holds no message: there is nothing to recover" in capsys.readouterr().out
    assert recording.path.is_dir()


def test_a_path_that_is_not_there(tmp_path, capsys):
    assert cli.main(["recover", str(tmp_path / "nowhere")]) == 1
    assert "no such path" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    with pytest.raises(BagError, match="no bag here"):
        recover([tmp_path / "empty"])


def test_the_search_for_bags_names_the_way(studio):
    studio.kill()
    with pytest.raises(BagError, match="piper-collect recover makes episodes of them"):
        find_bags([studio.folder.path])


def test_memory_does_not_grow_with_the_recording(tmp_path):
    studio = Studio(tmp_path / "root")
    recording = studio.begin()
    picture = b"\x00\x01\x00\x00" + bytes(range(256)) * 2000
    for number in range(40):
        recording._writer.write("/arm/joint_states", picture, START + number * 33 * MS)
    recording._writer.flush_due(0.0)
    aside = recording.path.with_name("aside")
    shutil.copytree(recording.path, aside)
    recording.abandon()
    aside.rename(recording.path)
    size = sum(path.stat().st_size for path in recording.path.iterdir())
    assert size > 20_000_000
    recover([recording.path], dry_run=True)  # what is loaded once
    tracemalloc.start()
    try:
        (result,) = recover([recording.path])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert result.counts["/arm/joint_states"] == 40
    assert peak < size / 2
