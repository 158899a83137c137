"""The pip writer's default storage: uncompressed MCAP whose chunks are closed every half second."""

import os
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from mcap.writer import CompressionType, Writer

from piper_collect import __version__
from piper_collect.bag.folder_writer import FolderWriter
from piper_collect.bag.metadata import BagMetadata, metadata_text, write_metadata
from piper_collect.bag.qos import qos_text
from piper_collect.bag.storage import TopicInfo

_CHUNK_BYTES = 1024 * 1024


class McapBagWriter(FolderWriter):
    """The ``BagWriter`` that needs nothing but the ``mcap`` package.

    A chunk is closed by ``flush_due`` (half a second) or when it is over 1 MiB, so that images do
    not pile up; each has its message index. A kill costs what came after the last flush.
    """

    def __init__(self) -> None:
        super().__init__("mcap")
        self._file: BinaryIO | None = None

    def _start(self, uri: Path) -> None:
        self._channels: dict[str, int] = {}
        self._schemas: dict[tuple[str, str], int] = {}
        self._file = self._storage_path(uri).open("xb")
        # Summary offsets are optional, and this library would write ones for groups that are empty.
        self._mcap = Writer(
            self._file,
            chunk_size=_CHUNK_BYTES,
            compression=CompressionType.NONE,
            use_summary_offsets=False,
        )
        self._mcap.start(profile="ros2", library=f"piper_collect/{__version__}")
        self._add_metadata(self._metadata(with_topics=False))
        self._flush()

    def _announce(self, topic: TopicInfo) -> None:
        key = (topic.type, topic.message_definition)
        if key not in self._schemas:
            self._schemas[key] = self._mcap.register_schema(
                topic.type, topic.definition_encoding, topic.message_definition.encode("utf-8")
            )
        self._channels[topic.name] = self._mcap.register_channel(
            topic.name,
            topic.serialization_format,
            self._schemas[key],
            {"offered_qos_profiles": qos_text(topic.qos), "topic_type_hash": topic.type_hash},
        )

    def _append(self, topic: str, cdr_bytes: bytes | memoryview, receive_ns: int, publish_ns: int) -> None:
        sequence = self._counts[topic] & 0xFFFFFFFF
        # BytesIO inside the library takes any buffer; its annotation says bytes.
        self._mcap.add_message(self._channels[topic], receive_ns, cdr_bytes, publish_ns, sequence)  # type: ignore[arg-type]

    def _flush(self) -> None:
        """Close the chunk and empty the file's own buffer."""
        self._mcap.flush()  # type: ignore[no-untyped-call]

    def _finish(self, uri: Path) -> None:
        metadata = self._metadata(with_topics=True)
        self._flush()
        self._add_metadata(metadata)
        self._mcap.finish()  # type: ignore[no-untyped-call]
        if self._file is not None:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
        self._file = None
        write_metadata(uri, metadata)

    def _let_go(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            # A full disk fails here once more.
            with suppress(OSError):
                file.close()

    def _add_metadata(self, metadata: BagMetadata) -> None:
        self._mcap.add_metadata("rosbag2", {"serialized_metadata": metadata_text(metadata, outer_key=False)})
