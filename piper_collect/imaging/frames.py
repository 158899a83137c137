"""Recorded image bytes to pixels, by way of FFmpeg's own pixel formats.

A compressed frame stays in the colour space that its codec decodes to (JPEG: full-range YCbCr), so
that encoding it as video is a range change and not two colour conversions.
"""

import struct
from typing import Any, Literal, TypeAlias, cast

import av
import numpy as np
import simplejpeg
from av.error import FFmpegError
from av.video.reformatter import ColorRange, Colorspace
from numpy.typing import NDArray

from piper_collect.core.types import CameraFrame
from piper_collect.errors import ImageError
from piper_collect.imaging.bayer import demosaic
from piper_collect.imaging.encodings import DEPTH_ENCODINGS, DEPTH_HINT, RAW_ENCODINGS, RawEncoding
from piper_collect.imaging.h264 import StreamParser

Compression: TypeAlias = Literal["jpeg", "png"]

_JPEG_MAGIC = b"\xff\xd8\xff"
_JPEG_START_OF_SCAN = b"\xff\xda"
_JPEG_END_OF_IMAGE = b"\xff\xd9"
_PNG_MAGIC = b"\x89PNG\r\n\x1a\n"
_PNG_HEADER_BYTES = 25  # the last is the bit depth


# What the two codecs may decode to without loss of depth.
_DECODED_FORMATS: dict[str, frozenset[str]] = {
    "jpeg": frozenset({"yuvj420p", "yuvj422p", "yuvj444p", "yuvj440p", "yuvj411p", "gray"}),
    "png": frozenset({"rgb24", "rgba", "gray", "ya8", "pal8", "monob"}),
}
_CODECS = {"jpeg": "mjpeg", "png": "png"}

H264 = "h264"
"""Encoding of a CameraFrame that is a packet of a stream, and no picture of its own."""

_PLANAR = {"yuv420p": ColorRange.MPEG, "yuvj420p": ColorRange.JPEG}

_SHARED = {"rgb24": 3, "bgr24": 3, "rgba": 4, "bgra": 4}  # what from_numpy_buffer takes, with bytes a pixel

ENCODINGS: tuple[str, ...] = (*_CODECS, *RAW_ENCODINGS)
"""Every encoding of a CameraFrame that is a picture of its own, as recorded."""


def to_video_frame(frame: CameraFrame) -> av.VideoFrame:
    """Decode a frame to an FFmpeg frame of its own pixel format, colour range set.

    A raw RGB image without padding is not copied: its frame lasts as long as what the payload's memory holds.

    Raises:
        ImageError: when the encoding is unknown or the bytes are not the image they claim to be.
    """
    if frame.encoding in _CODECS:
        return _decode_compressed(frame)
    if frame.encoding in _PLANAR:
        return _wrap_planar(frame)
    if frame.encoding == H264:
        raise ImageError("a packet of a video is no picture of its own", where=_where(frame))
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
        width, height = struct.unpack(">II", payload[16:24])
        return int(height), int(width)
    if frame.encoding == H264:
        return _video_size(frame)
    if frame.encoding in _PLANAR:
        return frame.height, frame.width
    _raw_encoding(frame)
    return frame.height, frame.width


def check_frame(frame: CameraFrame) -> tuple[int, int]:
    """(height, width) of a frame whose bytes look whole; no pixel is decoded.

    Raises:
        ImageError: as ``frame_size``, and when a JPEG is cut off, a PNG has 16 bits, or raw pixels are not
            as many as claimed.
    """
    size = frame_size(frame)
    if frame.encoding == "jpeg":
        _check_jpeg_end(frame, bytes(frame.payload))
    elif frame.encoding == "png":
        _check_png_depth(frame, bytes(frame.payload))
    elif frame.encoding not in (*_CODECS, H264, *_PLANAR):
        _check_raw_size(frame, _raw_encoding(frame))
    return size


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
            hint=DEPTH_HINT,
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
    if frame.encoding == "jpeg":
        _check_jpeg_end(frame, payload)
    else:
        _check_png_depth(frame, payload)
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


def _check_jpeg_end(frame: CameraFrame, payload: bytes) -> None:
    end = payload.rfind(_JPEG_END_OF_IMAGE)
    if end < 0 or payload.find(_JPEG_START_OF_SCAN, end) >= 0:
        raise ImageError(
            "the JPEG image is cut off",
            where=_where(frame),
            expected="an end-of-image marker",
            got=_bytes_seen(payload),
        )


