"""The videos of one episode, one thread a camera, one frame at a time."""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from piper_collect.config.profile import VideoSpec
from piper_collect.core.types import Episode
from piper_collect.dataset.video import VideoEncoder
from piper_collect.errors import DatasetError, PiperCollectError


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedVideo:
    """What became of the frames of one camera.

    Attributes:
        frames: Frames in the video.
        dropped: Frames left out because their PTS did not increase.
        encoded: (height, width) in the video.
    """

    frames: int
    dropped: int
    encoded: tuple[int, int]


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
    progress: Callable[[int], None] | None = None,
) -> dict[str, EncodedVideo]:
    """Encode every camera of ``episode``.

    Args:
        episode: Its cameras are read lazily, each in a thread of its own.
        paths: mp4 to write, by camera name.
        sizes: (height, width) of the frames, by camera name.
        spec: How to encode.
        fps: Nominal rate.
        progress: Called, from one thread at a time, with the number of frames read so far over all
            cameras; an exception that it raises stops the work.

    Raises:
        PiperCollectError: the first camera's error, naming episode and camera; a camera without a
            frame is one.
    """
    tally = _Tally(progress)

    def encode(camera: str) -> EncodedVideo:
        return _encode_camera(episode, camera, paths[camera], sizes[camera], spec, fps, tally)

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
) -> EncodedVideo:
    source = episode.cameras[camera]
    where = f"{episode.name}, camera {camera}"
    try:
        with VideoEncoder(path, size, spec, t0_ns=episode.t0_ns, fps=fps) as encoder:
            for frame in source.stream.frames(source.first_ns, source.last_ns):
                tally.frame()
                encoder.write(frame)
    except PiperCollectError as err:
        raise type(err)(
            err.what,
            where=where if err.where is None else f"{where}, {err.where}",
            expected=err.expected,
            got=err.got,
            hint=err.hint,
            valid=err.valid,
        ) from err
    if encoder.frames == 0:
        raise DatasetError("the camera has no frame in the episode", where=where)
    return EncodedVideo(frames=encoder.frames, dropped=encoder.dropped, encoded=encoder.encoded)
