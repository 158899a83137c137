"""What was measured of a dataset, episode by episode: the numbers behind findings and plots.

Times are seconds since the episode's T0 (the origin of ``timestamp`` and PTS) unless a name says
otherwise. NaN stands for "there is none", never for a number.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from piper_collect.core.types import FloatArray

BoolArray: TypeAlias = NDArray[np.bool_]
Picture: TypeAlias = NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Thumbnail:
    """One small picture of a video.

    Attributes:
        time_s: PTS of the frame.
        pixels: uint8 [H, W, 3] RGB, at most 160 wide.
    """

    time_s: float
    pixels: Picture


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PictureSurvey:
    """What the decoded pictures of a video look like, frame by frame.

    Attributes:
        size: (height, width) of the decoded frames.
        mean: float64 [F] mean luma, 0 to 255.
        contrast: float64 [F] standard deviation of the luma; near 0 for a black or flat picture.
        change: float64 [F] mean absolute difference of the luma to the frame before; NaN for the first.
        key: bool [F], key frames.
        colour: float64 [2, 3] mean and standard deviation of R, G and B over some of the frames, 0 to 1.
        thumbnails: Some frames, evenly over the video.
    """

    size: tuple[int, int]
    mean: FloatArray
    contrast: FloatArray
    change: FloatArray
    key: BoolArray
    colour: FloatArray
    thumbnails: tuple[Thumbnail, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CameraSurvey:
    """One video of an episode.

    Attributes:
        key: Feature key, e.g. ``observation.images.cam_front``.
        pts_s: float64 [F] presentation times, increasing.
        newest: int64 [T] number of the newest frame not after each row; -1 where there is none yet.
        gap_ms: float64 [T] age of that frame at the row; NaN where there is none yet.
        pictures: Of the decoded frames; None when the video was not decoded.
    """

    key: str
    pts_s: FloatArray
    newest: NDArray[np.int64]
    gap_ms: FloatArray
    pictures: PictureSurvey | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ColumnSurvey:
    """One numeric column of an episode.

    Attributes:
        key: Column name.
        names: Name of each element.
        values: float64 [T, D].
    """

    key: str
    names: tuple[str, ...]
    values: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class LagSurvey:
    """How far the measured motion trails the commanded one.

    Attributes:
        lag_ms: Shift at which the two agree best; positive when the measured one is later.
        correlation: Of the speeds at that shift, 1 at best.
        moved_m: Length of the commanded path.
    """

    lag_ms: float
    correlation: float
    moved_m: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KinematicsSurvey:
    """Measured flange poses against the forward kinematics of the measured joints.

    Attributes:
        variant: The DH variant that fits better.
        median_mm: Median distance of the positions under it.
        max_mm: Largest distance.
        median_deg: Median angle between the rotations.
        other_median_mm: Median distance under the other variant.
        order: How the quaternion's elements are read where the rotations fit best.
        order_median_deg: Median angle under that order.
    """

    variant: str
    median_mm: float
    max_mm: float
    median_deg: float
    other_median_mm: float
    order: Literal["wxyz", "xyzw"]
    order_median_deg: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EpisodeSurvey:
    """One episode, as measured.

    Attributes:
        index: Its number.
        task: Its task string.
        row_s: float64 [T] ``timestamp``.
        step_ms: float64 [T - 1] from row to row.
        columns: Numeric feature columns by key.
        cameras: Videos by key; one that cannot be read is missing.
        age_ms: float64 [T] by source or camera name: row time minus the stamp of the sample that the row
            shows, NaN where there is none. Empty where the dataset does not tell stamps.
        skew_ms: float64 [T] newest minus oldest stamp of all samples that a row shows; empty as well.
        lag: Commanded to measured, None where it cannot be told.
        kinematics: None where joints or poses are missing.
        counts: What the export counted (``episode_sources.jsonl``); empty where unknown.
        origin: Session, bag and t0_ns, as far as known.
    """

    index: int
    task: str
    row_s: FloatArray
    step_ms: FloatArray
    columns: Mapping[str, ColumnSurvey]
    cameras: Mapping[str, CameraSurvey]
    age_ms: Mapping[str, FloatArray] = field(default_factory=dict)
    skew_ms: FloatArray = field(default_factory=lambda: np.empty(0))
    lag: LagSurvey | None = None
    kinematics: KinematicsSurvey | None = None
    counts: Mapping[str, object] = field(default_factory=dict)
    origin: Mapping[str, object] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Number of rows T."""
        return len(self.row_s)

    @property
    def duration_s(self) -> float:
        """From the first row to the last."""
        return float(self.row_s[-1] - self.row_s[0]) if len(self.row_s) else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerOutlook:
    """What one real consumer is expected to do with the dataset.

    Attributes:
        consumer: Its name, version and decoder.
        loads: Whether it loads every row.
        reason: Why not: the kind of error, with the numbers; empty when it loads.
        worst_ms: Where it loads: largest distance between a row's time and that of the frame it gets.
        wrong_rows: Where it loads: rows and cameras that get another frame than the newest not after
            the row, and one more than a millisecond away.
        note: What it does besides, e.g. that it rewrites a file.
    """

    consumer: str
    loads: bool
    reason: str = ""
    worst_ms: float | None = None
    wrong_rows: int = 0
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetSurvey:
    """The dataset as a whole, known once every episode was looked at.

    Attributes:
        root: Its folder.
        version: ``codebase_version``.
        robot_type: As info.json says.
        fps: Nominal row rate.
        episodes: Number of episodes.
        rows: Of all episodes.
        duration_s: Of all episodes.
        cameras: Video keys.
        tasks: Task strings.
        sessions: Names of the recording sessions.
        outlooks: One a consumer.
    """

    root: str
    version: str
    robot_type: str
    fps: float
    episodes: int
    rows: int
    duration_s: float
    cameras: tuple[str, ...]
    tasks: tuple[str, ...]
    sessions: tuple[str, ...]
    outlooks: tuple[ConsumerOutlook, ...]
