"""What an MCAP file holds and where: from its summary, or by walking it as far as it is whole."""

import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import BinaryIO

import zstandard
from mcap.data_stream import ReadDataStream
from mcap.exceptions import McapError
from mcap.opcode import Opcode
from mcap.reader import SeekingReader
from mcap.records import Channel, Chunk, Metadata, Schema
from mcap.stream_reader import get_chunk_data_stream
from mcap.summary import Summary

_RECORD = struct.Struct("<BQ")  # opcode, length
_MESSAGE = struct.Struct("<HIQQ")  # channel, sequence, log time, publish time
_CHUNK_FIXED = struct.Struct("<QQQII")  # start, end, uncompressed size, CRC, length of compression name
_MAGIC_BYTES = 8
_FOOTER_BYTES = 20
_RUN_BYTES = 4 * 1024 * 1024
# What a damaged record can raise in the parsers of mcap, lz4 and zstandard.
DAMAGE = (
    McapError,
    ValueError,
    struct.error,
    RuntimeError,
    zstandard.ZstdError,
    MemoryError,
    OverflowError,
    KeyError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A stretch of the file that is loaded as one.

    Attributes:
        start_ns: Earliest log time in it.
        offset: Where its bytes begin in the file.
        size: How many.
        chunk: Whether they are the body of a chunk record; else they are records themselves.
        channels: Channels with messages in it; None when not known.
    """

    start_ns: int
    offset: int
    size: int
    chunk: bool
    channels: frozenset[int] | None = None


@dataclass(slots=True, kw_only=True)
class Index:
    """What is known of a file before its messages are read."""

    schemas: dict[int, Schema]
    channels: dict[int, Channel]
    counts: Counter[int]
    blocks: list[Block]
    start_ns: int | None = None
    end_ns: int | None = None
    metadata: str = ""
    damage: str = ""

    def add_message(self, channel: int, log_ns: int) -> None:
        """Count one message."""
        self.counts[channel] += 1
        self.start_ns = log_ns if self.start_ns is None else min(self.start_ns, log_ns)
        self.end_ns = log_ns if self.end_ns is None else max(self.end_ns, log_ns)


class Scan:
    """Walks a file without a usable index, record by record, as far as it is whole."""

    def __init__(self, file: BinaryIO) -> None:
        self.index = Index(schemas={}, channels={}, counts=Counter(), blocks=[])
        self._file = file
        self._size = file.seek(0, 2)
        self._run: tuple[int, int] | None = None  # start offset, earliest log time
        self._position = _MAGIC_BYTES
        while self._step():
            pass
        self._end_run()

    def _step(self) -> bool:
        position = self._position
        if position + _RECORD.size > self._size:
            return self._stop("it ends without a footer")
        opcode, length = _RECORD.unpack(read_exactly(self._file, position, _RECORD.size))
        body, end = position + _RECORD.size, position + _RECORD.size + length
        if opcode == Opcode.FOOTER:
            closed = end + _MAGIC_BYTES == self._size
            return False if closed else self._stop("its last bytes are missing")
        if opcode == 0:
            return self._stop(f"it holds no record at byte {position}")
        if end > self._size:
            if opcode == Opcode.CHUNK:
                self._end_run()
                self._cut_chunk(body)
            return self._stop(f"its last record is cut off at byte {self._size}")
        try:
            self._take(opcode, position, body, length)
        except DAMAGE as err:
            self.index.damage = f"the record at byte {position} is damaged ({err or type(err).__name__})"
        self._position = end
        return True

    def _take(self, opcode: int, position: int, body: int, length: int) -> None:
        if opcode == Opcode.MESSAGE:
            if length < _MESSAGE.size:
                raise ValueError("a message record is too short")
            channel, _, log_ns, _ = _MESSAGE.unpack(read_exactly(self._file, body, _MESSAGE.size))
            self.index.add_message(channel, log_ns)
            start, earliest = self._run or (position, log_ns)
            self._run = (start, min(earliest, log_ns))
            if body + length - start > _RUN_BYTES:
                self._position = body + length
                self._end_run()
            return
        if opcode == Opcode.CHUNK:
            self._end_run()
            content = memoryview(chunk_content(read_exactly(self._file, body, length)))
            self._take_content(content, body, length, chunk=True)
        elif opcode in (Opcode.SCHEMA, Opcode.CHANNEL, Opcode.METADATA):
            _take_definition(self.index, opcode, read_exactly(self._file, body, length))

    def _take_content(self, content: memoryview, offset: int, size: int, *, chunk: bool) -> None:
        for opcode, start, end in records(content):
            if opcode in (Opcode.SCHEMA, Opcode.CHANNEL):
                _take_definition(self.index, opcode, bytes(content[start:end]))
        times: list[int] = []
        channels: set[int] = set()
        for channel, log_ns, _ in block_messages(content):
            self.index.add_message(channel, log_ns)
            times.append(log_ns)
            channels.add(channel)
        if times:
            self.index.blocks.append(
                Block(
                    start_ns=min(times), offset=offset, size=size, chunk=chunk, channels=frozenset(channels)
                )
            )

    def _cut_chunk(self, body: int) -> None:
        """Keep the whole messages of an uncompressed chunk that the end of the file cuts."""
        if body + _CHUNK_FIXED.size > self._size:
            return
        *_, name_length = _CHUNK_FIXED.unpack(read_exactly(self._file, body, _CHUNK_FIXED.size))
        start = body + _CHUNK_FIXED.size + 8
        if name_length or start >= self._size:
            return
        size = self._size - start
        try:
            self._take_content(memoryview(read_exactly(self._file, start, size)), start, size, chunk=False)
        except DAMAGE:
            return

    def _end_run(self) -> None:
        if self._run is not None:
            start, earliest = self._run
            self.index.blocks.append(
                Block(start_ns=earliest, offset=start, size=self._position - start, chunk=False)
            )
        self._run = None

    def _stop(self, reason: str) -> bool:
        self.index.damage = self.index.damage or reason
        return False


def records(content: memoryview) -> Iterator[tuple[int, int, int]]:
    """(opcode, start, end) of each whole record; ``start`` and ``end`` bound its body."""
    position = 0
    while position + _RECORD.size <= len(content):
        opcode, length = _RECORD.unpack_from(content, position)
        start = position + _RECORD.size
        position = start + length
        if position > len(content):
            return
        yield opcode, start, position


def block_messages(content: memoryview) -> Iterator[tuple[int, int, memoryview]]:
    """(channel, log time, payload) of each message among the records."""
    for opcode, start, end in records(content):
        if opcode == Opcode.MESSAGE:
            if end - start < _MESSAGE.size:
                raise ValueError("a message record is too short")
            channel, _, log_ns, _ = _MESSAGE.unpack_from(content, start)
            yield channel, log_ns, content[start + _MESSAGE.size : end]


def chunk_content(body: bytes) -> bytes:
    """The records inside a chunk record, decompressed and checked against its CRC."""
    chunk = Chunk.read(ReadDataStream(BytesIO(body)))
    stream, length = get_chunk_data_stream(chunk, validate_crc=True)
    if length != chunk.uncompressed_size:
        raise ValueError(f"chunk of {length} bytes where {chunk.uncompressed_size} were announced")
    return stream.read(length)


def summary_index(file: BinaryIO) -> Index | None:
    """The index of a finished, chunked file; None when the file must be walked."""
    try:
        if not _ends_with_footer(file):
            return None
        file.seek(0)
        summary = SeekingReader(file).get_summary()
        if summary is None or not _is_usable(summary):
            return None
        index = Index(schemas=summary.schemas, channels=summary.channels, counts=Counter(), blocks=[])
        for entry in summary.metadata_indexes:
            head = _RECORD.size
            _take_definition(
                index, Opcode.METADATA, read_exactly(file, entry.offset + head, entry.length - head)
            )
    except (*DAMAGE, OSError):
        return None
    statistics = summary.statistics
    if statistics is not None and statistics.message_count:
        index.counts = Counter(statistics.channel_message_counts)
        index.start_ns, index.end_ns = statistics.message_start_time, statistics.message_end_time
    index.blocks = [
        Block(
            start_ns=entry.message_start_time,
            offset=entry.chunk_start_offset + _RECORD.size,
            size=entry.chunk_length - _RECORD.size,
            chunk=True,
            channels=frozenset(entry.message_index_offsets) or None,
        )
        for entry in summary.chunk_indexes
    ]
    return index


def _ends_with_footer(file: BinaryIO) -> bool:
    size = file.seek(0, 2)
    tail = _RECORD.size + _FOOTER_BYTES + _MAGIC_BYTES
    if size < tail + _MAGIC_BYTES:
        return False
    last = read_exactly(file, size - tail, tail)
    start = _RECORD.pack(Opcode.FOOTER, _FOOTER_BYTES)
    return last.startswith(start) and last.endswith(read_exactly(file, 0, _MAGIC_BYTES))


def _is_usable(summary: Summary) -> bool:
    statistics = summary.statistics
    if statistics is None or statistics.chunk_count != len(summary.chunk_indexes):
        return False
    if statistics.message_count and not summary.chunk_indexes:
        return False
    counts = statistics.channel_message_counts
    schemas = {c.schema_id for c in summary.channels.values()} - {0}
    return (
        set(counts) <= set(summary.channels)
        and schemas <= set(summary.schemas)
        and sum(counts.values()) == statistics.message_count
    )


def _take_definition(index: Index, opcode: int, body: bytes) -> None:
    stream = ReadDataStream(BytesIO(body))
    if opcode == Opcode.SCHEMA:
        schema = Schema.read(stream)
        index.schemas[schema.id] = schema
    elif opcode == Opcode.CHANNEL:
        channel = Channel.read(stream)
        index.channels[channel.id] = channel
    else:
        record = Metadata.read(stream)
        text = record.metadata.get("serialized_metadata", "") if record.name == "rosbag2" else ""
        index.metadata = text or index.metadata


def read_exactly(file: BinaryIO, offset: int, size: int) -> bytes:
    file.seek(offset)
    content = file.read(size)
    if len(content) != size:
        raise ValueError(f"{len(content)} bytes where {size} were announced")
    return content
