"""What a salvage reads of a damaged MCAP: what its checksums prove, and nothing else."""

import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcap.writer import CompressionType, Writer
from sample_bags import make_writer
from test_bag_writer import STRING, string_cdr, topic

from piper_collect.bag.reader import open_bag
from piper_collect.errors import BagError

MS = 1_000_000
ROWS = [(("/a", "/b")[n % 2], n * 100 * MS, f"text {n}") for n in range(12)]
FLUSHED = 3
MAGIC = b"\x89MCAP0\r\n"

pytestmark = pytest.mark.usefixtures("no_sync")


def chunks_of(path, *, closed=True):
    """Four chunks of three messages, and the file as it was before it was closed."""
    writer = make_writer("mcap")
    writer.open(path, {"task": "pick"})
    for name in ("/a", "/b"):
        writer.create_topic(topic(name))
    for number, (name, receive_ns, text) in enumerate(ROWS):
        writer.write(name, string_cdr(text), receive_ns)
        if number % FLUSHED == FLUSHED - 1:
            writer.flush_due(float(number))
    file = path / f"{path.name}_0.mcap"
    before = file.read_bytes()
    writer.close()
    return file.read_bytes() if closed else before


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return chunks_of(tmp_path_factory.mktemp("whole") / "bag")


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    return chunks_of(tmp_path_factory.mktemp("killed") / "bag", closed=False)


def salvaged(path, content):
    """Rows, damage and whether the file is called incomplete."""
    path.write_bytes(content)
    with open_bag(path, salvage=True) as bag:
        rows = [(m.topic, m.receive_ns, bag.decode(m.topic, m.payload).data) for m in bag.messages()]
        return rows, bag.damage, bag.incomplete


def records(content):
    """Offset, opcode and end of each record."""
    position, found = len(MAGIC), []
    while position + 9 <= len(content) - (8 if content.endswith(MAGIC) else 0):
        opcode, length = struct.unpack_from("<BQ", content, position)
        found.append((position, opcode, position + 9 + length))
        position += 9 + length
    return found


def chunk(content, number):
    return [(start, end) for start, opcode, end in records(content) if opcode == 6][number]


def changed(content, offset, new):
    return content[:offset] + new + content[offset + len(new) :]


def test_cut_anywhere_it_gives_the_messages_before_the_cut(tmp_path, whole, killed):
    path = tmp_path / "x.mcap"
    assert whole.startswith(killed)
    counts = []
    edges = {end + near for _, _, end in records(whole) for near in (-1, 0, 1, 8, 9, 10)}
    for size in sorted({*range(len(MAGIC), len(whole), 5), *edges & set(range(8, len(whole)))}):
        rows, damage, incomplete = salvaged(path, whole[:size])
        assert rows == ROWS[: len(rows)]
        assert incomplete
        assert (damage.holes, damage.lost) == ((), {})
        assert not damage.closed or len(rows) == len(ROWS)
        counts.append(len(rows))
    assert counts == sorted(counts)
    assert set(counts) == set(range(len(ROWS) + 1))
    assert not salvaged(path, killed)[1].closed
    rows, damage, incomplete = salvaged(path, whole)
    assert (rows, damage.closed, incomplete) == (ROWS, True, False)


