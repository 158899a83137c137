"""Bags that are read: every message the storage holds, or an error that says what is missing."""

import shutil
import sqlite3
import threading
import tracemalloc
from pathlib import Path

import pytest
import zstandard
from mcap.writer import CompressionType, Writer
from sample_bags import make_writer
from test_bag_writer import STRING, string_cdr, topic, tree, write_strings

from piper_collect.bag.reader import open_bag
from piper_collect.bag.source import HEAD_BYTES
from piper_collect.errors import BagError

ROWS = [(("/a", "/b")[n % 2], 1000 + n, f"text {n}") for n in range(40)]


def read(path: Path, topics: list[str] | None = None) -> list[tuple[str, int, str]]:
    with open_bag(path) as bag:
        return [(m.topic, m.receive_ns, bag.decode(m.topic, m.payload).data) for m in bag.messages(topics)]


def write_mcap(path: Path, rows: list[tuple[str, int, str]], **options: object) -> Path:
    """An MCAP as other recorders leave them."""
    with path.open("wb") as file:
        writer = Writer(file, **{"compression": CompressionType.NONE, **options})
        writer.start(profile="ros2")
        schema = writer.register_schema(STRING, "ros2msg", b"string data\n")
        channels = {name: writer.register_channel(name, "cdr", schema) for name in ("/a", "/b")}
        for name, receive_ns, text in rows:
            writer.add_message(channels[name], receive_ns, string_cdr(text), receive_ns)
        writer.finish()
    return path


def write_db3(path: Path, rows: list[tuple[str, int, bytes]], kinds: dict[str, str] | None = None) -> Path:
    database = sqlite3.connect(path)
    database.execute(
        "CREATE TABLE topics(id INTEGER PRIMARY KEY, name TEXT, type TEXT, serialization_format TEXT)"
    )
    database.execute(
        "CREATE TABLE messages(id INTEGER PRIMARY KEY, topic_id INTEGER, timestamp INTEGER, data BLOB)"
    )
    names = list(kinds or dict.fromkeys(row[0] for row in rows))
    for number, name in enumerate(names, 1):
        kind = (kinds or {}).get(name, STRING)
        database.execute("INSERT INTO topics VALUES(?, ?, ?, 'cdr')", (number, name, kind))
    for name, receive_ns, payload in rows:
        values = (names.index(name) + 1, receive_ns, payload)
        database.execute("INSERT INTO messages(topic_id, timestamp, data) VALUES(?, ?, ?)", values)
    database.commit()
    database.close()
    return path


def db3_rows(rows: list[tuple[str, int, str]]) -> list[tuple[str, int, bytes]]:
    return [(name, receive_ns, string_cdr(text)) for name, receive_ns, text in rows]


@pytest.mark.parametrize(
    ("options", "indexed"),
    [
        ({"use_chunking": False}, False),
        (
            {
                "use_chunking": False,
                "use_statistics": False,
                "repeat_channels": False,
                "repeat_schemas": False,
            },
            False,
        ),
        ({"chunk_size": 100}, True),
        ({"chunk_size": 100, "compression": CompressionType.ZSTD}, True),
        ({"chunk_size": 100, "compression": CompressionType.LZ4}, True),
        ({"chunk_size": 100, "repeat_channels": False}, False),
        ({"chunk_size": 100, "use_statistics": False}, False),
        ({"chunk_size": 100, "enable_crcs": False, "enable_data_crcs": True}, True),
    ],
)
def test_every_shape_of_mcap_gives_the_same_in_time_order(tmp_path, options, indexed):
    shuffled = [ROWS[n * 7 % 40] for n in range(40)]
    path = write_mcap(tmp_path / "x.mcap", shuffled, **options)
    assert read(path) == ROWS
    assert read(path, ["/b"]) == ROWS[1::2]
    with open_bag(path) as bag:
        assert {name: info.message_count for name, info in bag.topics.items()} == {"/a": 20, "/b": 20}
        assert (bag.start_ns, bag.end_ns, bag.incomplete) == (1000, 1039, False)
        assert [note.code for note in bag.notes] == ([] if indexed else ["not-indexed"])


