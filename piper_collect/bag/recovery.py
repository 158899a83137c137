"""What a damaged or unfinished bag still holds, and a whole new bag made of it."""

import hashlib
import json
import shutil
import struct
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from piper_collect import __version__
from piper_collect.bag.backends import Storage
from piper_collect.bag.folder import find_storage
from piper_collect.bag.folder_writer import LONGEST_UNFLUSHED_S
from piper_collect.bag.note import Note
from piper_collect.bag.reader import BagMessage, BagReader, open_bag
from piper_collect.bag.session_folder import EPISODE_JSON
from piper_collect.bag.sidecar import json_file, json_value
from piper_collect.bag.source import Damage
from piper_collect.bag.storage import BagSummary
from piper_collect.errors import BagError

Tell = Callable[[str, float, float], None]
"""``tell(what is done, messages done, messages in all)``."""
_TELL_EACH = 1000
_TIMES = struct.Struct("<QQI")
_NOT_READ = ("unreadable-file", "files-missing", "lost-topics")
_NUMBERS = ("episode", "episode_start_ns", "episode_end_ns")
_JSON = ("session_record", "incomplete_reasons", "losses")
_INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Salvage:
    """What can be taken out of a bag.

    Attributes:
        custom_data: Of the bag, completed for an episode of ours by what lies beside it.
        sidecar: Its ``episode.json``; empty without one.
        counts: Messages by topic; zeros included.
        start_ns: Earliest receive time; None without messages.
        end_ns: Latest receive time; None without messages.
        damage: What is known to be missing.
        closed: Whether nothing can be missing at the end.
        described: Whether a ``metadata.yaml`` lists what is there, no less and no more.
        gone: Messages that it lists and that are not there.
        notes: What was odd about the bag.
    """

    custom_data: Mapping[str, str]
    sidecar: Mapping[str, object]
    counts: Mapping[str, int]
    start_ns: int | None
    end_ns: int | None
    damage: Damage
    closed: bool
    described: bool
    gone: int
    notes: tuple[Note, ...]

    @property
    def known(self) -> dict[str, object]:
        """What the recorder said of the episode, by the names of ``episode.json``."""
        return {**self.custom_data, **self.sidecar}

    @property
    def ours(self) -> bool:
        """Whether this package's recorder recorded it."""
        return "episode_start_ns" in self.known

    @property
    def finished(self) -> bool:
        """Whether its recorder said how the episode ended, which it does after the last message."""
        return bool(self.known.get("outcome"))

    @property
    def messages(self) -> int:
        """Messages of all topics."""
        return sum(self.counts.values())

    @property
    def missing_at_end_s(self) -> float | None:
        """Most that is missing after the last message; None where nothing bounds it."""
        if self.closed:
            return 0.0
        if self.finished:
            ended = self.known.get("episode_end_ns")
            return None if ended is None else max(0, int(str(ended)) - (self.end_ns or 0)) / 1e9
        return LONGEST_UNFLUSHED_S if self._backend() == "pip" else None

    @property
    def most_missing_s(self) -> float | None:
        """Most that can be missing, of the end and of all damaged places; None where nothing bounds it."""
        parts = [self.missing_at_end_s, *(hole.seconds for hole in self.damage.holes)]
        known = [part for part in parts if part is not None]
        unread = any(note.code in _NOT_READ for note in self.notes)
        return sum(known) if len(known) == len(parts) and not unread else None

    def reasons(self) -> list[str]:
        """Why the episode is not whole, what the recorder said first; empty when nothing is missing."""
        said = json_value(self.known.get("incomplete_reasons"), Path(), "incomplete_reasons")
        found = [str(reason) for reason in said] if isinstance(said, list) else []
        if not self.closed:
            found.append(self._end_words())
        elif self.ours and not self.finished:
            found.append("the recorder was ended before it could say how the episode ended")
        if self.damage.holes:
            found.append(self._hole_words())
        found += [note.rstrip(".") for note in self.notes if note.code in _NOT_READ]
        return list(dict.fromkeys(found))

    def _end_words(self) -> str:
        if self.finished or self.gone:
            gone = f"{self.gone} messages" if self.gone else "messages"
            return f"the storage was cut short after it was recorded: {gone} are missing"
        most_s = self.missing_at_end_s
        if most_s is not None:
            return f"the recorder did not close the bag: at most {most_s:g} s are missing at its end"
        return "nothing shows that the recorder closed the bag: what it had not yet written is missing"

    def _hole_words(self) -> str:
        holes = self.damage.holes
        seconds = [hole.seconds for hole in holes if hole.seconds is not None]
        words = f"{len(holes)} damaged place{'s' if len(holes) > 1 else ''} in the storage left out"
        if len(seconds) == len(holes):
            words += f": at most {sum(seconds):.2f} s"
        lost = sum(self.damage.lost.values())
        return f"{words}; {lost} lost messages are known of" if lost else words

    def _backend(self) -> object:
        storage = self.sidecar.get("storage")
        if not isinstance(storage, Mapping):
            session = json_value(self.custom_data.get("session_record"), Path(), "session_record")
            recording = session.get("recording") if isinstance(session, Mapping) else None
            storage = recording.get("storage") if isinstance(recording, Mapping) else None
        return storage.get("backend") if isinstance(storage, Mapping) else None


