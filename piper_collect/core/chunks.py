"""Chunks of future actions on a grid of their own rate, in the frame of the state at their start."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from piper_collect.core.types import FloatArray

POSE_WIDTH = 9
"""xyz, then the first two columns of the rotation matrix, one after the other."""

_TIE_S = 1e-6  # a tick between two rows is where float32 timestamps put it; it takes the earlier one
_NORM_TOLERANCE = 1e-3


def grid_rows(times: FloatArray, rate_hz: float) -> NDArray[np.int64]:
    """For each tick of a grid that begins with the first row, the row nearest in time, int64 [K].

    Args:
        times: float64 [T] seconds, increasing, T >= 1.
        rate_hz: Ticks a second; the last tick is not after the last row.
    """
    count = int((times[-1] - times[0]) * rate_hz + _TIE_S * rate_hz) + 1
    ticks = times[0] + np.arange(count) / rate_hz
    between = (times[1:] + times[:-1]) / 2
    rows: NDArray[np.int64] = np.searchsorted(between, ticks - _TIE_S).astype(np.int64)
    return rows


def chunk_rows(rows: NDArray[np.int64], steps: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows of the states and of the actions of all chunks, each [K * steps], chunk by chunk.

    A chunk begins at each tick with the action of its own row; where the episode is over its last action is
    repeated.

    Args:
        rows: Row of each tick, int64 [K].
        steps: Actions of a chunk.
    """
    starts = np.arange(len(rows))
    ends = np.minimum(starts[:, None] + np.arange(steps), len(rows) - 1)
    return np.repeat(rows, steps), rows[ends].ravel()


def delta_base(state: FloatArray, action: FloatArray, poses: Sequence[int]) -> FloatArray:
    """Actions [N, D] with their poses seen from those of the states: R_s^T (t_a - t_s) and R_s^T R_a.

    Args:
        state: float64 [N, D].
        action: float64 [N, D].
        poses: First element of each pose (``POSE_WIDTH`` elements); the others stay as they are.

    Raises:
        ValueError: The rotation of a pose is none.
    """
    relative = action.copy()
    for first in poses:
        xyz, rot6d = slice(first, first + 3), slice(first + 3, first + POSE_WIDTH)
        base, other = _matrices(state[:, rot6d]), _matrices(action[:, rot6d])
        relative[:, xyz] = np.einsum("nji,nj->ni", base, action[:, xyz] - state[:, xyz])
        turn = np.einsum("nji,njk->nik", base, other)
        relative[:, rot6d] = np.concatenate((turn[..., 0], turn[..., 1]), axis=1)
    return relative


def _matrices(rot6d: FloatArray) -> FloatArray:
    """Rotation matrices [N, 3, 3] of their first two columns [N, 6], made exactly orthonormal."""
    first, second = rot6d[:, :3], rot6d[:, 3:]
    off = np.abs(np.stack([_dot(first, first) - 1, _dot(second, second) - 1, _dot(first, second)])).max(
        axis=0
    )
    wrong = np.flatnonzero(~(off <= _NORM_TOLERANCE))
    if wrong.size:
        raise ValueError(f"no rotation: {rot6d[wrong[0]].tolist()}")
    x = first / np.sqrt(_dot(first, first))[:, None]
    y = second - _dot(x, second)[:, None] * x
    y /= np.sqrt(_dot(y, y))[:, None]
    return np.stack((x, y, np.cross(x, y)), axis=-1)


def _dot(a: FloatArray, b: FloatArray) -> FloatArray:
    products: FloatArray = np.sum(a * b, axis=1)
    return products
