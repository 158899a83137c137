"""The hash of a bag is computed beside all other work on it, and ends that work where it was not needed."""

import threading

import pytest
from export_cases import files, run, small_bag

from piper_collect.dataset import encode
from piper_collect.dataset.writer import DatasetWriter
from piper_collect.errors import DatasetError
from piper_collect.pipelines import export as exports
from piper_collect.pipelines import prepare

WAIT_S = 60.0


@pytest.fixture
def frames(monkeypatch):
    """Counts the frames that are encoded; ``begun`` is set with the first."""

    class Frames:
        begun = threading.Event()
        count = 0

    seen = Frames()
    write = encode.VideoEncoder.write

    def counted(self, frame, count=1):
        seen.count += 1
        seen.begun.set()
        return write(self, frame, count)

    monkeypatch.setattr(encode.VideoEncoder, "write", counted)
    return seen


def late_hash(monkeypatch, frames):
    """The hash comes when encoding has begun, and not before."""
    real = prepare.content_hash

    def late(path, kind):
        assert frames.begun.wait(WAIT_S), "nothing is encoded before the hash is there"
        return real(path, kind)

    monkeypatch.setattr(prepare, "content_hash", late)


@pytest.mark.parametrize("profile", ["train", "piper"])
def test_encoding_does_not_wait_for_the_hash(tmp_path, monkeypatch, frames, profile):
    path = small_bag(tmp_path / "pick" / "episode_000000")
    run(path, tmp_path / "usual", profile)
    frames.begun.clear()
    late_hash(monkeypatch, frames)
    assert [bag.status for bag in run(path, tmp_path / "late", profile).bags] == ["exported"]
    assert files(tmp_path / "late") == files(tmp_path / "usual")


def test_what_turns_out_to_be_there_under_another_name_is_not_encoded_to_its_end(
    tmp_path, monkeypatch, frames
):
    path = small_bag(tmp_path / "pick" / "episode_000000", rows=300)
    run(path, tmp_path / "ds")
    whole, before = frames.count, files(tmp_path / "ds")
    monkeypatch.setattr(DatasetWriter, "bag_names", frozenset())  # the names are of other bags
    other = path.rename(tmp_path / "pick" / "another_name")
    hashed = threading.Event()
    real, wait_for = prepare.content_hash, prepare._Look.so_far

    def told(path, kind):
        assert frames.begun.wait(WAIT_S)
        try:
            return real(path, kind)
        finally:
            hashed.set()

    def so_far(look):
        if frames.begun.is_set():  # the next frame is not before the hash
            assert hashed.wait(WAIT_S)
            look.hash()
        return wait_for(look)

    monkeypatch.setattr(prepare, "content_hash", told)
    monkeypatch.setattr(prepare._Look, "so_far", so_far)
    frames.begun.clear()
    frames.count = 0
    assert [bag.status for bag in run(other, tmp_path / "ds").bags] == ["held"]
    assert 0 < frames.count < whole
    assert files(tmp_path / "ds") == before


def test_where_nothing_can_be_made_beside_the_dataset_it_is_the_same(tmp_path, monkeypatch):
    paths = [small_bag(tmp_path / "pick" / f"episode_{n:06d}", n) for n in range(2)]
    run(paths, tmp_path / "usual")

    def refuse(root):
        raise DatasetError("nothing can be written beside the dataset", where=root)

    monkeypatch.setattr(exports, "ahead_folder", refuse)
    assert [bag.status for bag in run(paths, tmp_path / "ds").bags] == ["exported", "exported"]
    assert files(tmp_path / "ds") == files(tmp_path / "usual")
