"""A camera's own H.264 packets as an episode's video, where they are just what was asked for."""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import TracebackType

import av
import numpy as np
from av.error import FFmpegError
from numpy.typing import NDArray

from piper_collect.config.profile import VideoSpec
from piper_collect.core.types import NO_SAMPLE, BoolArray, CameraFrame, CodedVideo, Episode, StampArray
from piper_collect.dataset.video import capture_pts, row_period
from piper_collect.errors import DatasetError
from piper_collect.files import sync


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CopyPlan:
    """Packets of a video that become an episode's.

    Attributes:
        coded: The camera's video.
        stamp_ns: int64 [F], capture times of the frames, in order.
        pts: int64 [F], when each is shown, in ticks.
        is_key: bool [F], whether it is a key frame.
        size: (height, width).
    """

    coded: CodedVideo
    stamp_ns: StampArray
    pts: NDArray[np.int64]
    is_key: BoolArray
    size: tuple[int, int]

    def packets(self) -> Iterator[CameraFrame]:
        """The packets, in order.

        Raises:
            DatasetError: The recording lacks one.
        """
        wanted = self.stamp_ns.tolist()
        turn = 0
        for packet in self.coded.packets(wanted[0], wanted[-1]):
            if packet.stamp_ns == wanted[turn]:
                yield packet
                turn += 1
                if turn == len(wanted):
                    return
        raise DatasetError("a frame is no longer in the recording", got=f"none stamped {wanted[turn]} ns")


def copy_plan(episode: Episode, camera: str, size: tuple[int, int], spec: VideoSpec) -> CopyPlan | str:
    """How a camera's packets become its video as they are, or why they do not; empty where it has none.

    They do when the video of the profile would have the same frames, each once, and a decoder of it all that
    they refer to.
    """
    source = episode.cameras[camera]
    coded = source.stream.coded
    if coded is None:
        return ""
    stamps = source.stream.stamp_ns
    if spec.timing == "row":
        shown = episode.samples[camera].stamp_ns
        if shown[0] == NO_SAMPLE:
            return ""  # an error that the encoder names
        wanted = np.unique(shown)
        if len(wanted) < len(shown):
            return f"{len(shown) - len(wanted)} rows show the frame of the row before"
    else:
        shown = wanted = np.unique(stamps[(stamps >= source.first_ns) & (stamps <= source.last_ns)])
    places = _places(stamps, wanted)
    refused = _unlike(coded, size, spec) or _broken(coded, places, spec)
    if refused:
        return refused
    pts = np.arange(len(shown)) if spec.timing == "row" else capture_pts(wanted, episode.t0_ns, spec)
    if np.any(np.diff(pts) <= 0):
        return "two frames would be shown at the same time"
    return CopyPlan(coded=coded, stamp_ns=wanted, pts=pts, is_key=coded.is_key[places], size=coded.size)


def _unlike(coded: CodedVideo, size: tuple[int, int], spec: VideoSpec) -> str:
    """Why the video as a whole is another than the profile asks for."""
    if spec.codec != "libx264":
        return f"the profile's codec is {spec.codec}"
    if coded.size != size:
        return "its pictures have another size than those of the dataset"
    if coded.has_b:
        return "it has B-frames"
    if coded.changes:
        return "its parameters change on the way"
    return coded.unlike


def _places(stamps: StampArray, wanted: StampArray) -> NDArray[np.int64]:
    """Places of the wanted frames in ``stamps``, the first of those with the same stamp."""
    order = np.argsort(stamps, kind="stable")
    return order[np.searchsorted(stamps[order], wanted)]


def _broken(coded: CodedVideo, places: NDArray[np.int64], spec: VideoSpec) -> str:
    """Why a decoder of just these frames would lack something."""
    if not len(places) or np.any(np.diff(places) <= 0):
        return "its frames are not in the order of their stamps"
    number, is_key = coded.number[places], coded.is_key[places]
    if not is_key[0]:
        return "the first frame is no key frame"
    skipped = np.flatnonzero((np.diff(number) > 1) & ~is_key[1:])
    if len(skipped):
        return f"frames that others refer to are left out ({len(skipped)} times)"
    longest = int(np.diff(np.append(np.flatnonzero(is_key), len(places))).max())
    if longest > spec.gop:
        return f"its key frames are up to {longest} frames apart, and the profile asks for {spec.gop} at most"
    return ""


class VideoCopier:
    """Writes packets into an mp4; use as a context manager, as ``VideoEncoder``.

    Args:
        path: The mp4 to write.
        plan: What is written.
        spec: Time base.
        fps: Rows a second.

    Attributes:
        frames: Packets written so far.

    Raises:
        DatasetError: when the file cannot be opened.
    """

    def __init__(self, path: Path, plan: CopyPlan, spec: VideoSpec, *, fps: float) -> None:
        self.frames = 0
        self._path = path
        self._plan = plan
        by_row = spec.timing == "row"
        self._time_base = row_period(fps, path) if by_row else Fraction(1, spec.time_base_hz)
        self._duration = 1 if by_row else max(1, round(spec.time_base_hz / fps))
        self._timescale = {} if by_row else {"video_track_timescale": str(spec.time_base_hz)}
        self._container: av.container.OutputContainer | None = None

    def _open(self, first: CameraFrame) -> av.VideoStream:
        """The file with a stream as the first packet says."""
        with av.open(
            io.BytesIO(self._plan.coded.parameter_sets + bytes(first.payload)), format="h264"
        ) as sample:
            self._container = av.open(str(self._path), "w", format="mp4", options=self._timescale)
            stream = self._container.add_stream_from_template(sample.streams.video[0])
        stream.time_base = self._time_base
        return stream

    def write(self, packet: CameraFrame) -> None:
        """Add the next packet.

        Raises:
            DatasetError: when it cannot be written.
        """
        try:
            if self._container is None:
                self._stream = self._open(packet)
            assert self._container is not None
            coded = av.Packet(bytes(packet.payload))
            coded.stream, coded.time_base = self._stream, self._time_base
            coded.pts = coded.dts = int(self._plan.pts[self.frames])
            coded.duration = self._duration
            coded.is_keyframe = bool(self._plan.is_key[self.frames])
            self._container.mux(coded)
        except (FFmpegError, OSError, ValueError) as err:
            raise DatasetError(f"the video cannot be written: {err}", where=self._path.name) from err
        self.frames += 1

    def close(self) -> None:
        """Finish the file and flush it to the disk.

        Raises:
            DatasetError: when it cannot be finished.
        """
        assert self._container is not None
        try:
            self._container.close()
        except (FFmpegError, OSError) as err:
            raise DatasetError(f"the video cannot be finished: {err}", where=self._path.name) from err
        sync(self._path)

    def __enter__(self) -> "VideoCopier":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None and self.frames:
            self.close()
            return
        try:
            if self._container is not None:
                self._container.close()
        except (FFmpegError, OSError):  # only the first error counts
            pass
        finally:
            self._path.unlink(missing_ok=True)
