"""What the reader asks of a storage file, and how a file shows which storage it is."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from piper_collect.bag.note import Note
from piper_collect.bag.storage import TopicInfo
from piper_collect.errors import BagError

STORAGE_SUFFIXES = (".mcap", ".db3")
COMPRESSED_SUFFIXES = (".mcap.zstd", ".db3.zstd")
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_MCAP_MAGIC = b"\x89MCAP0\r\n"
_SQLITE_MAGIC = b"SQLite format 3\x00"
_SQLITE_SIDE_FILES = ("-wal", "-journal")
_ROS1_MAGIC = b"#ROSBAG"


class BagMessage(NamedTuple):
    """One message as stored.

    Attributes:
        topic: Topic name.
        receive_ns: When it was received, nanoseconds since the epoch.
        payload: The serialized message with its 4-byte encapsulation header.
        publish_ns: When it was published; None where the storage does not say.
    """

    topic: str
    receive_ns: int
    payload: bytes
    publish_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hole:
    """A damaged place of a storage file that was passed over.

    Attributes:
        offset: Where it begins in the file.
        size: How many bytes it takes.
        why: What is wrong there.
        after_ns: Latest receive time before it; None without any.
        before_ns: Earliest receive time of what comes next; None when nothing does.
    """

    offset: int
    size: int
    why: str
    after_ns: int | None = None
    before_ns: int | None = None

    @property
    def seconds(self) -> float | None:
        """Most that can be missing in it; None when nothing bounds it."""
        if self.after_ns is None or self.before_ns is None:
            return None
        return max(0, self.before_ns - self.after_ns) / 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """What is known to be missing in a storage.

    Attributes:
        closed: Whether its writer came to the end of its messages, as far as the storage shows it.
        holes: Damaged places that were passed over.
        lost: Messages in them by topic, as far as the file still says; the key is empty where the topic is
            not known.
    """

    closed: bool = True
    holes: tuple[Hole, ...] = ()
    lost: Mapping[str, int] = field(default_factory=dict)


HEAD_BYTES = 64
"""Of a message that is only asked when it was made."""


class Source(Protocol):
    """One opened storage file.

    Attributes:
        path: The file.
        topics: By name, with the messages that the storage says it holds.
        start_ns: Earliest receive time; None without messages.
        end_ns: Latest receive time; None without messages.
        custom_data: rosbag2 custom data kept inside the storage.
        incomplete: Whether the file was cut short.
        damage: What is known to be missing in it.
        notes: What was odd about it, in plain sentences.
    """

    path: Path
    topics: dict[str, TopicInfo]
    start_ns: int | None
    end_ns: int | None
    custom_data: Mapping[str, str]
    incomplete: bool
    damage: Damage
    notes: list[Note]

    def messages(self, topics: Collection[str], heads: Collection[str] = ()) -> Iterator[BagMessage]:
        """The messages of these topics by receive time; equal times in the order stored.

        Of those of ``heads`` the first ``HEAD_BYTES`` are enough.

        Each call reads on its own, so that several may go on at once, also in several threads.
        """
        ...

    def close(self) -> None:
        """Remove what was copied aside, if anything."""
        ...


def is_storage(path: Path) -> bool:
    """Whether a file is named like a bag's storage, compressed ones included."""
    return path.name.endswith(STORAGE_SUFFIXES + COMPRESSED_SUFFIXES)


def side_files(path: Path) -> list[Path]:
    """The files with content that sqlite left beside a database whose writer was killed."""
    beside = [path.with_name(path.name + ending) for ending in _SQLITE_SIDE_FILES]
    return [file for file in beside if file.exists() and file.stat().st_size]


class StrangeFileError(BagError):
    """A file is of no kind that holds a bag."""


def identify(path: Path) -> str:
    """The storage a file really is, by its first bytes.

    Returns:
        ``mcap`` or ``sqlite3``.

    Raises:
        StrangeFileError: It is something else.
        BagError: It cannot be read, is empty, or holds a bag in a form that is not read.
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
    got = f"first bytes {head[:8].hex(' ')}"
    raise StrangeFileError("not a bag's storage file", where=path, expected="MCAP or sqlite3", got=got)
