"""Reads one MCAP file in receive-time order, whole or cut short, without holding it in memory."""

import heapq
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from piper_collect.bag.mcap_index import (
    DAMAGE,
    Block,
    Index,
    Scan,
    block_messages,
    chunk_content,
    read_exactly,
    summary_index,
)
from piper_collect.bag.metadata import parse_metadata
from piper_collect.bag.qos import parse_qos
from piper_collect.bag.source import BagMessage
from piper_collect.bag.storage import TopicInfo
from piper_collect.errors import BagError


class McapSource:
    """A ``Source`` over an MCAP file.

    Args:
        path: The file.
        salvage: Walk the file even where it has an index, and leave out what is damaged.

    Raises:
        BagError: The file cannot be read at all.
    """

    def __init__(self, path: Path, *, salvage: bool = False) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                index = (None if salvage else summary_index(file)) or Scan(file).index
        except OSError as err:
            raise BagError("the storage file cannot be read", where=path, got=err) from err
        self._index = index
        self.notes: list[str] = []
        self.start_ns, self.end_ns = index.start_ns, index.end_ns
        self.custom_data = self._custom_data()
        self.incomplete = bool(index.damage)
        if index.damage:
            self.notes.append(
                f"{path.name} is incomplete: {index.damage}; "
                f"it holds {sum(index.counts.values())} whole messages."
            )
        self._leave_out_unnamed()
        self.topics = self._topics()

    def messages(self, topics: Collection[str]) -> Iterator[BagMessage]:
        """See ``Source.messages``."""
        names = {i: c.topic for i, c in self._index.channels.items() if c.topic in topics}
        heap: list[tuple[int, int, int, str, bytes]] = []
        try:
            with self.path.open("rb") as file:
                for block in sorted(self._index.blocks, key=lambda b: (b.start_ns, b.offset)):
                    if block.channels is not None and block.channels.isdisjoint(names):
                        continue
                    while heap and heap[0][0] < block.start_ns:
                        yield _as_message(heapq.heappop(heap))
                    for position, (channel, log_ns, payload) in enumerate(self._load(file, block)):
                        if channel in names:
                            entry = (log_ns, block.offset, position, names[channel], bytes(payload))
                            heapq.heappush(heap, entry)
        except OSError as err:
            raise BagError("the storage file cannot be read", where=self.path, got=err) from err
        while heap:
            yield _as_message(heapq.heappop(heap))

    def close(self) -> None:
        """See ``Source.close``."""

    def _load(self, file: BinaryIO, block: Block) -> list[tuple[int, int, memoryview]]:
        try:
            content = read_exactly(file, block.offset, block.size)
            return list(block_messages(memoryview(chunk_content(content) if block.chunk else content)))
        except DAMAGE as err:
            raise BagError(
                "a part of the storage file is damaged",
                where=f"{self.path} at byte {block.offset}",
                got=err or type(err).__name__,
                hint="recover the bag: what is whole is kept, and it is marked incomplete",
            ) from err

    def _custom_data(self) -> Mapping[str, str]:
        """Of the last metadata record of rosbag2: the one written at close, else the one at open."""
        if not self._index.metadata:
            return {}
        try:
            return parse_metadata(self._index.metadata, where=self.path.name).custom_data
        except BagError as err:
            self.notes.append(f"{err}.")
            return {}

    def _leave_out_unnamed(self) -> None:
        unnamed = {i: n for i, n in self._index.counts.items() if i not in self._index.channels}
        if not unnamed:
            return
        if not self.incomplete:
            raise BagError(
                "messages without a topic", where=self.path, expected="0", got=sum(unnamed.values())
            )
        self.notes.append(f"{self.path.name}: {sum(unnamed.values())} messages of lost topics are left out.")

    def _topics(self) -> dict[str, TopicInfo]:
        topics: dict[str, TopicInfo] = {}
        for number in sorted(self._index.channels):
            info = _topic_info(self._index, number)
            known = topics.get(info.name)
            topics[info.name] = info if known is None else self._joined(known, info)
        return topics

    def _joined(self, one: TopicInfo, other: TopicInfo) -> TopicInfo:
        """One entry for two publishers' channels of a topic."""
        same = (one.type, one.message_definition) == (other.type, other.message_definition)
        if not same:
            self.notes.append(
                f"{self.path.name}: {one.name} holds messages of several definitions "
                f"({one.type}, {other.type}); it cannot be decoded."
            )
        return TopicInfo(
            name=one.name,
            type=one.type if same else f"{one.type} and {other.type}",
            qos=one.qos + other.qos,
            type_hash=one.type_hash if same else "",
            message_definition=one.message_definition if same else "",
            definition_encoding=one.definition_encoding,
            serialization_format=one.serialization_format,
            message_count=one.message_count + other.message_count,
        )


def _topic_info(index: Index, number: int) -> TopicInfo:
    channel = index.channels[number]
    schema = index.schemas.get(channel.schema_id)
    text = schema.data.decode("utf-8", "replace") if schema is not None else ""
    return TopicInfo(
        name=channel.topic,
        type=schema.name if schema is not None else "",
        qos=parse_qos(channel.metadata.get("offered_qos_profiles", "")),
        type_hash=channel.metadata.get("topic_type_hash", ""),
        message_definition=text if text.strip() else "",
        definition_encoding=schema.encoding if schema is not None and schema.encoding else "ros2msg",
        serialization_format=channel.message_encoding,
        message_count=index.counts[number],
    )


def _as_message(entry: tuple[int, int, int, str, bytes]) -> BagMessage:
    return BagMessage(entry[3], entry[0], entry[4])
