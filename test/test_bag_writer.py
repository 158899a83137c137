"""Bags that are written: by every reader the same, whole or gone, and half a second lost in a kill."""

from pathlib import Path

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcap.reader import make_reader
from rosbags.highlevel import AnyReader
from rosbags.rosbag2 import Reader
from sample_bags import make_writer

from piper_collect import __version__
from piper_collect.bag.definitions import Definitions
from piper_collect.bag.reader import open_bag
from piper_collect.bag.storage import QosProfile, TopicInfo

STRING = "std_msgs/msg/String"
NO_START_NS = 9223372036854775807


def string_cdr(text: str) -> bytes:
    raw = text.encode() + b"\x00"
    return b"\x00\x01\x00\x00" + len(raw).to_bytes(4, "little") + raw


def topic(name: str, kind: str = STRING, **changes: object) -> TopicInfo:
    known = Definitions()
    entries = {
        "name": name,
        "type": kind,
        "qos": (QosProfile(),),
        "type_hash": known.type_hash(kind),
        "message_definition": known.definition(kind),
    }
    return TopicInfo(**{**entries, **changes})


def write_strings(
    uri: Path,
    messages: list[tuple[str, int, str]],
    flush_each: int = 10**9,
    custom: dict[str, str] | None = None,
) -> Path:
    writer = make_writer("mcap")
    writer.open(uri, custom or {})
    for name in dict.fromkeys(m[0] for m in messages):
        writer.create_topic(topic(name))
    for number, (name, receive_ns, text) in enumerate(messages):
        writer.write(name, string_cdr(text), receive_ns)
        if number % flush_each == flush_each - 1:
            writer.flush_due(float(number))
    writer.close()
    return uri


