"""Makes whole bags of recordings that were never finished, and of damaged ones; the originals stay."""

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from piper_collect.bag.backends import choose_storage
from piper_collect.bag.claim import Claim
from piper_collect.bag.find import files_hash, find_bags, recovered_path, unfinished_recordings
from piper_collect.bag.folder import find_storage, storage_files
from piper_collect.bag.metadata import METADATA_FILE
from piper_collect.bag.reader import BagReader, open_bag
from piper_collect.bag.recovery import Salvage, Tell, episode_record, look, marks, rewrite
from piper_collect.bag.session_folder import (
    EPISODE_JSON,
    RECORDING,
    SESSION_JSON,
    SESSION_YAML,
    SessionFolder,
    free_bytes,
    json_text,
)
from piper_collect.bag.sidecar import json_file, path_text
from piper_collect.bag.source import side_files
from piper_collect.core.naming import episode_name
from piper_collect.errors import BagError, PiperCollectError
from piper_collect.files import sync, write_atomic

Status = Literal["recovered", "recoverable", "done", "whole", "empty", "busy", "failed"]
Progress = Callable[[int, int, str, str, float, float], None]
"""``progress(bag number from 0, bags, name, what is done, messages done, messages in all)``."""

_WORK = "recovering"
_TORN = frozenset({"no-metadata", "metadata-unreadable", "metadata-files", "not-closed", "truncated"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """What became of one bag.

    Attributes:
        source: The bag.
        status: ``recovered``; ``recoverable``, where nothing was to be written; ``done`` by an earlier run;
            ``whole``, so that there is nothing to do; ``empty``; ``busy``, being recorded or recovered;
            ``failed``.
        bag: The recovered bag.
        original: Where the original is now; None when it was removed.
        counts: Messages recovered, by topic.
        lost: Messages known to be lost, by topic.
        start_ns: Earliest receive time; None without messages.
        end_ns: Latest receive time; None without messages.
        most_missing_s: Most that can be missing; None where nothing bounds it.
        reasons: Why it is not whole.
        notes: What was odd about it.
        error: Why it failed; one line.
    """

    source: Path
    status: Status
    bag: Path | None = None
    original: Path | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    lost: Mapping[str, int] = field(default_factory=dict)
    start_ns: int | None = None
    end_ns: int | None = None
    most_missing_s: float | None = None
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    error: str = ""


def recover(
    paths: Iterable[Path],
    *,
    dry_run: bool = False,
    delete_original: bool = False,
    on_progress: Progress | None = None,
) -> tuple[Recovery, ...]:
    """Recover the bags that ``paths`` name or hold.

    A recording that was never finished becomes the episode of its number in its session, or of the next
    free one where that is taken. Of any other bag ``recovered_NAME`` is made beside it. Each is written
    aside, read to its end, and moved into place whole; a kill at any moment leaves the original as it was
    found, and the next run goes on.

    Args:
        paths: Bags, storage files, sessions, recording roots, or folders that hold some.
        dry_run: Only look.
        delete_original: Remove each original once the recovered bag was read and is in place.
        on_progress: Told how far it is.

    Raises:
        BagError: A path does not exist, or holds no bag.
    """
    targets = list(dict.fromkeys(target for path in paths for target in _targets(path)))
    found = []
    for number, target in enumerate(targets):

        def tell(word: str, done: float, total: float, number: int = number, name: str = target.name) -> None:
            if on_progress is not None:
                on_progress(number, len(targets), name, word, done, total)

        tell("reading", 0, 0)
        try:
            found.append(_recover_one(target, dry_run, delete_original, tell))
        except (PiperCollectError, OSError) as err:
            found.append(
                Recovery(source=target, status="failed", original=target, error=_one_line(target, err))
            )
    return tuple(found)


def _targets(path: Path) -> list[Path]:
    path = Path(os.path.abspath(path))
    if path.is_file():
        return [path.parent] if _is_recording(path.parent) else [path]
    if not path.is_dir():
        raise BagError("no such path", where=path)
    if _is_recording(path) or storage_files(path) or (path / METADATA_FILE).is_file():
        return [path]
    try:
        if path.name == RECORDING:
            return list(unfinished_recordings(path.parent, 0))
        left = list(unfinished_recordings(path))
    except OSError as err:
        raise BagError("the folder cannot be searched", where=path, got=err) from err
    try:
        found = find_bags([path])
    except BagError:
        if not left:
            raise
        found = []
    return [*left, *(bag for bag in found if _is_torn(bag))]


def _is_recording(path: Path) -> bool:
    """Whether this is an episode that was never finished."""
    number = path.name.removeprefix("episode_")
    return path.parent.name == RECORDING and number.isdigit() and path.is_dir()


def _is_torn(path: Path) -> bool:
    """Whether a look at a bag shows that it is not whole; what is inside is not read."""
    try:
        with open_bag(path) as bag:
            return bag.incomplete or any(note.code in _TORN for note in bag.notes)
    except BagError:
        return True


def _recover_one(path: Path, dry_run: bool, delete_original: bool, tell: Tell) -> Recovery:
    claim = Claim.take(path)
    if claim is None:
        return Recovery(source=path, status="busy", original=path)
    try:
        return _Job(path, tell).run(dry_run=dry_run, delete_original=delete_original)
    finally:
        claim.release()


class _Job:
    """The recovery of one bag, which is claimed."""

    def __init__(self, path: Path, tell: Tell) -> None:
        self._path = path
        self._tell = tell
        self._recording = _is_recording(path)
        self._home = path.parent.parent if self._recording else path.parent
        self._session = SessionFolder(self._home.parent, self._home.name)
        self._work = self._home / RECORDING / _WORK / path.name

    def run(self, *, dry_run: bool, delete_original: bool) -> Recovery:
        with self._workplace(dry_run) as scratch, open_bag(self._path, salvage=True, scratch=scratch) as bag:
            found = look(bag, session=self._session_files() if self._recording else None)
            result = self._result(found)
            if self._is_whole(bag, found):
                return replace(result, status="whole")
            if not found.messages:
                return replace(result, status="empty")
            if dry_run:
                return result
            digest = files_hash(bag.storage_paths)
            earlier = self._recovered_before(digest)
            target = earlier or self._free_target()
            if earlier is None:
                self._write(bag, found, target, digest)
        original = self._retire(target, delete_original)
        return replace(result, status="done" if earlier else "recovered", bag=target, original=original)

    def _result(self, found: Salvage) -> Recovery:
        return Recovery(
            source=self._path,
            status="recoverable",
            original=self._path,
            counts=dict(found.counts),
            lost=dict(found.damage.lost),
            start_ns=found.start_ns,
            end_ns=found.end_ns,
            most_missing_s=found.most_missing_s,
            reasons=tuple(found.reasons()),
            notes=tuple(map(str, found.notes)),
        )

    def _is_whole(self, bag: BagReader, found: Salvage) -> bool:
        if self._recording or not found.closed or bag.incomplete or found.damage.holes:
            return False
        torn = any(note.code in _TORN for note in bag.notes)
        return not torn and (found.described or self._path.is_file())

    def _session_files(self) -> dict[str, str]:
        """Custom data as the session's folder has it."""
        yaml, record = self._home / SESSION_YAML, self._home / SESSION_JSON
        known = {"session": self._home.name} if yaml.is_file() else {}
        with suppress(OSError, UnicodeDecodeError, BagError):
            if yaml.is_file():
                known["session_config"] = yaml.read_text(encoding="utf-8")
            if record.is_file():
                known["session_record"] = json.dumps(json_file(record), ensure_ascii=False)
        return known

    # -- writing -------------------------------------------------------------------------------

    @contextmanager
    def _workplace(self, dry_run: bool) -> Iterator[Path | None]:
        """A folder for what is being made, gone at the end, as is what a killed run left there."""
        if dry_run:
            yield None
            return
        made = not (self._home / RECORDING).exists()
        self._clear(made)
        try:
            scratch = None
            if any(side_files(file) for file in find_storage(self._path, salvage=True).files):
                scratch = self._work
                scratch.mkdir(parents=True)
            yield scratch
        finally:
            self._clear(made)

    def _clear(self, made: bool) -> None:
        shutil.rmtree(self._work, ignore_errors=True)
        with suppress(OSError):
            self._work.parent.rmdir()
            if made:
                self._work.parent.parent.rmdir()

    def _write(self, bag: BagReader, found: Salvage, target: Path, digest: str) -> None:
        before = self._state()
        self._check_room(bag)
        self._work.mkdir(parents=True, exist_ok=True)
        uri = self._work / target.name
        number = int(target.name.removeprefix("episode_")) if self._recording else None
        name = path_text(self._path.name)
        marked = marks(found, original=name, original_sha256=digest, episode=number)
        storage = choose_storage(bag.storage_id, "pip")
        rewrite(bag, uri, found, marked, storage=storage, tell=self._tell)
        if self._state() != before:
            raise BagError(
                "the bag changed while it was read",
                where=self._path,
                hint="wait until nobody writes it any more, then run this again",
            )
        record = episode_record(found, marked, storage.record())
        write_atomic(uri / EPISODE_JSON, json_text(record))
        if target.exists() or (self._recording and self._is_being_recorded(target.name)):
            raise BagError("another episode has come to this number", where=target, hint="run this again")
        uri.rename(target)
        sync(target.parent)

    def _state(self) -> list[tuple[str, int, int]]:
        """Names, sizes and times of change of the bag's files."""
        files = self._path.iterdir() if self._path.is_dir() else [self._path, *side_files(self._path)]
        return sorted((file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files)

    def _check_room(self, bag: BagReader) -> None:
        size = sum(part.stat().st_size for file in bag.storage_paths for part in (file, *side_files(file)))
        needed = size * (2 if bag.storage_id == "sqlite3" else 1)
        free = free_bytes(self._home)
        if free < needed:
            raise BagError(
                "not enough room to write the recovered bag",
                where=self._home,
                expected=f"{needed / 1e9:.2f} GB free",
                got=f"{free / 1e9:.2f} GB",
            )

    # -- places --------------------------------------------------------------------------------

    def _recovered_before(self, digest: str) -> Path | None:
        """The bag that an earlier run made of the same content."""
        if self._recording:
            places = [self._home / episode_name(number) for number in self._session.episodes()]
        else:
            places = [recovered_path(self._path)]
        for place in places:
            with suppress(BagError):
                origin = json_file(place / EPISODE_JSON).get("recovered")
                if isinstance(origin, Mapping) and origin.get("original_sha256") == digest:
                    return place
        return None

    def _free_target(self) -> Path:
        """The recording's own number where no episode has it, else the next that none has."""
        if not self._recording:
            target = recovered_path(self._path)
            if target.exists():
                hint = "move it away, then run this again"
                raise BagError("this is in the way, and was made of another bag", where=target, hint=hint)
            return target
        own = self._home / episode_name(int(self._path.name.removeprefix("episode_")))
        return own if not own.exists() else self._home / episode_name(self._session.next_index())

    def _is_being_recorded(self, name: str) -> bool:
        return name != self._path.name and (self._home / RECORDING / name).exists()

    def _retire(self, target: Path, delete: bool) -> Path | None:
        """Put a recording's original where no search finds it, or remove what was asked to go."""
        place = self._path
        if self._recording or delete:
            place = _free_name(self._home / RECORDING / f"original_of_{target.name}")
            place.parent.mkdir(exist_ok=True)
            if self._path.is_file():
                place.mkdir()
                for part in (*side_files(self._path), self._path):
                    part.rename(place / part.name)
            else:
                self._path.rename(place)
            sync(place.parent)
            sync(self._path.parent)
        if not delete:
            return place
        shutil.rmtree(place)
        with suppress(OSError):
            place.parent.rmdir()
        return None


def _free_name(path: Path) -> Path:
    name, number = path, 2
    while name.exists():
        name = path.with_name(f"{path.name}_{number}")
        number += 1
    return name


def _one_line(path: Path, err: Exception) -> str:
    text = " ".join(str(err).split())
    return text if str(path) in text else f"{path}: {text}"
