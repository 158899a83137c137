"""Reads one MCAP file in receive-time order, whole or cut short, without holding it in memory."""

import heapq
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from piper_collect.bag.mcap_blocks import BlockLoader, Loaded
from piper_collect.bag.mcap_index import DAMAGE, Block, Index, summary_index
from piper_collect.bag.mcap_scan import Scan
from piper_collect.bag.metadata import parse_metadata
from piper_collect.bag.note import Note
from piper_collect.bag.qos import parse_qos
from piper_collect.bag.source import BagMessage, Damage
from piper_collect.bag.storage import TopicInfo
from piper_collect.errors import BagError

_Entry = tuple[int, int, int, str, int, bytes]
"""Log time, offset of the block, place in it, topic, publish time, payload."""


class McapSource:
    """A ``Source`` over an MCAP file.

    Args:
        path: The file.
        salvage: Walk the file even where it has an index, and leave out what is damaged.
        verify: Check each chunk against its CRC when it is read for the first time.

    Raises:
        BagError: The file cannot be read at all.
    """

    def __init__(self, path: Path, *, salvage: bool = False, verify: bool = True) -> None:
        self.path = path
        self._checked: set[int] | None = set() if verify else None
        try:
            with path.open("rb") as file:
                indexed = None if salvage else summary_index(file)
                index = indexed or Scan(file).index
        except OSError as err:
            raise BagError("the storage file cannot be read", where=path, got=err) from err
        self._index = index
        self.notes: list[Note] = []
        self.start_ns, self.end_ns = index.start_ns, index.end_ns
        self.custom_data = self._custom_data()
        self.incomplete = bool(index.damage)
        lost: Counter[str] = Counter()
        for number, count in index.lost.items():
            lost[index.channels[number].topic if number in index.channels else ""] += count
        lost[""] += sum(n for i, n in index.counts.items() if i not in index.channels)
        self.damage = Damage(closed=index.closed, holes=tuple(index.holes), lost=+lost)
        if index.damage:
            text = f"{path.name} is incomplete: {index.damage}; "
            text += f"it holds {sum(index.counts.values())} whole messages."
            self.notes.append(Note("truncated", text))
        elif indexed is None and not salvage:
            self.notes.append(Note("not-indexed", f"{path.name} has no index; it is read from end to end."))
        self._leave_out_unnamed()
        self.topics = self._topics()

    def messages(self, topics: Collection[str], heads: Collection[str] = ()) -> Iterator[BagMessage]:
        """See ``Source.messages``."""
        names = {i: c.topic for i, c in self._index.channels.items() if c.topic in topics}
        cut = {i for i, name in names.items() if name in heads}
        heap: list[_Entry] = []
        try:
            with self.path.open("rb") as file:
                loader = BlockLoader(file, self._checked)
                for block in sorted(self._index.blocks, key=lambda b: (b.start_ns, b.offset)):
                    if block.channels is not None and block.channels.isdisjoint(names):
                        continue
                    while heap and heap[0][0] < block.start_ns:
                        yield _as_message(heapq.heappop(heap))
                    loaded = self._load(loader, block, names, cut)
                    for position, (channel, log_ns, publish_ns, payload) in enumerate(loaded):
                        place = (log_ns, block.offset, position)
                        heapq.heappush(heap, (*place, names[channel], publish_ns, payload))
                    del loaded
        except OSError as err:
            raise BagError("the storage file cannot be read", where=self.path, got=err) from err
        while heap:
            yield _as_message(heapq.heappop(heap))

    def close(self) -> None:
        """See ``Source.close``."""

    def _load(
        self, loader: BlockLoader, block: Block, channels: Collection[int], cut: Collection[int]
    ) -> list[Loaded]:
        try:
            return loader.load(block, channels, cut)
        except DAMAGE as err:
            raise BagError(
                "a part of the storage file is damaged",
                where=f"{self.path} at byte {block.offset}",
                got=err or type(err).__name__,
                hint="piper-collect recover BAG keeps what is whole, and marks it incomplete",
            ) from err

    def _custom_data(self) -> Mapping[str, str]:
        """Of the last metadata record of rosbag2: the one written at close, else the one at open."""
        if not self._index.metadata:
            return {}
        try:
            return parse_metadata(self._index.metadata, where=self.path.name).custom_data
        except BagError as err:
            self.notes.append(Note("custom-data", f"{err}."))
            return {}

    def _leave_out_unnamed(self) -> None:
        unnamed = {i: n for i, n in self._index.counts.items() if i not in self._index.channels}
        if not unnamed:
            return
        if not self.incomplete:
            raise BagError(
                "messages without a topic", where=self.path, expected="0", got=sum(unnamed.values())
            )
        text = f"{self.path.name}: {sum(unnamed.values())} messages of lost topics are left out."
        self.notes.append(Note("lost-topics", text))

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
            text = f"{self.path.name}: {one.name} holds messages of several definitions "
            text += f"({one.type}, {other.type}); it cannot be decoded."
            self.notes.append(Note("two-definitions", text))
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


def _as_message(entry: _Entry) -> BagMessage:
    return BagMessage(entry[3], entry[0], entry[5], entry[4])
