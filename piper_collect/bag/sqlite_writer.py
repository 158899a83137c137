"""The pip writer's other storage: rosbag2's sqlite3 schema, committed every half second."""

import os
import sqlite3
from contextlib import suppress
from pathlib import Path

from piper_collect.bag.folder_writer import FolderWriter
from piper_collect.bag.metadata import METADATA_VERSION, metadata_text, write_metadata
from piper_collect.bag.qos import qos_text
from piper_collect.bag.storage import TopicInfo
from piper_collect.errors import BagError
from piper_collect.files import sync

_SCHEMA_VERSION = 4
"""Of rosbag2 since Iron: with type hashes and message definitions."""
_PAGE_BYTES = 16384
"""Large pages store images faster; seven of them are the least that a bag takes."""
_PATIENCE_S = 1.0
"""How long the close waits for another program that reads the bag."""
_TABLES = (
    "schema (schema_version INTEGER PRIMARY KEY, ros_distro TEXT NOT NULL)",
    "metadata (id INTEGER PRIMARY KEY, metadata_version INTEGER NOT NULL, metadata TEXT NOT NULL)",
    "topics (id INTEGER PRIMARY KEY, name TEXT NOT NULL, type TEXT NOT NULL,"
    " serialization_format TEXT NOT NULL, offered_qos_profiles TEXT NOT NULL,"
    " type_description_hash TEXT NOT NULL)",
    "message_definitions (id INTEGER PRIMARY KEY, topic_type TEXT NOT NULL, encoding TEXT NOT NULL,"
    " encoded_message_definition TEXT NOT NULL, type_description_hash TEXT NOT NULL)",
    "messages (id INTEGER PRIMARY KEY, topic_id INTEGER NOT NULL, timestamp INTEGER NOT NULL,"
    " data BLOB NOT NULL)",
)
_ADD_MESSAGE = "INSERT INTO messages (timestamp, topic_id, data) VALUES (?, ?, ?)"


class SqliteBagWriter(FolderWriter):
    """The ``BagWriter`` that needs nothing but Python's own ``sqlite3``.

    Messages go into sqlite's write-ahead log, which is only appended to, each entry with a checksum, and
    nothing waits for the disk while recording. ``flush_due`` commits; a kill costs what came after the last
    commit. ``close`` moves the log into the ``.db3`` file, which until then holds tables and custom data.
    The schema has no place for publish times.
    """

    failures = (OSError, ValueError, sqlite3.Error)

    def __init__(self) -> None:
        super().__init__("sqlite3")
        self._database: sqlite3.Connection | None = None

    def _start(self, uri: Path) -> None:
        self._ids: dict[str, int] = {}
        self._defined: set[str] = set()
        path = self._storage_path(uri)
        self._database = sqlite3.connect(
            path, timeout=_PATIENCE_S, isolation_level=None, check_same_thread=False
        )
        self._sql(f"PRAGMA page_size = {_PAGE_BYTES}")
        self._sql("PRAGMA synchronous = OFF")
        self._sql("BEGIN")
        for table in _TABLES:
            self._sql(f"CREATE TABLE {table}")
        self._sql("CREATE INDEX timestamp_idx ON messages (timestamp ASC)")
        distro = os.environ.get("ROS_DISTRO", "")
        self._sql("INSERT INTO schema VALUES (?, ?)", _SCHEMA_VERSION, distro)
        self._add_metadata(with_topics=False)
        self._sql("COMMIT")
        self._pragma("journal_mode", "wal")
        self._sql("PRAGMA wal_autocheckpoint = 0")
        self._sql("PRAGMA synchronous = NORMAL")
        self._sql("BEGIN")

    def _announce(self, topic: TopicInfo) -> None:
        self._ids[topic.name] = len(self._ids) + 1
        row = (topic.type, topic.serialization_format, qos_text(topic.qos), topic.type_hash)
        self._sql("INSERT INTO topics VALUES (?, ?, ?, ?, ?, ?)", self._ids[topic.name], topic.name, *row)
        if topic.type not in self._defined:
            self._defined.add(topic.type)
            known = (topic.type, topic.definition_encoding, topic.message_definition, topic.type_hash)
            self._sql("INSERT INTO message_definitions VALUES (NULL, ?, ?, ?, ?)", *known)

    def _append(self, topic: str, cdr_bytes: bytes | memoryview, receive_ns: int, publish_ns: int) -> None:
        self._sql(_ADD_MESSAGE, receive_ns, self._ids[topic], cdr_bytes)

    def _flush(self) -> None:
        self._sql("COMMIT")
        self._sql("BEGIN")

    def _finish(self, uri: Path) -> None:
        self._add_metadata(with_topics=True)
        self._sql("COMMIT")
        busy, *_ = self._sql("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise BagError("another program is reading the bag that is to be closed", where=uri)
        # as a bag at rest it needs no log, and can be read from where nothing can be written
        self._pragma("journal_mode", "delete")
        self._let_go()
        sync(self._storage_path(uri))
        write_metadata(uri, self._metadata(with_topics=True))

    def _let_go(self) -> None:
        database, self._database = self._database, None
        if database is not None:
            # What was not committed is rolled back. A full disk fails here once more; the log then stays.
            with suppress(sqlite3.Error):
                database.execute("PRAGMA synchronous = OFF")
            with suppress(sqlite3.Error):
                database.close()

    def _sql(self, statement: str, *values: object) -> sqlite3.Cursor:
        if self._database is None:
            raise BagError("the writer has no bag open")
        return self._database.execute(statement, values)

    def _pragma(self, name: str, value: str) -> None:
        """Set it, and fail where sqlite would stay silent: a file system that cannot do it."""
        (got,) = self._sql(f"PRAGMA {name} = {value}").fetchone()
        if got != value:
            raise BagError(
                "this file system cannot hold the log that protects an sqlite3 bag",
                where=self._uri,
                expected=f"{name} {value}",
                got=got,
                hint="record to MCAP (recorder.storage: mcap), or to a local disk",
            )

    def _add_metadata(self, *, with_topics: bool) -> None:
        text = metadata_text(self._metadata(with_topics=with_topics), outer_key=False)
        self._sql("INSERT INTO metadata VALUES (NULL, ?, ?)", METADATA_VERSION, text)
