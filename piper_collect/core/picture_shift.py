"""How far a picture is from where it was: mean difference, and the shift between two views of one scene."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from piper_collect.core.types import FloatArray

LEAST_PX = 32
"""Smaller pictures are not looked at."""

_LEAST_CONTRAST = 2.0  # standard deviation in grey levels of 255: below it there is noise only
_SMOOTH_PX = 1.0  # standard deviation of the blur that keeps noise of single pixels out
_NOISE = 30.0  # frequencies that are not so much stronger than the median count less: they hold noise
_LEAST_CROSS = 0.02  # strength of the weakest direction against the strongest: stripes slide along themselves
_FARTHEST = 0.25  # of a side; further apart too little of both pictures shows the same
_MOST_LEFT_PX = 3.0  # what a second look, at what both pictures show, may still find
_LEAST_PEAK = 8.0  # standard deviations above the correlation of what does not belong together
_MOST_RIVAL = 0.6  # of the peak's height: a repeated pattern has a peak for each step
_RIVAL_PX = 3
_LEAST_MATCH = 0.5  # correlation of the pictures where they overlap, once the shift is taken back


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """Where a picture lies against another one.

    Attributes:
        right_px: Columns to the right; negative to the left.
        down_px: Rows down; negative up.
    """

    right_px: float
    down_px: float


def mean_difference(picture: NDArray[np.uint8], other: NDArray[np.uint8]) -> float:
    """Mean absolute difference of two pictures of one shape, in levels of 255."""
    return float(np.abs(picture.astype(np.int16) - other.astype(np.int16)).mean())


def estimate_shift(reference: NDArray[np.uint8], picture: NDArray[np.uint8]) -> Shift | None:
    """The shift of ``picture`` against ``reference``, by phase correlation; None where it cannot be told.

    It cannot be told of flat or tiny pictures, of those that do not show the same, and beyond a quarter of
    a side. Method: C. D. Kuglin and D. C. Hines, "The phase correlation image alignment method", 1975, with
    a blur against noise and a parabola through the peak.

    Args:
        reference: uint8 [H, W], grey.
        picture: uint8 [H, W], grey.

    Raises:
        ValueError: They differ in shape.
    """
    if reference.shape != picture.shape:
        raise ValueError(f"the pictures differ in shape: {reference.shape} and {picture.shape}")
    if min(reference.shape) < LEAST_PX or min(reference.std(), picture.std()) < _LEAST_CONTRAST:
        return None
    if _crossing(reference) < _LEAST_CROSS:
        return None
    coarse = _peak(reference, picture)
    if coarse is None:
        return None
    down, right = round(coarse.down_px), round(coarse.right_px)
    rows, columns = reference.shape
    if abs(down) > _FARTHEST * rows or abs(right) > _FARTHEST * columns:
        return None
    kept, seen = _overlap(reference, picture, down, right)
    fine = _peak(kept, seen)
    if fine is None or max(abs(fine.down_px), abs(fine.right_px)) > _MOST_LEFT_PX:
        return None
    if _match(kept, seen) < _LEAST_MATCH:
        return None
    return Shift(right_px=right + fine.right_px, down_px=down + fine.down_px)


def _peak(reference: NDArray[np.uint8], picture: NDArray[np.uint8]) -> Shift | None:
    """Where the correlation of two pictures is strongest; None where that is no more than chance."""
    surface = _correlation(reference.astype(np.float64), picture.astype(np.float64))
    rows, columns = surface.shape
    row, column = (int(place) for place in np.unravel_index(int(np.argmax(surface)), surface.shape))
    if surface[row, column] < _LEAST_PEAK * surface.std():
        return None
    if _rival(surface) > _MOST_RIVAL:
        return None
    down, right = row + _peak_offset(surface[:, column], row), column + _peak_offset(surface[row], column)
    return Shift(right_px=_wrapped(right, columns), down_px=_wrapped(down, rows))


def _correlation(reference: FloatArray, picture: FloatArray) -> FloatArray:
    rows, columns = reference.shape
    window = np.outer(np.hanning(rows), np.hanning(columns))
    spectrum = np.fft.rfft2((picture - picture.mean()) * window)
    spectrum *= np.conj(np.fft.rfft2((reference - reference.mean()) * window))
    size = np.abs(spectrum)
    spectrum /= np.maximum(size + _NOISE * np.median(size), 1e-9 * size.max())
    squared = np.fft.fftfreq(rows)[:, None] ** 2 + np.fft.rfftfreq(columns)[None, :] ** 2
    spectrum *= np.exp(-2.0 * (np.pi * _SMOOTH_PX) ** 2 * squared)
    return np.asarray(np.fft.irfft2(spectrum, s=reference.shape))


def _rival(surface: FloatArray) -> float:
    """The second highest peak against the highest: near 1 where a pattern repeats."""
    from scipy import ndimage  # takes as long to import as the rest of a node

    heights = surface[surface == ndimage.maximum_filter(surface, 2 * _RIVAL_PX + 1, mode="wrap")]
    highest = np.sort(heights)[-2:]
    return float(highest[0] / highest[1]) if len(highest) > 1 else 0.0


def _crossing(picture: NDArray[np.uint8]) -> float:
    """How strong edges are in their weakest direction against their strongest, 0 to 1."""
    from scipy import ndimage

    down, right = np.gradient(ndimage.gaussian_filter(picture.astype(np.float64), 2.0 * _SMOOTH_PX))
    weak, strong = np.linalg.eigvalsh(np.cov(np.stack([down.ravel(), right.ravel()])))
    return float(weak / strong) if strong > 0.0 else 0.0


def _peak_offset(line: FloatArray, place: int) -> float:
    """Where between its neighbours the peak lies, by the parabola through the three; -0.5 to 0.5."""
    before, peak, after = line[place - 1], line[place], line[(place + 1) % len(line)]
    bend = before - 2.0 * peak + after
    return 0.0 if bend >= 0.0 else float(np.clip(0.5 * (before - after) / bend, -0.5, 0.5))


def _wrapped(place: float, size: int) -> float:
    return place - size if place > size / 2 else place


def _overlap(
    reference: NDArray[np.uint8], picture: NDArray[np.uint8], down: int, right: int
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """What both pictures show, once ``picture`` is put back by whole pixels."""
    rows, columns = reference.shape
    kept = reference[max(0, -down) : rows - max(0, down), max(0, -right) : columns - max(0, right)]
    seen = picture[max(0, down) : rows - max(0, -down), max(0, right) : columns - max(0, -right)]
    return kept, seen


def _match(picture: NDArray[np.uint8], other: NDArray[np.uint8]) -> float:
    """Correlation of two pictures, -1 to 1."""
    a, b = picture - picture.mean(), other - other.mean()
    size = float(np.sqrt((a * a).sum() * (b * b).sum()))
    return float((a * b).sum()) / size if size > 0.0 else 0.0
