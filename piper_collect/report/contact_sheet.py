"""A contact sheet: one row an episode, one picture a camera, with a line of text above each."""

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from piper_collect.core.types import Names
from piper_collect.files import write_atomic

_THUMB_WIDTH_PX = 320
_TEXT_PX = 14
_MARGIN_PX = 8
_PAPER = (250, 250, 248)
_INK = (30, 30, 30)


@dataclass(frozen=True, slots=True, kw_only=True)
class SheetRow:
    """One episode on the sheet.

    Attributes:
        title: What is said of it.
        pictures: uint8 [H, W, 3] RGB, one a caption.
        captions: Camera names.
    """

    title: str
    pictures: Sequence[NDArray[np.uint8]]
    captions: Names


def write_contact_sheet(path: Path, rows: Sequence[SheetRow]) -> None:
    """Write the sheet as a PNG.

    Raises:
        OSError: when ``path`` cannot be written.
        ValueError: when there is nothing to show.
    """
    if not any(row.pictures for row in rows):
        raise ValueError("a contact sheet needs at least one picture")
    font = ImageFont.load_default(_TEXT_PX)
    strips = [_row(row, font) for row in rows]
    width = max(strip.width for strip in strips)
    sheet = Image.new("RGB", (width, sum(strip.height for strip in strips) + _MARGIN_PX), _PAPER)
    top = 0
    for strip in strips:
        sheet.paste(strip, (0, top))
        top += strip.height
    write_atomic(path, _png(sheet))


def _png(image: Image.Image) -> bytes:
    target = BytesIO()
    image.save(target, format="PNG", optimize=True)
    return target.getvalue()


def _row(row: SheetRow, font: ImageFont.FreeTypeFont | ImageFont.ImageFont) -> Image.Image:
    thumbs = [_thumb(picture) for picture in row.pictures]
    line = _TEXT_PX + _MARGIN_PX
    height = 2 * line + _MARGIN_PX + max((thumb.height for thumb in thumbs), default=0)
    width = _MARGIN_PX + max(len(thumbs), 2) * (_THUMB_WIDTH_PX + _MARGIN_PX)
    strip = Image.new("RGB", (width, height), _PAPER)
    draw = ImageDraw.Draw(strip)
    draw.text((_MARGIN_PX, _MARGIN_PX), row.title, fill=_INK, font=font)
    for k, (thumb, caption) in enumerate(zip(thumbs, row.captions, strict=True)):
        left = _MARGIN_PX + k * (_THUMB_WIDTH_PX + _MARGIN_PX)
        draw.text((left, line + _MARGIN_PX), caption, fill=_INK, font=font)
        strip.paste(thumb, (left, 2 * line + _MARGIN_PX))
    return strip


def _thumb(picture: NDArray[np.uint8]) -> Image.Image:
    image = Image.fromarray(picture)
    height = max(1, round(image.height * _THUMB_WIDTH_PX / image.width))
    return image.resize((_THUMB_WIDTH_PX, height), Image.Resampling.LANCZOS)