def look(bag: BagReader, *, session: Mapping[str, str] | None = None) -> Salvage:
    """What can be taken out of a bag that was opened with ``salvage``.

    Args:
        bag: The bag.
        session: Custom data that the session's folder knows, for a bag that has lost its own.

    What of its custom data or its ``episode.json`` cannot be read is left out, with a note.
    """
    notes = list(bag.notes)
    sidecar = _sidecar(bag.path, notes)
    custom = _readable(bag.custom_data, notes)
    metadata = find_storage(bag.path, salvage=True).metadata
    counts = {name: info.message_count for name, info in bag.topics.items()}
    listed = {t.name: t.message_count for t in metadata.topics} if metadata is not None else {}
    described = metadata is not None and {n: c for n, c in counts.items() if c or n in listed} == listed
    # without a metadata.yaml the custom data is that of the storage, where the outcome comes last
    ended = metadata is None and bool(custom.get("outcome"))
    return Salvage(
        custom_data={**(session or {}), **custom, **_strings(sidecar)},
        sidecar=sidecar,
        counts=counts,
        start_ns=bag.start_ns,
        end_ns=bag.end_ns,
        damage=bag.damage,
        closed=bag.damage.closed or ended or (described and any(counts.values())),
        described=described,
        gone=sum(max(0, count - counts[name]) for name, count in listed.items()),
        notes=tuple(notes),
    )


def marks(found: Salvage, *, original: str, original_sha256: str, episode: int | None) -> dict[str, str]:
    """Custom data that says of a recovered bag what it is.

    Args:
        found: What it is made of.
        original: Name of the original.
        original_sha256: Of its storage files.
        episode: Number in its session; None for a bag that has none.
    """
    reasons = found.reasons()
    origin = {"original": original, "original_sha256": original_sha256, "tool_version": __version__}
    said = {
        "complete": "false" if reasons else "true",
        "incomplete_reasons": json.dumps(reasons, ensure_ascii=False),
        "recovered": json.dumps(origin, ensure_ascii=False),
    }
    if found.ours:
        said["outcome"] = str(found.known.get("outcome") or _INTERRUPTED)
    if episode is not None:
        said["episode"] = str(episode)
    return said


def episode_record(
    found: Salvage, marked: Mapping[str, str], storage: Mapping[str, object]
) -> dict[str, object]:
    """``episode.json`` of a recovered bag; of one that is not ours it tells nothing but the recovery.

    Args:
        found: What it is made of.
        marked: The result of ``marks``.
        storage: What wrote the recovered bag.
    """
    lost = found.damage.lost
    recovery = {
        **json.loads(marked["recovered"]),
        "start_ns": found.start_ns,
        "end_ns": found.end_ns,
        "most_missing_s": found.most_missing_s,
        "missing_at_end_s": found.missing_at_end_s,
        "damaged_places": len(found.damage.holes),
        "lost_known": dict(lost),
    }
    about = {
        "complete": marked["complete"] == "true",
        "incomplete_reasons": json.loads(marked["incomplete_reasons"]),
        "messages_in_bag": dict(found.counts),
        "storage": dict(storage),
        "recovered": recovery,
    }
    if not found.ours:
        return about
    known, end_ns = found.known, found.known.get("episode_end_ns")
    losses = json_value(known.get("losses"), Path(), "losses")
    told = losses if isinstance(losses, Mapping) else {}
    topics = {
        name: {"messages": n, "lost": lost.get(name, told.get(name))} for name, n in found.counts.items()
    }
    return {
        "session": known.get("session", ""),
        "episode": int(str(marked.get("episode", known.get("episode", 0)))),
        "task": known.get("task", ""),
        "outcome": marked["outcome"],
        "episode_start_ns": int(str(known["episode_start_ns"])),
        "episode_end_ns": None if end_ns is None else int(str(end_ns)),
        "topics": found.sidecar.get("topics", topics),
        "tool_version": known.get("tool_version", ""),
        **about,
    }


