"""How far each camera's picture is from the first one of a dataset, measured while somebody looks."""

import asyncio
import io
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import simplejpeg
from numpy.typing import NDArray
from PIL import Image

from piper_collect.core.picture_shift import estimate_shift, mean_difference
from piper_collect.core.types import ReferenceView
from piper_collect.web.panels import Panels

_COMPARED_WIDTH_PX = 320  # of which a tenth of a pixel can still be told
_QUALITY = 88
_SAME_SHAPE = 0.02  # most that the ratios of the sides may differ by

OTHER_SHAPE = "the pictures have other proportions: they cannot be laid over each other"
CANNOT_TELL = "too little to see, or not the same scene"


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """How far a camera is off.

    Attributes:
        difference: Mean absolute difference in levels of 255; None where the pictures do not fit.
        right_px: How far the picture lies to the right, in columns of the reference; None where that cannot
            be told.
        down_px: The same downwards.
        note: Why a number is missing; empty when none is.
    """

    difference: float | None = None
    right_px: float | None = None
    down_px: float | None = None
    note: str = ""


class Alignment:
    """Compares newest pictures with a reference, in a thread of its own.

    Args:
        panels: The cameras' pictures.
        view: The reference.
    """

    def __init__(self, panels: Panels, view: ReferenceView) -> None:
        self.view = view
        self.misfits: dict[str, Misfit] = {}
        self._panels = panels
        self._compared: dict[str, int] = {}
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="alignment")

    def pictures(self) -> dict[str, bytes]:
        """Camera → the reference as JPEG."""
        return {camera: _jpeg(pixels) for camera, pixels in self.view.pictures.items()}

    async def measure(self) -> bool:
        """Compare what is new; whether anything was."""
        before = dict(self._compared)
        for camera, pixels in self.view.pictures.items():
            picture = await self._panels.newest(camera)
            if picture is not None and picture.count != self._compared.get(camera):
                loop = asyncio.get_running_loop()
                self.misfits[camera] = await loop.run_in_executor(self._worker, compare, pixels, picture.jpeg)
                self._compared[camera] = picture.count
        return self._compared != before

    def content(self) -> Mapping[str, object]:
        """The numbers as the page reads them."""
        return {
            camera: {
                "difference": misfit.difference,
                "right_px": misfit.right_px,
                "down_px": misfit.down_px,
                "note": misfit.note,
            }
            for camera, misfit in self.misfits.items()
        }

    def close(self) -> None:
        """End the thread."""
        self._worker.shutdown(wait=False, cancel_futures=True)


def compare(reference: NDArray[np.uint8], jpeg: bytes) -> Misfit:
    """How far a picture is from the reference.

    Args:
        reference: uint8 [H, W, 3] RGB.
        jpeg: The picture.
    """
    try:
        live = np.asarray(simplejpeg.decode_jpeg(jpeg, colorspace="GRAY"))[:, :, 0]
    except ValueError:
        return Misfit(note="the camera's picture cannot be read")
    rows, columns = reference.shape[:2]
    if abs(live.shape[1] / live.shape[0] / (columns / rows) - 1.0) > _SAME_SHAPE:
        return Misfit(note=OTHER_SHAPE)
    width = min(_COMPARED_WIDTH_PX, columns, live.shape[1])
    size = (width, max(2, round(rows * width / columns)))
    kept, seen = _grey(Image.fromarray(reference), size), _grey(Image.fromarray(live), size)
    difference, shift = mean_difference(kept, seen), estimate_shift(kept, seen)
    if shift is None:
        return Misfit(difference=difference, note=CANNOT_TELL)
    scale = columns / width
    return Misfit(difference=difference, right_px=shift.right_px * scale, down_px=shift.down_px * scale)


def _grey(picture: Image.Image, size: tuple[int, int]) -> NDArray[np.uint8]:
    return np.asarray(picture.convert("L").resize(size, Image.Resampling.BOX))


def _jpeg(pixels: NDArray[np.uint8]) -> bytes:
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "JPEG", quality=_QUALITY)
    return out.getvalue()
