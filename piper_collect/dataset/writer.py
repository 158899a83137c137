"""Writes LeRobot v2.0 datasets, one whole episode at a time."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from piper_collect.config.profile import Profile
from piper_collect.core.types import Episode, FloatArray
from piper_collect.dataset import metadata
from piper_collect.dataset.encode import EncodedVideo, encode_cameras
from piper_collect.dataset.guard import check_empty, fingerprint, locked, new_or_locked
from piper_collect.dataset.json_files import json_bytes, jsonl_bytes
from piper_collect.dataset.layout import (
    EPISODES,
    INFO,
    LATEST_SESSION,
    META,
    MODALITY,
    SESSIONS,
    SOURCES,
    STAGING,
    STATS,
    TASKS,
    data_path,
    video_key,
    video_path,
)
from piper_collect.dataset.parquet import dataset_stats, episode_table, write_table
from piper_collect.dataset.rows import check_cameras, checked_columns
from piper_collect.dataset.staging import Staging, recover
from piper_collect.dataset.state import DatasetState, load_state
from piper_collect.dataset.video import encoded_size
from piper_collect.errors import DatasetError

_DIALECT = "lerobot-v2.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeIdentity:
    """Where an episode comes from.

    Attributes:
        session: Name of the recording session.
        bag: Name of the bag.
        content_hash: Hash of the bag's content, by which it is recognised; empty when unknown.
    """

    session: str
    bag: str
    content_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedEpisode:
    """What was written.

    Attributes:
        episode_index: Its number in the dataset.
        rows: Rows of the parquet file.
        video_frames: Encoded frames by camera name.
        dropped_frames: By camera name, frames whose PTS did not increase.
        duration_s: Time of the last row.
    """

    episode_index: int
    rows: int
    video_frames: dict[str, int]
    dropped_frames: dict[str, int]
    duration_s: float


class DatasetWriter:
    """Adds episodes to a dataset; use ``open``.

    A save is all or nothing: when it fails, or is killed, the dataset is as it was before (after the
    next ``open``). An error after the commit point completes the save instead of undoing it.

    Attributes:
        root: The dataset.
        notes: What was found and repaired, for people.
    """

    def __init__(
        self,
        root: Path,
        profile: Profile,
        *,
        fps: float,
        robot_type: str,
        cameras: Mapping[str, tuple[int, int]],
        state: DatasetState,
        notes: tuple[str, ...],
    ) -> None:
        self.root = root
        self.notes = notes
        self._profile = profile
        self._fps = fps
        self._robot_type = robot_type
        self._cameras = dict(cameras)
        self._state = state
        self._seen = fingerprint(root)

    @classmethod
    def open(
        cls,
        root: Path,
        profile: Profile,
        *,
        fps: float,
        robot_type: str,
        cameras: Mapping[str, tuple[int, int]],
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

        Raises:
            DatasetError: when the folder is no dataset, a damaged one, or one of another kind.
        """
        _check_request(root, profile)
        features = _features(profile, cameras)
        expected = metadata.info_json(
            features,
            robot_type=robot_type,
            fps=fps,
            chunks_size=profile.chunks_size,
            episodes=0,
            frames=0,
            tasks=0,
        )
        state, notes = _recovered_state(root, expected)
        return cls(
            root,
            profile,
            fps=fps,
            robot_type=robot_type,
            cameras=cameras,
            state=state,
            notes=notes,
        )

    @property
    def episodes(self) -> int:
        """Number of episodes saved."""
        return len(self._state.episodes)

    @property
    def sessions(self) -> tuple[Mapping[str, Any], ...]:
        """The session records so far, oldest first."""
        return self._state.sessions

    def holds(self, content_hash: str) -> int | None:
        """The episode made from the bag with this hash, or None."""
        for line in self._state.sources:
            if content_hash and line.get("content_hash") == content_hash:
                return int(line["episode_index"])
        return None

    def add_episode(
        self,
        episode: Episode,
        *,
        identity: EpisodeIdentity,
        session_record: Mapping[str, object],
        progress: Callable[[int], None] | None = None,
    ) -> SavedEpisode:
        """Save one episode.

        Args:
            episode: Aligned rows and cameras.
            identity: Where it comes from.
            session_record: JSON values; ``session`` names it, and a session already recorded adds no
                second line.
            progress: See ``encode_cameras``.

        Raises:
            PiperCollectError: when the episode cannot be saved; nothing of it is left.
        """
        columns = checked_columns(episode, self._profile)
        check_cameras(episode, self._cameras)
        self._check_identity(identity, session_record)
        with new_or_locked(self.root) as new_root:
            if fingerprint(self.root) != self._seen or (self.root / STAGING).exists():
                raise DatasetError(
                    "the dataset was changed by someone else", where=self.root, hint="open it again"
                )
            staging = Staging(self.root, self._files(self.episodes), new_root=new_root)
            try:
                staging.begin()
                saved, state, meta = self._stage(
                    episode, columns, identity, session_record, staging, progress
                )
                staging.seal(meta)
                staging.commit()
            except BaseException as error:
                if not staging.committed:
                    staging.roll_back()
                    raise
                self._complete(staging, state, error)
            self._adopt(state)
        return saved

    def _check_identity(self, identity: EpisodeIdentity, record: Mapping[str, object]) -> None:
        held = self.holds(identity.content_hash)
        if held is not None:
            raise DatasetError(
                f"the dataset holds this bag as episode {held}", where=self.root, got=identity.bag
            )
        if not isinstance(record.get("session"), str) or not record["session"]:
            raise DatasetError(
                "the session record has no name",
                where=self.root,
                expected="session",
                got=record.get("session"),
            )

    def _files(self, index: int) -> list[str]:
        size = self._profile.chunks_size
        return [data_path(index, size), *(video_path(index, size, video_key(c)) for c in self._cameras)]

    def _stage(
        self,
        episode: Episode,
        columns: Mapping[str, FloatArray],
        identity: EpisodeIdentity,
        session_record: Mapping[str, object],
        staging: Staging,
        progress: Callable[[int], None] | None,
    ) -> tuple[SavedEpisode, DatasetState, dict[str, bytes]]:
        index = self.episodes
        table_file, *video_files = self._files(index)
        tasks = self._state.tasks
        tasks = tasks if episode.task in tasks else (*tasks, episode.task)
        table = episode_table(
            columns,
            episode.tick_ns,
            episode.t0_ns,
            episode_index=index,
            first_index=self._state.frames,
            task_index=tasks.index(episode.task),
        )
        write_table(table, staging.path(table_file))
        paths = {c: staging.path(f) for c, f in zip(self._cameras, video_files, strict=True)}
        videos = encode_cameras(
            episode, paths, self._cameras, self._profile.video, fps=self._fps, progress=progress
        )
        saved = _saved(index, episode, videos)
        lines = {
            EPISODES: metadata.episode_line(
                index, episode.length, episode.task, tasks.index(episode.task), saved.video_frames
            ),
            SOURCES: self._source_line(index, episode, identity, videos),
        }
        known = {s.get("session") for s in self._state.sessions}
        if session_record["session"] not in known:
            lines[SESSIONS] = dict(session_record)
        state = _extended(self._state, tasks, lines)
        return saved, state, self._meta(state, lines, staging.path(table_file))

    def _source_line(
        self, index: int, episode: Episode, identity: EpisodeIdentity, videos: Mapping[str, EncodedVideo]
    ) -> dict[str, Any]:
        cameras = {
            camera: {
                "captured_size": list(self._cameras[camera]),
                "encoded_size": list(video.encoded),
                "frames": video.frames,
                "dropped_not_increasing": video.dropped,
                "trimmed_before": episode.cameras[camera].trimmed_before,
                "trimmed_after": episode.cameras[camera].trimmed_after,
            }
            for camera, video in videos.items()
        }
        return {
            "episode_index": index,
            "session": identity.session,
            "bag": identity.bag,
            "content_hash": identity.content_hash,
            "t0_ns": int(episode.t0_ns),
            "counts": dict(episode.counts),
            "cameras": cameras,
        }

    def _meta(
        self, state: DatasetState, lines: Mapping[str, Mapping[str, Any]], new_table: Path
    ) -> dict[str, bytes]:
        """The bytes of every metadata file that the save changes."""
        size = self._profile.chunks_size
        tables = [self.root / data_path(i, size) for i in range(self.episodes)] + [new_table]
        stats = dataset_stats(tables, metadata.stats_columns(self._profile))
        info = metadata.info_json(
            _features(self._profile, self._cameras),
            robot_type=self._robot_type,
            fps=self._fps,
            chunks_size=size,
            episodes=len(state.episodes),
            frames=state.frames,
            tasks=len(state.tasks),
        )
        meta = {name: _appended(self.root / META / name, line) for name, line in lines.items()}
        if SESSIONS in lines:
            meta[LATEST_SESSION] = json_bytes(lines[SESSIONS], LATEST_SESSION)
        if state.tasks != self._state.tasks:
            meta[TASKS] = jsonl_bytes(metadata.task_lines(state.tasks), TASKS)
        if not (self.root / META / MODALITY).exists():
            meta[MODALITY] = json_bytes(metadata.modality_json(self._profile, list(self._cameras)), MODALITY)
        meta[STATS] = json_bytes(metadata.stats_json(stats), STATS)
        meta[INFO] = json_bytes(info, INFO)
        return meta

    def _complete(self, staging: Staging, state: DatasetState, error: BaseException) -> None:
        """Finish a save that failed after its commit; only then let anything but an OSError through."""
        try:
            staging.finish()
        except OSError as again:
            raise DatasetError(
                f"the episode is saved, but its metadata could not be completed: {again}",
                where=self.root,
                hint="open the dataset again to complete it",
            ) from error
        self._adopt(state)
        if not isinstance(error, OSError):
            raise error
        self.notes = (*self.notes, f"{self.root}: a save was completed at the second try after: {error}")

    def _adopt(self, state: DatasetState) -> None:
        self._state = state
        self._seen = fingerprint(self.root)


