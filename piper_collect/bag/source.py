"""What the reader asks of a storage file, and how a file shows which storage it is."""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from piper_collect.bag.storage import TopicInfo
from piper_collect.errors import BagError

STORAGE_SUFFIXES = (".mcap", ".db3")
COMPRESSED_SUFFIXES = (".mcap.zstd", ".db3.zstd")
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_MCAP_MAGIC = b"\x89MCAP0\r\n"
_SQLITE_MAGIC = b"SQLite format 3\x00"
_ROS1_MAGIC = b"#ROSBAG"


class BagMessage(NamedTuple):
    """One message as stored.

    Attributes:
        topic: Topic name.
        receive_ns: When it was received, nanoseconds since the epoch.
        payload: The serialized message with its 4-byte encapsulation header.
    """

    topic: str
    receive_ns: int
    payload: bytes


class Source(Protocol):
    """One opened storage file.

    Attributes:
        path: The file.
        topics: By name, with the messages that the storage says it holds.
        start_ns: Earliest receive time; None without messages.
        end_ns: Latest receive time; None without messages.
        custom_data: rosbag2 custom data kept inside the storage.
        incomplete: Whether the file was cut short.
        notes: What was odd about it, in plain sentences.
    """

    path: Path
    topics: dict[str, TopicInfo]
    start_ns: int | None
    end_ns: int | None
    custom_data: Mapping[str, str]
    incomplete: bool
    notes: list[str]

    def messages(self, topics: Collection[str]) -> Iterator[BagMessage]:
        """The messages of these topics by receive time; equal times in the order stored.

        Each call reads on its own, so that several may go on at once, also in several threads.
        """
        ...

    def close(self) -> None:
        """Remove what was copied aside, if anything."""
        ...


def is_storage(path: Path) -> bool:
    """Whether a file is named like a bag's storage, compressed ones included."""
    return path.name.endswith(STORAGE_SUFFIXES + COMPRESSED_SUFFIXES)


def identify(path: Path) -> str:
    """The storage a file really is, by its first bytes.

    Returns:
        ``mcap`` or ``sqlite3``.

    Raises:
        BagError: It cannot be read, is empty, or is something else.
    """
    try:
        with path.open("rb") as file:
            head = file.read(len(_SQLITE_MAGIC))
    except OSError as err:
        raise BagError("the storage file cannot be read", where=path, got=err) from err
    if head.startswith(_MCAP_MAGIC):
        return "mcap"
    if head == _SQLITE_MAGIC:
        return "sqlite3"
    if not head:
        raise BagError(
            "the storage file is empty (0 bytes)",
            where=path,
            hint="the recorder was cut off before it wrote anything; remove this bag",
        )
    if head.startswith(ZSTD_MAGIC):
        raise BagError(
            "the storage file is compressed as a whole",
            where=path,
            expected="MCAP or sqlite3",
            got="zstd",
            hint=f"decompress it beside: zstd -d {path.name}",
        )
    if head.startswith(_ROS1_MAGIC):
        raise BagError(
            "this is a ROS 1 bag",
            where=path,
            expected="a rosbag2 bag (MCAP or sqlite3)",
            got="ROS 1",
            hint="convert it: rosbags-convert --src FILE.bag --dst FOLDER",
        )
    raise BagError("not a bag's storage file", where=path, expected="MCAP or sqlite3", got=head[:8])
