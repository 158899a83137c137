"""Opens a rosbag2 folder or a bare storage file and reads all of it, or says what is missing."""

import heapq
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType

import zstandard

from piper_collect.bag.definitions import Codec, Definitions, embedded_codec
from piper_collect.bag.folder import find_storage
from piper_collect.bag.mcap_source import McapSource
from piper_collect.bag.metadata import BagMetadata
from piper_collect.bag.note import Note
from piper_collect.bag.rosbag2_source import Rosbag2Source
from piper_collect.bag.source import ZSTD_MAGIC, BagMessage, Damage, Source, identify
from piper_collect.bag.sqlite_source import SqliteSource
from piper_collect.bag.storage import TopicInfo
from piper_collect.errors import BagError

__all__ = ["BagMessage", "BagReader", "open_bag"]


def open_bag(
    path: Path,
    definitions: Definitions | None = None,
    *,
    salvage: bool = False,
    backend: str = "pip",
    scratch: Path | None = None,
    verify: bool = True,
) -> "BagReader":
    """Open a bag for reading. Nothing is written in or beside it.

    Args:
        path: A rosbag2 folder, with or without ``metadata.yaml``, or one ``.mcap`` or ``.db3`` file.
        definitions: Types known by name, for bags that carry no definitions; Jazzy's by default.
        salvage: Read all storage files that are there, whatever ``metadata.yaml`` lists, and leave out
            what is damaged (the bag is then ``incomplete``) instead of failing on it.
        backend: What reads the storage: ``pip``, which reads alike on every machine, or ``rosbag2_py``,
            to see what ``ros2 bag`` sees; it salvages nothing.
        scratch: Folder for the copy that an sqlite3 file with a log is read from; the system's by default.
        verify: Check what is read against the checksums of MCAP. Only who has read the bag once already
            has reason not to.

    Raises:
        BagError: There is no bag, or it cannot be read.
        ConfigError: ``rosbag2_py`` is asked for and cannot be used here.
    """
    return BagReader(
        path,
        definitions or Definitions(),
        salvage=salvage,
        backend=backend,
        scratch=scratch,
        verify=verify,
    )


