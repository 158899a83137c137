"""Recorded image bytes to pixels, by way of FFmpeg's own pixel formats.

A compressed frame stays in the colour space that its codec decodes to (JPEG: full-range YCbCr), so
that encoding it as video is a range change and not two colour conversions.
"""

import struct
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

import av
import numpy as np
import simplejpeg
from av.error import FFmpegError
from av.video.reformatter import ColorRange, Colorspace
from numpy.typing import NDArray

from piper_collect.core.types import CameraFrame
from piper_collect.errors import ImageError

Compression: TypeAlias = Literal["jpeg", "png"]

_JPEG_MAGIC = b"\xff\xd8\xff"
_JPEG_START_OF_SCAN = b"\xff\xda"
_JPEG_END_OF_IMAGE = b"\xff\xd9"
_PNG_MAGIC = b"\x89PNG\r\n\x1a\n"
_PNG_HEADER_BYTES = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class RawEncoding:
    """How a raw ROS encoding lies in memory.

    Attributes:
        pix_fmt: FFmpeg's name of the same layout (packed, one plane).
        pixel_bytes: Bytes a pixel.
        full_range: Whether luma spans 0..255 (meaningless for RGB).
        even_width: Whether pixels come in pairs that share their chroma.
    """

    pix_fmt: str
    pixel_bytes: int
    full_range: bool = True
    even_width: bool = False


# sensor_msgs/image_encodings.hpp: yuv422 is UYVY, yuv422_yuy2 is YUYV; both are BT.601 video range.
RAW_ENCODINGS: dict[str, RawEncoding] = {
    "rgb8": RawEncoding(pix_fmt="rgb24", pixel_bytes=3),
    "bgr8": RawEncoding(pix_fmt="bgr24", pixel_bytes=3),
    "rgba8": RawEncoding(pix_fmt="rgba", pixel_bytes=4),
    "bgra8": RawEncoding(pix_fmt="bgra", pixel_bytes=4),
    "mono8": RawEncoding(pix_fmt="gray", pixel_bytes=1),
    "yuv422": RawEncoding(pix_fmt="uyvy422", pixel_bytes=2, full_range=False, even_width=True),
    "uyvy": RawEncoding(pix_fmt="uyvy422", pixel_bytes=2, full_range=False, even_width=True),
    "yuv422_yuy2": RawEncoding(pix_fmt="yuyv422", pixel_bytes=2, full_range=False, even_width=True),
    "yuyv": RawEncoding(pix_fmt="yuyv422", pixel_bytes=2, full_range=False, even_width=True),
}

# What the two codecs may decode to without loss of depth; 16-bit images are never squeezed to 8.
_DECODED_FORMATS: dict[str, frozenset[str]] = {
    "jpeg": frozenset({"yuvj420p", "yuvj422p", "yuvj444p", "yuvj440p", "yuvj411p", "gray"}),
    "png": frozenset({"rgb24", "rgba", "gray", "ya8", "pal8", "monob"}),
}
_CODECS = {"jpeg": "mjpeg", "png": "png"}

ENCODINGS: tuple[str, ...] = (*_CODECS, *RAW_ENCODINGS)
"""Every encoding of a CameraFrame that becomes video."""


def to_video_frame(frame: CameraFrame) -> av.VideoFrame:
    """Decode a frame to an FFmpeg frame of its own pixel format, colour range set.

    Raises:
        ImageError: when the encoding is unknown or the bytes are not the image they claim to be.
    """
    if frame.encoding in _CODECS:
        return _decode_compressed(frame)
    return _wrap_raw(frame)


def frame_size(frame: CameraFrame) -> tuple[int, int]:
    """(height, width) of a frame in pixels; compressed images are asked, not decoded.

    Raises:
        ImageError: when the header of a compressed image cannot be read.
    """
    payload = bytes(frame.payload)
    if frame.encoding == "jpeg":
        try:
            height, width, _, _ = simplejpeg.decode_jpeg_header(payload)
        except ValueError as err:
            raise ImageError("not a JPEG image", where=_where(frame), got=_bytes_seen(payload)) from err
        return int(height), int(width)
    if frame.encoding == "png":
        if not payload.startswith(_PNG_MAGIC) or len(payload) < _PNG_HEADER_BYTES:
            raise ImageError("not a PNG image", where=_where(frame), got=_bytes_seen(payload))
        width, height = struct.unpack(">II", payload[16:_PNG_HEADER_BYTES])
        return int(height), int(width)
    _raw_encoding(frame)
    return frame.height, frame.width


def to_rgb(frame: CameraFrame) -> NDArray[np.uint8]:
    """Decode a frame to uint8 [H, W, 3] RGB.

    Raises:
        ImageError: as ``to_video_frame``.
    """
    return video_frame_to_rgb(to_video_frame(frame))


def video_frame_to_rgb(picture: av.VideoFrame) -> NDArray[np.uint8]:
    """Any FFmpeg frame to uint8 [H, W, 3] RGB, by the range and matrix that the frame carries."""
    rgb = picture.reformat(
        format="rgb24",
        src_color_range=color_range_of(picture),
        dst_color_range=ColorRange.JPEG,
        src_colorspace=Colorspace.ITU601 if picture.colorspace in (2, 5, 6) else None,
        threads=1,
    )
    return np.ascontiguousarray(rgb.to_ndarray(), dtype=np.uint8)


def color_range_of(picture: av.VideoFrame) -> ColorRange:
    """The range of a frame's values: its own tag, else what its pixel format implies."""
    tagged = ColorRange(picture.color_range)
    if tagged in (ColorRange.MPEG, ColorRange.JPEG):
        return tagged
    name = picture.format.name
    full = name.startswith("yuvj") or not name.startswith(("yuv", "uyvy", "yuyv", "nv"))
    return ColorRange.JPEG if full else ColorRange.MPEG


