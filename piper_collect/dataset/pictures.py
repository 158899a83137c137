"""Decodes a whole video once and measures its pictures, one frame in memory at a time."""

from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

import av
import numpy as np
from av.error import FFmpegError
from numpy.typing import NDArray
from PIL import Image

from piper_collect.core.survey import PictureSurvey, Thumbnail
from piper_collect.errors import DatasetError

THUMBNAILS = 8
"""Small pictures kept of one video, evenly over it."""

_THUMBNAIL_WIDTH_PX = 160
_SAMPLED_WIDTH_PX = 160  # the luma is looked at on a grid of about so many columns
_MOST_PIXELS = 64_000_000
_COLOUR_EVERY = 4  # frames; enough for a mean, and scaling to RGB is the dear part


@dataclass(slots=True)
class _Measure:
    """The numbers of the frames decoded so far."""

    mean: list[float] = field(default_factory=list)
    contrast: list[float] = field(default_factory=list)
    change: list[float] = field(default_factory=list)
    key: list[bool] = field(default_factory=list)
    colour_sum: NDArray[np.float64] = field(default_factory=lambda: np.zeros((2, 3)))
    coloured: int = 0
    thumbnails: list[Thumbnail] = field(default_factory=list)
    last: NDArray[np.int16] | None = None

    def take(self, luma: NDArray[np.int16]) -> None:
        self.mean.append(float(luma.mean()))
        self.contrast.append(float(luma.std()))
        if self.last is not None and self.last.shape == luma.shape:
            self.change.append(float(np.abs(luma - self.last).mean()))
        else:
            self.change.append(np.nan)
        self.last = luma

    def take_colour(self, frame: av.VideoFrame, keep: bool) -> None:
        height = max(2, round(frame.height * _THUMBNAIL_WIDTH_PX / frame.width))
        width = min(_THUMBNAIL_WIDTH_PX, frame.width)
        small = frame.reformat(width=width, height=min(height, frame.height), format="rgb24", threads=1)
        pixels = np.asarray(small.to_ndarray(), dtype=np.uint8)
        unit = pixels.reshape(-1, 3) / 255.0
        self.colour_sum += np.stack((unit.mean(axis=0), (unit**2).mean(axis=0)))
        self.coloured += 1
        if keep:
            self.thumbnails.append(Thumbnail(time_s=float(frame.time or 0.0), pixels=pixels))


def survey_pictures(path: Path, frames: int) -> PictureSurvey:
    """Decode the first video stream of ``path`` to its end.

    Args:
        path: The video.
        frames: How many frames are expected, by which thumbnails are spread.

    Raises:
        DatasetError: when a frame cannot be decoded; it tells how many could.
    """
    keep = {round(k * max(frames - 1, 0) / (THUMBNAILS - 1)) for k in range(THUMBNAILS)}
    measure, size = _Measure(), (0, 0)
    try:
        with av.open(str(path)) as container:
            stream = container.streams.video[0]
            stream.thread_type = "AUTO"
            stream.codec_context.thread_count = 2
            if stream.codec_context.width * stream.codec_context.height > _MOST_PIXELS:
                raise DatasetError("the pictures are too large to look at", where=path.name)
            for number, frame in enumerate(container.decode(stream)):
                size = (frame.height, frame.width)
                measure.take(_luma(frame))
                measure.key.append(bool(frame.key_frame))
                if number % _COLOUR_EVERY == 0 or number in keep:
                    measure.take_colour(frame, number in keep)
    except (FFmpegError, OSError, ValueError, IndexError, MemoryError) as err:
        raise DatasetError(f"only {len(measure.mean)} frames can be decoded: {err}", where=path.name) from err
    mean, square = measure.colour_sum / max(measure.coloured, 1)
    return PictureSurvey(
        size=size,
        mean=np.array(measure.mean),
        contrast=np.array(measure.contrast),
        change=np.array(measure.change),
        key=np.array(measure.key, dtype=np.bool_),
        colour=np.stack((mean, np.sqrt(np.maximum(square - mean**2, 0.0)))),
        thumbnails=tuple(measure.thumbnails),
    )


def whole_pictures(path: Path) -> int:
    """How many frames the first video stream has when every one is decoded, and none is patched up.

    Decoders paint over what is damaged and say nothing; here that is an error. (Not every flipped bit can be
    seen by a decoder, since there is no checksum.)

    Raises:
        DatasetError: when a frame is damaged, or the file is no video.
    """
    count = 0
    try:
        with av.open(str(path), options={"err_detect": "explode"}) as container:
            stream = container.streams.video[0]
            stream.codec_context.options = {"err_detect": "explode"}
            for _ in container.decode(stream):
                count += 1
    except (FFmpegError, OSError, ValueError, IndexError) as err:
        raise DatasetError(f"only {count} frames are whole: {err}", where=path) from err
    return count


def picture_size(encoded: bytes) -> tuple[int, int]:
    """(height, width) of a picture that a table holds as PNG or JPEG, once it is decoded whole.

    Raises:
        DatasetError: when it is none.
    """
    try:
        with Image.open(BytesIO(encoded)) as picture:
            picture.load()
            return picture.height, picture.width
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as err:
        raise DatasetError(f"not a readable picture: {err}") from err


def _luma(frame: av.VideoFrame) -> NDArray[np.int16]:
    """Every n-th pixel of the luma, without converting the picture where it has a plane of its own."""
    planar = frame.format.name.startswith(("yuv", "gray", "nv12"))
    eight_bit = frame.format.components[0].bits == 8 and not frame.format.name.startswith("yuyv")
    source = frame if planar and eight_bit else frame.reformat(format="gray", threads=1)
    plane = source.planes[0]
    rows = np.frombuffer(memoryview(plane), np.uint8).reshape(-1, plane.line_size)
    step = max(1, frame.width // _SAMPLED_WIDTH_PX)
    return rows[: frame.height : step, : frame.width : step].astype(np.int16)
