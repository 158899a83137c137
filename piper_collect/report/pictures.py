"""Pictures inside a page: small JPEGs as data URIs, never larger than allowed."""

import base64
from dataclasses import dataclass
from io import BytesIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image

_QUALITIES = (72, 55, 38, 22)
_LEAST_WIDTH_PX = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class PageImage:
    """An encoded picture.

    Attributes:
        uri: ``data:image/jpeg;base64,…``.
        width: Columns.
        height: Rows.
    """

    uri: str
    width: int
    height: int


def page_image(pixels: NDArray[np.uint8], *, width_px: int, limit_bytes: int) -> PageImage:
    """A picture as JPEG, no wider than ``width_px`` and no longer (as a URI) than ``limit_bytes``.

    Quality goes down first, then the size; a picture 16 wide is taken however long it is.

    Args:
        pixels: uint8 [H, W, 3] RGB.
        width_px: Greatest width.
        limit_bytes: Greatest length of the URI.
    """
    picture = Image.fromarray(pixels)
    width = min(width_px, picture.width)
    while True:
        small = _fit(picture, width)
        for quality in _QUALITIES:
            uri = _data_uri(small, quality)
            if len(uri) <= limit_bytes:
                return PageImage(uri=uri, width=small.width, height=small.height)
        if width <= _LEAST_WIDTH_PX:
            return PageImage(uri=uri, width=small.width, height=small.height)
        width = max(width * 2 // 3, _LEAST_WIDTH_PX)


def _fit(picture: Image.Image, width: int) -> Image.Image:
    if width >= picture.width:
        return picture
    height = max(1, round(picture.height * width / picture.width))
    return picture.resize((width, height), Image.Resampling.LANCZOS)


def _data_uri(picture: Image.Image, quality: int) -> str:
    target = BytesIO()
    picture.save(target, format="JPEG", quality=quality, optimize=True)
    return "data:image/jpeg;base64," + base64.b64encode(target.getvalue()).decode("ascii")
