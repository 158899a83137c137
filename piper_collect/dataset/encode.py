"""The videos and depth images of one episode, one thread a camera, one frame at a time."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from piper_collect.config.profile import VideoSpec
from piper_collect.core.image_stats import ImageHistogram, sample_rows, thin
from piper_collect.core.types import NO_SAMPLE, CameraFrame, Episode, StampArray
from piper_collect.dataset.depth import DepthWriter
from piper_collect.dataset.video import VideoEncoder
from piper_collect.dataset.video_copy import CopyPlan, VideoCopier, copy_plan
from piper_collect.errors import DatasetError, PiperCollectError
from piper_collect.imaging.frames import to_rgb
from piper_collect.imaging.h264_decoder import H264Decoder

COPIED = "copied"
"""``EncodedVideo.source`` of a video whose packets were taken over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedVideo:
    """What became of the frames of one camera.

    Attributes:
        frames: Frames in the video; of depth, rows.
        dropped: Frames left out because their PTS did not increase.
        repeated: Frames in the video that show the same picture as the one before, for want of a new one.
        encoded: (height, width) in the video.
        pictures: Histogram of some of them, where one was asked for.
        source: Of a camera that sent a video: ``copied``, or why it was encoded anew; else empty.
    """

    frames: int
    dropped: int
    repeated: int
    encoded: tuple[int, int]
    pictures: ImageHistogram | None = None
    source: str = ""


class _Stopped(Exception):
    """Another camera failed first."""


class _Tally:
    """Counts the frames of all cameras and reports the sum."""

    def __init__(self, progress: Callable[[int], None] | None) -> None:
        self._progress = progress
        self._lock = threading.Lock()
        self._frames = 0
        self.stop = threading.Event()

    def frame(self) -> None:
        if self.stop.is_set():
            raise _Stopped
        with self._lock:
            self._frames += 1
            if self._progress is not None:
                self._progress(self._frames)


def encode_cameras(
    episode: Episode,
    paths: Mapping[str, Path],
    sizes: Mapping[str, tuple[int, int]],
    spec: VideoSpec,
    *,
    fps: float,
    image_stats: bool = False,
    progress: Callable[[int], None] | None = None,
) -> dict[str, EncodedVideo]:
    """Encode every camera of ``episode``.

    Args:
        episode: Its cameras are read lazily, each in a thread of its own.
        paths: mp4 to write, by camera name; of depth, what ``depth_column`` reads.
        sizes: (height, width) of the frames, by camera name.
        spec: How to encode.
        fps: Rows a second.
        image_stats: Whether to count the pixels of some frames, spread evenly.
        progress: Called, from one thread at a time, with the number of frames read so far over all
            cameras; an exception that it raises stops the work.

    Raises:
        PiperCollectError: the first camera's error, naming episode and camera; a camera without a
            frame is one.
    """
    tally = _Tally(progress)

    def encode(camera: str) -> EncodedVideo:
        return _encode_camera(episode, camera, paths[camera], sizes[camera], spec, fps, tally, image_stats)

    if not paths:
        return {}
    with ThreadPoolExecutor(max_workers=len(paths), thread_name_prefix="encode") as pool:
        futures = {camera: pool.submit(encode, camera) for camera in paths}
        try:
            wait(futures.values(), return_when=FIRST_EXCEPTION)
        finally:
            # After success there is nothing left to stop.
            if any(not f.done() or f.exception() for f in futures.values()):
                tally.stop.set()
    _raise_first(futures)
    return {camera: future.result() for camera, future in futures.items()}


def _raise_first(futures: Mapping[str, Future[EncodedVideo]]) -> None:
    errors = [e for f in futures.values() if (e := f.exception()) is not None]
    for error in errors:
        if not isinstance(error, _Stopped):
            raise error


def _encode_camera(
    episode: Episode,
    camera: str,
    path: Path,
    size: tuple[int, int],
    spec: VideoSpec,
    fps: float,
    tally: _Tally,
    image_stats: bool,
) -> EncodedVideo:
    where = f"{episode.name}, camera {camera}"
    frames = _frames_of_rows if spec.timing == "row" else _all_frames
    looked_at: frozenset[int] | None = None
    if image_stats:
        looked_at = frozenset(map(int, sample_rows(_expected_frames(episode, camera, spec))))
    try:
        if episode.cameras[camera].stream.is_depth:
            return _encode_depth(episode, camera, path, size, tally, looked_at)
        plan = copy_plan(episode, camera, size, spec)
        if isinstance(plan, CopyPlan):
            return _copied(plan, path, spec, fps, tally, looked_at)
        encoder = VideoEncoder(path, size, spec, t0_ns=episode.t0_ns, fps=fps, looked_at=looked_at or ())
        with encoder:
            for frame, count in frames(episode, camera):
                tally.frame()
                encoder.write(frame, count)
    except PiperCollectError as err:
        raise _placed(err, where) from err
    if encoder.frames == 0:
        raise DatasetError("the camera has no frame in the episode", where=where)
    return EncodedVideo(
        frames=encoder.frames,
        dropped=encoder.dropped,
        repeated=encoder.repeated,
        encoded=encoder.encoded,
        pictures=encoder.pictures if image_stats else None,
        source=plan,
    )


