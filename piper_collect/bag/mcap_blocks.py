"""Loads the messages of an MCAP file block by block, with as little copying as there can be."""

import os
from collections.abc import Container, Iterator
from typing import BinaryIO, TypeAlias

from mcap.opcode import Opcode

from piper_collect.bag.mcap_index import (
    CHUNK_FIXED,
    LENGTH,
    MESSAGE,
    RECORD,
    Block,
    block_messages,
    chunk_content,
)
from piper_collect.bag.source import HEAD_BYTES

Loaded: TypeAlias = tuple[int, int, int, bytes]
"""Channel, log time, publish time, payload."""

_HEAD_BYTES = RECORD.size + MESSAGE.size


class BlockLoader:
    """Loads blocks one after the other, all into the same memory.

    New memory for each would cost about as much as reading: the system hands it out page by page.

    Args:
        file: The opened file.
        checked: Offsets of the chunks that need not be held against their CRC; those that were go there.
            None where none needs to be.
    """

    def __init__(self, file: BinaryIO, checked: set[int] | None) -> None:
        self._file = file
        self._checked = checked
        self._memory = bytearray()

    def load(self, block: Block, channels: Container[int], cut: Container[int] = ()) -> list[Loaded]:
        """The messages of ``channels`` in the block; of those of ``cut`` the first ``HEAD_BYTES``.

        Raises:
            ValueError: It is damaged, as any of ``DAMAGE``.
        """
        span = self._plain_span(block)
        if span is not None:
            return list(self._wanted(*span, channels, cut))
        if len(self._memory) < block.size:
            self._memory = bytearray(block.size)
        content = memoryview(self._memory)[: block.size]
        self._file.seek(block.offset)
        size = self._file.readinto(content)  # type: ignore[attr-defined]
        if size != block.size:
            raise ValueError(f"{size} bytes where {block.size} were announced")
        content = chunk_content(content)
        if self._checked is not None:
            self._checked.add(block.offset)
        return [
            (channel, log_ns, publish_ns, bytes(payload[:HEAD_BYTES] if channel in cut else payload))
            for channel, log_ns, publish_ns, payload in block_messages(content)
            if channel in channels
        ]

    def _plain_span(self, block: Block) -> tuple[int, int] | None:
        """Where the records of the block begin and end in the file; None where all of it must be read."""
        if not block.chunk:
            return block.offset, block.offset + block.size
        if self._checked is not None and block.offset not in self._checked:
            return None
        head = self._read(block.offset, CHUNK_FIXED.size + LENGTH.size)
        *_, name_length = CHUNK_FIXED.unpack_from(head)
        if name_length:  # it is compressed
            return None
        start = block.offset + len(head)
        (length,) = LENGTH.unpack_from(head, CHUNK_FIXED.size)
        if start + length > block.offset + block.size:
            raise ValueError(f"records of {length} bytes in a chunk of {block.size}")
        return start, start + length

    def _wanted(
        self, position: int, end: int, channels: Container[int], cut: Container[int]
    ) -> Iterator[Loaded]:
        """The messages between two places in the file; what is not wanted is passed over, not read."""
        while position + RECORD.size <= end:
            head = self._read(position, min(_HEAD_BYTES, end - position))
            opcode, length = RECORD.unpack_from(head)
            start, position = position + _HEAD_BYTES, position + RECORD.size + length
            if position > end:
                return
            if opcode != Opcode.MESSAGE:
                continue
            if position < start:
                raise ValueError("a message record is too short")
            channel, _, log_ns, publish_ns = MESSAGE.unpack_from(head, RECORD.size)
            if channel in channels:
                size = position - start
                payload = self._read(start, min(size, HEAD_BYTES) if channel in cut else size)
                yield channel, log_ns, publish_ns, payload

    def _read(self, offset: int, size: int) -> bytes:
        content = os.pread(self._file.fileno(), size, offset)
        if len(content) != size:
            raise ValueError(f"{len(content)} bytes where {size} were announced")
        return content
