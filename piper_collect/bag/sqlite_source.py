"""Reads one rosbag2 sqlite3 file in receive-time order and leaves nothing beside it."""

import os
import shutil
import sqlite3
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from piper_collect.bag.metadata import parse_metadata
from piper_collect.bag.note import Note
from piper_collect.bag.qos import parse_qos
from piper_collect.bag.source import BagMessage, Damage, side_files
from piper_collect.bag.storage import TopicInfo
from piper_collect.errors import BagError

_HEADER_BYTES = 100


class SqliteSource:
    """A ``Source`` over a rosbag2 ``.db3`` file.

    The file is opened immutable, so that sqlite makes no ``-wal`` or ``-shm`` file. Where one with
    content is there already (a recorder that was killed), both are copied to a temporary folder and
    read from there.

    Args:
        path: The file.
        scratch: Where that folder is made; by default where the system has such.

    Raises:
        BagError: It cannot be read, or is not rosbag2's.
    """

    def __init__(self, path: Path, *, scratch: Path | None = None) -> None:
        self.path = path
        self._scratch = scratch
        self.damage = Damage()
        self.notes: list[Note] = []
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

    def messages(self, topics: Collection[str], heads: Collection[str] = ()) -> Iterator[BagMessage]:
        """See ``Source.messages``."""
        wanted = [number for number, name in self._ids.items() if name in topics]
        marks = ",".join("?" * len(wanted))
        # Sorted by key alone and fetched one by one: sorting whole rows would spool every image.
        order = f"SELECT rowid, topic_id, timestamp FROM messages WHERE topic_id IN ({marks})"
        try:
            with closing(self._connect()) as database:
                for row, topic, receive_ns in database.execute(f"{order} ORDER BY timestamp, rowid", wanted):
                    found = database.execute("SELECT data FROM messages WHERE rowid = ?", (row,)).fetchone()
                    where = f"{self.path} {self._ids[topic]}"
                    if found is None or not isinstance(found[0], bytes):
                        raise BagError("a message holds no bytes", where=where)
                    if not isinstance(receive_ns, int):
                        raise BagError("a message has no time of receipt", where=where, got=receive_ns)
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
        beside = side_files(self.path)
        if not beside:
            return
        self._copy = TemporaryDirectory(prefix="piper_collect_", dir=self._scratch)
        for path in (self.path, *beside):
            shutil.copyfile(path, Path(self._copy.name) / path.name)
        copied = Path(self._copy.name) / self.path.name
        if beside[0].name.endswith("-wal"):  # sqlite would fill a page that is cut with zeros
            os.truncate(copied, copied.stat().st_size - _partial_page(copied))
        text = f"{self.path.name} was not closed properly; read from a copy together with "
        text += f"{' and '.join(path.name for path in beside)}."
        self.notes.append(Note("not-closed", text))

    def _note_if_cut(self) -> None:
        """The header holds the size in pages, valid when bytes 24 and 92 agree (sqlite.org/fileformat)."""
        if self._copy is None and _partial_page(self.path):
            raise BagError(
                "the sqlite3 file is cut short",
                where=self.path,
                got=f"{_partial_page(self.path)} bytes of its last page",
                hint="sqlite3 FILE .recover may save a part",
            )
        with self.path.open("rb") as file:
            head = file.read(_HEADER_BYTES)
            present = file.seek(0, 2)
        if len(head) < _HEADER_BYTES or head[24:28] != head[92:96] or self._copy is not None:
            return
        size = int.from_bytes(head[28:32], "big") * _page_size(head)
        if present < size:
            self.incomplete = True
            text = f"{self.path.name} is incomplete: {size - present} of its {size} bytes are missing."
            self.notes.append(Note("truncated", text))

    def _read_tables(self) -> None:
        self.topics = self._topics()
        span = self._query("SELECT MIN(timestamp), MAX(timestamp) FROM messages")[0]
        if not all(time is None or isinstance(time, int) for time in span):
            raise BagError("a message has no time of receipt", where=self.path)
        self.start_ns, self.end_ns = span
        self._read_metadata()

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

    def _read_metadata(self) -> None:
        """Custom data of the last entry; one that counts what is there was written at the close."""
        rows = []
        if self._has_table("metadata"):
            rows = self._query("SELECT metadata FROM metadata ORDER BY id DESC LIMIT 1")
        known = parse_metadata(rows[0][0], where=self.path) if rows and rows[0][0] else None
        held = sum(info.message_count for info in self.topics.values())
        closed = known is not None and known.message_count == held and self._copy is None
        self.damage = Damage(closed=closed and not self.incomplete)
        self.custom_data = known.custom_data if known is not None else {}

    def _has_table(self, name: str) -> bool:
        return bool(self._query("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (name,)))

    def _query(self, sql: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        return self._database.execute(sql, values).fetchall()

    def _unreadable(self, err: Exception) -> BagError:
        return BagError(
            "the sqlite3 file cannot be read",
            where=self.path,
            got=err,
            hint="it may be cut short or damaged; sqlite3 FILE .recover may save a part",
        )


def _page_size(head: bytes) -> int:
    """By the header's bytes 16 and 17, where 1 stands for 65536 (sqlite.org/fileformat)."""
    size = int.from_bytes(head[16:18], "big")
    return 65536 if size == 1 else size


def _partial_page(path: Path) -> int:
    """Bytes after the last whole page; 0 in a file that was not cut."""
    with path.open("rb") as file:
        size = _page_size(file.read(_HEADER_BYTES))
        return file.seek(0, 2) % size if size else 0
