"""How the raw encodings of ROS images lie in memory, and which of them are pictures.

Names and layouts: sensor_msgs/image_encodings.hpp. ``yuv422`` is UYVY and ``yuv422_yuy2`` is YUYV, both
BT.601 of video range.
"""

from dataclasses import dataclass

from piper_collect.imaging.bayer import BayerPattern


@dataclass(frozen=True, slots=True, kw_only=True)
class RawEncoding:
    """How a raw ROS encoding lies in memory.

    Attributes:
        pix_fmt: FFmpeg's name of what it becomes: the same layout (packed, one plane), 8 bits for 16.
        pixel_bytes: Bytes a pixel.
        full_range: Whether luma spans 0..255 (meaningless for RGB).
        even_width: Whether pixels come in pairs that share their chroma.
        bayer: Colours of the upper left 2 x 2 pixels of a mosaic; None for none.
        sixteen_bit: Whether a sample is two bytes, in the byte order that the message says.
    """

    pix_fmt: str
    pixel_bytes: int
    full_range: bool = True
    even_width: bool = False
    bayer: BayerPattern | None = None
    sixteen_bit: bool = False


def _bayer(pattern: BayerPattern, *, sixteen_bit: bool = False) -> RawEncoding:
    return RawEncoding(
        pix_fmt="rgb24", pixel_bytes=2 if sixteen_bit else 1, bayer=pattern, sixteen_bit=sixteen_bit
    )


RAW_ENCODINGS: dict[str, RawEncoding] = {
    "rgb8": RawEncoding(pix_fmt="rgb24", pixel_bytes=3),
    "bgr8": RawEncoding(pix_fmt="bgr24", pixel_bytes=3),
    "rgba8": RawEncoding(pix_fmt="rgba", pixel_bytes=4),
    "bgra8": RawEncoding(pix_fmt="bgra", pixel_bytes=4),
    "mono8": RawEncoding(pix_fmt="gray", pixel_bytes=1),
    "mono16": RawEncoding(pix_fmt="gray", pixel_bytes=2, sixteen_bit=True),
    "yuv422": RawEncoding(pix_fmt="uyvy422", pixel_bytes=2, full_range=False, even_width=True),
    "uyvy": RawEncoding(pix_fmt="uyvy422", pixel_bytes=2, full_range=False, even_width=True),
    "yuv422_yuy2": RawEncoding(pix_fmt="yuyv422", pixel_bytes=2, full_range=False, even_width=True),
    "yuyv": RawEncoding(pix_fmt="yuyv422", pixel_bytes=2, full_range=False, even_width=True),
    "bayer_rggb8": _bayer("rggb"),
    "bayer_bggr8": _bayer("bggr"),
    "bayer_gbrg8": _bayer("gbrg"),
    "bayer_grbg8": _bayer("grbg"),
    "bayer_rggb16": _bayer("rggb", sixteen_bit=True),
    "bayer_bggr16": _bayer("bggr", sixteen_bit=True),
    "bayer_gbrg16": _bayer("gbrg", sixteen_bit=True),
    "bayer_grbg16": _bayer("grbg", sixteen_bit=True),
}
"""Every raw encoding that becomes video."""

DEPTH_ENCODINGS = ("16UC1", "16SC1", "32FC1", "64FC1")
"""Encodings of depth images, in mm or m: their numbers are no brightness."""

DEPTH_HINT = (
    "take it out of the cameras: 16UC1 and 32FC1 are recorded and exported as the depth_topic of one, others "
    "are recorded as they are as one of recorder.extra_topics"
)