class BagReader:
    """An opened bag.

    Attributes:
        path: Folder or file it was opened from.
        storage_id: ``mcap`` or ``sqlite3``.
        storage_paths: The storage files by start time.
        topics: By name, with the messages that the storage holds; topics with none included.
        custom_data: rosbag2's custom data.
        start_ns: Earliest receive time; None without messages.
        end_ns: Latest receive time; None without messages.
        incomplete: Whether a storage file was cut short.
        damage: What is known to be missing.
        notes: What was odd, in plain sentences that know their kind.
    """

    def __init__(
        self,
        path: Path,
        definitions: Definitions,
        *,
        salvage: bool = False,
        backend: str = "pip",
        scratch: Path | None = None,
        verify: bool = True,
    ) -> None:
        found = find_storage(path, salvage=salvage)
        self.path = path
        self._scratch = scratch
        self.notes: list[Note] = list(found.notes)
        self._definitions = definitions
        self._codecs: dict[str, Codec] = {}
        self._sources: list[Source] = []
        try:
            self._open(found.files, found.metadata, salvage, backend, verify)
        except BagError:
            self.close()
            raise

    def _open(
        self,
        files: tuple[Path, ...],
        metadata: BagMetadata | None,
        salvage: bool,
        backend: str,
        verify: bool,
    ) -> None:
        kinds = self._kinds(files, salvage)
        self.storage_id = next(iter(kinds.values()))
        if len(set(kinds.values())) > 1:
            raise BagError(
                "one bag with two kinds of storage", where=self.path, got=sorted(set(kinds.values()))
            )
        if metadata is not None and metadata.storage_id != self.storage_id:
            named = metadata.storage_id or "no storage"
            text = f"metadata.yaml names {named}; the files are {self.storage_id}."
            self.notes.append(Note("metadata-storage", text))
        for file in kinds:
            self._sources.append(self._source(file, salvage, backend, verify))
        self._sources.sort(key=lambda source: (source.start_ns is None, source.start_ns or 0))
        self.storage_paths = tuple(source.path for source in self._sources)
        # no CDR message begins as zstd data does, so that a salvage needs nobody to say so
        self._message_zstd = salvage or (
            metadata is not None
            and (metadata.compression_mode, metadata.compression_format) == ("message", "zstd")
        )
        starts = [s.start_ns for s in self._sources if s.start_ns is not None]
        ends = [s.end_ns for s in self._sources if s.end_ns is not None]
        self.start_ns, self.end_ns = min(starts, default=None), max(ends, default=None)
        self.incomplete = len(kinds) < len(files) or any(source.incomplete for source in self._sources)
        self.damage = _joined_damage(self._sources)
        self.notes += [note for source in self._sources for note in source.notes]
        self.topics = _merged_topics(metadata, self._sources)
        self.custom_data = self._custom(metadata)
        self._compare(metadata)

    def _kinds(self, files: tuple[Path, ...], salvage: bool) -> dict[Path, str]:
        """The storage of each file; a salvage leaves out those that are none, as long as one is."""
        kinds: dict[Path, str] = {}
        refused: list[BagError] = []
        for file in files:
            try:
                kinds[file] = identify(file)
            except BagError as err:
                if not salvage:
                    raise
                refused.append(err)
                self.notes.append(Note("unreadable-file", f"{err}."))
        if not kinds:
            raise refused[0]
        return kinds

    def _source(self, file: Path, salvage: bool, backend: str, verify: bool) -> Source:
        if backend == "rosbag2_py":
            return Rosbag2Source(file, self.storage_id)
        if self.storage_id == "mcap":
            return McapSource(file, salvage=salvage, verify=verify)
        return SqliteSource(file, scratch=self._scratch)

    def messages(
        self, topics: Collection[str] | None = None, *, heads: Collection[str] = ()
    ) -> Iterator[BagMessage]:
        """Yield the messages by receive time; equal times in the order stored.

        Streams: a few MiB are held, more only where the storage is out of order. Each call reads on
        its own, so that several may go on at once, also in several threads.

        Args:
            topics: Topics to read; all by default.
            heads: Those of them whose messages are only asked for their stamps: their payloads may be cut.

        Yields:
            Every message of these topics that the storage holds.

        Raises:
            BagError: A topic is not in the bag; a part of the storage is damaged; payloads are
                compressed though nothing says so; or what was read is not what the storage counts.
        """
        wanted = set(self.topics if topics is None else topics)
        for topic in sorted(wanted - set(self.topics)):
            raise BagError("no such topic in the bag", where=self.path, got=topic, valid=self.topics)
        for group in _overlapping(self._sources):
            streams = [self._counted(source, wanted, heads) for source in group]
            yield from heapq.merge(*streams, key=lambda message: message.receive_ns)

    def decode(self, topic: str, payload: bytes | memoryview) -> object:
        """The message as an object with the fields of its type, arrays as numpy.

        The definition in the bag is used where there is one, else the type by its name. Bytes after
        the message's end are ignored.

        Raises:
            BagError: No such topic, no usable definition, or the payload does not fit it.
        """
        codec = self._codec(topic)
        try:
            return codec.decode(payload)
        except BagError as err:
            raise _placed(err, f"{self.path} {topic}") from err

    def header_stamp_ns(self, topic: str, payload: bytes | memoryview) -> int | None:
        """The header stamp, without decoding the rest.

        Returns:
            Nanoseconds as written, 0 where the publisher left it unset; None when the type does not
            begin with a std_msgs/Header.

        Raises:
            BagError: No such topic, no usable definition, or the payload is cut short.
        """
        codec = self._codec(topic)
        try:
            return codec.header_stamp_ns(payload)
        except BagError as err:
            raise _placed(err, f"{self.path} {topic}") from err

    def close(self) -> None:
        """Remove what was copied aside, if anything."""
        for source in self._sources:
            source.close()

    def __enter__(self) -> "BagReader":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _counted(self, source: Source, topics: set[str], heads: Collection[str]) -> Iterator[BagMessage]:
        """The source's messages, checked against its own count when it ends."""
        expected = sum(info.message_count for name, info in source.topics.items() if name in topics)
        unpack = zstandard.ZstdDecompressor()
        count = 0
        for message in source.messages(topics, () if self._message_zstd else heads):
            count += 1
            if message.payload[:4] == ZSTD_MAGIC:
                yield message._replace(payload=self._unpacked(unpack, source, message))
            else:
                yield message
        if count != expected:
            raise BagError(
                "not all messages could be read",
                where=source.path,
                expected=f"{expected} messages as the storage counts them",
                got=count,
            )

    def _unpacked(self, unpack: zstandard.ZstdDecompressor, source: Source, message: BagMessage) -> bytes:
        where = f"{source.path} {message.topic}"
        if not self._message_zstd:
            raise BagError(
                "messages are compressed one by one, and nothing in the bag says so",
                where=where,
                expected="CDR",
                got="zstd",
                hint="put back its metadata.yaml (compression_mode: MESSAGE, compression_format: zstd)",
            )
        try:
            return unpack.decompressobj().decompress(message.payload)
        except zstandard.ZstdError as err:
            raise BagError("a compressed message is damaged", where=where, got=err) from err

    def _codec(self, topic: str) -> Codec:
        if topic not in self._codecs:
            info = self.topics.get(topic)
            if info is None:
                raise BagError("no such topic in the bag", where=self.path, got=topic, valid=self.topics)
            if info.serialization_format != "cdr":
                raise BagError(
                    "messages are not CDR", where=f"{self.path} {topic}", got=info.serialization_format
                )
            try:
                self._codecs[topic] = (
                    embedded_codec(info.type, info.message_definition, info.definition_encoding)
                    if info.message_definition
                    else self._definitions.codec(info.type)
                )
            except BagError as err:
                raise _placed(err, f"{self.path} {topic} ({info.type})") from err
        return self._codecs[topic]

    def _custom(self, metadata: BagMetadata | None) -> Mapping[str, str]:
        """Of metadata.yaml; what it lacks comes from the storage, since a reindex writes none."""
        stored = next((s.custom_data for s in reversed(self._sources) if s.custom_data), {})
        return {**stored, **(metadata.custom_data if metadata is not None else {})}

    def _compare(self, metadata: BagMetadata | None) -> None:
        if metadata is None:
            return
        span = (metadata.start_ns, (metadata.start_ns or 0) + metadata.duration_ns)
        if None not in (*span, self.start_ns) and span != (self.start_ns, self.end_ns):
            text = f"metadata.yaml gives receive times {span[0]} to {span[1]} ns, "
            text += f"the storage {self.start_ns} to {self.end_ns} ns."
            self.notes.append(Note("metadata-times", text))
        for entry in metadata.topics:
            held = self.topics[entry.name].message_count
            if entry.message_count != held:
                text = f"metadata.yaml counts {entry.message_count} messages on {entry.name}, "
                self.notes.append(Note("metadata-counts", f"{text}the storage holds {held}."))


