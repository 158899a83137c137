"""One fresh episode on its way into a dataset: its files staged, its metadata lines made."""

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from piper_collect.config.profile import Profile
from piper_collect.core.image_stats import ImageStats
from piper_collect.core.types import Episode, Feature
from piper_collect.dataset import metadata
from piper_collect.dataset.columns import row_columns, row_timestamps
from piper_collect.dataset.encode import EncodedVideo, encode_cameras
from piper_collect.dataset.layout import data_path, quest_path, samples_path, video_key, video_path
from piper_collect.dataset.parquet import episode_table, samples_table, write_table
from piper_collect.dataset.transaction import Transaction
from piper_collect.errors import DatasetError
from piper_collect.files import sync

Progress: TypeAlias = Callable[[int], None]
"""See ``encode_cameras``."""


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
class VideoAhead:
    """A video that was encoded before its episode had a place in the dataset.

    Attributes:
        path: Where it lies, flushed to the disk.
        video: What became of its frames.
    """

    path: Path
    video: EncodedVideo

    def moved(self, path: Path) -> EncodedVideo:
        """Put it where it belongs."""
        shutil.move(self.path, path)
        sync(path)
        return self.video


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeExtras:
    """What goes beside an episode, for people and for replay; trainers ignore it.

    Attributes:
        quest: Writes the raw headset input as JSON lines to a path and returns how many; no file where it
            is none. None where none was asked for.
        cameras: Calibration by camera, as ``cameras.json`` holds it; empty where nothing is known.
        videos: Its videos by camera where they were encoded ahead; else None.
        recording: The bag, where all of it was read ahead. It may have been deleted since, and must not come
            into the dataset then.
    """

    quest: Callable[[Path], int] | None = None
    cameras: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    videos: Mapping[str, VideoAhead] | None = None
    recording: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedEpisode:
    """An episode whose files are staged.

    Attributes:
        table: Its rows.
        line: Its line of episodes.jsonl.
        source: Its line of episode_sources.jsonl.
        videos: What became of the frames, by camera name.
    """

    table: pa.Table
    line: Mapping[str, Any]
    source: Mapping[str, Any]
    videos: Mapping[str, EncodedVideo]

    def pictures(self) -> dict[str, ImageStats]:
        """Statistics of the pictures that were looked at, by video key."""
        looked = {video_key(c): v.pictures for c, v in self.videos.items()}
        return {key: histogram.result() for key, histogram in looked.items() if histogram is not None}


def profile_mark(profile: Profile) -> dict[str, str]:
    """What tells rows made by one profile from those made by another, where the columns are the same."""
    return {
        "name": profile.name,
        "row_clock": profile.row_clock,
        "timestamp": profile.timestamp,
        "video_timing": profile.video.timing,
    }


def episode_files(index: int, chunks_size: int, video_keys: Iterable[str]) -> list[str]:
    """The parquet and mp4 files of an episode, below the root."""
    return [data_path(index, chunks_size), *(video_path(index, chunks_size, key) for key in video_keys)]


