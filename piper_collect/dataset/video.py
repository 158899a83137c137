"""Camera frames to mp4, each with its capture time as PTS."""

from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import cast

import av
import numpy as np
from av.error import FFmpegError
from av.video.reformatter import ColorRange, Colorspace, Interpolation

from piper_collect.config.profile import VideoSpec
from piper_collect.core.types import CameraFrame
from piper_collect.errors import DatasetError, ImageError
from piper_collect.files import sync
from piper_collect.imaging.frames import color_range_of, to_video_frame

_SMPTE170M = 6  # ITU-T H.273 matrix of BT.601, the one JPEG uses
_PIX_FMT = "yuv420p"
# Without it FFmpeg takes a shortcut from bgr24 that is off by up to 5 levels.
_EXACT = Interpolation.BILINEAR | Interpolation.ACCURATE_RND


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


class VideoEncoder:
    """Encodes the frames of one camera and one episode, one at a time.

    Use as a context manager: leaving it by an exception abandons the file, otherwise it is finished
    and flushed to the disk.

    Args:
        path: The mp4 to write.
        size: (height, width) that every frame must have.
        spec: Codec, quality and time base.
        t0_ns: Capture time of PTS 0.
        fps: Nominal rate, for the encoder's rate control only.

    Attributes:
        size: (height, width) that a frame must have.
        encoded: (height, width) in the file; smaller by one where ``size`` is odd.
        frames: Frames encoded so far.
        dropped: Frames left out because their PTS was not greater than the one before.

    Raises:
        DatasetError: when the encoder cannot be opened.
    """

    def __init__(
        self, path: Path, size: tuple[int, int], spec: VideoSpec, *, t0_ns: int, fps: float = 30.0
    ) -> None:
        if spec.pix_fmt != _PIX_FMT:
            raise DatasetError("unknown pixel format", where=path.name, got=spec.pix_fmt, valid=(_PIX_FMT,))
        self.size = size
        self.encoded = encoded_size(*size)
        self.frames = 0
        self.dropped = 0
        self._path = path
        self._spec = spec
        self._t0_ns = t0_ns
        self._time_base = Fraction(1, spec.time_base_hz)
        self._last_pts: int | None = None
        try:
            self._open(fps)
        except (FFmpegError, OSError, ValueError) as err:
            raise DatasetError(f"the video encoder cannot be opened: {err}", where=path.name) from err

    def _open(self, fps: float) -> None:
        spec = self._spec
        codec = av.Codec(spec.codec, "w")
        if codec.type != "video":
            raise ValueError(f"{spec.codec} is no video codec")
        timescale = {"video_track_timescale": str(spec.time_base_hz)}
        self._container = av.open(str(self._path), "w", format="mp4", options=timescale)
        rate = Fraction(fps).limit_denominator(1001)
        stream = cast(av.VideoStream, self._container.add_stream(spec.codec, rate=rate))
        stream.height, stream.width = self.encoded
        stream.pix_fmt = spec.pix_fmt
        stream.time_base = self._time_base
        stream.options = {"crf": str(spec.crf), "preset": spec.preset}
        context = stream.codec_context
        context.time_base = self._time_base
        context.thread_count = 1
        context.max_b_frames = spec.b_frames
        context.gop_size = spec.gop
        context.color_range = ColorRange.MPEG
        context.colorspace = _SMPTE170M
        self._stream = stream

    def write(self, frame: CameraFrame) -> bool:
        """Encode ``frame``, or drop and count it when its PTS does not increase.

        Returns:
            Whether it was encoded.

        Raises:
            ImageError: when its pixels cannot be decoded.
            DatasetError: when it lies before PTS 0, has another size, or the encoder fails.
        """
        pts = (frame.stamp_ns - self._t0_ns) * self._spec.time_base_hz // 1_000_000_000
        if pts < 0:
            raise DatasetError(
                "a frame lies before the start of the episode",
                where=self._path.name,
                expected=f"a stamp from {self._t0_ns} ns",
                got=f"{frame.stamp_ns} ns",
            )
        if self._last_pts is not None and pts <= self._last_pts:
            self.dropped += 1
            return False
        picture = self._even_yuv(to_video_frame(frame))
        picture.pts, picture.time_base = pts, self._time_base
        try:
            self._container.mux(self._stream.encode(picture))
        except FFmpegError as err:
            raise DatasetError(f"the video encoder failed: {err}", where=self._path.name) from err
        self._last_pts = pts
        self.frames += 1
        return True

    def _even_yuv(self, picture: av.VideoFrame) -> av.VideoFrame:
        got = picture.height, picture.width
        if got != self.size:
            raise ImageError(
                "the image size changed",
                where=self._path.name,
                expected=f"{self.size[0]}x{self.size[1]} (height x width)",
                got=f"{got[0]}x{got[1]}",
            )
        yuv = picture.reformat(
            format=_PIX_FMT,
            src_color_range=color_range_of(picture),
            dst_color_range=ColorRange.MPEG,
            dst_colorspace=Colorspace.ITU601,
            interpolation=_EXACT,
            threads=1,
        )
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


def _cropped(yuv: av.VideoFrame, height: int, width: int) -> av.VideoFrame:
    """The top left ``height`` x ``width`` (both even) of a yuv420p frame."""
    out = av.VideoFrame(width, height, _PIX_FMT)
    for source, target, part in zip(yuv.planes, out.planes, (1, 2, 2), strict=True):
        rows, row_bytes = height // part, width // part
        pixels = np.frombuffer(memoryview(source), np.uint8)[: source.line_size * rows]
        canvas = np.frombuffer(memoryview(target), np.uint8)[: target.line_size * rows]
        cut = pixels.reshape(rows, source.line_size)[:, :row_bytes]
        canvas.reshape(rows, target.line_size)[:, :row_bytes] = cut
    out.color_range, out.colorspace = yuv.color_range, yuv.colorspace
    return out
