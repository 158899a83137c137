"""The types that the layers hand to each other.

Time is int64 nanoseconds since the epoch on the ``header.stamp`` timeline; values are float64;
``pose7`` is ``[x, y, z, qw, qx, qy, qz]`` in metres. float32 appears only where parquet is written.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
StampArray: TypeAlias = NDArray[np.int64]
BoolArray: TypeAlias = NDArray[np.bool_]

NO_SAMPLE = -1
"""In place of a stamp: there was no sample yet."""

_DEPTH_PREFIX = "depth."  # no camera or source has a point in its name


def depth_name(camera: str) -> str:
    """What the depth images of a camera are called, beside the names of cameras and sources."""
    return _DEPTH_PREFIX + camera


Sampling: TypeAlias = Literal["hold", "nearest", "linear"]
RowClock: TypeAlias = Literal["action", "grid"]
GapPolicy: TypeAlias = Literal["drop_row", "refuse", "hold"]
Rotation: TypeAlias = Literal["none", "quat_wxyz"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """One numeric stream of an episode, already in SI units.

    Attributes:
        key: Name of the source in the configuration, e.g. ``arm_joint``.
        stamp_ns: int64 [N], strictly increasing; header stamps (receive stamps where
            ``stamp_source`` says so), with the configured latency already taken off.
        receive_ns: int64 [N], when the recorder received each message.
        values: float64 [N, D].
        frame_id: Frame of the values as the messages name it; empty where they name none.
        stamp_source: The clock that ``stamp_ns`` came from.
        topic: Topic it was read from.
        dropped: Messages left out and why, e.g. ``{"stamp not increasing": 3}``.
        shape: Extents of the array that a row of values is, as its messages tell them; empty where they do
            not.
    """

    key: str
    stamp_ns: StampArray
    receive_ns: StampArray
    values: FloatArray
    frame_id: str = ""
    stamp_source: Literal["header", "receive"] = "header"
    topic: str = ""
    dropped: Mapping[str, int] = field(default_factory=dict)
    shape: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CameraFrame:
    """One still encoded image of a camera.

    Attributes:
        stamp_ns: Capture time (header stamp less the configured latency).
        encoding: ``jpeg`` or ``png`` for compressed images, ``h264`` for a packet of a video, ``yuv420p`` or
            ``yuvj420p`` (full range) for a decoded one, else the ROS encoding, e.g. ``rgb8``.
        height: Rows; 0 when only the compressed bytes know it.
        width: Columns; 0 when only the compressed bytes know it.
        step: Bytes a row, padding included; 0 for compressed images.
        payload: The image bytes as recorded.
        big_endian: Byte order of 16-bit raw encodings.
        matrix: Of YCbCr in a decoded video, by its code in ITU-T H.273; 2 where it names none.
        count: Of a packet of a video, its number as its sender counts; None where it does not.
    """

    stamp_ns: int
    encoding: str
    height: int
    width: int
    step: int
    payload: bytes | memoryview
    big_endian: bool = False
    matrix: int = 2
    count: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceView:
    """What cameras saw when a dataset began, to align them to.

    Attributes:
        dataset: Where it was read; empty for none.
        pictures: Camera → uint8 [H, W, 3] RGB, the first frame of the first episode.
        notes: What could not be had, and why, in words.
    """

    dataset: str = ""
    pictures: Mapping[str, NDArray[np.uint8]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CodedVideo:
    """What is known of a camera's packets, where it sends a video and not pictures.

    Attributes:
        number: int64 [N], place of each frame of the CameraStream among all packets, in the order recorded.
        is_key: bool [N], whether decoding can begin with it.
        has_b: Whether a frame refers to later ones.
        changes: How often parameters of the stream were replaced.
        unlike: Why it is not 4:2:0 of 8 bits, limited range, in whole frames; empty where it is.
        parameter_sets: What a decoder must know first, as a byte stream.
        size: (height, width) of its pictures.
        packets: As ``CameraStream.frames``, with the packets as recorded (encoding ``h264``).
    """

    number: StampArray
    is_key: BoolArray
    has_b: bool
    changes: int
    unlike: str
    parameter_sets: bytes
    size: tuple[int, int]
    packets: Callable[[int, int], Iterator[CameraFrame]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CameraStream:
    """The frames of one camera, read lazily and one at a time.

    Attributes:
        camera: Camera name, e.g. ``cam_front``.
        stamp_ns: int64 [N] capture times in the order recorded; not yet deduplicated.
        receive_ns: int64 [N].
        frames: ``frames(first_ns, last_ns)`` yields the CameraFrames whose stamp lies in the closed
            interval, in recorded order, each decoded no further than to its payload.
        topic: Topic it was read from.
        frame_id: Optical frame as the messages name it.
        stamp_source: The clock that ``stamp_ns`` came from.
        coded: Of a camera that sends a video; None for pictures. ``frames`` are then its pictures, decoded.
        is_depth: Whether the frames are depth images, each number a distance.
    """

    camera: str
    stamp_ns: StampArray
    receive_ns: StampArray
    frames: Callable[[int, int], Iterator[CameraFrame]]
    topic: str = ""
    frame_id: str = ""
    stamp_source: Literal["header", "receive"] = "header"
    coded: CodedVideo | None = None
    is_depth: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RawEpisode:
    """What a bag holds for one episode, before alignment.

    Attributes:
        name: How messages name it, e.g. ``pick_20260101_120000/episode_000003``.
        streams: By source key.
        cameras: By camera name; the depth images of a camera as ``depth_name`` of it.
        start_ns: First stamp that belongs to the episode.
        end_ns: Last stamp that belongs to it.
        task: Task string.
        provenance: What is known of session, bag and losses (JSON values only).
    """

    name: str
    streams: Mapping[str, Stream]
    cameras: Mapping[str, CameraStream]
    start_ns: int
    end_ns: int
    task: str
    provenance: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlignPolicy:
    """How one source is sampled at a row.

    Attributes:
        sampling: ``hold`` takes the newest sample not after the row; ``nearest`` the closest;
            ``linear`` interpolates (slerp for rotations).
        max_age_ns: No sample further from the row than this is used.
        required: Whether a row without a value is a gap; an optional source must have one too once
            it is in the features, else its rows are gaps as well.
        rotation: ``quat_wxyz`` when the last four values are a rotation, and are treated as one.
    """

    sampling: Sampling = "hold"
    max_age_ns: int = 50_000_000
    required: bool = True
    rotation: Rotation = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """One dataset column or video: the single list behind info.json, modality.json, stats and docs.

    Attributes:
        key: Column name, e.g. ``observation.arm_eef``.
        dtype: As info.json names it.
        shape: Cell shape; (height, width, 3) for video, (height, width, 1) for depth images.
        names: Name of each element along the first axis.
        unit: Unit of each element, in prose.
        frame: Frame the values are expressed in; empty when none applies.
        source: Source key (or camera name) that feeds it.
        zero_filled: Names of the elements that are zeros by the layout, and nothing measured.
    """

    key: str
    dtype: Literal["float32", "float64", "int64", "bool", "video", "image"]
    shape: tuple[int, ...]
    names: tuple[str, ...] = ()
    unit: str = ""
    frame: str = ""
    source: str = ""
    zero_filled: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSamples:
    """Which sample of one source or camera each row shows.

    Attributes:
        stamp_ns: int64 [T], its stamp (the older one where two are interpolated); ``NO_SAMPLE`` where
            there is none, which only a camera that is not required can have.
        stale: bool [T], whether it is older than the policy allows, and held for want of a better one.
    """

    stamp_ns: StampArray
    stale: BoolArray

    @property
    def state(self) -> StampArray:
        """int64 [T]: 0 a new sample, 1 the same as in the row before, 2 too old or none."""
        repeated = np.concatenate(([False], np.diff(self.stamp_ns) == 0)) if len(self.stamp_ns) else False
        out = np.asarray(repeated, dtype=np.int64)
        out[self.stale | (self.stamp_ns == NO_SAMPLE)] = 2
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeCamera:
    """One camera of an aligned episode.

    Attributes:
        stream: Where the frames come from.
        first_ns: First capture time that may be encoded (T0).
        last_ns: Last capture time that may be encoded.
        trimmed_before: Frames of the episode before T0, left out.
        trimmed_after: Frames of the episode after the last row's half period, left out.
    """

    stream: CameraStream
    first_ns: int
    last_ns: int
    trimmed_before: int = 0
    trimmed_after: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """An aligned episode: T rows and the cameras beside them.

    Attributes:
        name: As in RawEpisode.
        t0_ns: Origin of ``timestamp`` and PTS.
        tick_ns: int64 [T], strictly increasing, first equal to ``t0_ns``.
        columns: float64 [T, D] by source key.
        samples: By source key and camera name.
        cameras: By camera name, depth images too, as in RawEpisode.
        task: Task string.
        counts: What was trimmed, dropped, held or lost (JSON values only).
        provenance: As in RawEpisode.
        part: Which part of the recording it is, from 0.
        parts: How many episodes the recording was split into.
    """

    name: str
    t0_ns: int
    tick_ns: StampArray
    columns: Mapping[str, FloatArray]
    samples: Mapping[str, RowSamples]
    cameras: Mapping[str, EpisodeCamera]
    task: str
    counts: Mapping[str, object] = field(default_factory=dict)
    provenance: Mapping[str, object] = field(default_factory=dict)
    part: int = 0
    parts: int = 1

    @property
    def length(self) -> int:
        """Number of rows T."""
        return int(self.tick_ns.shape[0])

    @property
    def marked_rows(self) -> dict[str, dict[str, int]]:
        """How many rows show the same sample as the row before (``repeated``, state 1), or one too old or
        none (``stale``, state 2), by source and camera; where there are none, the name is left out."""
        states = {name: samples.state for name, samples in self.samples.items()}
        return {
            word: {name: n for name, state in states.items() if (n := int(np.count_nonzero(state == code)))}
            for word, code in (("repeated", 1), ("stale", 2))
        }


Names: TypeAlias = Sequence[str]
