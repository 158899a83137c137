"""Camera frames to mp4, each with its capture time, or its row's, as PTS."""

import os
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import av
import numpy as np
from av.error import FFmpegError
from av.video.frame import PictureType
from av.video.reformatter import ColorRange

from piper_collect.config.profile import VideoSpec
from piper_collect.core.image_stats import ImageHistogram, thin
from piper_collect.core.types import CameraFrame, StampArray
from piper_collect.errors import DatasetError, ImageError
from piper_collect.files import sync
from piper_collect.imaging.frames import to_video_frame, video_frame_to_rgb
from piper_collect.imaging.x264 import steady_options
from piper_collect.imaging.yuv420 import PIX_FMT, Yuv420Converter

_Stamps = TypeVar("_Stamps", int, StampArray)

_SMPTE170M = 6  # ITU-T H.273 matrix of BT.601, the one JPEG uses
_GREATEST_TIMESCALE = 2**31 - 1  # ticks a second, as FFmpeg and the mp4 header hold them


def encoded_size(height: int, width: int) -> tuple[int, int]:
    """(height, width) in the video: an odd last row or column is cropped, for 4:2:0 needs even sizes.

    Raises:
        DatasetError: when nothing is left.
    """
    even = height - height % 2, width - width % 2
    if min(even) < 2:
        raise DatasetError(
            "the image is too small for video",
            expected="at least 2x2",
            got=f"{height}x{width} (height x width)",
        )
    return even


def capture_pts(stamp_ns: _Stamps, t0_ns: int, spec: VideoSpec) -> _Stamps:
    """Capture times as ticks of the video's time base since ``t0_ns``, floored."""
    return (stamp_ns - t0_ns) * spec.time_base_hz // 1_000_000_000


