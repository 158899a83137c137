"""Pictures to the packets of an H.264 stream, each as soon as its picture is there."""

from dataclasses import dataclass
from fractions import Fraction

import av
import numpy as np
from av.error import FFmpegError
from av.video.reformatter import ColorRange, Colorspace
from numpy.typing import NDArray

from piper_collect.errors import ImageError

PIXEL_FORMAT = "yuv420p"
CRF = 20
_PRESET = "veryfast"
_SMPTE170M = 6  # H.273: the matrix of Rec. 601


@dataclass(frozen=True, slots=True, kw_only=True)
class Packet:
    """One picture, encoded.

    Attributes:
        number: Of the picture in the stream, from 0.
        is_key: Whether decoding can begin with it.
        data: Its NAL units behind start codes (Annex B), with the parameter sets before a key frame.
    """

    number: int
    is_key: bool
    data: bytes


class H264Encoder:
    """Encodes one stream without B-frames: its first picture is a key frame, and each ``gop``-th after it.

    Args:
        width: Columns of a picture; even.
        height: Rows; even.
        fps: Nominal rate, for the encoder's rate control alone.
        gop: Pictures from one key frame to the next.

    Raises:
        ImageError: The encoder cannot be opened so.
    """

    def __init__(self, width: int, height: int, *, fps: float, gop: int) -> None:
        if width % 2 or height % 2:
            raise ImageError(
                "H.264 of 4:2:0 has an even number of columns and rows",
                got=f"{width}x{height} (width x height)",
            )
        self._size = height, width
        self._count = 0
        self._encoder = av.CodecContext.create("libx264", "w")
        self._encoder.width, self._encoder.height = width, height
        self._encoder.pix_fmt = PIXEL_FORMAT
        rate = Fraction(fps).limit_denominator(1001)
        self._encoder.time_base, self._encoder.framerate = 1 / rate, rate
        self._encoder.thread_count = 1
        self._encoder.max_b_frames = 0
        self._encoder.gop_size = gop
        self._encoder.color_range = ColorRange.MPEG
        self._encoder.colorspace = _SMPTE170M
        # a change of scene makes no key frame of its own
        options = {"preset": _PRESET, "tune": "zerolatency", "crf": str(CRF), "sc_threshold": "0"}
        self._encoder.options = options
        try:
            self._encoder.open()
        except (FFmpegError, ValueError) as err:
            raise ImageError(
                f"the H.264 encoder cannot be opened: {err}", got=f"{width}x{height} at {fps:g} Hz"
            ) from err

    def encode(self, rgb: NDArray[np.uint8]) -> Packet:
        """The packet of the next picture (uint8 [H, W, 3]).

        Raises:
            ImageError: It has another size, or the encoder fails.
        """
        if rgb.shape[:2] != self._size:
            raise ImageError("the size of the pictures changes", expected=self._size, got=rgb.shape[:2])
        frame = av.VideoFrame.from_ndarray(rgb, format="rgb24").reformat(
            format=PIXEL_FORMAT, dst_colorspace=Colorspace.ITU601, dst_color_range=ColorRange.MPEG
        )
        frame.pts, number = self._count, self._count
        self._count += 1
        try:
            packets = self._encoder.encode(frame)
        except (FFmpegError, ValueError) as err:
            raise ImageError(f"the H.264 encoder failed: {err}", where=f"picture {number}") from err
        if len(packets) != 1:
            raise ImageError(
                "the H.264 encoder gave no packet of its own for a picture",
                where=f"picture {number}",
                expected="1 packet",
                got=len(packets),
            )
        return Packet(number=number, is_key=packets[0].is_keyframe, data=bytes(packets[0]))