def rewrite(
    bag: BagReader,
    uri: Path,
    found: Salvage,
    marked: Mapping[str, str],
    *,
    storage: Storage,
    tell: Tell | None = None,
) -> BagSummary:
    """Write what a bag holds as a whole new bag, and read that to its end.

    Args:
        bag: The bag, opened with ``salvage``.
        uri: Folder of the new one, in one that exists.
        found: What ``look`` found in it.
        marked: Custom data to add.
        storage: What writes it.
        tell: Told how far it is.

    Raises:
        BagError: It cannot be written, or what is read back is not what was written; nothing stays.
    """
    progress = tell or (lambda *_: None)
    writer = storage.writer()
    try:
        writer.open(uri, found.custom_data)
        for info in bag.topics.values():
            writer.create_topic(info)
        written = _Fingerprint("writing", found.messages, progress)
        for message in bag.messages():
            writer.write(message.topic, message.payload, message.receive_ns, message.publish_ns)
            writer.flush_due(message.receive_ns / 1e9)
            written.add(message)
        summary = writer.close(marked)
        _read_back(uri, written, found, progress)
    except BaseException:
        writer.abort()
        shutil.rmtree(uri, ignore_errors=True)
        raise
    return summary


class _Fingerprint:
    """Count and digest of messages as they pass."""

    def __init__(self, word: str, total: int, tell: Tell) -> None:
        self.counts: Counter[str] = Counter()
        self._digest = hashlib.sha256()
        self._word, self._total, self._tell = word, total, tell

    def add(self, message: BagMessage) -> None:
        publish_ns = message.receive_ns if message.publish_ns is None else message.publish_ns
        self._digest.update(message.topic.encode("utf-8", "surrogatepass"))
        self._digest.update(_TIMES.pack(message.receive_ns, publish_ns, len(message.payload)))
        self._digest.update(message.payload)
        self.counts[message.topic] += 1
        done = self.counts.total()
        if done % _TELL_EACH == 0 or done == self._total:
            self._tell(self._word, done, self._total)

    def hexdigest(self) -> str:
        return self._digest.hexdigest()


def _read_back(uri: Path, written: _Fingerprint, found: Salvage, tell: Tell) -> None:
    again = _Fingerprint("reading back", found.messages, tell)
    with open_bag(uri) as bag:
        for message in bag.messages():
            again.add(message)
        flaws = [*bag.notes, *(["it is incomplete"] if bag.incomplete else [])]
    expected = Counter({name: count for name, count in found.counts.items() if count})
    if flaws or not written.counts == again.counts == expected:
        raise BagError(
            "the recovered bag does not hold what was found",
            where=uri,
            expected=f"{found.messages} messages",
            got=f"{again.counts.total()}; {' '.join(flaws)}",
        )
    if again.hexdigest() != written.hexdigest():
        raise BagError("the recovered bag reads other than it was written", where=uri, hint="check the disk")


def _sidecar(path: Path, notes: list[Note]) -> dict[str, object]:
    if not path.is_dir():
        return {}
    try:
        sidecar = json_file(path / EPISODE_JSON)
    except BagError as err:
        notes.append(Note("record-unreadable", f"{err}."))
        return {}
    return {name: value for name, value in sidecar.items() if _is_readable(name, value, notes)}


def _readable(custom_data: Mapping[str, str], notes: list[Note]) -> dict[str, str]:
    return {name: value for name, value in custom_data.items() if _is_readable(name, value, notes)}


def _is_readable(name: str, value: object, notes: list[Note]) -> bool:
    """Whether a value is what its name demands; the records that hold them have no checksum."""
    try:
        if name in _NUMBERS and value is not None:
            int(str(value))
        elif name in _JSON:
            json_value(value, Path(), name)
    except (ValueError, BagError):
        notes.append(Note("custom-data", f"{name} cannot be read, and is left out."))
        return False
    return True


def _strings(sidecar: Mapping[str, object]) -> dict[str, str]:
    """What custom data has of an ``episode.json`` written at the start of an episode."""
    names = ("session", "episode", "task", "tool_version", "episode_start_ns")
    return {name: str(sidecar[name]) for name in names if name in sidecar}