def _recovered_state(root: Path, expected_info: Mapping[str, Any]) -> tuple[DatasetState, tuple[str, ...]]:
    """What ``root`` holds once an interrupted save is repaired, and a note of the repair."""
    if not root.exists():
        return DatasetState(), ()
    with locked(root):
        note = recover(root)
        if (root / META / INFO).exists():
            state = load_state(root, expected_info)
        else:
            state = DatasetState()
            if root.exists():
                check_empty(root)
    return state, (note,) if note else ()


def _features(profile: Profile, cameras: Mapping[str, tuple[int, int]]) -> tuple[Any, ...]:
    return metadata.dataset_features(profile, {c: encoded_size(*size) for c, size in cameras.items()})


def _saved(index: int, episode: Episode, videos: Mapping[str, EncodedVideo]) -> SavedEpisode:
    return SavedEpisode(
        episode_index=index,
        rows=episode.length,
        video_frames={c: v.frames for c, v in videos.items()},
        dropped_frames={c: v.dropped for c, v in videos.items()},
        duration_s=int(episode.tick_ns[-1] - episode.t0_ns) / 1e9,
    )


def _extended(
    state: DatasetState, tasks: tuple[str, ...], lines: Mapping[str, Mapping[str, Any]]
) -> DatasetState:
    return DatasetState(
        episodes=(*state.episodes, lines[EPISODES]),
        tasks=tasks,
        sources=(*state.sources, lines[SOURCES]),
        sessions=(*state.sessions, lines[SESSIONS]) if SESSIONS in lines else state.sessions,
    )


def _appended(path: Path, line: Mapping[str, Any]) -> bytes:
    """The bytes of a JSON-lines file with one line more; what is there stays to the byte."""
    before = path.read_bytes() if path.exists() else b""
    joint = b"" if not before or before.endswith(b"\n") else b"\n"
    return before + joint + json_bytes(line, path.name, indent=None)


def _check_request(root: Path, profile: Profile) -> None:
    if profile.dialect != _DIALECT:
        raise DatasetError("this writer has one dialect", got=profile.dialect, expected=_DIALECT)
    if root.exists() and not root.is_dir():
        raise DatasetError("the dataset is not a folder", where=root)
