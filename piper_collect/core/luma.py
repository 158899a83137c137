"""What can be told of a video from the brightness of its frames: black, flat, frozen, repeated."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from piper_collect.core.types import FloatArray

BLACK_LUMA = 20.0
"""Mean luma under which a flat picture is called black (video black is 16)."""

FLAT_CONTRAST = 2.0
"""Standard deviation of the luma under which a picture shows nothing: less than noise and compression leave
of any scene."""

SAME_CHANGE = 0.02
"""Mean change of the luma under which two decoded frames are the same picture: one level in a fiftieth of
the pixels. Where nothing moves, an encoder leaves nothing of the sensor's noise either, so that this alone
does not tell a frozen camera from a quiet scene."""

_SAME_SHARE = 0.01  # of the change while the picture moves: a frame sent twice is refined by the encoder
_MOVING_QUANTILE = 0.8  # of the changes; no more than three frames in four repeat another
_KEY_CHANGE = 2.0  # a key frame paints even a still picture anew
_SHORT_RUN = 3
_CLEAR = 5.0  # times the threshold: a picture that is surely a new one


def runs(flags: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """(first, one past the last) of every run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], flags, [False])).astype(np.int8)))
    return ((int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True))


def repeated(change: FloatArray, key: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether each frame is the picture of the frame before it.

    Args:
        change: float64 [F] mean absolute change of the luma to the frame before; NaN for the first.
        key: bool [F], key frames; one amid equal frames is equal to them.
    """
    known = np.nan_to_num(change, nan=np.inf)
    same = known < _threshold(change)
    before, after = np.roll(same, 1), np.roll(same, -1)
    if len(same):
        before[0], after[-1] = False, False
    merged: NDArray[np.bool_] = same | (key & (known < _KEY_CHANGE) & before & after)
    return merged


def stutters(change: FloatArray, same: NDArray[np.bool_]) -> int:
    """Frames that repeat the one before while the picture moves: short runs between clear changes."""
    clear = np.nan_to_num(change, nan=np.inf) > _CLEAR * _threshold(change)
    return sum(
        end - first
        for first, end in runs(same)
        if end - first <= _SHORT_RUN and clear[first - 1] and end < len(same) and clear[end]
    )


def _threshold(change: FloatArray) -> float:
    known = change[np.isfinite(change)]
    return (
        max(SAME_CHANGE, _SAME_SHARE * float(np.quantile(known, _MOVING_QUANTILE)))
        if known.size
        else SAME_CHANGE
    )


def flat(contrast: FloatArray) -> NDArray[np.bool_]:
    """Whether each frame shows nothing."""
    return contrast < FLAT_CONTRAST
