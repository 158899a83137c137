"""Image and video messages as camera frames."""

from collections.abc import Iterable, Iterator

import numpy as np

from piper_collect.bag.definitions import full_type_name
from piper_collect.config.video_transports import COMPRESSED_VIDEO, FFMPEG_PACKET
from piper_collect.core.types import CameraFrame
from piper_collect.errors import BagError, ImageError
from piper_collect.imaging.frames import H264, parse_compressed_format
from piper_collect.imaging.h264 import StreamParser
from piper_collect.imaging.h264_decoder import H264Decoder

VIDEO_TYPES = (FFMPEG_PACKET, COMPRESSED_VIDEO)
"""Messages with a packet of a video each."""


def is_video(type_name: str) -> bool:
    """Whether messages of a type hold a packet of a video, and no picture of their own."""
    return full_type_name(type_name) in VIDEO_TYPES


def camera_frame(topic: str, message: object, stamp_ns: int) -> CameraFrame:
    """A decoded image or video message as a CameraFrame; its bytes are not copied.

    Raises:
        BagError: The message is of another type.
        ImageError: Its compression is none that becomes video.
    """
    pixels = getattr(message, "data", None)
    if not isinstance(pixels, np.ndarray):
        raise BagError("not an image message", where=topic, got=type(message).__name__)
    payload = np.ascontiguousarray(pixels, dtype=np.uint8).data
    kind = full_type_name(str(getattr(message, "__msgtype__", "")))
    if kind in VIDEO_TYPES:
        said = str(getattr(message, "encoding" if kind == FFMPEG_PACKET else "format", ""))
        number = getattr(message, "pts", None)
        count = None if number is None else int(number)
        return _packet(topic, said, stamp_ns, payload, count)
    if hasattr(message, "encoding"):
        return CameraFrame(
            stamp_ns=stamp_ns,
            encoding=str(message.encoding),
            height=int(message.height),  # type: ignore[attr-defined]
            width=int(message.width),  # type: ignore[attr-defined]
            step=int(message.step),  # type: ignore[attr-defined]
            payload=payload,
            big_endian=bool(getattr(message, "is_bigendian", 0)),
        )
    try:
        encoding = parse_compressed_format(str(getattr(message, "format", "")), payload)
    except ImageError as err:
        raise ImageError(err.what, where=topic, got=err.got, valid=err.valid, hint=err.hint) from err
    return CameraFrame(stamp_ns=stamp_ns, encoding=encoding, height=0, width=0, step=0, payload=payload)


def frame_id_of(message: object) -> str:
    """The optical frame that a message names; empty where it names none."""
    return str(getattr(getattr(message, "header", message), "frame_id", ""))


def pictures_of(frames: Iterable[CameraFrame]) -> Iterator[CameraFrame]:
    """Frames that are pictures of their own: packets of a video become its pictures.

    Packets that cannot be decoded, because the key frame before them is not there, are left out.
    """
    parser, decoder = StreamParser(), H264Decoder()
    for frame in frames:
        if frame.encoding != H264:
            yield frame
        elif parser.add(frame.payload, stamp_ns=frame.stamp_ns, count=frame.count).is_decodable:
            yield from decoder.decode(frame)
    yield from decoder.rest()


def no_key_frame(topic: str, packets: int) -> ImageError:
    """The error of a video that cannot be decoded at all."""
    return ImageError(
        "the video has no key frame (with its parameter sets), so that nothing of it can be decoded",
        where=topic,
        got=f"{packets} packets",
        hint="let the encoder send one at least every second, with its parameter sets",
    )


def _packet(topic: str, said: str, stamp_ns: int, payload: memoryview, count: int | None) -> CameraFrame:
    """``said`` is the codec, or the encoder's name in older packets, and what is behind a semicolon."""
    codec = said.partition(";")[0].strip().lower()
    if codec not in (H264, "libx264") and not codec.startswith("h264_"):
        raise ImageError(
            "video of this format is not exported", where=topic, got=said or "no format", valid=(H264,)
        )
    return CameraFrame(
        stamp_ns=stamp_ns, encoding=H264, height=0, width=0, step=0, payload=payload, count=count
    )
