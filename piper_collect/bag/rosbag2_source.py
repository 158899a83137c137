"""Reads one storage file through ``rosbag2_py``, as ``ros2 bag`` does."""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from piper_collect.bag.note import Note
from piper_collect.bag.rosbag2 import ROSBAG2_FAILURES, load_rosbag2
from piper_collect.bag.source import BagMessage, Damage
from piper_collect.bag.storage import TopicInfo
from piper_collect.errors import BagError


class Rosbag2Source:
    """A ``Source`` over ``rosbag2_py.SequentialReader``.

    The library cannot open a file that a killed recorder left, and says nothing of the offered QoS in a form
    that is of use here: ``metadata.yaml`` has it.

    Args:
        path: The storage file.
        storage_id: ``mcap`` or ``sqlite3``.

    Raises:
        ConfigError: ``rosbag2_py`` cannot be used here.
        BagError: It cannot read the file.
    """

    def __init__(self, path: Path, storage_id: str) -> None:
        self.path = path
        self.incomplete = False
        self.damage = Damage()
        self.notes: list[Note] = []
        self._storage_id = storage_id
        self._rosbag2 = load_rosbag2(storage_id)
        try:
            self._read_metadata()
        except ROSBAG2_FAILURES as err:
            raise self._unreadable(err) from err

    def _read_metadata(self) -> None:
        reader = self._open()
        metadata = reader.get_metadata()
        definitions = {entry.topic_type: entry for entry in reader.get_all_message_definitions()}
        self.custom_data: Mapping[str, str] = dict(metadata.custom_data)
        empty = metadata.message_count == 0
        start_ns = metadata.starting_time.nanoseconds
        self.start_ns: int | None = None if empty else start_ns
        self.end_ns: int | None = None if empty else start_ns + metadata.duration.nanoseconds
        self.topics: dict[str, TopicInfo] = {}
        for entry in metadata.topics_with_message_count:
            topic = entry.topic_metadata
            known = definitions.get(topic.type)
            self.topics[topic.name] = TopicInfo(
                name=topic.name,
                type=topic.type,
                type_hash=topic.type_description_hash,
                message_definition=known.encoded_message_definition if known else "",
                definition_encoding=(known.encoding if known else "") or "ros2msg",
                serialization_format=topic.serialization_format,
                message_count=entry.message_count,
            )

    def messages(self, topics: Collection[str], heads: Collection[str] = ()) -> Iterator[BagMessage]:
        """See ``Source.messages``; the reader above counts them against ``topics``."""
        wanted = [name for name in self.topics if name in topics]
        if not wanted:
            return
        try:
            reader = self._open()
            reader.set_filter(self._rosbag2.StorageFilter(topics=wanted))
            while reader.has_next():
                topic, payload, receive_ns = reader.read_next()
                if topic in topics:  # the library's filter lets all service events through
                    yield BagMessage(topic, receive_ns, payload)
        except ROSBAG2_FAILURES as err:
            raise self._unreadable(err) from err

    def close(self) -> None:
        """See ``Source.close``."""

    def _open(self) -> Any:
        reader = self._rosbag2.SequentialReader()
        options = self._rosbag2.StorageOptions(uri=str(self.path), storage_id=self._storage_id)
        reader.open(options, self._rosbag2.ConverterOptions("cdr", "cdr"))
        return reader

    def _unreadable(self, err: Exception) -> BagError:
        return BagError("rosbag2_py cannot read the storage file", where=self.path, got=err)
