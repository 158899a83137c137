"""Finding bags, and telling two apart."""

import hashlib

import pytest
from blake3 import blake3
from test_bag_reader import ROWS, write_db3, write_mcap
from test_bag_writer import write_strings

from piper_collect.bag.find import content_hash, find_bags
from piper_collect.errors import BagError


def test_a_session_without_the_episode_in_progress(tmp_path):
    session = tmp_path / "root" / "pick_20260101_120000"
    (session / ".recording").mkdir(parents=True)
    write_strings(session / ".recording" / "episode_000002", ROWS)
    for number in (1, 0):
        write_strings(session / f"episode_00000{number}", ROWS)
    (session / "session.yaml").write_text("x")
    right = [session / "episode_000000", session / "episode_000001"]
    assert find_bags([tmp_path]) == right
    assert find_bags([session]) == right
    assert find_bags([session / "episode_000001", session]) == right[::-1]
    assert find_bags([session / ".recording"]) == [session / ".recording" / "episode_000002"]


def test_depth(tmp_path):
    deep = tmp_path / "1" / "2" / "3"
    deep.mkdir(parents=True)
    write_strings(deep / "bag", ROWS)
    assert find_bags([tmp_path / "1"]) == [deep / "bag"]
    assert find_bags([tmp_path], max_depth=4) == [deep / "bag"]
    with pytest.raises(BagError, match=r"no bag here .*metadata\.yaml, \.mcap or \.db3 .* at most 3 folders"):
        find_bags([tmp_path])


def test_unfinished_recordings_alone_are_named_with_what_can_be_done(tmp_path):
    session = tmp_path / "root" / "pick_20260101_120000"
    left = session / ".recording" / "episode_000002"
    left.parent.mkdir(parents=True)
    write_strings(left, ROWS)
    (session / ".recording" / "deleted_000001").mkdir()
    for path in (session, tmp_path):
        with pytest.raises(BagError) as caught:
            find_bags([path])
        assert str(caught.value) == (
            f"{path}: only recordings that were never finished are here (got {left}) "
            "-> piper-collect recover makes episodes of them, marked as incomplete"
        )
    assert find_bags([left]) == [left]
    write_strings(session / "episode_000000", ROWS)
    assert find_bags([session]) == [session / "episode_000000"]


def test_what_counts_as_a_bag(tmp_path):
    only = {
        "split": ["b_0.mcap", "b_1.mcap"],
        "several": ["x.mcap", "y.mcap"],
        "numbered": ["episode_000000.mcap", "episode_000001.mcap"],
        "packed": ["z_0.db3.zstd"],
        "none": ["notes.txt", "old.bag"],
    }
    for folder, names in only.items():
        (tmp_path / folder).mkdir()
        for name in names:
            (tmp_path / folder / name).write_bytes(b"x")
    (tmp_path / "meta").mkdir()
    (tmp_path / "meta" / "metadata.yaml").write_text("x")
    found = [str(path.relative_to(tmp_path)) for path in find_bags([tmp_path])]
    assert found == [
        "meta",
        "numbered/episode_000000.mcap",
        "numbered/episode_000001.mcap",
        "packed",
        "several/x.mcap",
        "several/y.mcap",
        "split",
    ]
    assert find_bags([tmp_path / "none" / "old.bag"]) == [tmp_path / "none" / "old.bag"]
    with pytest.raises(BagError, match="no bag here"):
        find_bags([tmp_path / "split", tmp_path / "none"])
    with pytest.raises(BagError, match="no such path"):
        find_bags([tmp_path / "missing"])


def test_a_file_beside_folders_hides_none_of_them(tmp_path):
    (tmp_path / "s").mkdir()
    write_mcap(tmp_path / "s" / "notes_0.mcap", ROWS)
    write_strings(tmp_path / "s" / "episode_000000", ROWS)
    assert find_bags([tmp_path]) == [tmp_path / "s", tmp_path / "s" / "episode_000000"]
    write_mcap(tmp_path / "s" / "other.mcap", ROWS)
    assert [p.name for p in find_bags([tmp_path])] == ["notes_0.mcap", "other.mcap", "episode_000000"]


def test_content_hash_is_of_the_storage_alone(tmp_path):
    uri = write_strings(tmp_path / "bag", ROWS)
    first = content_hash(uri)
    content = (uri / "bag_0.mcap").read_bytes()
    assert first == "blake3:" + blake3(blake3(content).digest()).hexdigest()
    assert content_hash(uri, "sha256") == hashlib.sha256(hashlib.sha256(content).digest()).hexdigest()
    (uri / "metadata.yaml").unlink()
    uri = uri.rename(tmp_path / "renamed")
    assert content_hash(uri) == first == content_hash(uri / "bag_0.mcap")
    write_strings(tmp_path / "other", ROWS[1:])
    assert content_hash(tmp_path / "other") != first


def test_content_hash_takes_splits_by_number(tmp_path):
    splits = [write_mcap(tmp_path / f"b_{n}.mcap", ROWS[n : n + 1]) for n in range(11)]
    inner = b"".join(blake3(path.read_bytes()).digest() for path in splits)
    assert content_hash(tmp_path) == "blake3:" + blake3(inner).hexdigest()


def test_content_hash_of_no_bag(tmp_path):
    with pytest.raises(BagError, match="no bag in this folder"):
        content_hash(tmp_path)
    write_db3(tmp_path / "x.db3", [])
    assert len(content_hash(tmp_path, "sha256")) == 64
