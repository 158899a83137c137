"""One episode as a viewer shows it: plain values on one clock, from a dataset or a bag alike."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from piper_collect.core.types import FloatArray, StampArray

Clock: TypeAlias = Literal["capture_time", "episode_time"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Curve:
    """Numbers over time.

    Attributes:
        time_ns: int64 [N], increasing.
        values: float64 [N, D].
        names: Of the D elements.
    """

    time_ns: StampArray
    values: FloatArray
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ShownVideo:
    """A camera whose pictures are in a video file.

    Attributes:
        read: Gives the bytes of an mp4 that has just them.
        time_ns: int64 [F] when each frame was captured, increasing.
        pts_ns: int64 [F] where it is in the video.
    """

    read: Callable[[], bytes]
    time_ns: StampArray
    pts_ns: StampArray


class ShownPicture(NamedTuple):
    """One picture.

    Attributes:
        time_ns: When it was captured.
        encoded: JPEG or PNG.
        media_type: ``image/jpeg`` or ``image/png``.
    """

    time_ns: int
    encoded: bytes
    media_type: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EpisodeScene:
    """What is shown.

    Attributes:
        name: Where the episode is from.
        task: Task string.
        clock: ``capture_time``: ns since the epoch, as stamped; ``episode_time``: ns since the start of the
            episode, where nobody knows more.
        joints: Joints 1 to 6 in rad; None where they are not known, and the robot is then not drawn.
        widths: Gripper widths in metres, by ``measured`` and ``target``.
        poses: Flange poses [N, 7] in the arm's base frame, by ``measured`` and ``target``.
        videos: Cameras by name, of a dataset.
        pictures: Cameras by name, of a bag; each call reads them anew.
        notes: What cannot be shown, and why.
    """

    name: str
    task: str
    clock: Clock
    joints: Curve | None = None
    widths: Mapping[str, Curve] = field(default_factory=dict)
    poses: Mapping[str, Curve] = field(default_factory=dict)
    videos: Mapping[str, ShownVideo] = field(default_factory=dict)
    pictures: Mapping[str, Callable[[], Iterator[ShownPicture]]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
