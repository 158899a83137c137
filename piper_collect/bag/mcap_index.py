"""What an MCAP file holds and where, and how its records are read."""

import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BytesIO
from typing import BinaryIO

import zstandard
from isal.isal_zlib import crc32
from mcap.data_stream import ReadDataStream
from mcap.exceptions import McapError
from mcap.opcode import Opcode
from mcap.reader import SeekingReader
from mcap.records import Channel, Chunk, Metadata, Schema
from mcap.stream_reader import get_chunk_data_stream
from mcap.summary import Summary

from piper_collect.bag.source import Hole

RECORD = struct.Struct("<BQ")  # opcode, length
MESSAGE = struct.Struct("<HIQQ")  # channel, sequence, log time, publish time
CHUNK_FIXED = struct.Struct("<QQQII")  # start, end, uncompressed size, CRC, length of compression name
LENGTH = struct.Struct("<Q")
MAGIC_BYTES = 8
_FOOTER_BYTES = 20
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
    """What is known of a file before its messages are read.

    Attributes:
        schemas: By id.
        channels: By id.
        counts: Messages by channel.
        blocks: Where they lie.
        start_ns: Earliest log time.
        end_ns: Latest log time.
        metadata: rosbag2's bag information, the last that was written.
        damage: The first thing that is wrong with the file; empty when nothing is.
        closed: Whether the writer came to the end of its messages.
        holes: Damaged places that were passed over.
        lost: Messages in them by channel, as far as the message indexes behind them say.
    """

    schemas: dict[int, Schema]
    channels: dict[int, Channel]
    counts: Counter[int]
    blocks: list[Block]
    start_ns: int | None = None
    end_ns: int | None = None
    metadata: str = ""
    damage: str = ""
    closed: bool = False
    holes: list[Hole] = field(default_factory=list)
    lost: Counter[int] = field(default_factory=Counter)

    def add_message(self, channel: int, log_ns: int) -> None:
        """Count one message."""
        self.counts[channel] += 1
        self.start_ns = log_ns if self.start_ns is None else min(self.start_ns, log_ns)
        self.end_ns = log_ns if self.end_ns is None else max(self.end_ns, log_ns)


def records(content: memoryview) -> Iterator[tuple[int, int, int]]:
    """(opcode, start, end) of each whole record; ``start`` and ``end`` bound its body."""
    position = 0
    while position + RECORD.size <= len(content):
        opcode, length = RECORD.unpack_from(content, position)
        start = position + RECORD.size
        position = start + length
        if position > len(content):
            return
        yield opcode, start, position


def block_messages(content: memoryview) -> Iterator[tuple[int, int, int, memoryview]]:
    """(channel, log time, publish time, payload) of each message among the records."""
    for opcode, start, end in records(content):
        if opcode == Opcode.MESSAGE:
            if end - start < MESSAGE.size:
                raise ValueError("a message record is too short")
            channel, _, log_ns, publish_ns = MESSAGE.unpack_from(content, start)
            yield channel, log_ns, publish_ns, content[start + MESSAGE.size : end]


def chunk_content(body: memoryview) -> memoryview:
    """The records inside a chunk record, decompressed and checked against its CRC.

    Those of an uncompressed chunk are a view of ``body``: nothing is copied.
    """
    *_, announced, crc, name_length = CHUNK_FIXED.unpack_from(body)
    if name_length:
        chunk = Chunk.read(ReadDataStream(BytesIO(body)))
        stream, length = get_chunk_data_stream(chunk, validate_crc=True)
        content = memoryview(stream.read(length))
    else:
        (length,) = LENGTH.unpack_from(body, CHUNK_FIXED.size)
        content = body[CHUNK_FIXED.size + LENGTH.size :][:length]
        if crc and (seen := crc32(content)) != crc:  # a CRC of 0 stands for none
            raise ValueError(f"a chunk with the CRC {seen:#010x} where {crc:#010x} was announced")
    if len(content) != announced:
        raise ValueError(f"chunk of {len(content)} bytes where {announced} were announced")
    return content


def summary_index(file: BinaryIO) -> Index | None:
    """The index of a finished, chunked file; None when the file must be walked."""
    try:
        if not _ends_with_footer(file):
            return None
        file.seek(0)
        summary = SeekingReader(file).get_summary()
        if summary is None or not _is_usable(summary):
            return None
        index = Index(
            schemas=summary.schemas, channels=summary.channels, counts=Counter(), blocks=[], closed=True
        )
        for entry in summary.metadata_indexes:
            head = RECORD.size
            take_definition(
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
            offset=entry.chunk_start_offset + RECORD.size,
            size=entry.chunk_length - RECORD.size,
            chunk=True,
            channels=frozenset(entry.message_index_offsets) or None,
        )
        for entry in summary.chunk_indexes
    ]
    return index


def _ends_with_footer(file: BinaryIO) -> bool:
    size = file.seek(0, 2)
    tail = RECORD.size + _FOOTER_BYTES + MAGIC_BYTES
    if size < tail + MAGIC_BYTES:
        return False
    last = read_exactly(file, size - tail, tail)
    start = RECORD.pack(Opcode.FOOTER, _FOOTER_BYTES)
    return last.startswith(start) and last.endswith(read_exactly(file, 0, MAGIC_BYTES))


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


def take_definition(index: Index, opcode: int, body: bytes) -> None:
    """Note a schema, a channel or a metadata record."""
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
    """``size`` bytes of the file from ``offset`` on."""
    file.seek(offset)
    content = file.read(size)
    if len(content) != size:
        raise ValueError(f"{len(content)} bytes where {size} were announced")
    return content
