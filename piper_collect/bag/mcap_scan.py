"""Walks an MCAP file without a usable index, record by record, past what is damaged in it."""

import re
import struct
from collections import Counter
from dataclasses import replace
from typing import BinaryIO

from isal.isal_zlib import crc32
from mcap.opcode import Opcode

from piper_collect.bag.mcap_index import (
    CHUNK_FIXED,
    DAMAGE,
    LENGTH,
    MAGIC_BYTES,
    MESSAGE,
    RECORD,
    Block,
    Index,
    block_messages,
    chunk_content,
    read_exactly,
    records,
    take_definition,
)
from piper_collect.bag.source import Hole

_FOOTER = struct.Struct("<QQI")  # start of the summary, of its offsets, CRC
_CRC_BYTES = 4
_INDEX_FIXED = struct.Struct("<HI")  # channel, bytes of the entries
_INDEX_ENTRY_BYTES = 16
_RUN_BYTES = 4 * 1024 * 1024
_WINDOW_BYTES = 1024 * 1024
_CHUNK_START = re.compile(rb"\x06(?=.{5}\x00{3})", re.DOTALL)
"""Opcode of a chunk, and a length below 1 TiB."""
_COMPRESSIONS = (b"", b"lz4", b"zstd")
_SECTOR_BYTES = 512
_NO_TIME_NS = 2**63 - 1
_LAST_OPCODE = 0x0F
_FIRST_PRIVATE_OPCODE = 0x80


class _FramingLostError(Exception):
    """Where the next record begins is not known."""


