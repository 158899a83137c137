"""What an on-disk format must give, so that one writer, one export and one reader serve all of them.

``DatasetWriter`` does what is alike everywhere: the lock, the transaction (begin, commit, or abort and leave
everything as it was), who was exported already, sessions. A ``Store`` stages the files of its format into
that transaction. ``dialects.py`` lists the formats by name.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from piper_collect.config.profile import Profile
from piper_collect.core.types import Episode, FloatArray
from piper_collect.dataset.layout import video_key
from piper_collect.dataset.metadata import dataset_features
from piper_collect.dataset.stage import EpisodeExtras, EpisodeIdentity, EpisodeStager, Progress, StagedEpisode
from piper_collect.dataset.state import DatasetState
from piper_collect.dataset.transaction import Transaction
from piper_collect.dataset.video import encoded_size

State = TypeVar("State", bound=DatasetState)
NO_EXTRAS = EpisodeExtras()


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetKind:
    """What all episodes of a dataset have in common.

    Attributes:
        profile: Columns, row clock, video settings.
        fps: Nominal row rate.
        robot_type: As info.json names it.
        cameras: (height, width) of the recorded frames by camera name, in their order.
        depths: (height, width) of depth images, by ``depth_name`` of their cameras.
    """

    profile: Profile
    fps: float
    robot_type: str
    cameras: Mapping[str, tuple[int, int]]
    depths: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def stager(self) -> EpisodeStager:
        """What stages its episodes.

        Raises:
            DatasetError: The columns or picture sizes cannot be those of a dataset.
        """
        sizes = {camera: encoded_size(*size) for camera, size in self.cameras.items()}
        features = dataset_features(self.profile, sizes, self.depths)
        return EpisodeStager(
            profile=self.profile,
            features=features,
            fps=self.fps,
            cameras=dict(self.cameras),
            depths=dict(self.depths),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshEpisode:
    """An episode that is to be saved.

    Attributes:
        episode: Aligned rows and cameras.
        identity: Where it comes from.
        record: Record of its session if the dataset has none of it yet.
        extras: What goes beside it.
        progress: See ``encode_cameras``.
    """

    episode: Episode
    identity: EpisodeIdentity
    record: Mapping[str, Any] | None = None
    extras: EpisodeExtras = NO_EXTRAS
    progress: Progress | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """A change that is staged.

    Attributes:
        state: What the dataset holds once it is committed.
        episode: The episode that it saves.
        notes: What was found or taken out, for people.
    """

    state: Any
    episode: StagedEpisode
    notes: tuple[str, ...] = ()


class Store(Protocol[State]):
    """One dataset in one format. Nothing below its root changes but through the transaction.

    Attributes:
        folders: Folders below the root that it writes into.
        stager: Makes rows, videos and lines of provenance of an episode, as every format holds them.
    """

    folders: tuple[str, ...]
    stager: EpisodeStager

    def empty(self) -> State:
        """What a dataset without episodes holds."""

    def load(self) -> State:
        """What the dataset holds, checked before it is continued.

        Raises:
            DatasetError: It is of another kind, or its files do not agree with each other.
        """

    def append(self, change: Transaction, state: State, fresh: FreshEpisode) -> Staged:
        """Stage one episode more, at a cost that does not grow with the dataset.

        Raises:
            PiperCollectError: It cannot be saved.
        """

    def replace(self, change: Transaction, state: State, index: int, fresh: FreshEpisode) -> Staged:
        """Stage ``fresh`` in the place of episode ``index``; the numbers of the others follow.

        Raises:
            PiperCollectError: It cannot be saved.
        """


class Dialect(Protocol):
    """Makes the store of a dataset."""

    def __call__(self, root: Path, kind: DatasetKind) -> Store[Any]:
        """The store of the dataset at ``root``, which need not exist; nothing is read or written yet.

        Raises:
            DatasetError: The format cannot hold such a dataset.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoClip:
    """The video of one episode and camera as it is stored, to be put elsewhere packet by packet.

    Attributes:
        source: The video that holds it, maybe with those of other episodes.
        start_s: PTS there at which the episode begins.
        end_s: PTS at which the next one begins; None where none does.
    """

    source: Path | BinaryIO
    start_s: Fraction = Fraction(0)
    end_s: Fraction | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeLine:
    """What every format tells of an episode.

    Attributes:
        length: Rows.
        tasks: Task strings, its own task first.
        source: Its line of episode_sources.jsonl; empty where another tool wrote it.
        frames: Frames of each video by key, as far as that is told.
    """

    length: int
    tasks: tuple[str, ...]
    source: Mapping[str, Any] = field(default_factory=dict)
    frames: Mapping[str, int] = field(default_factory=dict)


def frames_told(source: Mapping[str, Any]) -> dict[str, int]:
    """Frames of each video by key, as a line of episode_sources.jsonl has them."""
    cameras = source.get("cameras")
    told = cameras.items() if isinstance(cameras, Mapping) else ()
    frames = {video_key(camera): c.get("frames") for camera, c in told if isinstance(c, Mapping)}
    return {key: count for key, count in frames.items() if isinstance(count, int)}


class EpisodeReader(Protocol):
    """A dataset of any format, read an episode at a time; times count from the start of the episode."""

    @property
    def root(self) -> Path:
        """The dataset."""

    @property
    def info(self) -> Mapping[str, Any]:
        """What describes it: at least ``codebase_version``, ``fps``, ``robot_type`` and ``features``."""

    @property
    def fps(self) -> float:
        """Nominal row rate."""

    @property
    def video_keys(self) -> tuple[str, ...]:
        """Keys of the video features."""

    @property
    def tasks(self) -> Mapping[int, str]:
        """Task strings by task_index."""

    @property
    def lines(self) -> Mapping[int, EpisodeLine]:
        """The episodes by number."""

    @property
    def sources(self) -> Mapping[int, Mapping[str, Any]]:
        """Lines of episode_sources.jsonl by number; empty where another tool wrote the dataset."""

    @property
    def sessions(self) -> tuple[Mapping[str, Any], ...]:
        """Records of the recording sessions, oldest first."""

    def data_path(self, episode_index: int) -> Path:
        """The file that the rows of an episode lie in; it need not exist.

        Raises:
            DatasetError: There is no such episode, or its path leads out of the dataset.
        """

    def rows(self, episode_index: int, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of an episode: its columns under the keys of ``info``'s features, or those named only.

        Raises:
            DatasetError: They cannot be read.
        """

    def frame_times(self, episode_index: int, key: str) -> FloatArray:
        """PTS of every frame in seconds, float64 [F], increasing; nothing is decoded.

        Raises:
            DatasetError: The video cannot be read.
        """

    def frames(self, episode_index: int, key: str) -> Iterator[tuple[float, NDArray[np.uint8]]]:
        """(PTS in seconds, uint8 [H, W, 3] RGB) of every frame, decoded one at a time.

        Raises:
            DatasetError: The video cannot be read.
        """

    def clip(self, episode_index: int, key: str) -> VideoClip:
        """Where the video of an episode lies.

        Raises:
            DatasetError: There is no such video.
        """