def _encode_depth(
    episode: Episode,
    camera: str,
    path: Path,
    size: tuple[int, int],
    tally: _Tally,
    looked_at: frozenset[int] | None,
) -> EncodedVideo:
    """The depth image that each row shows, as it is."""
    with DepthWriter(path, size, looked_at or ()) as writer:
        for frame, count in _frames_of_rows(episode, camera):
            tally.frame()
            writer.write(frame, count)
    return EncodedVideo(
        frames=writer.rows,
        dropped=0,
        repeated=writer.repeated,
        encoded=size,
        pictures=None if looked_at is None else writer.pictures,
    )


def _placed(err: PiperCollectError, where: str) -> PiperCollectError:
    """The same error, with episode and camera."""
    return type(err)(
        err.what,
        where=where if err.where is None else f"{where}, {err.where}",
        expected=err.expected,
        got=err.got,
        hint=err.hint,
        valid=err.valid,
    )


def _copied(
    plan: CopyPlan, path: Path, spec: VideoSpec, fps: float, tally: _Tally, looked_at: frozenset[int] | None
) -> EncodedVideo:
    """Take the packets over; they are decoded only where pictures are to be looked at."""
    pictures = ImageHistogram.empty()
    decoder, number = H264Decoder(), 0
    with VideoCopier(path, plan, spec, fps=fps) as copier:
        for packet in plan.packets():
            tally.frame()
            copier.write(packet)
            if looked_at is None:
                continue
            for picture in decoder.decode(packet):
                if number in looked_at:
                    pictures = pictures.added(thin(to_rgb(picture)))
                number += 1
    return EncodedVideo(
        frames=copier.frames,
        dropped=0,
        repeated=0,
        encoded=plan.size,
        pictures=None if looked_at is None else pictures,
        source=COPIED,
    )


def frames_to_read(episode: Episode, camera: str, spec: VideoSpec) -> int:
    """How many recorded frames of a camera an episode's video, or its depth images, are made from."""
    if spec.timing == "row" or episode.cameras[camera].stream.is_depth:
        return len(np.unique(episode.samples[camera].stamp_ns))
    source = episode.cameras[camera]
    stamps = source.stream.stamp_ns
    return int(np.count_nonzero((stamps >= source.first_ns) & (stamps <= source.last_ns)))


def _expected_frames(episode: Episode, camera: str, spec: VideoSpec) -> int:
    by_row = spec.timing == "row" or episode.cameras[camera].stream.is_depth
    return episode.length if by_row else frames_to_read(episode, camera, spec)


def _all_frames(episode: Episode, camera: str) -> Iterator[tuple[CameraFrame, int]]:
    """Every frame, once, in the order of capture; those of the same stamp in the order recorded.

    Raises:
        DatasetError: the recording lacks one.
    """
    source = episode.cameras[camera]
    stamps = source.stream.stamp_ns
    wanted = np.unique(stamps[(stamps >= source.first_ns) & (stamps <= source.last_ns)])
    for _, frame in _in_order(source.stream.frames(source.first_ns, source.last_ns), wanted):
        yield frame, 1


def _frames_of_rows(episode: Episode, camera: str) -> Iterator[tuple[CameraFrame, int]]:
    """The frame that each row shows, each once with the number of rows that show it, in the order of rows.

    Raises:
        DatasetError: a row shows no frame, or the recording lacks one.
    """
    shown: StampArray = episode.samples[camera].stamp_ns
    if shown[0] == NO_SAMPLE:
        raise DatasetError("no frame at or before the first row")
    wanted, counts = np.unique(shown, return_counts=True)
    frames = episode.cameras[camera].stream.frames(int(wanted[0]), int(wanted[-1]))
    last = -1
    for at, frame in _in_order(frames, wanted):
        if at > last:
            yield frame, int(counts[at])
            last = at


def _in_order(frames: Iterable[CameraFrame], wanted: StampArray) -> Iterator[tuple[int, CameraFrame]]:
    """The frames with a stamp of ``wanted`` (increasing), and its place there, in this order.

    A frame that the recording has too early is kept until its turn. Only a second frame with the same
    stamp may come after those of later ones.

    Raises:
        DatasetError: there is no frame of some stamp.
    """
    early: dict[int, list[CameraFrame]] = {}
    turn = 0
    for frame in frames:
        at = int(np.searchsorted(wanted, frame.stamp_ns))
        if at == len(wanted) or wanted[at] != frame.stamp_ns:
            continue
        if at < turn:
            yield at, frame
            continue
        early.setdefault(at, []).append(frame)
        while turn in early:
            yield from ((turn, waited) for waited in early.pop(turn))
            turn += 1
    if turn < len(wanted):
        raise DatasetError("a frame is no longer in the recording", got=f"none stamped {wanted[turn]} ns")
