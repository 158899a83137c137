"""Reads one rosbag2 sqlite3 file in receive-time order and leaves nothing beside it."""

import shutil
import sqlite3
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from piper_collect.bag.metadata import parse_metadata
from piper_collect.bag.qos import parse_qos
from piper_collect.bag.source import BagMessage
from piper_collect.bag.storage import TopicInfo
from piper_collect.errors import BagError

_HEADER_BYTES = 100
_SIDE_FILES = ("-wal", "-journal")


class SqliteSource:
    """A ``Source`` over a rosbag2 ``.db3`` file.

    The file is opened immutable, so that sqlite makes no ``-wal`` or ``-shm`` file. Where one with
    content is there already (a recorder that was killed), both are copied to a temporary folder and
    read from there.

    Raises:
        BagError: It cannot be read, or is not rosbag2's.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.notes: list[str] = []
        self.incomplete = False
        self._copy: TemporaryDirectory[str] | None = None
        self._ids: dict[int, str] = {}
        self.topics: dict[str, TopicInfo] = {}
        self.start_ns: int | None = None
        self.end_ns: int | None = None
        self.custom_data: Mapping[str, str] = {}
        try:
            self._copy_if_unclosed()
            self._note_if_cut()
            with closing(self._connect()) as self._database:
                self._read_tables()
        except (sqlite3.Error, OSError, ValueError) as err:
            self.close()
            raise self._unreadable(err) from err
        except BagError:
            self.close()
            raise

    def messages(self, topics: Collection[str]) -> Iterator[BagMessage]:
        """See ``Source.messages``."""
        wanted = [number for number, name in self._ids.items() if name in topics]
        marks = ",".join("?" * len(wanted))
        # Sorted by key alone and fetched one by one: sorting whole rows would spool every image.
        order = f"SELECT rowid, topic_id, timestamp FROM messages WHERE topic_id IN ({marks})"
        try:
            with closing(self._connect()) as database:
                for row, topic, receive_ns in database.execute(f"{order} ORDER BY timestamp, rowid", wanted):
                    found = database.execute("SELECT data FROM messages WHERE rowid = ?", (row,)).fetchone()
                    if not isinstance(found[0], bytes):
                        raise BagError("a message holds no bytes", where=f"{self.path} {self._ids[topic]}")
                    yield BagMessage(self._ids[topic], receive_ns, found[0])
        except (sqlite3.Error, ValueError) as err:
            raise self._unreadable(err) from err

    def close(self) -> None:
        """See ``Source.close``."""
        if self._copy is not None:
            self._copy.cleanup()
            self._copy = None

    def _connect(self) -> sqlite3.Connection:
        if self._copy is not None:
            return sqlite3.connect(Path(self._copy.name) / self.path.name, check_same_thread=False)
        uri = f"{self.path.absolute().as_uri()}?mode=ro&immutable=1"
        return sqlite3.connect(uri, uri=True, check_same_thread=False)

    def _copy_if_unclosed(self) -> None:
        beside = [self.path.with_name(self.path.name + ending) for ending in _SIDE_FILES]
        beside = [path for path in beside if path.exists() and path.stat().st_size]
        if not beside:
            return
        self._copy = TemporaryDirectory(prefix="piper_collect_")
        for path in (self.path, *beside):
            shutil.copyfile(path, Path(self._copy.name) / path.name)
        self.notes.append(
            f"{self.path.name} was not closed properly; read from a copy together with "
            f"{' and '.join(path.name for path in beside)}."
        )

    def _note_if_cut(self) -> None:
        """The header holds the size in pages, valid when bytes 24 and 92 agree (sqlite.org/fileformat)."""
        with self.path.open("rb") as file:
            head = file.read(_HEADER_BYTES)
            present = file.seek(0, 2)
        if len(head) < _HEADER_BYTES or head[24:28] != head[92:96] or self._copy is not None:
            return
        page_size = int.from_bytes(head[16:18], "big")
        size = int.from_bytes(head[28:32], "big") * (65536 if page_size == 1 else page_size)
        if present < size:
            self.incomplete = True
            self.notes.append(
                f"{self.path.name} is incomplete: {size - present} of its {size} bytes are missing."
            )

    def _read_tables(self) -> None:
        self.topics = self._topics()
        self.start_ns, self.end_ns = self._query("SELECT MIN(timestamp), MAX(timestamp) FROM messages")[0]
        self.custom_data = self._custom_data()

    def _topics(self) -> dict[str, TopicInfo]:
        columns = {row[1] for row in self._query("PRAGMA table_info(topics)")}
        if not {"id", "name", "type"} <= columns:
            raise BagError("not a rosbag2 sqlite3 file", where=self.path, expected="a table of topics")
        counts = dict(self._query("SELECT topic_id, COUNT(*) FROM messages GROUP BY topic_id"))
        definitions = self._definitions()

        def column(name: str) -> str:
            return name if name in columns else "''"

        names = ("serialization_format", "offered_qos_profiles", "type_description_hash")
        topics = {}
        for number, name, kind, form, qos, type_hash in self._query(
            f"SELECT id, name, type, {', '.join(map(column, names))} FROM topics ORDER BY id"
        ):
            if name in topics:
                raise BagError("two topics of one name", where=self.path, got=name)
            self._ids[number] = name
            encoding, text = definitions.get(kind, ("ros2msg", ""))
            topics[name] = TopicInfo(
                name=name,
                type=kind,
                qos=parse_qos(qos or ""),
                type_hash=type_hash or "",
                message_definition=text,
                definition_encoding=encoding,
                serialization_format=form or "cdr",
                message_count=counts.pop(number, 0),
            )
        if counts:
            raise BagError(
                "messages without a topic", where=self.path, expected="0", got=sum(counts.values())
            )
        return topics

    def _definitions(self) -> dict[str, tuple[str, str]]:
        if not self._has_table("message_definitions"):
            return {}
        rows = self._query("SELECT topic_type, encoding, encoded_message_definition FROM message_definitions")
        return {kind: (encoding, text) for kind, encoding, text in rows if encoding and text}

    def _custom_data(self) -> Mapping[str, str]:
        if not self._has_table("metadata"):
            return {}
        rows = self._query("SELECT metadata FROM metadata ORDER BY id DESC LIMIT 1")
        return parse_metadata(rows[0][0], where=self.path).custom_data if rows and rows[0][0] else {}

    def _has_table(self, name: str) -> bool:
        return bool(self._query("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (name,)))

    def _query(self, sql: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        return self._database.execute(sql, values).fetchall()

    def _unreadable(self, err: Exception) -> BagError:
        return BagError(
            "the sqlite3 file cannot be read",
            where=self.path,
            got=err,
            hint="it may be cut short or damaged; sqlite3 FILE .recover can save what is whole",
        )
