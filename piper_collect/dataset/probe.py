"""What an mp4 says of itself without decoding a picture."""

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av.error import FFmpegError
from numpy.typing import NDArray

from piper_collect.core.pairing import VideoTiming
from piper_collect.core.types import FloatArray
from piper_collect.errors import DatasetError

_MOST_HEADER_RATE_HZ = 1000  # libavformat/demux.c, ff_compute_frame_duration


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VideoProbe:
    """The header and the packets of a video.

    Attributes:
        codec: Name of the codec, e.g. ``h264``.
        pix_fmt: Pixel format.
        size: (height, width).
        time_base: Numerator and denominator of one tick in seconds.
        pts: int64 [F] presentation times in ticks, in order of time.
        end: End of the last frame in ticks; see ``probe_video``.
        average_fps: Frames a second over the whole video; 0 where the header does not say.
        rate_hz: Frames a second as FFmpeg guesses them (``r_frame_rate``); 0 where it cannot.
        header_frames: Frames by the header; 0 where it does not say.
        reordered: Whether packets come in another order than pictures (B-frames).
        repeated_pts: Frames whose PTS is that of another one.
        missing_pts: Packets without a PTS.
    """

    codec: str
    pix_fmt: str
    size: tuple[int, int]
    time_base: tuple[int, int]
    pts: NDArray[np.int64]
    end: int
    average_fps: float
    rate_hz: float
    header_frames: int
    reordered: bool
    repeated_pts: int
    missing_pts: int

    @property
    def pts_s(self) -> FloatArray:
        """PTS in seconds, float64 [F]."""
        return self.pts * self.time_base[0] / self.time_base[1]

    @property
    def timing(self) -> VideoTiming:
        """What a loader knows of its time."""
        tick_s = self.time_base[0] / self.time_base[1]
        return VideoTiming(
            pts_s=self.pts_s,
            end_s=self.end * self.time_base[0] / self.time_base[1],
            rate_hz=self.rate_hz,
            header_frames=self.header_frames,
            time_base_s=tick_s,
        )


def probe_video(path: Path) -> VideoProbe:
    """Read the header and all packets of the first video stream.

    ``end`` is what FFmpeg up to 5 says, which torchcodec's wheels are used with: where pictures are
    reordered its mp4 reader leaves the duration of a packet to the frame rate in the H.264 header, and
    takes none of 1000 Hz and above for one; the video then ends with its last PTS.

    Raises:
        DatasetError: when the file is missing, no video, or broken.
    """
    try:
        with av.open(str(path)) as container:
            if not container.streams.video:
                raise DatasetError("holds no video", where=path)
            stream = container.streams.video[0]
            rate = stream.base_rate
            pts, ends, missing = [], [], 0
            for packet in container.demux(stream):
                if packet.size == 0 or packet.is_discard:
                    continue
                if packet.pts is None:
                    missing += 1
                    continue
                pts.append(packet.pts)
                ends.append(packet.pts + (packet.duration or 0))
            base = stream.time_base
            if base is None or base <= 0:
                raise DatasetError("the video has no time base", where=path)
            order = np.array(pts, dtype=np.int64)
            reordered = bool(np.any(np.diff(order) < 0))
            context = stream.codec_context
            if reordered and not _has_durations(context.framerate):
                ends = pts
            return VideoProbe(
                codec=context.name,
                pix_fmt=context.pix_fmt or "",
                size=(context.height, context.width),
                time_base=(base.numerator, base.denominator),
                pts=np.sort(order),
                end=max(ends, default=0),
                average_fps=float(stream.average_rate or 0),
                rate_hz=float(rate or 0),
                header_frames=int(stream.frames),
                reordered=reordered,
                repeated_pts=len(order) - len(np.unique(order)),
                missing_pts=missing,
            )
    except (FFmpegError, OSError, ValueError, OverflowError) as err:
        raise DatasetError(f"not a readable video: {err}", where=path) from err


def _has_durations(header_rate: object) -> bool:
    return isinstance(header_rate, int | float | Fraction) and 0 < header_rate < _MOST_HEADER_RATE_HZ