def tree(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


MESSAGES = [
    ("/a", 100, "one"),
    ("/b", 101, "two"),
    ("/a", 103, "three"),
    ("/b", 103, "four"),
    ("/a", 107, "five"),
]


def test_summary_and_files(tmp_path):
    writer = make_writer("mcap")
    writer.open(tmp_path / "episode_000000", {"task": "pick"})
    writer.create_topic(topic("/a"))
    writer.create_topic(topic("/none"))
    writer.write("/a", string_cdr("x"), 50)
    writer.write("/a", memoryview(string_cdr("y")), 20)
    summary = writer.close({"outcome": "success"})
    assert tree(tmp_path) == [
        "episode_000000",
        "episode_000000/episode_000000_0.mcap",
        "episode_000000/metadata.yaml",
    ]
    assert summary.counts == {"/a": 2, "/none": 0}
    assert (summary.start_ns, summary.end_ns, summary.message_count) == (20, 50, 2)
    assert summary.storage_path == tmp_path / "episode_000000" / "episode_000000_0.mcap"
    assert summary.size_bytes == summary.storage_path.stat().st_size
    with open_bag(tmp_path / "episode_000000") as bag:
        assert bag.custom_data == {"task": "pick", "outcome": "success"}
        assert bag.topics["/none"].message_count == 0
        assert [(m.receive_ns, bag.decode("/a", m.payload).data) for m in bag.messages()] == [
            (20, "y"),
            (50, "x"),
        ]
        assert bag.notes == []


def test_rosbags_reads_all_of_it(tmp_path):
    uri = write_strings(tmp_path / "bag", MESSAGES, flush_each=2)
    with Reader(uri) as reader:
        assert reader.message_count == 5
        assert [(c.topic, t) for c, t, _ in reader.messages()] == [(name, t) for name, t, _ in MESSAGES]
        assert reader.topics["/a"].msgcount == 3
    with AnyReader([uri]) as reader:
        texts = [reader.deserialize(raw, c.msgtype).data for c, _, raw in reader.messages()]
    assert texts == ["one", "two", "three", "four", "five"]


def test_mcap_reads_it_in_time_order_through_its_index(tmp_path):
    late = [("/a", 100 - n, str(n)) for n in range(20)]
    uri = write_strings(tmp_path / "bag", late, flush_each=4)
    with (uri / "bag_0.mcap").open("rb") as file:
        reader = make_reader(file, validate_crcs=True)
        summary = reader.get_summary()
        assert reader.get_header().profile == "ros2"
        assert reader.get_header().library == f"piper_collect/{__version__}"
        assert [chunk.compression for chunk in summary.chunk_indexes] == [""] * 5
        assert all(list(chunk.message_index_offsets) == [1] for chunk in summary.chunk_indexes)
        assert summary.statistics.message_count == 20
        stamps = [message.log_time for _, _, message in reader.iter_messages()]
        assert stamps == sorted(stamps)
        assert len(stamps) == 20


def test_channels_carry_what_rosbag2_writes(tmp_path):
    writer = make_writer("mcap")
    writer.open(tmp_path / "bag", {})
    latched = QosProfile(history="unknown", depth=0, durability="transient_local", lifespan_ns=10_000_000_001)
    writer.create_topic(topic("/a", qos=(latched,)))
    writer.create_topic(topic("/b"))
    for name in ("/a", "/b", "/a"):
        writer.write(name, string_cdr("x"), 1)
    writer.close()
    with (tmp_path / "bag" / "bag_0.mcap").open("rb") as file:
        rows = list(make_reader(file).iter_messages(log_time_order=False))
    assert [(c.topic, m.sequence, m.publish_time) for _, c, m in rows] == [
        ("/a", 0, 1),
        ("/b", 0, 1),
        ("/a", 1, 1),
    ]
    schema, channel, _ = rows[0]
    assert (schema.name, schema.encoding, schema.data) == (STRING, "ros2msg", b"string data\n")
    assert channel.message_encoding == "cdr"
    assert channel.metadata["topic_type_hash"] == topic("/a").type_hash
    # The text that rosbag2 0.26 puts into its own files, of a publisher seen through discovery.
    assert channel.metadata["offered_qos_profiles"] == (
        "- history: unknown\n  depth: 0\n  reliability: reliable\n  durability: transient_local\n"
        "  deadline:\n    sec: 9223372036\n    nsec: 854775807\n  lifespan:\n    sec: 10\n    nsec: 1\n"
        "  liveliness: automatic\n  liveliness_lease_duration:\n    sec: 9223372036\n    nsec: 854775807\n"
        "  avoid_ros_namespace_conventions: false"
    )
    with open_bag(tmp_path / "bag") as bag:
        assert bag.topics["/a"].qos == (latched,)


def test_metadata_records_inside_the_file(tmp_path):
    uri = write_strings(tmp_path / "bag", MESSAGES, custom={"task": "a"})
    with (uri / "bag_0.mcap").open("rb") as file:
        found = [
            (r.name, yaml.safe_load(r.metadata["serialized_metadata"]))
            for r in make_reader(file).iter_metadata()
        ]
    assert [name for name, _ in found] == ["rosbag2", "rosbag2"]
    opened, closed = found[0][1], found[1][1]
    assert opened["starting_time"] == {"nanoseconds_since_epoch": NO_START_NS}
    assert (opened["message_count"], opened["topics_with_message_count"]) == (0, [])
    assert closed["starting_time"] == {"nanoseconds_since_epoch": 100}
    assert closed["duration"] == {"nanoseconds": 7}
    assert [t["message_count"] for t in closed["topics_with_message_count"]] == [3, 2]
    outer = yaml.safe_load((uri / "metadata.yaml").read_text())
    assert outer == {"rosbag2_bagfile_information": closed}
    assert closed["files"] == [
        {
            "path": "bag_0.mcap",
            "starting_time": {"nanoseconds_since_epoch": 100},
            "duration": {"nanoseconds": 7},
            "message_count": 5,
        }
    ]


def test_flush_is_due_every_half_second(tmp_path):
    writer = make_writer("mcap")
    writer.open(tmp_path / "bag", {})
    writer.create_topic(topic("/a"))
    assert [writer.flush_due(t) for t in (7.0, 7.3, 7.49, 7.5, 7.9, 8.01)] == [
        True,
        False,
        False,
        True,
        False,
        True,
    ]
    writer.abort()


def test_what_is_flushed_can_be_read_before_close(tmp_path):
    writer = make_writer("mcap")
    writer.open(tmp_path / "bag", {"task": "t"})
    writer.create_topic(topic("/a"))
    writer.write("/a", string_cdr("kept"), 5)
    writer.flush_due(0.0)
    writer.write("/a", string_cdr("not yet"), 6)
    with open_bag(tmp_path / "bag") as bag:
        assert bag.incomplete
        assert bag.custom_data == {"task": "t"}
        assert [bag.decode(m.topic, m.payload).data for m in bag.messages()] == ["kept"]
    writer.abort()


def test_abort_leaves_nothing(tmp_path):
    (tmp_path / "kept").write_text("x")
    writer = make_writer("mcap")
    writer.open(tmp_path / "bag", {})
    writer.create_topic(topic("/a"))
    writer.write("/a", string_cdr("x"), 1)
    writer.flush_due(0.0)
    writer.abort()
    assert tree(tmp_path) == ["kept"]
    writer.abort()
    writer.open(tmp_path / "bag", {})
    writer.close()
    writer.abort()
    assert tree(tmp_path) == ["bag", "bag/bag_0.mcap", "bag/metadata.yaml", "kept"]


NAMES = st.sampled_from(["/a", "/b", "/rig_2/arm/joint_states"])
TEXT = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\x00"), max_size=20)
ROWS = st.lists(st.tuples(NAMES, st.integers(0, 2**63 - 2), TEXT), max_size=12)


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS, flush_each=st.integers(1, 5), custom=st.dictionaries(TEXT, TEXT, max_size=3))
def test_write_then_read_is_identity(tmp_path_factory, rows, flush_each, custom):
    uri = write_strings(tmp_path_factory.mktemp("law") / "bag", rows, flush_each, custom)
    with open_bag(uri) as bag:
        read = [(m.topic, m.receive_ns, bag.decode(m.topic, m.payload).data) for m in bag.messages()]
        assert read == sorted(rows, key=lambda row: row[1])
        assert bag.custom_data == custom
    (uri / "metadata.yaml").unlink()
    with open_bag(uri) as bag:
        assert bag.custom_data == custom
