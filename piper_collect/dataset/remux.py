"""Videos put one after the other, or taken apart, packet by packet: no picture is decoded or encoded."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from av.error import FFmpegError

from piper_collect.core.types import FloatArray
from piper_collect.dataset.dialect import VideoClip
from piper_collect.errors import DatasetError
from piper_collect.files import sync

# The box that it leaves out holds the largest bit rate of the clip that came first.
_SAME_BYTES = {"write_btrt": "0"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipFacts:
    """What is known of a clip without decoding it.

    Attributes:
        frames: How many packets it has.
        payload_bytes: Their size in all.
        length_s: From its start to the end of its last frame.
        coded: What must be equal for clips to lie in one file: codec, size, pixel format, time base, and what
            the decoder needs before the first packet.
    """

    frames: int
    payload_bytes: int
    length_s: Fraction
    coded: tuple[Any, ...]


def clip_facts(clip: VideoClip) -> ClipFacts:
    """Read the packets of a clip.

    Raises:
        DatasetError: It cannot be read, or has no frames.
    """
    with _opened(clip) as (container, stream):
        base = Fraction(stream.time_base or 0)
        frames, payload, end = 0, 0, 0
        for packet, pts in _packets(container, stream, clip):
            frames, payload = frames + 1, payload + packet.size
            end = max(end, pts + (packet.duration or 0))
        context = stream.codec_context
        coded = (context.name, context.width, context.height, context.pix_fmt, base, context.extradata)
    if not frames:
        raise DatasetError("the video has no frame of the episode", where=_name(clip))
    return ClipFacts(frames=frames, payload_bytes=payload, length_s=end * base, coded=coded)


def clip_times(clip: VideoClip) -> FloatArray:
    """PTS of every frame of a clip in seconds since its start, float64 [F], increasing.

    Raises:
        DatasetError: It cannot be read.
    """
    with _opened(clip) as (container, stream):
        base = Fraction(stream.time_base or 0)
        pts = [pts for _, pts in _packets(container, stream, clip)]
    return np.sort(np.array(pts, dtype=np.float64)) * base.numerator / base.denominator


def join_clips(clips: Sequence[VideoClip], path: Path) -> None:
    """Write an mp4 of the clips, each beginning where the one before ends, and flush it to the disk.

    All of them are coded alike (``ClipFacts.coded``). The file depends on their packets only, so that adding
    clips to a file one at a time and all at once come to the same bytes.

    Raises:
        DatasetError: One cannot be read, or the file cannot be written.
    """
    with _opened(clips[0]) as (_, template):
        base = Fraction(template.time_base or 0)
        try:
            out = av.open(
                os.fspath(path),
                "w",
                format="mp4",
                options={"video_track_timescale": str(base.denominator), **_SAME_BYTES},
            )
            # opaque: a decoder such as libdav1d has no encoder of its name, and none is needed
            stream = out.add_stream_from_template(template, opaque=True)
        except (FFmpegError, OSError, ValueError) as err:
            raise DatasetError(f"the video cannot be written: {err}", where=path.name) from err
        stream.time_base = base
    with out:
        offset = 0
        for clip in clips:
            offset = _copied(clip, out, stream, base, offset)
    sync(path)


def _copied(clip: VideoClip, out: Any, stream: Any, base: Fraction, offset: int) -> int:
    """Put a clip in at ``offset`` ticks; gives where it ends."""
    end = offset
    with _opened(clip) as (container, source):
        start = round(clip.start_s / base)
        for packet, pts in _packets(container, source, clip):
            end = max(end, offset + pts + (packet.duration or 0))
            packet.dts = (packet.pts if packet.dts is None else packet.dts) - start + offset
            packet.pts = pts + offset
            packet.stream = stream
            try:
                out.mux(packet)
            except FFmpegError as err:
                raise DatasetError(f"a video cannot be put into another: {err}", where=_name(clip)) from err
    return end


def _packets(container: Any, stream: Any, clip: VideoClip) -> Iterator[tuple[Any, int]]:
    """The packets of a clip with their PTS since its start, in the order stored."""
    base = Fraction(stream.time_base or 0)
    start = round(clip.start_s / base)
    stop = None if clip.end_s is None else round(clip.end_s / base)
    try:
        if start:
            container.seek(start, stream=stream)
        for packet in container.demux(stream):
            if packet.size == 0 or packet.pts is None or packet.is_discard or packet.pts < start:
                continue
            if stop is not None and packet.pts >= stop:
                if packet.is_keyframe:
                    return
                continue
            yield packet, packet.pts - start
    except (FFmpegError, OSError) as err:
        raise DatasetError(f"not a readable video: {err}", where=_name(clip)) from err


class _opened:
    """The container and the first video stream of a clip, closed at the end."""

    def __init__(self, clip: VideoClip) -> None:
        self._clip = clip

    def __enter__(self) -> tuple[Any, Any]:
        source = self._clip.source
        if not isinstance(source, Path):
            source.seek(0)  # it may have been read before
        try:
            self._container = av.open(os.fspath(source) if isinstance(source, Path) else source)
        except (FFmpegError, OSError) as err:
            raise DatasetError(f"not a readable video: {err}", where=_name(self._clip)) from err
        if not self._container.streams.video:
            self._container.close()
            raise DatasetError("holds no video", where=_name(self._clip))
        return self._container, self._container.streams.video[0]

    def __exit__(self, *_: object) -> None:
        self._container.close()


def _name(clip: VideoClip) -> object:
    return clip.source if isinstance(clip.source, Path) else "video"
