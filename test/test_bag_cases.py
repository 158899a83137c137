"""Real bags of public repositories: each is read to its last message, or refused by name.

They lie beside the project (``../shared/cases``) and are no part of it; without them these tests skip.
"""

import hashlib
from collections import Counter
from pathlib import Path

import pytest

from piper_collect.bag.find import find_bags
from piper_collect.bag.reader import open_bag
from piper_collect.errors import BagError

BAGS = Path(__file__).resolve().parent.parent.parent / "shared" / "cases" / "bags"
pytestmark = pytest.mark.skipif(not BAGS.is_dir(), reason="the real bags (../shared/cases/bags) are not here")


def all_candidates() -> list[Path]:
    """Every folder with files and every file, so that nothing is left out by how it is named."""
    if not BAGS.is_dir():
        return []
    files = [path for path in BAGS.rglob("*") if path.is_file()]
    return sorted({path.parent for path in files} | set(files))


def names(path: object) -> str:
    return str(path.relative_to(BAGS)) if isinstance(path, Path) else ""


def counts(name: str) -> dict[str, int]:
    with open_bag(BAGS / name) as bag:
        return dict(Counter(message.topic for message in bag.messages()))


def refusal(name: str) -> str:
    with pytest.raises(BagError) as error, open_bag(BAGS / name) as bag:
        list(bag.messages())
    return str(error.value)


@pytest.mark.parametrize("path", all_candidates(), ids=names)
def test_every_bag_gives_all_its_messages_or_a_bag_error(path):
    before = sorted(entry.name for entry in path.parent.iterdir())
    try:
        with open_bag(path) as bag:
            seen: Counter[str] = Counter()
            last_ns = -1
            for message in bag.messages():
                assert message.receive_ns >= last_ns
                last_ns = message.receive_ns
                seen[message.topic] += 1
            assert seen == Counter({k: v.message_count for k, v in bag.topics.items() if v.message_count})
            assert bag.end_ns == (last_ns if seen else None)
    except BagError as error:
        if str(path) not in str(error):
            pytest.fail(f"the refusal does not name {path}: {error}")
    assert sorted(entry.name for entry in path.parent.iterdir()) == before


def test_the_bags_are_found():
    found = {names(path) for path in find_bags([BAGS], max_depth=4)}
    assert {"arm_abitobot/rosbag", "rosbag2_rolling/py_mcap/wbag", "image_rosbag2js"} <= found
    assert "rosbag2_2021_reindex/reindex_test_bags/file_compression" in found
    assert "truncated_rosbag_analyzer/fixtures/test_sample_truncated.mcap" in found
    assert not any(name.endswith(".bag") for name in found)


def test_b09_messages_compressed_without_a_word():
    for text in (
        refusal("rosbag2_2021_reindex/reindex_test_bags/message_compression"),
        refusal("rosbag2_2021_reindex/reindex_test_bags/message_compression/message_compression_3.db3"),
    ):
        assert ".db3 " in text
        assert "got zstd" in text
        assert "put back its metadata.yaml" in text


def test_b09_reads_once_its_metadata_is_back(tmp_path):
    source = BAGS / "rosbag2_2021_reindex/reindex_test_bags"
    for path in [
        *(source / "message_compression").iterdir(),
        *(source / "target_metadata/message_compression").iterdir(),
    ]:
        (tmp_path / path.name).write_bytes(path.read_bytes())
    with open_bag(tmp_path) as bag:
        payloads = {message.topic: message.payload for message in bag.messages()}
        assert sum(info.message_count for info in bag.topics.values()) == 380 + 360 + 360 + 27
        assert all(payload[:2] == b"\x00\x01" for payload in payloads.values())
        assert bag.decode("/topic", payloads["/topic"]).data.startswith("Hello")


def test_b10_splits_without_metadata():
    name = "rosbag2_2021_reindex/reindex_test_bags/multiple_files"
    assert counts(name) == {"/chatter": 1324 + 1324 + 529}
    with open_bag(BAGS / name) as bag:
        assert [path.stem[-1] for path in bag.storage_paths] == ["0", "1", "2"]


def test_b12_an_empty_bag():
    with open_bag(BAGS / "rosbag2_rolling/empty_bag") as bag:
        assert list(bag.messages()) == []
        assert sorted(bag.topics) == ["/parameter_events", "/rosout"]
        assert (bag.start_ns, bag.end_ns, bag.notes) == (None, None, [])


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("talker", {"/topic": 10, "/rosout": 10}),
        ("convert_a", {"a_empty": 100, "b_basictypes": 50}),
        ("convert_b", {"a_empty": 25, "c_strings": 50}),
        (
            "wbag",
            {"HHH": 726, "GGG": 731, "FFF": 772, "EEE": 804, "CCC": 742, "DDD": 753, "BBB": 742, "AAA": 804},
        ),
        ("reindex_test_bags/multiple_files", {"/chatter": 3177}),
    ],
)
def test_b14_and_b15_both_storages_hold_the_same(name, right):
    digests = []
    for storage in ("py_mcap", "py_sqlite3"):
        with open_bag(BAGS / "rosbag2_rolling" / storage / name) as bag:
            messages = list(bag.messages())
        assert Counter(message.topic for message in messages) == right
        rows = sorted((m.receive_ns, m.topic, hashlib.sha256(m.payload).digest()) for m in messages)
        digests.append(rows)
    assert digests[0] == digests[1]


def test_b14_wbag_whose_metadata_gives_other_times_than_its_files():
    with open_bag(BAGS / "rosbag2_rolling/py_mcap/wbag") as bag:
        assert (bag.start_ns, bag.end_ns) == (1000, 2998)
        assert [path.name for path in bag.storage_paths] == [f"wbag_{n}.mcap" for n in range(5)]
        assert bag.notes == [
            "metadata.yaml gives receive times 2623 to 3034 ns, the storage 1000 to 2998 ns."
        ]