def test_no_bit_that_turns_becomes_a_wrong_message(tmp_path, whole):
    path = tmp_path / "x.mcap"
    outcomes = set()
    for offset in range(0, len(whole), 5):
        content = changed(whole, offset, bytes([whole[offset] ^ (1 << offset % 8)]))
        try:
            rows, damage, incomplete = salvaged(path, content)
        except BagError:
            assert offset < len(MAGIC)
            continue
        assert [row for row in ROWS if row in rows] == rows, offset
        if len(rows) < len(ROWS):
            assert incomplete, offset
            assert damage.holes or not damage.closed, offset
        outcomes.add(len(rows))
    assert {9, 12} <= outcomes


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(where=st.integers(8, 10**6), noise=st.binary(min_size=1, max_size=300))
def test_noise_anywhere_costs_what_it_covers_and_no_more(tmp_path_factory, whole, where, noise):
    offset = len(MAGIC) + where % (len(whole) - len(MAGIC))
    content = changed(whole, offset, noise)[: len(whole)]
    rows, _, _ = salvaged(tmp_path_factory.mktemp("noise") / "x.mcap", content)
    assert [row for row in ROWS if row in rows] == rows
    before = [row for k, row in enumerate(ROWS) if chunk(whole, k // FLUSHED)[1] <= offset]
    assert rows[: len(before)] == before


def test_a_damaged_chunk_is_counted_by_its_index_and_what_follows_is_read(tmp_path, whole):
    content = whole.replace(b"text 4", b"text 5", 1)
    rows, damage, incomplete = salvaged(tmp_path / "x.mcap", content)
    assert rows == ROWS[:3] + ROWS[6:]
    assert incomplete
    assert damage.closed
    assert damage.lost == {"/a": 1, "/b": 2}
    (hole,) = damage.holes
    assert (hole.offset, hole.offset + hole.size) == chunk(whole, 1)
    assert (hole.after_ns, hole.before_ns, hole.seconds) == (200 * MS, 600 * MS, 0.4)
    assert "a chunk with the CRC" in hole.why


@pytest.mark.parametrize("length", [0, 5, 2**40, 2**63])
def test_a_length_that_is_wrong_hides_one_chunk_only(tmp_path, whole, length):
    start, _ = chunk(whole, 1)
    content = changed(whole, start + 1, struct.pack("<Q", length))
    rows, damage, _ = salvaged(tmp_path / "x.mcap", content)
    assert rows == ROWS[:3] + ROWS[6:]
    assert [hole.seconds for hole in damage.holes if hole.seconds is not None][-1] == 0.4


def test_a_chunk_that_is_taken_for_another_record_is_missed(tmp_path, whole):
    start, _ = chunk(whole, 2)
    for opcode in (0x09, 0x86):
        rows, damage, incomplete = salvaged(tmp_path / "x.mcap", changed(whole, start, bytes([opcode])))
        assert rows == ROWS[:6] + ROWS[9:]
        assert incomplete
        assert damage.lost == {"/a": 2, "/b": 1}


def test_the_summary_names_the_topics_when_the_first_chunk_is_lost(tmp_path, whole, killed):
    path = tmp_path / "x.mcap"
    rows, damage, _ = salvaged(path, whole.replace(b"text 0", b"text x", 1))
    assert rows == ROWS[3:]
    assert damage.lost == {"/a": 2, "/b": 1}
    assert damage.holes[0].after_ns is None
    rows, damage, incomplete = salvaged(path, killed.replace(b"text 0", b"text x", 1))
    assert (rows, incomplete) == ([], True)
    assert damage.lost == {"": 12}


def test_a_summary_whose_checksum_is_wrong_names_nothing(tmp_path, whole):
    content = whole.replace(b"text 0", b"text x", 1)
    at = content.rindex(b"/b")
    rows, damage, _ = salvaged(tmp_path / "x.mcap", changed(content, at, b"/c"))
    assert rows == []
    assert damage.lost == {"": len(ROWS)}


def test_a_cut_chunk_is_believed_as_far_as_it_is_as_announced(tmp_path, killed):
    start, end = chunk(killed, 3)
    cut = killed[: end - 1]
    path = tmp_path / "x.mcap"
    assert salvaged(path, cut)[0] == ROWS[:11]
    at = cut.index(struct.pack("<Q", 1000 * MS), start + 50)
    assert salvaged(path, changed(cut, at, struct.pack("<Q", 5000 * MS)))[0] == ROWS[:10]
    message = cut.index(b"\x05", start + 40)
    assert salvaged(path, changed(cut, message, b"\x00"))[0] == ROWS[:9]
    assert salvaged(path, changed(cut, message + 9, b"\x77"))[0] == ROWS[:9]


def other(path, **options):
    with path.open("wb") as file:
        writer = Writer(file, **options)
        writer.start(profile="ros2")
        schema = writer.register_schema(STRING, "ros2msg", b"string data\n")
        channels = {name: writer.register_channel(name, "cdr", schema) for name in ("/a", "/b")}
        for name, receive_ns, text in ROWS:
            writer.add_message(channels[name], receive_ns, string_cdr(text), receive_ns + 7)
        writer.finish()
    return path.read_bytes()


@pytest.mark.parametrize("compression", [CompressionType.ZSTD, CompressionType.LZ4])
def test_compressed_chunks_of_other_writers(tmp_path, compression):
    path = tmp_path / "x.mcap"
    content = other(path, chunk_size=100, compression=compression)
    start, end = chunk(content, 2)
    broken = changed(content, end - 20, bytes([content[end - 20] ^ 0x55]))
    whole_rows = salvaged(path, content)[0]
    rows, damage, _ = salvaged(path, broken)
    assert whole_rows == ROWS
    assert [row for row in ROWS if row in rows] == rows
    assert 0 < len(ROWS) - len(rows) == sum(damage.lost.values()) < 4
    hidden = changed(content, start + 1, struct.pack("<Q", 2**40))
    assert salvaged(path, hidden)[0] == rows


def test_messages_outside_of_chunks(tmp_path):
    path = tmp_path / "x.mcap"
    content = other(path, use_chunking=False)
    first = [start for start, opcode, _ in records(content) if opcode == 5]
    short = changed(content, first[4] + 1, struct.pack("<Q", 2**40))
    assert salvaged(path, short)[0] == ROWS[:4]
    absurd = changed(content, first[4] + 9 + 6, struct.pack("<Q", 2**64 - 1))
    rows, damage, _ = salvaged(path, absurd)
    assert rows == ROWS[:4] + ROWS[5:]
    assert [hole.seconds for hole in damage.holes] == [0.2]


def test_when_a_message_was_published_is_read_too(tmp_path):
    path = tmp_path / "x.mcap"
    other(path, chunk_size=100)
    for salvage in (False, True):
        with open_bag(path, salvage=salvage) as bag:
            assert [m.publish_ns - m.receive_ns for m in bag.messages()] == [7] * len(ROWS)
