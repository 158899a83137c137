"""What is asked of ``rosbag2_py``, by its signatures; ``test_storage_contract`` runs on the real one."""

import sys

import pytest
from rosbag2_double import Rosbag2

from piper_collect.bag.backends import choose_storage
from piper_collect.bag.definitions import Definitions
from piper_collect.bag.reader import open_bag
from piper_collect.bag.recording import SUCCESS, EpisodeRecording
from piper_collect.bag.session_folder import SessionFolder
from piper_collect.bag.sidecar import read_record
from piper_collect.bag.storage import QosProfile, TopicInfo
from piper_collect.errors import BagError, ConfigError

pytestmark = pytest.mark.usefixtures("no_sync")

COUNT = TopicInfo(
    name="/count",
    type="std_msgs/msg/UInt8",
    qos=(QosProfile(durability="transient_local"), QosProfile(depth=5, reliability="best_effort")),
    type_hash=Definitions().type_hash("std_msgs/msg/UInt8"),
)
OTHER = TopicInfo(name="/other", type="std_msgs/msg/UInt8")
COUNTS = {COUNT.name: {"lost": 2}}


@pytest.fixture
def installed(monkeypatch):
    """Puts a double in the place of the module."""

    def install(**known) -> Rosbag2:
        module = Rosbag2(**known)
        monkeypatch.setitem(sys.modules, "rosbag2_py", module)
        return module

    return install


def recording(root, storage) -> EpisodeRecording:
    folder = SessionFolder(root, "pick_20260101_120000")
    folder.prepare("/**: {}\n", {})
    return EpisodeRecording(
        folder,
        storage=storage,
        topics=(COUNT, OTHER),
        task="pick",
        start_ns=1,
        session_yaml="/**: {}\n",
        session_record={"session": "pick_20260101_120000"},
    )


def save(episode: EpisodeRecording):
    for number in range(4):
        episode.write("/count", bytes([0, 1, 0, 0, number]), 100 + number, 90 + number)
    return episode.finish(end_ns=9, outcome=SUCCESS, incomplete_reasons=[], topics=COUNTS)


@pytest.mark.parametrize("storage_id", ["mcap", "sqlite3"])
@pytest.mark.parametrize("closes", [True, False], ids=["close", "deletion"])
def test_an_episode_is_whole_by_close_or_deletion(installed, tmp_path, storage_id, closes):
    module = installed(closes=closes)
    path, summary = save(recording(tmp_path, choose_storage(storage_id)))
    assert path == tmp_path / "pick_20260101_120000" / "episode_000000"
    assert summary.counts == {"/count": 4, "/other": 0}
    with open_bag(path) as bag:
        assert [(m.receive_ns, m.payload[4]) for m in bag.messages()] == [(100 + n, n) for n in range(4)]
        assert bag.topics["/count"].qos == COUNT.qos
        assert bag.notes == []
        record = read_record(bag)
        assert bag.custom_data["episode_end_ns"] == "9"
    assert (record.task, record.outcome, record.losses) == ("pick", "success", {"/count": 2})
    assert sorted(module.ids.values()) == [1, 2]
    assert (path / "episode.json").is_file()


def test_what_the_storage_plugins_are_told(installed, tmp_path):
    module = installed()
    for number, storage_id in enumerate(("mcap", "sqlite3")):
        recording(tmp_path / str(number), choose_storage(storage_id)).abandon()
    assert [(o.storage_id, o.max_cache_size, o.storage_preset_profile) for o in module.options] == [
        ("mcap", 0, ""),
        ("sqlite3", 0, "resilient"),
    ]
    assert module.settings == [{"chunkSize": 16384}, None]
    assert module.options[0].custom_data["task"] == "pick"


@pytest.mark.parametrize("publish_times", [True, False])
def test_publish_times_go_where_they_are_taken(installed, tmp_path, publish_times):
    module = installed(publish_times=publish_times)
    save(recording(tmp_path, choose_storage("mcap")))
    assert module.times == [(100 + n, 90 + n)[: 2 if publish_times else 1] for n in range(4)]


def test_a_message_that_the_library_lost_in_silence_is_an_error(installed, tmp_path):
    installed(loses=3)
    episode = recording(tmp_path, choose_storage("mcap"))
    with pytest.raises(BagError, match=r"does not hold what was written .*expected 4 messages, got 3"):
        save(episode)
    assert not (tmp_path / "pick_20260101_120000" / "episode_000000").exists()
    assert episode.path.is_dir()


def test_an_open_that_fails_is_one_line_and_leaves_nothing(installed, tmp_path):
    installed(refuses="no plugin could be\nloaded")
    with pytest.raises(
        BagError, match=r"episode_000000: the bag cannot be written .*no plugin could be loaded"
    ):
        recording(tmp_path, choose_storage("mcap"))
    assert list((tmp_path / "pick_20260101_120000" / ".recording").iterdir()) == []


def test_a_plugin_that_is_missing_is_named_or_gone_round(installed):
    installed(plugins=("mcap",))
    with pytest.raises(ConfigError, match=r"no plugin for this storage .*rosbag2-storage-sqlite3"):
        choose_storage("sqlite3", "rosbag2_py")
    chosen = choose_storage("sqlite3")
    assert chosen.backend == "pip"
    assert "no plugin for this storage" in chosen.because
    assert (choose_storage("mcap").backend, choose_storage("mcap").because) == ("rosbag2_py", "")


def test_an_older_module_is_gone_round(installed):
    del installed().to_rclcpp_qos_vector
    assert "too old" in choose_storage("mcap").because
    with pytest.raises(ConfigError, match=r"too old .*without to_rclcpp_qos_vector"):
        choose_storage("mcap", "rosbag2_py")


def test_a_bag_is_read_through_it_to_the_storages_count(installed, tmp_path, monkeypatch):
    module = installed()
    path, _ = save(recording(tmp_path, choose_storage("mcap", "pip")))
    with open_bag(path, backend="rosbag2_py") as bag:
        assert [m.payload[4] for m in bag.messages()] == [0, 1, 2, 3]
        assert [m.payload[4] for m in bag.messages(["/count"])] == [0, 1, 2, 3]
        assert list(bag.messages(["/other"])) == []
        assert (bag.start_ns, bag.end_ns) == (100, 103)
        calls = iter([True, True, False])
        monkeypatch.setattr(module.SequentialReader, "has_next", real_until(calls, module))
        with pytest.raises(BagError, match=r"not all messages could be read .*expected 4 .*got 2"):
            list(bag.messages())


def test_service_events_that_nobody_asked_for_are_not_read(installed, tmp_path):
    installed()
    writer = choose_storage("mcap", "pip").writer()
    writer.open(tmp_path / "bag", {})
    for name in ("/count", "/home/_service_event"):
        writer.create_topic(TopicInfo(name=name, type=COUNT.type))
        writer.write(name, bytes([0, 1, 0, 0, 7]), 5)
    writer.close()
    with open_bag(tmp_path / "bag", backend="rosbag2_py") as bag:
        assert [m.topic for m in bag.messages(["/count"])] == ["/count"]


def real_until(calls, module):
    """``has_next`` that ends too early."""
    real = module.SequentialReader.has_next
    return lambda reader: real(reader) and next(calls)
