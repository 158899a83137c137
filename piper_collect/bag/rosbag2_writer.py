"""Writes bags through ``rosbag2_py``, the recorder's own library of a ROS machine."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from piper_collect.bag.folder_writer import FolderWriter
from piper_collect.bag.metadata import METADATA_FILE, METADATA_VERSION, read_metadata
from piper_collect.bag.qos import qos_text
from piper_collect.bag.reader import open_bag
from piper_collect.bag.rosbag2 import ROSBAG2_FAILURES
from piper_collect.bag.storage import TopicInfo
from piper_collect.errors import BagError
from piper_collect.files import sync, write_atomic

_CHUNK_BYTES = 16 * 1024
"""The plugin writes a chunk when it is over this (768 KiB by default, minutes of some topics)."""
_PROFILES = {"mcap": "", "sqlite3": "resilient"}
"""Preset profiles: ``resilient`` is a write-ahead log; without it a kill can spoil the whole sqlite3 file."""


class Rosbag2BagWriter(FolderWriter):
    """The ``BagWriter`` over ``rosbag2_py.SequentialWriter``, without its cache.

    Every message goes to the storage plugin at once, and there is nothing to flush. A kill costs with MCAP
    the open chunk (``_CHUNK_BYTES`` and what the C library buffers, 4 KiB), with sqlite3 nothing: each
    message is a transaction. Message definitions are those that rosbag2 finds for itself among the
    installed packages. ``metadata.yaml`` is rosbag2's own, with our custom data of the end added.

    Args:
        storage_id: ``mcap`` or ``sqlite3``.
        rosbag2: The module (``load_rosbag2``).
    """

    failures = ROSBAG2_FAILURES
    hint = "look at the free disk space; recorder.storage_backend: pip records without rosbag2_py"

    def __init__(self, storage_id: str, rosbag2: Any) -> None:
        super().__init__(storage_id)
        self._rosbag2 = rosbag2
        self._writer: Any = None
        self._keeps_publish_time = True

    def _make_folder(self, uri: Path) -> None:
        """The library makes it, and refuses one that is there."""
        if uri.exists():
            raise FileExistsError(uri)
        uri.parent.stat()

    def _start(self, uri: Path) -> None:
        with _plugin_settings(self._storage_id) as settings:
            options = self._rosbag2.StorageOptions(
                uri=str(uri),
                storage_id=self._storage_id,
                max_cache_size=0,
                storage_preset_profile=_PROFILES[self._storage_id],
                storage_config_uri=settings,
                custom_data=self._custom,
            )
            self._writer = self._rosbag2.SequentialWriter()
            self._writer.open(options, self._rosbag2.ConverterOptions("cdr", "cdr"))

    def _announce(self, topic: TopicInfo) -> None:
        self._writer.create_topic(
            self._rosbag2.TopicMetadata(
                id=len(self._topics) + 1,
                name=topic.name,
                type=topic.type,
                serialization_format=topic.serialization_format,
                offered_qos_profiles=self._rosbag2.to_rclcpp_qos_vector(
                    qos_text(topic.qos), METADATA_VERSION
                ),
                type_description_hash=topic.type_hash,
            )
        )

    def _append(self, topic: str, cdr_bytes: bytes | memoryview, receive_ns: int, publish_ns: int) -> None:
        payload = bytes(cdr_bytes)
        if self._keeps_publish_time:
            try:
                self._writer.write(topic, payload, receive_ns, publish_ns)
            except TypeError:  # no such overload; nothing was written
                self._keeps_publish_time = False
            else:
                return
        self._writer.write(topic, payload, receive_ns)

    def _flush(self) -> None:
        """Nothing is held back here, and the library cannot be asked."""

    def _finish(self, uri: Path) -> None:
        self._close_writer()
        # the plugins do not tell of every failed write (a full disk): count what is there
        with open_bag(uri) as bag:
            held = {name: info.message_count for name, info in bag.topics.items()}
            if bag.incomplete or held != self._counts:
                raise BagError(
                    "the storage does not hold what was written to it",
                    where=uri,
                    expected=f"{sum(self._counts.values())} messages",
                    got=f"{sum(held.values())}{', cut short' if bag.incomplete else ''}",
                    hint="look at the free disk space",
                )
        self._complete_metadata(uri)
        sync(self._storage_path(uri))
        sync(uri)

    def _complete_metadata(self, uri: Path) -> None:
        """Add what the custom data got since the bag was opened; whole under its name, or not at all."""
        store = self._rosbag2.MetadataIo()
        metadata = store.read_metadata(str(uri))
        metadata.custom_data = self._custom
        with TemporaryDirectory(prefix="piper_collect_") as folder:
            store.write_metadata(folder, metadata)
            made = Path(folder) / METADATA_FILE
            missing = set(self._custom) - set(read_metadata(made).custom_data)
            if missing:
                names = ", ".join(sorted(missing))
                raise BagError("rosbag2_py did not write all metadata", where=uri, got=f"none of {names}")
            write_atomic(uri / METADATA_FILE, made.read_bytes())

    def _let_go(self) -> None:
        with suppress(*ROSBAG2_FAILURES):
            self._close_writer()

    def _close_writer(self) -> None:
        """By ``close`` where the library has it; else deletion does the same."""
        writer, self._writer = self._writer, None
        if hasattr(writer, "close"):
            writer.close()
        del writer


@contextmanager
def _plugin_settings(storage_id: str) -> Iterator[str]:
    """A settings file for the plugin, which reads it while it opens; empty for none."""
    if storage_id != "mcap":
        yield ""
        return
    with TemporaryDirectory(prefix="piper_collect_") as folder:
        file = Path(folder) / "mcap_writer.yaml"
        file.write_text(f"chunkSize: {_CHUNK_BYTES}\n", encoding="utf-8")
        yield str(file)
