"""What is done for a bag before its episodes get their place in a dataset: all that takes time."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from piper_collect.bag.find import content_hash
from piper_collect.bag.reader import open_bag
from piper_collect.bag.sidecar import EpisodeRecord
from piper_collect.config.profile import VideoSpec
from piper_collect.config.schema import SessionConfig
from piper_collect.core.content_hash import HashKind
from piper_collect.core.types import Episode
from piper_collect.dataset.columns import check_cameras
from piper_collect.dataset.encode import frames_to_read
from piper_collect.dataset.stage import EpisodeExtras, EpisodeStager, VideoAhead
from piper_collect.dataset.state import HeldBag
from piper_collect.errors import PiperCollectError
from piper_collect.pipelines.bag_episodes import (
    ExportOptions,
    bag_episodes,
    bag_extras,
    recording_notes,
)
from piper_collect.pipelines.session_record import record_for

READ_PART = 0.3
"""Of the work on a bag, about; the rest is encoding."""

_NOTHING = HeldBag(by_part={}, parts=0)

Tell: TypeAlias = Callable[[float], None]
"""Told how much of the work on a bag is done, from 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BagJob:
    """A bag that is to be prepared.

    Attributes:
        path: The bag.
        record: What it says about itself.
        config: How to read it.
        said: Where ``config`` is from.
        options: How it becomes episodes.
        stager: Makes the files of the dataset's episodes.
        is_known: Whether the dataset has a bag of this name already: then its hash comes first, for it need
            hardly be read; else both go on at the same time.
        hash_kind: By which hash the dataset knows its bags.
        ahead: Folder to encode its videos into; None to leave that for later.
    """

    path: Path
    record: EpisodeRecord
    config: SessionConfig
    said: str
    options: ExportOptions
    stager: EpisodeStager
    is_known: bool
    hash_kind: HashKind = "blake3"
    ahead: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedBag:
    """What came of it, as far as it went.

    Attributes:
        content_hash: The bag's; empty where not even that could be had.
        session: Record of its session.
        parts: Its episodes.
        extras: What goes beside each; the videos too, where they were encoded. Fewer than ``parts`` where
            encoding failed.
        notes: What to say of the bag.
        error: Why there is no more; one line.
    """

    content_hash: str = ""
    session: Mapping[str, object] | None = None
    parts: tuple[Episode, ...] = ()
    extras: tuple[EpisodeExtras, ...] = ()
    notes: tuple[str, ...] = ()
    error: str = ""


def one_line(path: Path, err: Exception) -> str:
    """An error as one line that names the bag."""
    text = " ".join(str(err).split())
    return text if str(path) in text else f"{path}: {text}"


def encoding_progress(
    tell: Tell, part: Episode, parts: Sequence[Episode], spec: VideoSpec
) -> Callable[[int], None]:
    """What to call with the number of frames of ``part`` that are encoded, to ``tell`` of the bag."""
    rows = sum(p.length for p in parts)
    start, share = sum(p.length for p in parts if p.part < part.part) / rows, part.length / rows
    frames = max(sum(frames_to_read(part, c, spec) for c in part.cameras), 1)

    def progress(done: int) -> None:
        tell(READ_PART + (1.0 - READ_PART) * (start + share * min(done / frames, 1.0)))

    return progress


def prepare(job: BagJob, tell: Tell, held: Callable[[str], HeldBag]) -> PreparedBag:
    """Read and align a bag, and encode its videos where the job says so.

    Args:
        job: Which bag, and how.
        tell: Told how far it is.
        held: What the dataset holds of the bag with a hash; of one that it holds whole, and of parts
            that it holds, nothing is encoded.
    """
    steps = _Steps(job)
    try:
        steps.prepare(tell, held)
    except (PiperCollectError, OSError) as err:
        return steps.prepared(one_line(job.path, err))
    return steps.prepared("")


def prepare_ahead(job: BagJob, tell: Callable[[Any], None], ask: Callable[[Any], Any]) -> PreparedBag:
    """``prepare``, as the work of a process of its own."""
    return prepare(job, tell, ask)