class VideoEncoder:
    """Encodes the frames of one camera and one episode, one at a time.

    Use as a context manager: leaving it by an exception abandons the file, otherwise it is finished
    and flushed to the disk.

    Args:
        path: The mp4 to write.
        size: (height, width) that every frame must have.
        spec: Codec, quality and time base.
        t0_ns: Capture time of PTS 0.
        fps: Rows a second: the time base under ``timing: row``, else for the encoder's rate control only.
        looked_at: Numbers of the frames of the video that go into ``pictures``.

    Attributes:
        size: (height, width) that a frame must have.
        encoded: (height, width) in the file; smaller by one where ``size`` is odd.
        frames: Frames encoded so far.
        dropped: Frames left out because their PTS was not greater than the one before.
        repeated: Encoded frames that show the same picture as the one before.
        pictures: Histogram of the frames that were to be looked at.

    Raises:
        DatasetError: when the encoder cannot be opened.
    """

    def __init__(
        self,
        path: Path,
        size: tuple[int, int],
        spec: VideoSpec,
        *,
        t0_ns: int,
        fps: float = 30.0,
        looked_at: Iterable[int] = (),
    ) -> None:
        self.size = size
        self.encoded = encoded_size(*size)
        self.frames = 0
        self.dropped = 0
        self.repeated = 0
        self.pictures = ImageHistogram.empty()
        self._path = path
        self._spec = spec
        self._t0_ns = t0_ns
        self._by_row = spec.timing == "row"
        self._time_base = row_period(fps, path) if self._by_row else Fraction(1, spec.time_base_hz)
        self._looked_at = frozenset(int(k) for k in looked_at)
        self._last_pts: int | None = None
        self._converter = Yuv420Converter()
        try:
            self._open(fps)
        except (FFmpegError, OSError, ValueError) as err:
            raise DatasetError(f"the video encoder cannot be opened: {err}", where=path.name) from err

    def _open(self, fps: float) -> None:
        spec = self._spec
        # Under `row` the muxer's own choice, a multiple of the rate, holds k/fps exactly.
        timescale = {} if self._by_row else {"video_track_timescale": str(spec.time_base_hz)}
        self._container = av.open(str(self._path), "w", format="mp4", options=timescale)
        rate = Fraction(fps).limit_denominator(1001)
        stream = self._container.add_stream(spec.codec, rate=rate)
        stream.height, stream.width = self.encoded
        stream.pix_fmt = spec.pix_fmt
        stream.time_base = self._time_base
        stream.options = {"crf": str(spec.crf), "preset": spec.preset}
        if spec.codec == "libx264":
            stream.options |= steady_options()
        if spec.codec == "libx265":  # it writes to stderr by itself
            stream.options |= {"x265-params": "log-level=none"}
        if spec.codec == "libsvtav1":  # so does it; one thread, as the others
            os.environ.setdefault("SVT_LOG", "1")
            stream.options |= {"svtav1-params": "lp=1"}
        context = stream.codec_context
        context.time_base = self._time_base
        context.thread_count = 1
        context.max_b_frames = spec.b_frames
        context.gop_size = spec.gop
        context.color_range = ColorRange.MPEG
        context.colorspace = _SMPTE170M
        self._stream = stream

    def write(self, frame: CameraFrame, count: int = 1) -> bool:
        """Encode ``frame`` as the next ``count`` frames, or drop and count it when its PTS does not increase.

        Returns:
            Whether it was encoded.

        Raises:
            ImageError: when its pixels cannot be decoded.
            DatasetError: when it lies before PTS 0, has another size, or the encoder fails.
        """
        pts = self.frames if self._by_row else self._capture_pts(frame)
        if self._last_pts is not None and pts <= self._last_pts:
            self.dropped += 1
            return False
        picture = self._even_yuv(to_video_frame(frame))
        for k in range(count):
            self._encode(picture, pts + k)
        self.repeated += count - 1
        return True

    def _capture_pts(self, frame: CameraFrame) -> int:
        pts = int(capture_pts(frame.stamp_ns, self._t0_ns, self._spec))
        if pts < 0:
            raise DatasetError(
                "a frame lies before the start of the episode",
                where=self._path.name,
                expected=f"a stamp from {self._t0_ns} ns",
                got=f"{frame.stamp_ns} ns",
            )
        return pts

    def _encode(self, picture: av.VideoFrame, pts: int) -> None:
        picture.pts, picture.time_base = pts, self._time_base
        # A decoded JPEG says that it is a key frame, and the encoder would make each such frame one.
        picture.pict_type = PictureType.NONE
        try:
            self._container.mux(self._stream.encode(picture))
        except FFmpegError as err:
            raise DatasetError(f"the video encoder failed: {err}", where=self._path.name) from err
        if self.frames in self._looked_at:
            self.pictures = self.pictures.added(thin(video_frame_to_rgb(picture)))
        self._last_pts = pts
        self.frames += 1

    def _even_yuv(self, picture: av.VideoFrame) -> av.VideoFrame:
        got = picture.height, picture.width
        if got != self.size:
            raise ImageError(
                "the image size changed",
                where=self._path.name,
                expected=f"{self.size[0]}x{self.size[1]} (height x width)",
                got=f"{got[0]}x{got[1]}",
            )
        yuv = self._converter.convert(picture)
        return yuv if got == self.encoded else _cropped(yuv, *self.encoded)

    def close(self) -> None:
        """Finish the file and flush it to the disk.

        Raises:
            DatasetError: when the encoder fails.
        """
        try:
            self._container.mux(self._stream.encode(None))
            self._container.close()
        except (FFmpegError, OSError) as err:
            raise DatasetError(f"the video cannot be finished: {err}", where=self._path.name) from err
        sync(self._path)

    def __enter__(self) -> "VideoEncoder":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None and self.frames:
            self.close()
            return
        # The header may be unwritten and the disk full: the file is given up, and only the first
        # error counts.
        try:
            self._container.close()
        except (FFmpegError, OSError):
            pass
        finally:
            self._path.unlink(missing_ok=True)


def row_period(fps: float, path: Path) -> Fraction:
    """Exactly 1/fps seconds, fps being the decimal it is written as.

    Raises:
        DatasetError: no mp4 has such a time base.
    """
    period = 1 / Fraction(repr(float(fps)))
    if period.denominator > _GREATEST_TIMESCALE:
        raise DatasetError(
            "a video cannot hold times of exactly k/fps",
            where=path.name,
            got=f"fps {fps!r}",
            hint="write the rate with fewer digits, as in 29.97",
        )
    return period


def _cropped(yuv: av.VideoFrame, height: int, width: int) -> av.VideoFrame:
    """The top left ``height`` x ``width`` (both even) of a yuv420p frame."""
    out = av.VideoFrame(width, height, PIX_FMT)
    for source, target, part in zip(yuv.planes, out.planes, (1, 2, 2), strict=True):
        rows, row_bytes = height // part, width // part
        pixels = np.frombuffer(memoryview(source), np.uint8)[: source.line_size * rows]
        canvas = np.frombuffer(memoryview(target), np.uint8)[: target.line_size * rows]
        cut = pixels.reshape(rows, source.line_size)[:, :row_bytes]
        canvas.reshape(rows, target.line_size)[:, :row_bytes] = cut
    out.color_range, out.colorspace = yuv.color_range, yuv.colorspace
    return out
