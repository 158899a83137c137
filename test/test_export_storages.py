"""One recording in both storages comes to one dataset, byte for byte but for the hash of the bag."""

import shutil

import pytest
from export_cases import every, files, frame_messages, rows, run, session, sources
from sample_bags import arm_messages, custom, make_writer, store, write_bag

from piper_collect.bag.find import find_bags
from piper_collect.bag.storage import TopicInfo
from piper_collect.config.load import dump_session
from piper_collect.errors import BagError
from piper_collect.pipelines.validate_bag import validate_bag

pytestmark = pytest.mark.usefixtures("no_sync")


def recorded(path, storage):
    messages = [*arm_messages(60), *frame_messages("cam", every(100 / 3, 1, 290))]
    said = custom(end_ms=300, session_config=dump_session(session()))
    return write_bag(path, messages, said, storage=storage)


@pytest.mark.parametrize("profile", ["piper", "train"])
def test_both_storages_export_alike(tmp_path, profile):
    made, hashes = [], set()
    for storage in ("mcap", "sqlite3"):
        bag = recorded(tmp_path / storage / "episode_000000", storage)
        summary = run(bag, tmp_path / f"ds_{storage}", profile)
        assert summary.exit_code == 0
        root = tmp_path / f"ds_{storage}"
        (source,) = sources(root)
        hashes.add(source.pop("content_hash"))
        made.append((source, files(root, "meta/episode_sources.jsonl")))
    assert made[0] == made[1]
    assert len(hashes) == 2


def test_validate_finds_the_same_in_both(tmp_path):
    found = []
    for storage in ("mcap", "sqlite3"):
        report = validate_bag(recorded(tmp_path / storage / "episode_000000", storage))
        found.append([(f.level, f.code, f.text) for f in report.findings])
    assert found[0] == found[1]


@pytest.mark.parametrize("storage", ["mcap", "sqlite3"])
def test_an_unfinished_recording_is_named_and_exported_on_request(tmp_path, storage):
    writer = make_writer(storage)
    writer.open(tmp_path / "bag", custom(outcome="", session_config=dump_session(session(()))))
    for number, (topic, receive_ns, message) in enumerate(arm_messages(60)):
        if number < 3:
            kind = message.__msgtype__
            text = store().generate_msgdef(kind, ros_version=2)[0]
            writer.create_topic(TopicInfo(name=topic, type=kind, message_definition=text))
        writer.write(topic, bytes(store().serialize_cdr(message, message.__msgtype__)), receive_ns)
    writer.flush_due(0.0)
    left = shutil.copytree(tmp_path / "bag", tmp_path / "session" / ".recording" / "episode_000000")
    writer.abort()
    with pytest.raises(BagError, match=r"only recordings that were never finished .*episode_000000"):
        find_bags([tmp_path / "session"])
    before = files(left)
    assert [b.status for b in run(left, tmp_path / "refused").bags] == ["skipped"]
    summary = run(left, tmp_path / "ds", allow_incomplete=True)
    assert [b.status for b in summary.bags] == ["exported"]
    assert rows(tmp_path / "ds").num_rows == 9
    assert files(left) == before