class _NotNeeded(Exception):
    """The dataset holds all of the bag."""


class _Look:
    """What the dataset holds of a bag, whose hash comes while other work goes on.

    Args:
        hashing: The hash.
        held: What the dataset holds of the bag with a hash.
        again: Whether that is wanted all the same.
    """

    def __init__(self, hashing: Future[str], held: Callable[[str], HeldBag], *, again: bool) -> None:
        self._hashing = hashing
        self._ask = held
        self._held: HeldBag | None = _NOTHING if again else None

    def hash(self) -> str:
        """The hash, once it is there.

        Raises:
            BagError: It cannot be had.
        """
        return self._hashing.result()

    def wait(self) -> HeldBag:
        """What the dataset holds, once the hash is there; nothing where it is wanted again."""
        if self._held is None:
            self._held = self._ask(self.hash())
        return self._held

    def so_far(self) -> HeldBag:
        """The same, and nothing as long as there is no hash."""
        there = self._hashing.done() and self._hashing.exception() is None
        return self.wait() if there else _NOTHING

    def unless_held(self, progress: Callable[[int], None]) -> Callable[[int], None]:
        """``progress``, which ends the work where all that it makes turns out to be there.

        Raises:
            _NotNeeded: when it is called then.
        """

        def checked(done: int) -> None:
            if self.so_far().whole:
                raise _NotNeeded
            progress(done)

        return checked


@dataclass(slots=True)
class _Steps:
    """The steps, and what they have so far."""

    job: BagJob
    content_hash: str = ""
    session: Mapping[str, object] | None = None
    parts: tuple[Episode, ...] = ()
    extras: list[EpisodeExtras] = field(default_factory=list)
    notes: tuple[str, ...] = ()

    def prepare(self, tell: Tell, held: Callable[[str], HeldBag]) -> None:
        job = self.job
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="hash") as pool:
            look = _Look(pool.submit(content_hash, job.path, job.hash_kind), held, again=job.options.replace)
            try:
                if not job.is_known or not look.wait().whole:
                    self._make(look, tell)
            except _NotNeeded:
                return
            finally:
                self.content_hash = look.hash()

    def _make(self, look: "_Look", tell: Tell) -> None:
        """The episodes, and their videos where there is a place for them, until they turn out to be there."""
        job = self.job
        extras = self._read()
        tell(READ_PART)
        if job.ahead is None:
            self.extras = extras
            return
        for part, extra in zip(self.parts, extras, strict=True):
            if part.part in look.so_far().by_part:
                self.extras.append(extra)
                continue
            done = encoding_progress(tell, part, self.parts, job.options.profile.video)
            self.extras.append(self._encoded(part, extra, job.ahead, look.unless_held(done)))

    def _read(self) -> list[EpisodeExtras]:
        job = self.job
        with open_bag(job.path) as bag:
            self.session = record_for(bag, job.record, job.config)
            episodes = bag_episodes(bag, job.config, job.record, job.options)
            extras, more = bag_extras(bag, job.config, episodes, job.options)
        self.parts = episodes.parts
        self.notes = (*recording_notes(self.parts, job.options.profile, job.config.session.fps), *more)
        return extras

    def _encoded(
        self, part: Episode, extras: EpisodeExtras, ahead: Path, progress: Callable[[int], None]
    ) -> EpisodeExtras:
        stager = self.job.stager
        check_cameras(part, stager.pictures)
        folder = Path(tempfile.mkdtemp(dir=ahead))
        paths = {camera: folder / file for camera, file in stager.files().items()}
        videos = stager.encode(part, paths, progress)
        ready = {c: VideoAhead(path=paths[c], video=v) for c, v in videos.items()}
        return replace(extras, videos=ready, recording=self.job.path)

    def prepared(self, error: str) -> PreparedBag:
        return PreparedBag(
            content_hash=self.content_hash,
            session=self.session,
            parts=self.parts,
            extras=tuple(self.extras),
            notes=self.notes,
            error=error,
        )
