"""The default bag storage: uncompressed MCAP whose chunks are closed every half second."""

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from mcap.writer import CompressionType, Writer

from piper_collect import __version__
from piper_collect.bag.metadata import BagMetadata, metadata_text, write_metadata
from piper_collect.bag.qos import qos_text
from piper_collect.bag.storage import BagSummary, TopicInfo
from piper_collect.errors import BagError
from piper_collect.files import sync

FLUSH_PERIOD_S = 0.5
_CHUNK_BYTES = 1024 * 1024
_LAST_NS = 2**63 - 1


class McapBagWriter:
    """The ``BagWriter`` that needs nothing but the ``mcap`` package.

    A chunk is closed by ``flush_due`` (half a second) or when it is over 1 MiB, so that images do
    not pile up; each has its message index. A kill costs what came after the last flush.
    """

    def __init__(self) -> None:
        self._uri: Path | None = None
        self._file: BinaryIO | None = None
        self._mcap: Writer | None = None
        self._failed = False
        self._reset()

    def _reset(self) -> None:
        self._custom: dict[str, str] = {}
        self._topics: dict[str, TopicInfo] = {}
        self._channels: dict[str, int] = {}
        self._schemas: dict[tuple[str, str], int] = {}
        self._counts: dict[str, int] = {}
        self._start_ns: int | None = None
        self._end_ns: int | None = None
        self._flushed_s: float | None = None

    def open(self, uri: Path, custom_data: Mapping[str, str]) -> None:
        """See ``BagWriter.open``."""
        if self._uri is not None:
            raise BagError("the writer already has a bag open", where=self._uri)
        try:
            uri.mkdir()
        except FileExistsError as err:
            raise BagError("a bag must be written to a folder that does not exist yet", where=uri) from err
        except OSError as err:
            raise BagError("the bag folder cannot be made", where=uri, got=err) from err
        self._reset()
        self._uri, self._failed = uri, False
        self._custom = dict(custom_data)
        try:
            with self._writing():
                self._start(uri)
        except BagError:
            self.abort()
            raise

    def _start(self, uri: Path) -> None:
        self._file = (uri / f"{uri.name}_0.mcap").open("xb")
        # Summary offsets are optional, and this library would write ones for groups that are empty.
        self._mcap = Writer(
            self._file,
            chunk_size=_CHUNK_BYTES,
            compression=CompressionType.NONE,
            use_summary_offsets=False,
        )
        self._mcap.start(profile="ros2", library=f"piper_collect/{__version__}")
        self._add_metadata(self._metadata(with_topics=False))
        self._flush(self._mcap)

    def create_topic(self, topic: TopicInfo) -> None:
        """See ``BagWriter.create_topic``."""
        writer = self._writer()
        if topic.name in self._topics:
            raise BagError("the topic is in the bag already", where=self._uri, got=topic.name)
        with self._writing():
            key = (topic.type, topic.message_definition)
            if key not in self._schemas:
                self._schemas[key] = writer.register_schema(
                    topic.type, topic.definition_encoding, topic.message_definition.encode("utf-8")
                )
            self._channels[topic.name] = writer.register_channel(
                topic.name,
                topic.serialization_format,
                self._schemas[key],
                {"offered_qos_profiles": qos_text(topic.qos), "topic_type_hash": topic.type_hash},
            )
        self._topics[topic.name] = topic
        self._counts[topic.name] = 0

    def write(self, topic: str, cdr_bytes: bytes | memoryview, receive_ns: int) -> None:
        """See ``BagWriter.write``."""
        writer = self._writer()
        channel = self._channels.get(topic)
        if channel is None:
            raise BagError("no such topic in the bag", where=self._uri, got=topic, valid=self._channels)
        if not 0 <= receive_ns < _LAST_NS:
            raise BagError(
                "receive time out of range",
                where=f"{self._uri} {topic}",
                expected="0 to 2^63-2",
                got=receive_ns,
            )
        sequence = self._counts[topic] & 0xFFFFFFFF
        with self._writing():
            # BytesIO inside the library takes any buffer; its annotation says bytes.
            writer.add_message(channel, receive_ns, cdr_bytes, receive_ns, sequence)  # type: ignore[arg-type]
        self._counts[topic] += 1
        self._start_ns = receive_ns if self._start_ns is None else min(self._start_ns, receive_ns)
        self._end_ns = receive_ns if self._end_ns is None else max(self._end_ns, receive_ns)

    def flush_due(self, now_monotonic_s: float) -> bool:
        """See ``BagWriter.flush_due``."""
        writer = self._writer()
        if self._flushed_s is not None and now_monotonic_s - self._flushed_s < FLUSH_PERIOD_S:
            return False
        with self._writing():
            self._flush(writer)
        self._flushed_s = now_monotonic_s
        return True

    def close(self, custom_data_update: Mapping[str, str] | None = None) -> BagSummary:
        """See ``BagWriter.close``."""
        writer, uri, file = self._writer(), self._uri, self._file
        if uri is None or file is None:
            raise BagError("the writer has no bag open")
        self._custom.update(custom_data_update or {})
        metadata = self._metadata(with_topics=True)
        with self._writing():
            self._flush(writer)
            self._add_metadata(metadata)
            writer.finish()  # type: ignore[no-untyped-call]
            file.flush()
            os.fsync(file.fileno())
            file.close()
            write_metadata(uri, metadata)
            sync(uri.parent)
        storage_path = uri / metadata.files[0]
        summary = BagSummary(
            uri=uri,
            storage_path=storage_path,
            start_ns=self._start_ns,
            end_ns=self._end_ns,
            counts=dict(self._counts),
            size_bytes=storage_path.stat().st_size,
        )
        self._uri = self._file = self._mcap = None
        return summary

    def abort(self) -> None:
        """See ``BagWriter.abort``."""
        uri, file = self._uri, self._file
        self._uri = self._file = self._mcap = None
        if file is not None:
            # A full disk fails here once more; the file goes anyway.
            with suppress(OSError):
                file.close()
        if uri is None:
            return
        try:
            shutil.rmtree(uri)
        except FileNotFoundError:
            return
        except OSError as err:
            raise BagError("an aborted bag cannot be removed", where=uri, got=err) from err

    @staticmethod
    def _flush(writer: Writer) -> None:
        """Close the chunk and empty the file's own buffer, so that a kill cannot take it."""
        writer.flush()  # type: ignore[no-untyped-call]

    def _writer(self) -> Writer:
        if self._mcap is None:
            raise BagError("the writer has no bag open")
        if self._failed:
            raise BagError(
                "an earlier write to this bag failed",
                where=self._uri,
                hint="abort it, or leave the folder as it is and recover what was written",
            )
        return self._mcap

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as err:
            self._failed = True
            raise BagError(
                "the bag cannot be written", where=self._uri, got=err, hint="look at the free disk space"
            ) from err

    def _add_metadata(self, metadata: BagMetadata) -> None:
        self._writer().add_metadata(
            "rosbag2", {"serialized_metadata": metadata_text(metadata, outer_key=False)}
        )

    def _metadata(self, *, with_topics: bool) -> BagMetadata:
        topics = [replace(t, message_count=self._counts[t.name]) for t in self._topics.values()]
        start_ns, end_ns = self._start_ns, self._end_ns
        return BagMetadata(
            storage_id="mcap",
            start_ns=start_ns,
            duration_ns=0 if start_ns is None or end_ns is None else end_ns - start_ns,
            message_count=sum(self._counts.values()),
            topics=tuple(topics) if with_topics else (),
            files=(f"{self._uri.name}_0.mcap",) if self._uri is not None else (),
            custom_data=self._custom,
            ros_distro=os.environ.get("ROS_DISTRO", ""),
        )