def test_equal_times_keep_the_stored_order(tmp_path):
    rows = [("/a", 5, "1"), ("/b", 5, "2"), ("/a", 5, "3"), ("/b", 4, "0"), ("/a", 5, "4")]
    right = [rows[3], rows[0], rows[1], rows[2], rows[4]]
    assert read(write_mcap(tmp_path / "x.mcap", rows, chunk_size=1)) == right
    assert read(write_db3(tmp_path / "x.db3", db3_rows(rows))) == right


def test_sqlite_is_read_by_time_and_nothing_is_left_beside_it(tmp_path):
    path = write_db3(tmp_path / "x.db3", db3_rows(ROWS[::2] + ROWS[1::2]))
    assert read(path) == ROWS
    assert read(path, ["/a"]) == ROWS[::2]
    assert tree(tmp_path) == ["x.db3"]


def test_an_open_wal_is_read_from_a_copy(tmp_path):
    path = write_db3(tmp_path / "x.db3", db3_rows(ROWS[:2]))
    database = sqlite3.connect(path)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute(
        "INSERT INTO messages(topic_id, timestamp, data) VALUES(1, 1002, ?)", (string_cdr("text 2"),)
    )
    database.commit()
    before = tree(tmp_path)
    assert "x.db3-wal" in before
    with open_bag(path) as bag:
        assert [m.receive_ns for m in bag.messages()] == [1000, 1001, 1002]
        assert bag.notes == ["x.db3 was not closed properly; read from a copy together with x.db3-wal."]
    assert tree(tmp_path) == before
    database.close()


def test_splits_are_one_bag_in_time_order(tmp_path):
    for number, part in enumerate((ROWS[20:30], ROWS[30:], ROWS[:15], ROWS[15:20])):
        write_mcap(tmp_path / f"bag_{number}.mcap", part)
    assert read(tmp_path) == ROWS
    write_mcap(tmp_path / "bag_4.mcap", [("/a", 1010, "between")])
    assert read(tmp_path) == [*ROWS[:11], ("/a", 1010, "between"), *ROWS[11:]]
    with open_bag(tmp_path) as bag:
        assert [p.name for p in bag.storage_paths] == [f"bag_{n}.mcap" for n in (2, 4, 3, 0, 1)]
        assert "metadata.yaml is missing" in bag.notes[0]


@pytest.mark.parametrize("flush_each", [3, 10**9])
def test_a_file_cut_anywhere_gives_its_whole_messages(tmp_path, flush_each):
    whole = (write_strings(tmp_path / "bag", ROWS[:9], flush_each) / "bag_0.mcap").read_bytes()
    path = tmp_path / "cut.mcap"
    best = 0
    for size in [*range(8, len(whole), 7), len(whole) - 8, len(whole) - 1]:
        path.write_bytes(whole[:size])
        with open_bag(path) as bag:
            rows = [(m.topic, m.receive_ns, bag.decode(m.topic, m.payload).data) for m in bag.messages()]
            assert bag.incomplete
            assert f"{len(rows)} whole messages" in bag.notes[0]
        assert rows == ROWS[: len(rows)]
        assert len(rows) >= best
        best = len(rows)
    assert best == 9


def test_an_unchunked_file_cut_anywhere_gives_its_whole_messages(tmp_path):
    whole = write_mcap(tmp_path / "x.mcap", ROWS[:9], use_chunking=False).read_bytes()
    path = tmp_path / "cut.mcap"
    counts = []
    for size in range(8, len(whole)):
        path.write_bytes(whole[:size])
        rows = read(path)
        assert rows == ROWS[: len(rows)]
        counts.append(len(rows))
    assert sorted(set(counts)) == list(range(10))


