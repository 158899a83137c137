"""Deleting the newest episode of a session on disk, beside the dataset that it may be in."""

from dataclasses import replace

import pytest
from dataset_cases import add, episode, open_writer, tree
from sample_bags import START, arm_messages, custom, write_bag

from piper_collect.bag.find import content_hash
from piper_collect.bag.session_folder import SessionFolder
from piper_collect.dataset.edit import delete_episodes
from piper_collect.dataset.guard import locked
from piper_collect.dataset.reader import open_dataset
from piper_collect.dataset.stage import EpisodeIdentity
from piper_collect.errors import BagError, DatasetError, SessionError
from piper_collect.pipelines.delete_last import DeletedEpisode, delete_last

NAME = "pick_20260101_120000"


@pytest.fixture
def session(tmp_path):
    """A session of two saved episodes."""
    folder = SessionFolder(tmp_path / "recordings", NAME)
    folder.prepare("/**: {}\n", {"session": NAME})
    for index in range(2):
        start = START + index * 10**10
        write_bag(folder.path / f"episode_{index:06d}", arm_messages(5, start=start), custom(episode=index))
    return folder


@pytest.fixture
def root(tmp_path):
    return tmp_path / "dataset"


def export(root, session, *indexes, parts=1, kind="blake3"):
    """A dataset with episodes made of these bags of the session, in this order."""
    writer = open_writer(root)
    for index in indexes:
        name = f"episode_{index:06d}"
        digest = content_hash(session.path / name, kind)
        identity = EpisodeIdentity(session=NAME, bag=name, content_hash=digest)
        for part in range(parts):
            writer.add_episode(
                replace(episode(name), part=part, parts=parts),
                identity=identity,
                session_record={"session": NAME},
            )


def made_of(root):
    return [line["bag"] for line in open_dataset(root).sources.values()]


def both(session, root):
    return tree(session.path), tree(root)


def test_without_a_dataset_only_the_bag_goes(session):
    first = tree(session.path / "episode_000000")
    assert delete_last(session, None) == DeletedEpisode(index=1)
    assert session.episodes() == [0]
    assert tree(session.path / "episode_000000") == first


@pytest.mark.parametrize("there", ["no folder", "an empty folder", "another bag", "other sessions"])
def test_a_bag_that_the_dataset_does_not_hold_goes_alone(session, root, there):
    if there == "an empty folder":
        root.mkdir()
    elif there == "another bag":
        export(root, session, 0)
    elif there == "other sessions":
        add(open_writer(root), episode(), bag="episode_000001", session="another")
    before = tree(root)
    assert delete_last(session, root) == DeletedEpisode(index=1)
    assert session.episodes() == [0]
    assert tree(root) == before


def test_the_last_episode_of_the_dataset_goes_with_its_bag(session, root):
    export(root, session, 0)
    alone = tree(root)
    export(root, session, 1)
    assert delete_last(session, root) == DeletedEpisode(index=1, from_dataset=(1,))
    assert session.episodes() == [0]
    assert made_of(root) == ["episode_000000"]
    left = tree(root)
    for name in ("data/chunk-000/episode_000000.parquet", "meta/episodes.jsonl", "meta/info.json"):
        assert left[name] == alone[name]
    assert delete_last(session, root) == DeletedEpisode(index=0, from_dataset=(0,))
    assert session.episodes() == []


def test_a_dataset_that_was_begun_with_another_hash_knows_the_bag_by_it(session, root):
    export(root, session, 0, 1, kind="sha256")
    assert delete_last(session, root) == DeletedEpisode(index=1, from_dataset=(1,))
    assert made_of(root) == ["episode_000000"]


def test_all_parts_of_a_bag_that_was_split_go(session, root):
    export(root, session, 0)
    export(root, session, 1, parts=3)
    assert delete_last(session, root) == DeletedEpisode(index=1, from_dataset=(1, 2, 3))
    assert made_of(root) == ["episode_000000"]


def test_a_bag_with_later_episodes_after_it_stays_and_so_does_the_dataset(session, root):
    export(root, session, 1, 0)
    before = both(session, root)
    with pytest.raises(SessionError) as caught:
        delete_last(session, root)
    assert str(caught.value) == (
        f"{root}: the dataset holds episode_000001 as episode 0, with 1 more after it "
        f"-> take it out there first: piper-collect edit {root} --delete NUMBER"
    )
    assert both(session, root) == before
    delete_episodes(root, [0])
    assert delete_last(session, root) == DeletedEpisode(index=1)


@pytest.mark.parametrize("indexes", [(0,), (0, 1)], ids=["not in it", "in it"])
def test_while_an_export_writes_the_dataset_nothing_is_deleted(session, root, indexes):
    export(root, session, *indexes)
    before = both(session, root)
    with locked(root), pytest.raises(DatasetError, match="another process is writing this dataset"):
        delete_last(session, root)
    assert both(session, root) == before
    assert delete_last(session, root).index == 1


def test_a_folder_that_is_no_dataset_or_a_damaged_one_keeps_the_bag(session, root):
    root.mkdir()
    (root / "notes.txt").write_text("mine")
    before = both(session, root)
    with pytest.raises(DatasetError, match="is no dataset"):
        delete_last(session, root)
    assert both(session, root) == before
    (root / "notes.txt").unlink()
    export(root, session, 0, 1)
    (root / "meta" / "episode_sources.jsonl").write_text('{"episode_index": 0')
    before = both(session, root)
    with pytest.raises(DatasetError, match=r"episode_sources.jsonl:1: is not valid JSON"):
        delete_last(session, root)
    assert both(session, root) == before


def test_a_bag_that_cannot_be_read_is_kept(session, root):
    export(root, session, 0, 1)
    (session.path / "episode_000001" / "episode_000001_0.mcap").unlink()
    before = both(session, root)
    with pytest.raises(BagError):
        delete_last(session, root)
    assert both(session, root) == before


def test_a_dataset_that_cannot_be_written_keeps_both(session, root, monkeypatch):
    export(root, session, 0, 1)
    before = both(session, root)

    def full(self):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("piper_collect.dataset.rewrite.Rewrite.stage", full)
    with pytest.raises(DatasetError, match=r"the dataset cannot be changed: .*No space left"):
        delete_last(session, root)
    assert both(session, root) == before


def test_a_bag_that_cannot_be_removed_after_the_dataset_is_told(session, root):
    export(root, session, 0, 1)
    (session.path / ".recording").mkdir(exist_ok=True)
    (session.path / ".recording" / "deleted_000001").write_text("no folder")
    with pytest.raises(SessionError, match=r"cannot be removed.*; it has left the dataset already"):
        delete_last(session, root)
    assert (session.episodes(), made_of(root)) == ([0, 1], ["episode_000000"])


def test_a_session_without_episodes_is_told_so(tmp_path, root):
    with pytest.raises(SessionError, match="no saved episode"):
        delete_last(SessionFolder(tmp_path, "empty"), root)