def test_b20_sim_stamps_against_wall_clock():
    with open_bag(BAGS / "arm_abitobot/rosbag") as bag:
        assert (bag.storage_id, bag.end_ns - bag.start_ns) == ("mcap", 95226750409)
        messages = list(bag.messages())
        assert Counter(m.topic for m in messages) == {"/joint_states": 1866, "/imu/data": 4712}
        first = next(m for m in messages if m.topic == "/joint_states")
        joints = bag.decode("/joint_states", first.payload)
        assert len(joints.name) == len(joints.position) == 10
        stamp_ns = bag.header_stamp_ns("/joint_states", first.payload)
        assert stamp_ns == joints.header.stamp.sec * 10**9 + joints.header.stamp.nanosec
        assert 101 * 10**9 < stamp_ns < 105 * 10**9
        assert bag.topics["/joint_states"].qos[0].durability == "transient_local"


def test_b21_two_small_topics():
    assert counts("arm_joint_twist_baglab/test_bag") == {"/test/joint_state": 496, "/test/twist": 496}


def test_b22_cut_down_definitions_are_believed():
    with open_bag(BAGS / "arm_deepen_grade/sample.mcap") as bag:
        messages = list(bag.messages())
        assert len(messages) == 702
        joints = [m for m in messages if bag.topics[m.topic].type == "sensor_msgs/msg/JointState"]
        assert len(joints) == 600
        assert all(bag.header_stamp_ns(m.topic, m.payload) is None for m in joints)
        assert not hasattr(bag.decode(joints[0].topic, joints[0].payload), "header")
        image = next(m for m in messages if bag.topics[m.topic].type == "sensor_msgs/msg/CompressedImage")
        assert bytes(bag.decode(image.topic, image.payload).data) == b"\x00\x01\x02"


def test_b23_all_stamps_are_zero():
    name = "arm_deepen_grade/sample_ros2"
    topics = ("/joint_states", "/joint_command", "/gripper/joint_states")
    assert counts(name) == dict.fromkeys(topics, 200)
    with open_bag(BAGS / name) as bag:
        assert {bag.header_stamp_ns(m.topic, m.payload) for m in bag.messages()} == {0}


def test_b26_one_topic_of_every_type_decodes():
    for name in ("test_bag_mcap", "test_bag_sqlite3"):
        with open_bag(BAGS / "alltypes_rosbags_rs/test_bags" / name) as bag:
            kinds = Counter(type(bag.decode(m.topic, m.payload)).__name__ for m in bag.messages())
        assert len(kinds) == 94
        assert sum(kinds.values()) == 188


def test_b28_version_2_and_a_folder_in_its_paths():
    with open_bag(BAGS / "pose_plotjuggler/rosbag2_test") as bag:
        seen = Counter(m.topic for m in bag.messages())
        assert seen == {"/imu": 1565, "/battery": 1565, "/pose": 1565}
        assert [t for t, info in bag.topics.items() if not info.message_count] == [
            "/parameter_events",
            "/rosout",
        ]
        assert bag.end_ns - bag.start_ns == 62560451324
        assert bag.notes == []


def test_b30_crystal_names_in_a_bare_file():
    with open_bag(BAGS / "image_rosbag2js/sample.db3") as bag:
        decoded = {bag.topics[m.topic].type: bag.decode(m.topic, m.payload) for m in bag.messages()}
        stamps = {m.topic: bag.header_stamp_ns(m.topic, m.payload) for m in bag.messages()}
    assert stamps == {
        "/text": None,
        "/image": 0,
        "/image/compressed": 0,
        "/fix": 1553411564167646976,
        "/imu": 1553411909072940288,
    }
    image = decoded["sensor_msgs/Image"]
    assert (image.encoding, image.width, image.height, len(image.data)) == ("bgr8", 640, 480, 921600)
    assert decoded["sensor_msgs/CompressedImage"].format == "bgr8; jpeg compressed bgr8"
    assert bytes(decoded["sensor_msgs/CompressedImage"].data[:2]) == b"\xff\xd8"


def test_b32_cut_short_and_packed():
    folder = "truncated_rosbag_analyzer/fixtures"
    with open_bag(BAGS / folder / "test_sample.mcap") as bag:
        whole = list(bag.messages())
        assert (len(whole), bag.incomplete) == (14, False)
    with open_bag(BAGS / folder / "test_sample_truncated.mcap") as bag:
        assert list(bag.messages()) == whole
        assert bag.incomplete
        assert "14 whole messages" in bag.notes[0]
    text = refusal(f"{folder}/test_sample.mcap.zstd")
    assert "test_sample.mcap.zstd" in text
    assert "zstd -d" in text
    assert "ROS 1" in refusal(f"{folder}/test_truncated.bag")
    assert "several bags" in refusal(folder)


def test_b33_rows_stored_topic_by_topic():
    with open_bag(BAGS / "nonmonotonic_bagx/sample_bag.db3") as bag:
        stamps = [m.receive_ns for m in bag.messages()]
        assert sorted(info.message_count for info in bag.topics.values()) == [40, 240, 240, 800]
    assert stamps == sorted(stamps)
    assert len(stamps) == 1320


def test_b37_zero_bytes():
    text = refusal("zero_byte_db3/ros2_dir_bag")
    assert "ros2_dir_bag_0.db3: the storage file is empty (0 bytes)" in text


def test_whole_file_compression_is_refused_with_the_way_out():
    text = refusal("rosbag2_2021_reindex/reindex_test_bags/file_compression")
    assert "file_compression_0.db3.zstd" in text
    assert "zstd -d" in text
