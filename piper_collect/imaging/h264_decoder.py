"""The packets of an H.264 stream to pictures."""

from collections.abc import Iterator
from typing import Any

import av
import numpy as np
from av.error import FFmpegError
from av.video.reformatter import ColorRange

from piper_collect.core.types import CameraFrame
from piper_collect.errors import ImageError
from piper_collect.imaging.frames import color_range_of


class H264Decoder:
    """Decodes packets in the order of decoding, from a key frame on.

    Pictures come when the stream lets them, each with the stamp of its packet: at once where there are no
    B-frames.
    """

    def __init__(self) -> None:
        self._decoder = av.CodecContext.create("h264", "r")
        self._decoder.thread_count = 1
        self._decoder.options = {"err_detect": "explode"}
        self._stamps: dict[int, int] = {}
        self._count = 0

    def decode(self, packet: CameraFrame) -> Iterator[CameraFrame]:
        """The pictures that can be had once ``packet`` is there.

        Raises:
            ImageError: It cannot be decoded.
        """
        coded = av.Packet(bytes(packet.payload))
        coded.pts = self._count
        self._stamps[self._count] = packet.stamp_ns
        self._count += 1
        yield from self._pictures(coded, packet.stamp_ns)

    def rest(self) -> Iterator[CameraFrame]:
        """What is left at the end of the stream."""
        last_ns = max(self._stamps.values(), default=0)
        yield from self._pictures(None, last_ns)

    def _pictures(self, coded: "av.Packet[Any] | None", stamp_ns: int) -> Iterator[CameraFrame]:
        try:
            pictures = self._decoder.decode(coded)
        except (FFmpegError, ValueError) as err:
            raise ImageError(
                f"the H.264 packet cannot be decoded: {err}", where=f"image stamped {stamp_ns} ns"
            ) from err
        for picture in pictures:
            yield planar_frame(picture, self._stamps.pop(int(picture.pts or 0)))


def planar_frame(picture: av.VideoFrame, stamp_ns: int) -> CameraFrame:
    """A decoded 4:2:0 picture of 8 bits as a frame whose payload is its three planes.

    Raises:
        ImageError: It has another pixel format.
    """
    if picture.format.name not in ("yuv420p", "yuvj420p"):
        raise ImageError(
            "video of this pixel format is not exported",
            where=f"image stamped {stamp_ns} ns",
            expected="4:2:0 of 8 bits",
            got=picture.format.name,
        )
    planes = []
    for plane in picture.planes:
        rows = np.frombuffer(memoryview(plane), np.uint8)[: plane.line_size * plane.height]
        planes.append(rows.reshape(plane.height, plane.line_size)[:, : plane.width].tobytes())
    is_full = color_range_of(picture) == ColorRange.JPEG
    return CameraFrame(
        stamp_ns=stamp_ns,
        encoding="yuvj420p" if is_full else "yuv420p",
        height=picture.height,
        width=picture.width,
        step=picture.width,
        payload=b"".join(planes),
        matrix=int(picture.colorspace),
    )