def parse_compressed_format(text: str, payload: bytes | memoryview = b"") -> Compression:
    """What ``sensor_msgs/CompressedImage.format`` says the bytes are: ``jpeg`` or ``png``.

    Forms in use: ``jpeg``, ``png``, ``rgb8; jpeg compressed bgr8``, ``16UC1; png compressed``. When the
    text is empty the first bytes of ``payload`` decide.

    Raises:
        ImageError: for compressedDepth, and for every other compression.
    """
    words = text.replace(";", " ").lower().split()
    if "compresseddepth" in words:
        raise ImageError(
            "depth images (compressedDepth) do not become video",
            got=text,
            hint="take this topic out of the cameras; depth is not squeezed to 8 bits",
        )
    if not words:
        head = bytes(payload[: len(_PNG_MAGIC)])
        if head.startswith(_JPEG_MAGIC):
            return "jpeg"
        if head == _PNG_MAGIC:
            return "png"
        raise ImageError("no format given, and the bytes are no JPEG or PNG", got=_bytes_seen(payload))
    if "jpeg" in words or "jpg" in words:
        return "jpeg"
    if "png" in words:
        return "png"
    raise ImageError("unknown image compression", got=text, valid=("jpeg", "png"))


def _decode_compressed(frame: CameraFrame) -> av.VideoFrame:
    payload = bytes(frame.payload)
    if frame.encoding == "jpeg" and payload.rfind(_JPEG_END_OF_IMAGE) <= payload.rfind(_JPEG_START_OF_SCAN):
        raise ImageError(
            "the JPEG image is cut off",
            where=_where(frame),
            expected="an end-of-image marker",
            got=_bytes_seen(payload),
        )
    try:
        decoder = cast(av.VideoCodecContext, av.CodecContext.create(_CODECS[frame.encoding], "r"))
        decoder.thread_count = 1
        decoder.options = {"err_detect": "explode"}
        pictures = [*decoder.decode(av.Packet(payload)), *decoder.decode(None)]
    except (FFmpegError, ValueError) as err:
        raise ImageError(
            f"the {frame.encoding} image cannot be decoded", where=_where(frame), got=_bytes_seen(payload)
        ) from err
    if len(pictures) != 1:
        raise ImageError(
            f"the {frame.encoding} bytes hold {len(pictures)} images",
            where=_where(frame),
            expected="one image",
            got=_bytes_seen(payload),
        )
    return _checked_picture(frame, pictures[0])


def _checked_picture(frame: CameraFrame, picture: av.VideoFrame) -> av.VideoFrame:
    valid = _DECODED_FORMATS[frame.encoding]
    if picture.format.name not in valid:
        raise ImageError(
            f"{frame.encoding} images of this pixel format do not become video",
            where=_where(frame),
            got=picture.format.name,
            valid=sorted(valid),
        )
    claimed = (frame.height or picture.height, frame.width or picture.width)
    if claimed != (picture.height, picture.width):
        raise ImageError(
            "the image has another size than its message says",
            where=_where(frame),
            expected=f"{claimed[0]}x{claimed[1]} (height x width)",
            got=f"{picture.height}x{picture.width}",
        )
    return picture


def _wrap_raw(frame: CameraFrame) -> av.VideoFrame:
    encoding = _raw_encoding(frame)
    _check_raw_size(frame, encoding)
    row_bytes = frame.width * encoding.pixel_bytes
    rows = np.frombuffer(frame.payload, np.uint8).reshape(frame.height, frame.step)[:, :row_bytes]
    picture = av.VideoFrame(frame.width, frame.height, encoding.pix_fmt)
    plane = picture.planes[0]
    canvas = np.frombuffer(memoryview(plane), np.uint8)[: plane.line_size * frame.height]
    canvas.reshape(frame.height, plane.line_size)[:, :row_bytes] = rows
    picture.color_range = ColorRange.JPEG if encoding.full_range else ColorRange.MPEG
    return picture


def _check_raw_size(frame: CameraFrame, encoding: RawEncoding) -> None:
    where = _where(frame)
    if frame.height <= 0 or frame.width <= 0:
        raise ImageError("the image has no pixels", where=where, got=f"{frame.height}x{frame.width}")
    if encoding.even_width and frame.width % 2:
        raise ImageError(f"{frame.encoding} needs an even width", where=where, got=frame.width)
    row_bytes = frame.width * encoding.pixel_bytes
    if frame.step < row_bytes:
        raise ImageError(
            "a row is shorter than its pixels",
            where=where,
            expected=f"step >= {row_bytes} bytes for {frame.width} pixels of {frame.encoding}",
            got=f"step {frame.step}",
        )
    size = memoryview(frame.payload).nbytes
    if size != frame.step * frame.height:
        raise ImageError(
            "the image does not have the bytes its header claims",
            where=where,
            expected=f"{frame.step * frame.height} bytes ({frame.height} rows of {frame.step})",
            got=f"{size} bytes",
        )


def _raw_encoding(frame: CameraFrame) -> RawEncoding:
    try:
        return RAW_ENCODINGS[frame.encoding]
    except KeyError:
        raise ImageError(
            "images of this encoding do not become video",
            where=_where(frame),
            got=frame.encoding,
            valid=ENCODINGS,
        ) from None


def _where(frame: CameraFrame) -> str:
    return f"image stamped {frame.stamp_ns} ns"


def _bytes_seen(payload: bytes | memoryview) -> str:
    head = bytes(payload[:8]).hex(" ")
    return f"{memoryview(payload).nbytes} bytes" + (f" beginning {head}" if head else "")