def _joined_damage(sources: list[Source]) -> Damage:
    lost: Counter[str] = Counter()
    for source in sources:
        lost.update(source.damage.lost)
    return Damage(
        closed=all(source.damage.closed for source in sources),
        holes=tuple(hole for source in sources for hole in source.damage.holes),
        lost=lost,
    )


def _merged_topics(metadata: BagMetadata | None, sources: list[Source]) -> dict[str, TopicInfo]:
    """Types and definitions as the storage has them, its counts summed; metadata fills the rest."""
    counts: Counter[str] = Counter()
    topics: dict[str, TopicInfo] = {}
    for info in metadata.topics if metadata is not None else ():
        topics[info.name] = info
    for source in sources:
        for name, info in source.topics.items():
            counts[name] += info.message_count
            known = topics.get(name)
            topics[name] = replace(
                info,
                type=info.type or (known.type if known else ""),
                qos=info.qos or (known.qos if known else ()),
                type_hash=info.type_hash or (known.type_hash if known else ""),
                message_definition=info.message_definition or (known.message_definition if known else ""),
            )
    return {name: replace(info, message_count=counts[name]) for name, info in topics.items()}


def _placed(err: BagError, where: str) -> BagError:
    """The same error, with the place that only the reader knows."""
    return BagError(err.what, where=where, expected=err.expected, got=err.got, hint=err.hint)


def _overlapping(sources: list[Source]) -> Iterator[list[Source]]:
    """Groups of files, sorted by start, whose times overlap; groups follow each other in time."""
    group: list[Source] = []
    end_ns = -1
    for source in sources:
        if source.start_ns is None or source.end_ns is None:
            continue
        if group and source.start_ns > end_ns:
            yield group
            group = []
        group.append(source)
        end_ns = max(end_ns, source.end_ns)
    if group:
        yield group