def test_a_tail_of_zeros_ends_the_file(tmp_path):
    whole = write_mcap(tmp_path / "x.mcap", ROWS, use_chunking=False).read_bytes()
    path = tmp_path / "zeros.mcap"
    path.write_bytes(whole[:1200] + bytes(5000))
    with open_bag(path) as bag:
        rows = list(bag.messages())
        assert bag.incomplete
    assert 0 < len(rows) < 40


def damaged(tmp_path: Path) -> Path:
    """Ten messages in three chunks, one bit of the second chunk's third message turned."""
    uri = write_strings(tmp_path / "bag", ROWS[:10], 4)
    path = uri / "bag_0.mcap"
    path.write_bytes(path.read_bytes().replace(b"text 6", b"text 7", 1))
    return uri


def test_a_damaged_chunk_is_an_error_unless_salvaged(tmp_path):
    uri = damaged(tmp_path)
    with pytest.raises(BagError, match="damaged"):
        read(uri)
    with open_bag(uri, salvage=True) as bag:
        rows = [(m.topic, m.receive_ns, bag.decode(m.topic, m.payload).data) for m in bag.messages()]
        assert bag.incomplete
        assert "damaged" in bag.notes[0]
        assert "metadata.yaml counts 5 messages on /a, the storage holds 3." in bag.notes
    assert rows == ROWS[:4] + ROWS[8:10]
    with open_bag(uri, verify=False) as bag:  # as who has looked at the checksums before
        assert sum(1 for _ in bag.messages()) == 10


def test_no_damaged_byte_is_more_than_a_bag_error(tmp_path):
    whole = (write_strings(tmp_path / "bag", ROWS[:4], 2) / "bag_0.mcap").read_bytes()
    path = tmp_path / "x.mcap"
    outcomes = set()
    for position in range(0, len(whole), 5):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 0xFF]) + whole[position + 1 :])
        try:
            with open_bag(path) as bag:
                outcomes.add(len(list(bag.messages())))
        except BagError:
            outcomes.add(-1)
    assert {-1, 4} <= outcomes


def test_fewer_messages_than_counted_is_an_error_with_both_numbers(tmp_path):
    path = tmp_path / "x.mcap"
    with path.open("wb") as file:
        writer = Writer(file, compression=CompressionType.NONE)
        writer.start(profile="ros2")
        schema = writer.register_schema(STRING, "ros2msg", b"string data\n")
        channel = writer.register_channel("/a", "cdr", schema)
        for number in range(3):
            writer.add_message(channel, number, string_cdr("x"), number)
        statistics = writer._Writer__statistics
        statistics.message_count += 1
        statistics.channel_message_counts[channel] += 1
        writer.finish()
    with pytest.raises(BagError, match=r"expected 4 messages as the storage counts them, got 3"):
        read(path)


def test_metadata_that_disagrees_is_noted(tmp_path):
    uri = write_strings(tmp_path / "bag", ROWS)
    path = uri / "metadata.yaml"
    text = path.read_text()
    path.write_text(text.replace("message_count: 20", "message_count: 21", 1))
    with open_bag(uri) as bag:
        assert bag.notes == ["metadata.yaml counts 21 messages on /a, the storage holds 20."]
        assert len(list(bag.messages())) == 40
    path.write_text(text.replace("depth: 100", "depth: 7"))
    assert read(uri) == ROWS
    path.write_text(text.replace("storage_identifier: mcap", 'storage_identifier: ""'))
    with open_bag(uri) as bag:
        assert bag.notes == ["metadata.yaml names no storage; the files are mcap."]
        assert len(list(bag.messages())) == 40


@pytest.mark.parametrize("text", ["", "a: [", "version: x", "rosbag2_bagfile_information: {version: 99}"])
def test_useless_metadata_is_noted_and_the_storage_read(tmp_path, text):
    uri = write_strings(tmp_path / "bag", ROWS, custom={"task": "t"})
    (uri / "metadata.yaml").write_text(text)
    with open_bag(uri) as bag:
        assert bag.notes[0].startswith("metadata.yaml is of no use")
        assert bag.custom_data == {"task": "t"}
    assert read(uri) == ROWS


