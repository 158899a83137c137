"""What all bag writers share: misuse refused, counts and times kept, failures in one line."""

import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from piper_collect.bag.metadata import BagMetadata
from piper_collect.bag.storage import BagSummary, TopicInfo
from piper_collect.errors import BagError
from piper_collect.files import sync

FLUSH_PERIOD_S = 0.5
LONGEST_UNFLUSHED_S = 1.0
"""Most that a kill takes of a recording by a writer of this package: a flush is due every half second, and
what came meanwhile waits in the queues before the writer."""
_LAST_NS = 2**63 - 1
_SUFFIXES = {"mcap": ".mcap", "sqlite3": ".db3"}


class FolderWriter(ABC):
    """A ``BagWriter`` whose storage is one file in the folder; subclasses say how that file is written.

    Args:
        storage_id: ``mcap`` or ``sqlite3``.
    """

    failures: ClassVar[tuple[type[Exception], ...]] = (OSError, ValueError)
    """What the library below raises when it cannot write."""
    hint: ClassVar[str] = "look at the free disk space"
    """What to do about it."""

    def __init__(self, storage_id: str) -> None:
        self._storage_id = storage_id
        self._uri: Path | None = None
        self._failed = False
        self._reset()

    def _reset(self) -> None:
        self._custom: dict[str, str] = {}
        self._topics: dict[str, TopicInfo] = {}
        self._counts: dict[str, int] = {}
        self._start_ns: int | None = None
        self._end_ns: int | None = None
        self._flushed_s: float | None = None

    def open(self, uri: Path, custom_data: Mapping[str, str]) -> None:
        """See ``BagWriter.open``."""
        if self._uri is not None:
            raise BagError("the writer already has a bag open", where=self._uri)
        try:
            self._make_folder(uri)
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

    def create_topic(self, topic: TopicInfo) -> None:
        """See ``BagWriter.create_topic``."""
        uri = self._usable()
        if topic.name in self._topics:
            raise BagError("the topic is in the bag already", where=uri, got=topic.name)
        with self._writing():
            self._announce(topic)
        self._topics[topic.name] = topic
        self._counts[topic.name] = 0

    def write(
        self, topic: str, cdr_bytes: bytes | memoryview, receive_ns: int, publish_ns: int | None = None
    ) -> None:
        """See ``BagWriter.write``."""
        uri = self._usable()
        if topic not in self._topics:
            raise BagError("no such topic in the bag", where=uri, got=topic, valid=self._topics)
        for name, time_ns in (("receive", receive_ns), ("publish", publish_ns)):
            if time_ns is not None and not 0 <= time_ns < _LAST_NS:
                what = f"{name} time out of range"
                raise BagError(what, where=f"{uri} {topic}", expected="0 to 2^63-2", got=time_ns)
        with self._writing():
            self._append(topic, cdr_bytes, receive_ns, receive_ns if publish_ns is None else publish_ns)
        self._counts[topic] += 1
        self._start_ns = receive_ns if self._start_ns is None else min(self._start_ns, receive_ns)
        self._end_ns = receive_ns if self._end_ns is None else max(self._end_ns, receive_ns)

    def flush_due(self, now_monotonic_s: float) -> bool:
        """See ``BagWriter.flush_due``."""
        self._usable()
        if self._flushed_s is not None and now_monotonic_s - self._flushed_s < FLUSH_PERIOD_S:
            return False
        with self._writing():
            self._flush()
        self._flushed_s = now_monotonic_s
        return True

    def close(self, custom_data_update: Mapping[str, str] | None = None) -> BagSummary:
        """See ``BagWriter.close``."""
        if self._failed:
            self._let_go()
        uri = self._usable()
        self._custom.update(custom_data_update or {})
        try:
            with self._writing():
                self._finish(uri)
                sync(uri.parent)
        except BagError:
            self._let_go()
            raise
        self._uri = None
        return BagSummary(
            uri=uri,
            storage_path=self._storage_path(uri),
            start_ns=self._start_ns,
            end_ns=self._end_ns,
            counts=dict(self._counts),
            size_bytes=self._storage_path(uri).stat().st_size,
        )

    def abort(self) -> None:
        """See ``BagWriter.abort``."""
        uri, self._uri = self._uri, None
        self._let_go()
        if uri is None:
            return
        try:
            shutil.rmtree(uri)
        except FileNotFoundError:
            return
        except OSError as err:
            raise BagError("an aborted bag cannot be removed", where=uri, got=err) from err

    def _make_folder(self, uri: Path) -> None:
        """Make the folder, or fail with OSError."""
        uri.mkdir()

    @abstractmethod
    def _start(self, uri: Path) -> None:
        """Make the storage file and put the custom data into it."""

    @abstractmethod
    def _announce(self, topic: TopicInfo) -> None:
        """Put a new topic into the file."""

    @abstractmethod
    def _append(self, topic: str, cdr_bytes: bytes | memoryview, receive_ns: int, publish_ns: int) -> None:
        """Put a message of a known topic into the file."""

    @abstractmethod
    def _flush(self) -> None:
        """Hand what was written to the operating system, so that a kill cannot take it."""

    @abstractmethod
    def _finish(self, uri: Path) -> None:
        """Bring the whole storage file to the disk, then ``metadata.yaml``."""

    @abstractmethod
    def _let_go(self) -> None:
        """Release the file as it is, if it is open; never fails."""

    def _storage_path(self, uri: Path) -> Path:
        return uri / f"{uri.name}_0{_SUFFIXES[self._storage_id]}"

    def _usable(self) -> Path:
        if self._uri is None:
            raise BagError("the writer has no bag open")
        if self._failed:
            raise BagError(
                "an earlier write to this bag failed",
                where=self._uri,
                hint="leave the folder as it is; piper-collect recover makes an episode of it",
            )
        return self._uri

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except BagError:
            self._failed = True
            raise
        except self.failures as err:
            self._failed = True
            what = "the bag cannot be written"
            raise BagError(what, where=self._uri, got=err, hint=self.hint) from err

    def _metadata(self, *, with_topics: bool) -> BagMetadata:
        topics = [replace(t, message_count=self._counts[t.name]) for t in self._topics.values()]
        start_ns, end_ns = self._start_ns, self._end_ns
        return BagMetadata(
            storage_id=self._storage_id,
            start_ns=start_ns,
            duration_ns=0 if start_ns is None or end_ns is None else end_ns - start_ns,
            message_count=sum(self._counts.values()),
            topics=tuple(topics) if with_topics else (),
            files=(self._storage_path(self._uri).name,) if self._uri is not None else (),
            custom_data=self._custom,
            ros_distro=os.environ.get("ROS_DISTRO", ""),
        )
