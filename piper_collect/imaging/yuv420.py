"""Pictures as videos hold them: yuv420p of limited range, BT.601."""

import av
from av.video.reformatter import ColorRange, Colorspace, Interpolation, VideoReformatter

from piper_collect.imaging.frames import color_range_of

PIX_FMT = "yuv420p"

# From four bytes a pixel FFmpeg converts faster than from three; from bgr24 it also takes a shortcut that is
# off by up to 5 levels.
_FOUR_BYTES = {"rgb24": "rgb0", "bgr24": "bgr0"}
_RGB = ("rgb0", "bgr0", "rgba", "bgra")
# The chroma of a sample is the mean of its four pixels, as in JPEG; a test holds it within a level.
_MEAN = Interpolation.AREA
# Where only the range changes, in the planes that a JPEG of 4:2:0 has, ACCURATE_RND gives the same numbers
# more slowly.
_RANGE_ONLY = ("yuvj420p", "yuv420p")
_EXACT = Interpolation.BILINEAR | Interpolation.ACCURATE_RND


class Yuv420Converter:
    """Converts one camera's pictures, one after the other.

    What FFmpeg sets up for a conversion is kept from picture to picture.
    """

    def __init__(self) -> None:
        self._widen = VideoReformatter()
        self._convert = VideoReformatter()

    def convert(self, picture: av.VideoFrame) -> av.VideoFrame:
        """yuv420p of limited range and BT.601; the picture itself where it is that already."""
        wide = _FOUR_BYTES.get(picture.format.name)
        if wide is not None:
            picture = self._widen.reformat(picture, format=wide, threads=1)
        return self._convert.reformat(
            picture,
            format=PIX_FMT,
            src_color_range=color_range_of(picture),
            dst_color_range=ColorRange.MPEG,
            dst_colorspace=Colorspace.ITU601,
            interpolation=_interpolation(picture.format.name),
            threads=1,
        )


def _interpolation(pix_fmt: str) -> Interpolation:
    if pix_fmt in _RGB:
        return _MEAN
    return Interpolation.BILINEAR if pix_fmt in _RANGE_ONLY else _EXACT