class Scan:
    """Walks the file as far as it can be read; what it finds is in ``index``.

    Chunks have checksums, and what is outside of them in a file of chunks is believed to be no message.
    A record whose content is damaged is passed over. Where a damaged length hides the next record, the
    walk goes on at the next chunk that its own checksum proves to be one. Of an uncompressed chunk that
    the end of the file cuts, the whole messages are kept.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.index = Index(schemas={}, channels={}, counts=Counter(), blocks=[])
        self._file = file
        self._size = file.seek(0, 2)
        self._run: tuple[int, int] | None = None  # start offset, earliest log time
        self._behind: str = ""  # "chunk" or "damaged chunk": what message indexes would belong to
        self._chunked = False
        self._position = MAGIC_BYTES
        self._walk()

    def _walk(self) -> None:
        going = True
        while going:
            try:
                going = self._step()
            except _FramingLostError as lost:
                going = self._resume(str(lost))
        self._end_run()

    def _step(self) -> bool:
        """Take the next record; False after the last."""
        position = self._position
        if position + RECORD.size > self._size:
            raise _FramingLostError("it ends without a footer")
        opcode, length = RECORD.unpack(read_exactly(self._file, position, RECORD.size))
        end = position + RECORD.size + length
        if opcode == Opcode.FOOTER:
            if end + MAGIC_BYTES != self._size:
                raise _FramingLostError("its last bytes are missing")
            return False
        if not 0 < opcode <= _LAST_OPCODE and opcode < _FIRST_PRIVATE_OPCODE:
            raise _FramingLostError(f"it holds no record at byte {position}")
        if end > self._size:
            raise _FramingLostError(f"its last record is cut off at byte {self._size}")
        try:
            self._take(opcode, position, length)
        except DAMAGE as err:
            self._pass_over(position, end, f"the record at byte {position} is damaged ({_said(err)})")
        self._position = end
        return True

    def _take(self, opcode: int, position: int, length: int) -> None:
        body = position + RECORD.size
        if opcode == Opcode.MESSAGE_INDEX:
            self._take_message_index(position, body, length)
            return
        self._behind = ""
        if opcode == Opcode.MESSAGE:
            self._take_message(position, body, length)
        elif opcode == Opcode.CHUNK:
            self._end_run()
            self._chunked, self.index.closed = True, False
            self._behind = "damaged chunk"
            content = chunk_content(memoryview(read_exactly(self._file, body, length)))
            self._take_content(content, Block(start_ns=0, offset=body, size=length, chunk=True))
            self._behind = "chunk"
        elif opcode in (Opcode.SCHEMA, Opcode.CHANNEL) and self.index.closed:
            self._take_repeated(opcode, read_exactly(self._file, body, length))
        elif opcode in (Opcode.SCHEMA, Opcode.CHANNEL, Opcode.METADATA):
            take_definition(self.index, opcode, read_exactly(self._file, body, length))
        elif opcode == Opcode.DATA_END:
            if length != _CRC_BYTES:
                raise ValueError("an end of the messages that is none")
            self.index.closed = True

    def _take_message(self, position: int, body: int, length: int) -> None:
        if length < MESSAGE.size:
            raise ValueError("a message record is too short")
        channel, _, log_ns, _ = MESSAGE.unpack(read_exactly(self._file, body, MESSAGE.size))
        if self._chunked or self.index.closed:
            raise ValueError("a message where none can be")
        if log_ns >= _NO_TIME_NS:
            raise ValueError(f"log time {log_ns} ns")
        if channel not in self.index.channels:
            self._end_run()
            self.index.lost[channel] += 1
            self.index.damage = (
                self.index.damage or f"the topic of the message at byte {position} is not known"
            )
            return
        self._close_holes(log_ns)
        self.index.add_message(channel, log_ns)
        start, earliest = self._run or (position, log_ns)
        self._run = (start, min(earliest, log_ns))
        if body + length - start > _RUN_BYTES:
            self._position = body + length
            self._end_run()

    def _take_content(self, content: memoryview, block: Block) -> None:
        """Take the records of a chunk: all of them, or none."""
        end = 0
        definitions = []
        for opcode, start, end in records(content):
            if opcode in (Opcode.SCHEMA, Opcode.CHANNEL):
                definitions.append((opcode, bytes(content[start:end])))
        if end != len(content):
            raise ValueError("its last record is not whole")
        found = [(channel, log_ns) for channel, log_ns, *_ in block_messages(content)]
        for opcode, body in definitions:
            take_definition(self.index, opcode, body)
        if not found:
            return
        earliest_ns = min(log_ns for _, log_ns in found)
        self._close_holes(earliest_ns)
        for channel, log_ns in found:
            self.index.add_message(channel, log_ns)
        channels = frozenset(channel for channel, _ in found)
        self.index.blocks.append(replace(block, start_ns=earliest_ns, channels=channels))

    def _take_repeated(self, opcode: int, body: bytes) -> None:
        """A definition in the summary is of use where the chunk that held it is lost."""
        known = self.index.schemas if opcode == Opcode.SCHEMA else self.index.channels
        if int.from_bytes(body[:2], "little") not in known and self._summary_is_sound():
            take_definition(self.index, opcode, body)

    def _summary_is_sound(self) -> bool:
        """Whether the checksum of the summary is right, or there is none."""
        footer = self._size - MAGIC_BYTES - RECORD.size - _FOOTER.size
        head = RECORD.pack(Opcode.FOOTER, _FOOTER.size)
        content = read_exactly(self._file, footer, RECORD.size + _FOOTER.size)
        start, _, crc = _FOOTER.unpack_from(content, RECORD.size)
        if not content.startswith(head) or not MAGIC_BYTES <= start <= footer:
            return False
        end = self._size - MAGIC_BYTES - _CRC_BYTES
        return not crc or crc32(read_exactly(self._file, start, end - start)) == crc

    def _take_message_index(self, position: int, body: int, length: int) -> None:
        """Messages of a chunk that is damaged, or no longer there, are counted by its indexes."""
        if self._behind == "chunk":
            return
        if not self._behind:
            why = f"the chunk before byte {position} is not there"
            self._pass_over(position, position, why)
            self._behind = "damaged chunk"
        channel, size = _INDEX_FIXED.unpack(read_exactly(self._file, body, _INDEX_FIXED.size))
        if _INDEX_FIXED.size + size == length:
            self.index.lost[channel] += size // _INDEX_ENTRY_BYTES

    def _resume(self, why: str) -> bool:
        """Go on at the next chunk that can be trusted; False when the file ends here."""
        position = self._position
        found = _next_chunk(self._file, position + 1, self._size)
        if found is not None:
            self._pass_over(position, found, why)
            self._position = found
            return True
        self._end_run()
        self._cut_chunk(position)
        self.index.damage = self.index.damage or why
        return False

    def _cut_chunk(self, position: int) -> None:
        """Keep the whole messages of an uncompressed chunk that the end of the file cuts."""
        body = position + RECORD.size
        start = body + CHUNK_FIXED.size + LENGTH.size
        if start >= self._size or read_exactly(self._file, position, 1)[0] != Opcode.CHUNK:
            return
        first_ns, last_ns, _, _, name_length = CHUNK_FIXED.unpack(
            read_exactly(self._file, body, CHUNK_FIXED.size)
        )
        if name_length:
            return
        content = memoryview(_without_zeros(read_exactly(self._file, start, self._size - start)))
        size = self._credible(content, first_ns, last_ns)
        block = Block(start_ns=0, offset=start, size=size, chunk=False)
        try:
            self._take_content(content[:size], block)
        except DAMAGE:
            return

    def _credible(self, content: memoryview, first_ns: int, last_ns: int) -> int:
        """How many bytes are records as the chunk announces them; its checksum is of no use any more."""
        channels = set(self.index.channels)
        good = 0
        for opcode, start, end in records(content):
            if opcode == Opcode.CHANNEL and end - start >= 2:
                channels.add(int.from_bytes(content[start : start + 2], "little"))
            elif opcode == Opcode.MESSAGE and end - start >= MESSAGE.size:
                channel, _, log_ns, _ = MESSAGE.unpack_from(content, start)
                if channel not in channels or not first_ns <= log_ns <= last_ns:
                    break
            elif opcode != Opcode.SCHEMA:
                break
            good = end
        return good

    def _pass_over(self, start: int, end: int, why: str) -> None:
        self._end_run()
        self.index.damage = self.index.damage or why
        hole = Hole(offset=start, size=end - start, why=why, after_ns=self.index.end_ns)
        self.index.holes.append(hole)

    def _close_holes(self, next_ns: int) -> None:
        """Messages were found after the holes that are last."""
        holes = self.index.holes
        for number in range(len(holes) - 1, -1, -1):
            if holes[number].before_ns is not None:
                return
            holes[number] = replace(holes[number], before_ns=next_ns)

    def _end_run(self) -> None:
        if self._run is not None:
            start, earliest = self._run
            self.index.blocks.append(
                Block(start_ns=earliest, offset=start, size=self._position - start, chunk=False)
            )
        self._run = None


def _next_chunk(file: BinaryIO, start: int, size: int) -> int | None:
    """Where the first chunk from ``start`` on begins whose checksum is right; None without one."""
    for position in range(start, size, _WINDOW_BYTES):
        content = read_exactly(file, position, min(_WINDOW_BYTES + LENGTH.size, size - position))
        for match in _CHUNK_START.finditer(content):
            at = position + match.start()
            if match.start() < _WINDOW_BYTES and _is_chunk(file, at, size):
                return at
    return None


def _is_chunk(file: BinaryIO, position: int, size: int) -> bool:
    try:
        head = read_exactly(file, position, RECORD.size + CHUNK_FIXED.size)
        _, length = RECORD.unpack_from(head)
        *_, crc, name_length = CHUNK_FIXED.unpack_from(head, RECORD.size)
        body = position + RECORD.size
        if not crc or name_length > max(map(len, _COMPRESSIONS)) or body + length > size:
            return False
        named = read_exactly(file, body + CHUNK_FIXED.size, name_length + LENGTH.size)
        name, (records_length,) = named[:name_length], LENGTH.unpack_from(named, name_length)
        if name not in _COMPRESSIONS or len(named) + CHUNK_FIXED.size + records_length != length:
            return False
        chunk_content(memoryview(read_exactly(file, body, length)))
    except DAMAGE:
        return False
    return True


def _without_zeros(content: bytes) -> bytes:
    """Less the zeros at the end that a power cut leaves where the system had not yet written."""
    rest = content.rstrip(b"\0")
    return rest if len(content) - len(rest) >= _SECTOR_BYTES else content


def _said(err: Exception) -> str:
    return str(err) or type(err).__name__
