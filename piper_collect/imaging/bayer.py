"""Colour from a Bayer mosaic: plain bilinear interpolation, exact for odd sizes and at the borders.

FFmpeg has a demosaicing of its own, but it copies pixels at the borders and reads beyond small images.
"""

from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

BayerPattern: TypeAlias = Literal["rggb", "bggr", "gbrg", "grbg"]
"""Colours of the upper left 2 x 2 pixels, row by row."""

_RED_AT: dict[BayerPattern, tuple[int, int]] = {
    "rggb": (0, 0),
    "bggr": (1, 1),
    "gbrg": (1, 0),
    "grbg": (0, 1),
}


def demosaic(mosaic: NDArray[Any], pattern: BayerPattern) -> NDArray[Any]:
    """Interpolate a Bayer mosaic bilinearly.

    A pixel keeps the colour that it measured; each of the other two is the mean of its nearest pixels of
    that colour (two or four), rounded half up. Beyond the border the image goes on as its mirror image
    about the border pixels, which keeps the pattern.

    Args:
        mosaic: uint8 or uint16 [H, W], at least 2 x 2.
        pattern: The colours of its upper left corner.

    Returns:
        RGB of the same type, [H, W, 3].
    """
    height, width = mosaic.shape
    wide = np.pad(mosaic.astype(np.uint32), 1, mode="reflect")
    up, down, left, right = wide[:-2, 1:-1], wide[2:, 1:-1], wide[1:-1, :-2], wide[1:-1, 2:]
    corners = wide[:-2, :-2] + wide[:-2, 2:] + wide[2:, :-2] + wide[2:, 2:]
    horizontal, vertical, diagonal = (left + right + 1) >> 1, (up + down + 1) >> 1, (corners + 2) >> 2
    cross = (left + right + up + down + 2) >> 2

    rgb = np.empty((height, width, 3), mosaic.dtype)
    row, column = _RED_AT[pattern]
    for channel, (r, c) in ((0, (row, column)), (2, (1 - row, 1 - column))):
        other_row, other_column = 1 - r, 1 - c
        for (y, x), source in (
            ((r, c), mosaic),
            ((r, other_column), horizontal),
            ((other_row, c), vertical),
            ((other_row, other_column), diagonal),
        ):
            rgb[y::2, x::2, channel] = source[y::2, x::2]
        rgb[r::2, c::2, 1] = cross[r::2, c::2]
        rgb[r::2, other_column::2, 1] = mosaic[r::2, other_column::2]
    return rgb