def _check_png_depth(frame: CameraFrame, payload: bytes) -> None:
    if payload.startswith(_PNG_MAGIC) and payload[_PNG_HEADER_BYTES - 1 : _PNG_HEADER_BYTES] == b"\x10":
        raise ImageError(
            "PNG images of 16 bits do not become video: most are depth",
            where=_where(frame),
            expected="8 bits a sample",
            got="16 bits",
            hint=DEPTH_HINT,
        )


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


def _video_size(frame: CameraFrame) -> tuple[int, int]:
    """By the parameters in a key frame's packet."""
    parser = StreamParser()
    parser.add(frame.payload)
    if parser.sequence is None:
        raise ImageError("the packet does not say how large its picture is", where=_where(frame))
    return parser.sequence.height, parser.sequence.width


def _wrap_planar(frame: CameraFrame) -> av.VideoFrame:
    picture = av.VideoFrame(frame.width, frame.height, "yuv420p")
    content = np.frombuffer(frame.payload, np.uint8)
    at = 0
    for plane in picture.planes:
        size = plane.height * plane.width
        rows = np.frombuffer(memoryview(plane), np.uint8)[: plane.line_size * plane.height]
        rows = rows.reshape(plane.height, plane.line_size)
        rows[:, : plane.width] = content[at : at + size].reshape(plane.height, plane.width)
        at += size
    picture.color_range, picture.colorspace = _PLANAR[frame.encoding], frame.matrix
    return picture


def raw_rows(frame: CameraFrame, encoding: RawEncoding) -> NDArray[np.uint8]:
    """The bytes of a raw image, uint8 [H, W * bytes a pixel]: its rows without their padding.

    Raises:
        ImageError: There are not as many as the image says.
    """
    _check_raw_size(frame, encoding)
    rows = np.frombuffer(frame.payload, np.uint8).reshape(frame.height, frame.step)
    return rows[:, : frame.width * encoding.pixel_bytes]


def _wrap_raw(frame: CameraFrame) -> av.VideoFrame:
    encoding = _raw_encoding(frame)
    rows = _picture_rows(raw_rows(frame, encoding), encoding, frame.big_endian)
    channels = _SHARED.get(encoding.pix_fmt)
    if channels and rows.flags.c_contiguous:
        pixels = rows.reshape(frame.height, frame.width, channels)
        return av.VideoFrame.from_numpy_buffer(pixels, format=encoding.pix_fmt)
    picture = av.VideoFrame(frame.width, frame.height, encoding.pix_fmt)
    plane = picture.planes[0]
    canvas = np.frombuffer(memoryview(plane), np.uint8)[: plane.line_size * frame.height]
    canvas.reshape(frame.height, plane.line_size)[:, : rows.shape[1]] = rows
    picture.color_range = ColorRange.JPEG if encoding.full_range else ColorRange.MPEG
    return picture


def _picture_rows(rows: NDArray[np.uint8], encoding: RawEncoding, big_endian: bool) -> NDArray[np.uint8]:
    """Rows of the encoding's ``pix_fmt``; 16 bits become 8 by v / 257, rounded: 0..65535 on 0..255."""
    if not encoding.sixteen_bit and encoding.bayer is None:
        return rows
    samples: NDArray[Any] = rows
    if encoding.sixteen_bit:
        samples = np.ascontiguousarray(rows).view(">u2" if big_endian else "<u2")
    if encoding.bayer is not None:
        samples = demosaic(samples, encoding.bayer)
    if encoding.sixteen_bit:
        samples = (samples.astype(np.uint32) + 128) // 257
    return samples.astype(np.uint8, copy=False).reshape(len(rows), -1)


def _check_raw_size(frame: CameraFrame, encoding: RawEncoding) -> None:
    where = _where(frame)
    if frame.height <= 0 or frame.width <= 0:
        raise ImageError("the image has no pixels", where=where, got=f"{frame.height}x{frame.width}")
    if encoding.even_width and frame.width % 2:
        raise ImageError(f"{frame.encoding} needs an even width", where=where, got=frame.width)
    if encoding.bayer is not None and min(frame.height, frame.width) < 2:
        raise ImageError("a Bayer mosaic is at least 2x2", where=where, got=f"{frame.height}x{frame.width}")
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
        if frame.encoding in DEPTH_ENCODINGS:
            raise ImageError(
                "depth images do not become video",
                where=_where(frame),
                got=frame.encoding,
                hint=DEPTH_HINT,
            ) from None
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