def test_files_are_looked_for_beside_the_metadata_first(tmp_path):
    uri = write_strings(tmp_path / "old", ROWS)
    path = uri / "metadata.yaml"
    path.write_text(path.read_text().replace("old_0.mcap", "old/old_0.mcap"))
    uri.rename(tmp_path / "new")
    assert read(tmp_path / "new") == ROWS
    (tmp_path / "new" / "old_0.mcap").rename(tmp_path / "new" / "renamed.mcap")
    assert read(tmp_path / "new") == ROWS
    with open_bag(tmp_path / "new") as bag:
        assert bag.notes == [
            "metadata.yaml names old/old_0.mcap; the folder holds renamed.mcap, which was read."
        ]
    (tmp_path / "new" / "renamed.mcap").unlink()
    with pytest.raises(BagError, match=r"missing .*old/old_0\.mcap, got none"):
        open_bag(tmp_path / "new")


def test_a_file_the_metadata_leaves_out_is_noted(tmp_path):
    uri = write_strings(tmp_path / "bag", ROWS)
    shutil.copy(uri / "bag_0.mcap", uri / "bag_1.mcap")
    with open_bag(uri) as bag:
        assert bag.notes == ["metadata.yaml does not list bag_1.mcap; left out."]
        assert len(list(bag.messages())) == 40


def test_a_topic_without_messages_stays_in_both_storages(tmp_path):
    path = write_db3(
        tmp_path / "x.db3", db3_rows(ROWS), {"/a": STRING, "/b": STRING, "/cam": "sensor_msgs/msg/Image"}
    )
    with open_bag(path) as bag:
        assert bag.topics["/cam"].message_count == 0
        assert list(bag.messages(["/cam"])) == []
    with open_bag(path) as bag, pytest.raises(BagError, match="did you mean '/cam'"):
        list(bag.messages(["/camm"]))


def test_payloads_that_are_secretly_zstd_are_refused_and_declared_ones_unpacked(tmp_path):
    packed = [(n, t, zstandard.compress(string_cdr(text))) for n, t, text in ROWS]
    write_db3(tmp_path / "bag_0.db3", packed)
    with pytest.raises(BagError, match=r"bag_0\.db3 /a: messages are compressed .* got zstd"):
        read(tmp_path)
    (tmp_path / "metadata.yaml").write_text(
        "rosbag2_bagfile_information:\n  version: 4\n  storage_identifier: sqlite3\n"
        "  relative_file_paths: [bag_0.db3]\n  compression_format: zstd\n  compression_mode: MESSAGE\n"
    )
    assert read(tmp_path) == ROWS
    with open_bag(tmp_path) as bag:
        assert all(bag.decode(m.topic, m.payload).data for m in bag.messages(heads=["/a", "/b"]))


def test_messages_that_are_only_asked_for_their_stamp_may_come_cut(tmp_path):
    long = [(name, at, text * 50) for name, at, text in ROWS]
    path = write_strings(tmp_path / "bag", long, flush_each=7)
    with open_bag(path) as bag:
        whole = list(bag.messages())
        for _ in range(2):  # the first time chunks are held against their checksums
            cut = list(bag.messages(heads=["/b"]))
            assert [m[:2] for m in cut] == [m[:2] for m in whole]
            for one, all_of_it in zip(cut, whole, strict=True):
                kept = all_of_it.payload if one.topic == "/a" else all_of_it.payload[:HEAD_BYTES]
                assert one.payload == kept
    with open_bag(path) as bag:
        assert len(list(bag.messages(["/b"], heads=["/b"]))) == len(ROWS) // 2


