"""The seam between the recorder and the ways to store a bag."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from piper_collect.bag.qos import QosProfile

__all__ = ["BagSummary", "BagWriter", "QosProfile", "TopicInfo"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicInfo:
    """One topic of a bag.

    Attributes:
        name: Resolved topic name, e.g. ``/arm/joint_states``.
        type: Message type as ``pkg/msg/Name`` (as the bag spells it, when read).
        qos: What each publisher offered.
        type_hash: ``RIHS01_…``, or empty when unknown.
        message_definition: The definition's text with its dependencies, or empty when unknown.
        definition_encoding: ``ros2msg``, or ``ros2idl`` for text in that language.
        serialization_format: ``cdr``.
        message_count: Messages in the storage; 0 for a topic that is to be written.
    """

    name: str
    type: str
    qos: tuple[QosProfile, ...] = ()
    type_hash: str = ""
    message_definition: str = ""
    definition_encoding: str = "ros2msg"
    serialization_format: str = "cdr"
    message_count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BagSummary:
    """What a closed bag holds.

    Attributes:
        uri: The rosbag2 folder.
        storage_path: Its storage file.
        start_ns: Earliest receive time; None for a bag without messages.
        end_ns: Latest receive time; None for a bag without messages.
        counts: Messages by topic, in the order the topics were created; zeros included.
        size_bytes: Size of the storage file.
    """

    uri: Path
    storage_path: Path
    start_ns: int | None
    end_ns: int | None
    counts: Mapping[str, int]
    size_bytes: int

    @property
    def message_count(self) -> int:
        """Messages of all topics."""
        return sum(self.counts.values())


class BagWriter(Protocol):
    """Writes one rosbag2 folder, from one thread: ``open``, the rest, then ``close`` or ``abort``."""

    def open(self, uri: Path, custom_data: Mapping[str, str]) -> None:
        """Make the folder ``uri`` (which must not exist, in a folder that does) and its storage file.

        Args:
            uri: The folder; the storage file is named after its last part.
            custom_data: Strings that travel in the bag, e.g. session, episode and task.

        Raises:
            BagError: ``uri`` exists, or nothing can be written there.
        """
        ...

    def create_topic(self, topic: TopicInfo) -> None:
        """Announce a topic; before its first message.

        Raises:
            BagError: The name is taken, or nothing can be written.
        """
        ...

    def write(
        self, topic: str, cdr_bytes: bytes | memoryview, receive_ns: int, publish_ns: int | None = None
    ) -> None:
        """Append one serialized message.

        Args:
            topic: A name that ``create_topic`` got.
            cdr_bytes: The message with its 4-byte encapsulation header, as taken from DDS.
            receive_ns: When it was received, nanoseconds since the epoch.
            publish_ns: When DDS says that it was published; ``receive_ns`` where nobody said. Kept where
                the storage has a place for it.

        Raises:
            BagError: The topic is unknown, the time out of range, or nothing can be written.
        """
        ...

    def flush_due(self, now_monotonic_s: float) -> bool:
        """Hand what was written to the operating system if the last time was half a second ago.

        A backend that does so by itself with every message, or cannot be asked to, does nothing.

        Args:
            now_monotonic_s: A monotonic clock; the caller's, so that tests own it.

        Returns:
            Whether it was due.

        Raises:
            BagError: Nothing can be written.
        """
        ...

    def close(self, custom_data_update: Mapping[str, str] | None = None) -> BagSummary:
        """Finish the storage file, then write ``metadata.yaml``: the last step, and atomic.

        Args:
            custom_data_update: Entries to add to (or replace in) the custom data.

        Raises:
            BagError: Not open, an earlier write failed, or nothing can be written.
        """
        ...

    def abort(self) -> None:
        """Remove the folder and all in it. Does nothing when not open or already closed.

        Raises:
            BagError: The folder cannot be removed.
        """
        ...
