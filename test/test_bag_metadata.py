"""metadata.yaml of every rosbag2 version."""

import pytest
import yaml

from piper_collect.bag.metadata import BagMetadata, metadata_text, parse_metadata, write_metadata
from piper_collect.bag.qos import QosProfile, parse_qos, qos_text
from piper_collect.bag.storage import TopicInfo
from piper_collect.core.qos_match import INFINITE_NS
from piper_collect.errors import BagError

VERSION_2 = """
rosbag2_bagfile_information:
  version: 2
  storage_identifier: sqlite3
  relative_file_paths:
    - talk/talk_0.db3
  duration:
    nanoseconds: 62560451324
  starting_time:
    nanoseconds_since_epoch: 1588512872785162138
  message_count: 1565
  topics_with_message_count:
    - topic_metadata:
        name: /imu
        type: sensor_msgs/msg/Imu
        serialization_format: cdr
      message_count: 1565
"""


def test_version_2_has_no_qos_and_a_folder_in_its_paths():
    read = parse_metadata(VERSION_2, where="x")
    assert (read.version, read.storage_id, read.files) == (2, "sqlite3", ("talk/talk_0.db3",))
    assert (read.start_ns, read.duration_ns, read.message_count) == (1588512872785162138, 62560451324, 1565)
    assert read.topics == (TopicInfo(name="/imu", type="sensor_msgs/msg/Imu", message_count=1565),)
    assert (read.compression_mode, read.custom_data, read.ros_distro) == ("", {}, "")


def test_version_4_keeps_qos_as_text_with_rmw_numbers():
    text = (
        '"- history: 3\\n  depth: 0\\n  reliability: 2\\n  durability: 1\\n  deadline:\\n'
        "    sec: 9223372036\\n    nsec: 854775807\\n  lifespan:\\n    sec: 10\\n    nsec: 0\\n"
        "  liveliness: 1\\n  liveliness_lease_duration:\\n    sec: 2147483647\\n    nsec: 4294967295\\n"
        '  avoid_ros_namespace_conventions: false"'
    )
    source = VERSION_2.replace("version: 2", "version: 4").replace(
        "serialization_format: cdr", f"serialization_format: cdr\n        offered_qos_profiles: {text}"
    )
    assert parse_metadata(source, where="x").topics[0].qos == (
        QosProfile(
            history="unknown",
            depth=0,
            reliability="best_effort",
            durability="transient_local",
            deadline_ns=INFINITE_NS,
            lifespan_ns=10_000_000_000,
            liveliness="automatic",
            lease_ns=2147483647 * 10**9 + 4294967295,
        ),
    )


def test_modes_and_missing_parts():
    source = (
        "version: 9\ncompression_mode: MESSAGE\ncompression_format: ZSTD\ncustom_data: ~\n"
        "starting_time:\n  nanoseconds_since_epoch: 9223372036854775807\nros_distro: jazzy\n"
    )
    read = parse_metadata(source, where="x")
    assert (read.compression_mode, read.compression_format, read.ros_distro) == ("message", "zstd", "jazzy")
    assert (read.custom_data, read.start_ns, read.storage_id, read.topics) == ({}, None, "", ())
    assert parse_metadata("version: 3\ncompression_mode: NONE", where="x").compression_mode == ""


def test_custom_data_stays_text():
    read = parse_metadata("version: 9\ncustom_data:\n  a: 007\n  b: 1e3\n  c: yes\n  d: ''\n", where="x")
    assert read.custom_data == {"a": "007", "b": "1e3", "c": "yes", "d": ""}
    written = metadata_text(BagMetadata(storage_id="mcap", custom_data=read.custom_data))
    # Quoted, so that YAML 1.1 and 1.2 readers alike see text.
    assert '"b": "1e3"' in written
    assert parse_metadata(written, where="x").custom_data == read.custom_data


def test_written_metadata_reads_back():
    metadata = BagMetadata(
        storage_id="mcap",
        start_ns=5,
        duration_ns=7,
        message_count=3,
        topics=(
            TopicInfo(
                name="/arm/joint_states",
                type="sensor_msgs/msg/JointState",
                qos=(QosProfile(), QosProfile(reliability="best_effort", depth=5)),
                type_hash="RIHS01_00",
                message_count=3,
            ),
        ),
        files=("episode_000000_0.mcap",),
        custom_data={"task": '抓取 "red" cube\n\t\u2028 🙂'},
        ros_distro="jazzy",
    )
    for outer_key in (True, False):
        text = metadata_text(metadata, outer_key=outer_key)
        assert text.startswith("rosbag2_bagfile_information:\n" if outer_key else "version: 9\n")
        assert parse_metadata(text, where="x") == metadata


def test_characters_that_rosbag2_writes_as_they_are():
    """yaml-cpp escapes other control characters, and quotes no text for a separator of lines in it."""
    texts = {"task": "a\x7fb", "note": "a \u2028 b\u2029c", "stand_in": "\ue000\x7f", "key\x7f": "007"}
    version_9 = "rosbag2_bagfile_information:\n  version: 9\n  custom_data:\n"
    lines = [f'    "{key}": "{text}"\n' for key, text in texts.items()]
    lines.append("    plain: a\u2028b\n")
    read = parse_metadata(version_9 + "".join(lines), where="x")
    assert read.custom_data == {**texts, "plain": "a\u2028b"}
    again = parse_metadata(metadata_text(BagMetadata(storage_id="mcap", custom_data=texts)), where="x")
    assert again.custom_data == texts


@pytest.mark.parametrize("control", ["\x00", "\x1b", "\x9f"])
def test_other_control_characters_are_not_rosbag2s(control: str):
    with pytest.raises(BagError, match="not YAML"):
        parse_metadata(
            f'rosbag2_bagfile_information:\n  version: 9\n  custom_data:\n    "a": "{control}"\n', where="x"
        )


def test_writing_replaces_whole_and_leaves_no_partial_file(tmp_path):
    (tmp_path / "metadata.yaml").write_text("old")
    write_metadata(tmp_path, BagMetadata(storage_id="mcap"))
    assert [path.name for path in tmp_path.iterdir()] == ["metadata.yaml"]
    assert (
        yaml.safe_load((tmp_path / "metadata.yaml").read_text())["rosbag2_bagfile_information"]["version"]
        == 9
    )


def test_no_qos_is_an_empty_list():
    assert qos_text(()) == "[]"
    for entry in ("[]", "", None, [], "- [", "3", "- 3"):
        assert parse_qos(entry) == ()
    assert parse_qos(qos_text((QosProfile(),))) == (QosProfile(),)
    assert parse_qos([{"history": "9", "reliability": "odd"}])[0].history == "unknown"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [", "not YAML"),
        ("- 1", "not the metadata"),
        ("rosbag2_bagfile_information: 3", "not the metadata"),
        ("version: 10", "expected 1 to 9, got 10"),
        ("version: 9\ntopics_with_message_count: [3]", "malformed"),
        ("version: 9\ntopics_with_message_count: [{topic_metadata: {name: /a}}]", "malformed"),
        ("version: 9\nmessage_count: many", "malformed"),
    ],
)
def test_what_is_no_metadata_is_named(text, words):
    with pytest.raises(BagError, match=words) as error:
        parse_metadata(text, where="some/metadata.yaml")
    assert str(error.value).startswith("some/metadata.yaml: ")