def extra_files(index: int) -> list[str]:
    """The files that an episode may have under ``extras/``."""
    return [samples_path(index), quest_path(index)]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeStager:
    """Stages fresh episodes of one dataset.

    Attributes:
        profile: Columns, video settings, chunk size.
        features: Of the dataset.
        fps: Rows a second.
        cameras: (height, width) of the recorded frames by camera name.
        depths: (height, width) of depth images, by ``depth_name`` of their cameras.
    """

    profile: Profile
    features: Sequence[Feature]
    fps: float
    cameras: Mapping[str, tuple[int, int]]
    depths: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def pictures(self) -> dict[str, tuple[int, int]]:
        """(height, width) of the recorded frames of cameras and of their depth images, by name."""
        return {**self.cameras, **self.depths}

    def files(self) -> dict[str, str]:
        """What to call the files that ``encode`` makes, by camera name; no two are called the same."""
        videos = {camera: f"{number}.mp4" for number, camera in enumerate(self.cameras)}
        return videos | {name: f"{number}.arrow" for number, name in enumerate(self.depths)}

    def stage(
        self,
        change: Transaction,
        episode: Episode,
        identity: EpisodeIdentity,
        *,
        index: int,
        first_index: int,
        tasks: Sequence[str],
        extras: EpisodeExtras,
        progress: Progress | None,
    ) -> StagedEpisode:
        """Write the files of ``episode`` as number ``index`` into ``change``.

        Args:
            change: Where to.
            episode: Aligned rows and cameras.
            identity: Where it comes from.
            index: Its number in the dataset.
            first_index: Rows of all episodes before it.
            tasks: The lines of tasks.jsonl.
            extras: What goes beside it.
            progress: See ``encode_cameras``.

        Raises:
            PiperCollectError: when a frame or a file cannot be had or made, or the bag is gone.
        """
        table = self.table(episode, index=index, first_index=first_index, tasks=tasks)
        size = self.profile.chunks_size
        table_file, *video_files = episode_files(index, size, map(video_key, self.cameras))
        write_table(table, change.path(table_file))
        self.stage_extras(change, episode, extras, index)
        paths = {c: change.path(f) for c, f in zip(self.cameras, video_files, strict=True)}
        videos = self.videos(episode, paths, extras, progress)
        frames = {c: v.frames for c, v in videos.items()}
        line = metadata.episode_line(index, episode.length, episode.task, tasks.index(episode.task), frames)
        source = self.source_line(index, episode, identity, videos)
        return StagedEpisode(table=table, line=line, source=source, videos=videos)

    def table(self, episode: Episode, *, index: int, first_index: int, tasks: Sequence[str]) -> pa.Table:
        """The rows of ``episode`` as number ``index``; arguments as ``stage``."""
        return episode_table(
            row_columns(episode, self.profile, self.pictures, tasks),
            self.features,
            row_timestamps(episode, self.profile, self.fps),
            scalar_cells=self.profile.cells == "scalar",
            episode_index=index,
            first_index=first_index,
            task_index=tasks.index(episode.task),
        )

    def stage_extras(self, change: Transaction, episode: Episode, extras: EpisodeExtras, index: int) -> None:
        """Stage the files that the episode has under ``extras/``."""
        if self.profile.row_samples == "extras":
            write_table(samples_table(episode.tick_ns, episode.samples), change.path(samples_path(index)))
        if extras.quest is not None:
            extras.quest(change.path(quest_path(index)))

    def videos(
        self,
        episode: Episode,
        paths: Mapping[str, Path],
        extras: EpisodeExtras,
        progress: Progress | None,
    ) -> dict[str, EncodedVideo]:
        """Put the episode's videos and depth images to ``paths``: those encoded ahead, or encode them now.

        Raises:
            PiperCollectError: A frame or a file cannot be had or made, or the bag was deleted meanwhile.
        """
        if extras.recording is not None and not extras.recording.exists():
            raise DatasetError("the bag was deleted while it was exported", where=extras.recording)
        if extras.videos is None:
            return self.encode(episode, paths, progress)
        return {camera: extras.videos[camera].moved(path) for camera, path in paths.items()}

    def encode(
        self, episode: Episode, paths: Mapping[str, Path], progress: Progress | None
    ) -> dict[str, EncodedVideo]:
        """Encode the videos of ``episode``, by camera, as they are in the dataset; see ``encode_cameras``."""
        return encode_cameras(
            episode,
            paths,
            self.pictures,
            self.profile.video,
            fps=self.fps,
            image_stats=self.profile.image_stats,
            progress=progress,
        )

    def source_line(
        self, index: int, episode: Episode, identity: EpisodeIdentity, videos: Mapping[str, EncodedVideo]
    ) -> dict[str, Any]:
        """What episode_sources.jsonl tells of an episode."""
        cameras = {
            camera: {
                "captured_size": list(self.pictures[camera]),
                "encoded_size": list(video.encoded),
                "frames": video.frames,
                "repeated": video.repeated,
                "dropped_not_increasing": video.dropped,
                "trimmed_before": episode.cameras[camera].trimmed_before,
                "trimmed_after": episode.cameras[camera].trimmed_after,
                **({"video": video.source} if video.source else {}),
            }
            for camera, video in videos.items()
        }
        return {
            "episode_index": index,
            "session": identity.session,
            "bag": identity.bag,
            "content_hash": identity.content_hash,
            "profile": profile_mark(self.profile),
            "part": episode.part,
            "parts": episode.parts,
            "t0_ns": int(episode.t0_ns),
            "recording": dict(episode.provenance),
            "counts": dict(episode.counts),
            "marked_rows": episode.marked_rows,
            "cameras": cameras,
        }
