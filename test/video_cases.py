"""Streams of H.264 as cameras send them, made with PyAV, and bags with them."""

from collections.abc import Collection, Iterable
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av.video.frame import PictureType
from export_cases import bag, grey, session
from sample_bags import MS, START, arm_messages, compressed_video, ffmpeg_packet

SIZE = (48, 64)
PERIOD_MS = 100 / 3


def pictures(count: int, size=SIZE) -> list[np.ndarray]:
    """Pictures whose grey tells their number, with a little texture of their own."""
    rng = np.random.default_rng(0)
    return [(grey(k) + rng.integers(-1, 2, (*size, 3))).clip(0, 255).astype(np.uint8) for k in range(count)]


def encoded(
    images: Iterable[np.ndarray],
    *,
    keys: Collection[int] = (0,),
    b_frames=0,
    pix_fmt="yuv420p",
    codec="libx264",
    full_range=False,
    matrix=None,
    crf=18,
) -> list[tuple[int, bytes]]:
    """The packets, in the order of decoding, each with the number of its picture.

    Key frames are those of ``keys`` only.
    """
    images = list(images)
    height, width, _ = images[0].shape
    encoder = av.CodecContext.create(codec, "w")
    encoder.height, encoder.width, encoder.pix_fmt = height, width, pix_fmt
    encoder.time_base, encoder.framerate, encoder.thread_count = Fraction(1, 30), 30, 1
    encoder.gop_size, encoder.max_b_frames = 10_000, b_frames
    encoder.color_range = 2 if full_range else 1
    if matrix is not None:
        encoder.colorspace = matrix
    encoder.options = {"preset": "veryfast", "sc_threshold": "0", "forced-idr": "1", "crf": str(crf)}
    if b_frames:
        encoder.options |= {"b_strategy": "0"}
    packets = []
    for k, image in enumerate(images):
        frame = av.VideoFrame.from_ndarray(image, format="rgb24").reformat(
            format=pix_fmt, dst_colorspace=matrix, dst_color_range=2 if full_range else 1
        )
        frame.pts, frame.pict_type = k, PictureType.I if k in keys else PictureType.NONE
        packets += encoder.encode(frame)
    packets += encoder.encode(None)
    return [(int(p.pts), bytes(p)) for p in packets]


def decoded(packets: Iterable[bytes]) -> list[np.ndarray]:
    """What FFmpeg makes of a stream."""
    decoder = av.CodecContext.create("h264", "r")
    decoder.thread_count = 1
    frames = [f for packet in packets for f in decoder.decode(av.Packet(packet))]
    return [f.to_ndarray() for f in [*frames, *decoder.decode(None)]]


def video_planes(path: Path) -> list[np.ndarray]:
    with av.open(str(path)) as container:
        return [f.to_ndarray() for f in container.decode(video=0)]


def video_messages(name, packets, transport, *, period_ms=PERIOD_MS, text=None):
    """Messages of packets, in their order; picture k was taken 1 ms after ``k * period_ms``."""
    make = ffmpeg_packet if transport == "ffmpeg" else compressed_video
    more = {} if text is None else {"text": text}
    for place, (k, packet) in enumerate(packets):
        stamp = START + round((1 + k * period_ms) * MS)
        received = START + round((10 + place * period_ms) * MS)
        yield f"/{name}/image_raw/{transport}", received, make(stamp, packet, **more)


def video_bag(path: Path, packets, transport="ffmpeg", *, frames=20, period_ms=PERIOD_MS, text=None) -> Path:
    """A recording with one camera that sends ``packets``."""
    end_ms = round(frames * period_ms)
    messages = [
        *arm_messages(int(end_ms / 5) + 1),
        *video_messages("cam", packets, transport, period_ms=period_ms, text=text),
    ]
    return bag(path, messages, session(transport=transport), end_ms=end_ms)