@pytest.mark.parametrize(
    ("name", "head", "words"),
    [
        ("x.db3", b"", r"x\.db3: the storage file is empty \(0 bytes\)"),
        ("x.bag", b"#ROSBAG V2.0\n", "ROS 1"),
        ("x.mcap.zstd", b"\x28\xb5\x2f\xfd1234", r"zstd -d x\.mcap\.zstd"),
        ("x.mcap", b"something else", "expected MCAP or sqlite3, got first bytes 73 6f 6d 65 74 68 69 6e"),
        ("x.db3", b"SQLite format 3\x00 and no more", r"x\.db3"),
    ],
)
def test_what_is_no_bag_is_named(tmp_path, name, head, words):
    (tmp_path / name).write_bytes(head)
    with pytest.raises(BagError, match=words):
        open_bag(tmp_path / name)


def test_a_folder_without_one_bag_is_named(tmp_path):
    with pytest.raises(BagError, match="no such bag"):
        open_bag(tmp_path / "missing")
    with pytest.raises(BagError, match="no bag in this folder"):
        open_bag(tmp_path)
    write_mcap(tmp_path / "one.mcap", ROWS)
    write_mcap(tmp_path / "two.mcap", ROWS)
    with pytest.raises(BagError, match=r"several bags .*got one\.mcap, two\.mcap"):
        open_bag(tmp_path)


def test_unknown_types_hurt_only_who_decodes_them(tmp_path):
    writer = make_writer("mcap")
    writer.open(tmp_path / "bag", {})
    writer.create_topic(topic("/empty", "std_msgs/msg/Empty"))
    writer.create_topic(topic("/named", message_definition=""))
    writer.create_topic(topic("/odd", STRING, type="my_msgs/msg/X", message_definition=""))
    writer.write("/empty", b"\x00\x01\x00\x00\x00", 1)
    writer.write("/named", string_cdr("by name"), 2)
    writer.write("/odd", string_cdr("?"), 3)
    writer.close()
    with open_bag(tmp_path / "bag") as bag:
        empty, named, odd = bag.messages()
        assert type(bag.decode("/empty", empty.payload)).__name__ == "std_msgs__msg__Empty"
        assert bag.decode("/named", named.payload).data == "by name"
        with pytest.raises(BagError, match=r"/odd \(my_msgs/msg/X\): no definition of this message type"):
            bag.decode("/odd", odd.payload)
        with pytest.raises(BagError, match="no such topic"):
            bag.header_stamp_ns("/nowhere", odd.payload)


def test_two_readings_at_once_do_not_meet(tmp_path):
    uri = write_strings(tmp_path / "bag", ROWS, 3)
    with open_bag(uri) as bag:
        pairs = list(zip(bag.messages(["/a"]), bag.messages(["/b"]), strict=True))
        assert [(a.receive_ns, b.receive_ns) for a, b in pairs] == [(n, n + 1) for n in range(1000, 1040, 2)]
        seen = []
        thread = threading.Thread(target=lambda: seen.extend(bag.messages()))
        thread.start()
        thread.join()
        assert len(seen) == 40
    db3 = write_db3(tmp_path / "x.db3", db3_rows(ROWS))
    with open_bag(db3) as bag:
        seen = []
        thread = threading.Thread(target=lambda: seen.extend(bag.messages()))
        thread.start()
        thread.join()
        assert len(seen) == 40


@pytest.mark.parametrize("chunking", [True, False])
def test_memory_does_not_grow_with_the_bag(tmp_path, chunking):
    path = tmp_path / "x.mcap"
    payload = b"\x00\x01\x00\x00" + bytes(500_000)
    with path.open("wb") as file:
        writer = Writer(file, compression=CompressionType.NONE, use_chunking=chunking)
        writer.start(profile="ros2")
        channel = writer.register_channel("/cam", "cdr", 0)
        for number in range(120):
            writer.add_message(channel, number, payload, number)
        writer.finish()
    tracemalloc.start()
    with open_bag(path) as bag:
        assert sum(1 for _ in bag.messages()) == 120
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 25_000_000
