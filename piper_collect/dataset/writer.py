"""Writes a dataset of any format, one whole episode at a time."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from piper_collect.config.profile import Profile
from piper_collect.core.content_hash import HashKind, hash_kind
from piper_collect.core.types import Episode
from piper_collect.dataset.columns import check_cameras
from piper_collect.dataset.dialect import NO_EXTRAS, DatasetKind, FreshEpisode, Staged, Store
from piper_collect.dataset.dialects import DIALECTS
from piper_collect.dataset.guard import check_empty, check_writable, fingerprint, locked, new_or_locked
from piper_collect.dataset.layout import INFO, META, STAGING
from piper_collect.dataset.output import check_clocks
from piper_collect.dataset.stage import EpisodeExtras, EpisodeIdentity, EpisodeStager, Progress, StagedEpisode
from piper_collect.dataset.state import DatasetState, HeldBag, held_bag, lines_by_hash
from piper_collect.dataset.transaction import Transaction, recover
from piper_collect.errors import DatasetError


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedEpisode:
    """What was written.

    Attributes:
        episode_index: Its number in the dataset.
        rows: Rows of the parquet file.
        video_frames: Encoded frames by camera name.
        dropped_frames: By camera name, frames whose PTS did not increase.
        repeated_frames: By camera name, frames that show the same picture as the one before.
        video_sources: By camera name, of cameras that sent a video: see ``EncodedVideo.source``.
        duration_s: Time of the last row.
        replaced: Whether it took the place of an episode that was there.
    """

    episode_index: int
    rows: int
    video_frames: dict[str, int]
    dropped_frames: dict[str, int]
    repeated_frames: dict[str, int]
    video_sources: dict[str, str]
    duration_s: float
    replaced: bool = False


class DatasetWriter:
    """Adds episodes to a dataset; use ``open``.

    A save is all or nothing: when it fails, or is killed, the dataset is as it was before (after the
    next ``open``). An error after the commit completes the save instead of undoing it.

    Attributes:
        root: The dataset.
        notes: What was found and repaired, for people.
    """

    def __init__(self, root: Path, store: Store[Any], *, state: DatasetState, notes: tuple[str, ...]) -> None:
        self.root = root
        self.notes = notes
        self._store = store
        self._state = state
        self._by_hash = lines_by_hash(state.sources)
        self._seen = fingerprint(root)
        self._alone = False

    @classmethod
    def open(
        cls,
        root: Path,
        profile: Profile,
        *,
        fps: float,
        robot_type: str,
        cameras: Mapping[str, tuple[int, int]],
        depths: Mapping[str, tuple[int, int]] | None = None,
    ) -> "DatasetWriter":
        """Continue the dataset at ``root``, or prepare a new one there.

        Nothing is created before the first episode. What an interrupted save left is completed or
        removed, and named in ``notes``.

        Args:
            root: The dataset folder; missing or empty for a new one.
            profile: Columns, video settings, chunk size.
            fps: Nominal row rate.
            robot_type: As info.json names it.
            cameras: (height, width) of the recorded frames by camera name, in their order.
            depths: (height, width) of depth images, by ``depth_name`` of their cameras; none for a format
                that holds none.

        Raises:
            DatasetError: when the folder is no dataset, a damaged one, or one of another kind.
        """
        if root.exists() and not root.is_dir():
            raise DatasetError("the dataset is not a folder", where=root)
        kind = DatasetKind(
            profile=profile, fps=fps, robot_type=robot_type, cameras=dict(cameras), depths=dict(depths or {})
        )
        store = DIALECTS[profile.dialect](root, kind)
        state, notes = _recovered_state(root, store)
        check_clocks(root, profile, state.sources[-1] if state.sources else {})
        return cls(root, store, state=state, notes=notes)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other writers out until the block ends, also between two episodes.

        The folder is made for it, and goes with the block where no episode came.

        Raises:
            DatasetLockError: Another process is writing here, or the folder cannot be written.
        """
        with new_or_locked(self.root):
            check_writable(self.root)
            self._alone = True
            try:
                yield
            finally:
                self._alone = False

    @property
    def episodes(self) -> int:
        """Number of episodes saved."""
        return len(self._state.episodes)

    @property
    def is_current(self) -> bool:
        """Whether the dataset is still as this writer left it."""
        return fingerprint(self.root) == self._seen and not (self.root / STAGING).exists()

    @property
    def sessions(self) -> tuple[Mapping[str, Any], ...]:
        """The session records so far, oldest first."""
        return self._state.sessions

    @property
    def profile(self) -> Profile:
        """What the dataset is made of."""
        return self._store.stager.profile

    @property
    def stager(self) -> EpisodeStager:
        """What makes the files of its episodes."""
        return self._store.stager

    @property
    def bag_names(self) -> frozenset[tuple[str, str]]:
        """Session and name of each bag that the dataset has episodes of."""
        return frozenset((str(s.get("session")), str(s.get("bag"))) for s in self._state.sources)

    @property
    def hash_kind(self) -> HashKind:
        """By which hash it knows the bags that its episodes are from."""
        return hash_kind(self._state.sources)

    def held(self, content_hash: str) -> HeldBag:
        """What the dataset holds of the bag with this hash."""
        return held_bag(self._by_hash.get(content_hash, ()))

    def held_by_hash(self) -> dict[str, HeldBag]:
        """What the dataset holds of each bag, by its hash."""
        return self._state.held_by_hash()

    def add_episode(
        self,
        episode: Episode,
        *,
        identity: EpisodeIdentity,
        session_record: Mapping[str, object],
        extras: EpisodeExtras = NO_EXTRAS,
        progress: Progress | None = None,
    ) -> SavedEpisode:
        """Save one episode.

        Args:
            episode: Aligned rows and cameras.
            identity: Where it comes from.
            session_record: JSON values; ``session`` names it, and a session already recorded adds no
                second line.
            extras: What goes beside it.
            progress: See ``encode_cameras``.

        Raises:
            PiperCollectError: when the episode cannot be saved; nothing of it is left.
        """
        check_cameras(episode, self._store.stager.pictures)
        held = self.held(identity.content_hash).by_part
        if episode.part in held:
            index = held[episode.part]
            raise DatasetError(
                f"the dataset holds this bag as episode {index}", where=self.root, got=identity.bag
            )
        fresh = self._fresh(episode, identity, session_record, extras, progress)
        staged = self._change(lambda change: self._store.append(change, self._state, fresh))
        return _saved(episode, staged)

    def replace_episode(
        self,
        index: int,
        episode: Episode,
        *,
        identity: EpisodeIdentity,
        session_record: Mapping[str, object],
        extras: EpisodeExtras = NO_EXTRAS,
        progress: Progress | None = None,
    ) -> SavedEpisode:
        """Save ``episode`` in the place of episode ``index``; the numbers of the others follow.

        Args:
            index: The episode that is replaced.
            episode: As for ``add_episode``, and all that follows.
            identity: Where it comes from.
            session_record: As for ``add_episode``.
            extras: What goes beside it.
            progress: See ``encode_cameras``.

        Raises:
            PiperCollectError: when it cannot be saved; the dataset is then as it was.
        """
        check_cameras(episode, self._store.stager.pictures)
        if not 0 <= index < self.episodes:
            raise DatasetError("there is no such episode", where=self.root, got=index)
        fresh = self._fresh(episode, identity, session_record, extras, progress)
        staged = self._change(lambda change: self._store.replace(change, self._state, index, fresh))
        return replace(_saved(episode, staged), replaced=True)

    def _change(self, stage: Callable[[Transaction], Staged]) -> StagedEpisode:
        """Stage and commit under the lock of the dataset, or leave it as it was."""
        with nullcontext(False) if self._alone else new_or_locked(self.root) as new_root:
            if not self.is_current:
                raise DatasetError(
                    "the dataset was changed by someone else", where=self.root, hint="open it again"
                )
            change = Transaction(self.root, new_root=new_root, folders=self._store.folders)
            try:
                change.begin()
                new = stage(change)
                change.commit()
            except BaseException as error:
                if not change.committed:
                    change.roll_back()
                    raise
                self._complete(change, new, error)
            self._adopt(new)
        return new.episode

    def _fresh(
        self,
        episode: Episode,
        identity: EpisodeIdentity,
        record: Mapping[str, object],
        extras: EpisodeExtras,
        progress: Progress | None,
    ) -> FreshEpisode:
        """What is to be saved; the session's record only where its session is not recorded already."""
        if not isinstance(record.get("session"), str) or not record["session"]:
            raise DatasetError(
                "the session record has no name",
                where=self.root,
                expected="session",
                got=record.get("session"),
            )
        is_known = record["session"] in {s.get("session") for s in self._state.sessions}
        return FreshEpisode(
            episode=episode,
            identity=identity,
            record=None if is_known else dict(record),
            extras=extras,
            progress=progress,
        )

    def _complete(self, change: Transaction, new: Staged, error: BaseException) -> None:
        """Finish a save that failed after its commit; only then let anything but an OSError through."""
        try:
            change.finish()
        except OSError as again:
            raise DatasetError(
                f"the episode is saved, but could not be put into place: {again}",
                where=self.root,
                hint="open the dataset again to complete it",
            ) from error
        if not isinstance(error, OSError):
            self._adopt(new)
            raise error
        self.notes = (*self.notes, f"{self.root}: a save was completed at the second try after: {error}")

    def _adopt(self, new: Staged) -> None:
        before, now = self._state.sources, new.state.sources
        if len(now) == len(before) + 1:  # looking through all of them for each episode would add up
            for content_hash, lines in lines_by_hash(now[-1:]).items():
                self._by_hash.setdefault(content_hash, []).extend(lines)
        else:
            self._by_hash = lines_by_hash(now)
        self._state = new.state
        self._seen = fingerprint(self.root)
        self.notes = (*self.notes, *new.notes)


def _recovered_state(root: Path, store: Store[Any]) -> tuple[DatasetState, tuple[str, ...]]:
    """What ``root`` holds once an interrupted save is repaired, and a note of the repair."""
    if not root.exists():
        return store.empty(), ()
    with locked(root):
        note = recover(root)
        if (root / META / INFO).exists():
            state = store.load()
        else:
            state = store.empty()
            check_empty(root)
    return state, (note,) if note else ()


def _saved(episode: Episode, staged: StagedEpisode) -> SavedEpisode:
    return SavedEpisode(
        episode_index=int(staged.line["episode_index"]),
        rows=episode.length,
        video_frames={c: v.frames for c, v in staged.videos.items()},
        dropped_frames={c: v.dropped for c, v in staged.videos.items()},
        repeated_frames={c: v.repeated for c, v in staged.videos.items()},
        video_sources={c: v.source for c, v in staged.videos.items() if v.source},
        duration_s=int(episode.tick_ns[-1] - episode.t0_ns) / 1e9,
    )
