"""How far a measured motion trails the commanded one."""

import numpy as np

from piper_collect.core.survey import LagSurvey
from piper_collect.core.types import FloatArray

MOST_LAG_S = 1.0
_LEAST_ROWS = 20
_LEAST_PATH_M = 0.03
_LEAST_OVERLAP = 0.5


def estimate_lag(row_s: FloatArray, commanded_m: FloatArray, measured_m: FloatArray) -> LagSurvey | None:
    """The shift in time at which the measured positions agree best with the commanded ones.

    Both are put on an even grid of the median step; for every shift of whole steps up to ``MOST_LAG_S``
    (and half of the episode) their velocities are correlated over the rows that overlap, and a parabola
    through the best shift and its neighbours gives the part of a step.

    Args:
        row_s: float64 [T], increasing.
        commanded_m: float64 [T, 3].
        measured_m: float64 [T, 3].

    Returns:
        None where there are too few rows or too little motion to tell.
    """
    if len(row_s) < _LEAST_ROWS or not np.all(np.diff(row_s) > 0):
        return None
    step_s = float(np.median(np.diff(row_s)))
    even_s = np.arange(row_s[0], row_s[-1] + step_s / 2, step_s)
    if not _LEAST_ROWS <= len(even_s) <= 10 * len(row_s):
        return None
    commanded, measured = (_velocity(row_s, even_s, p) for p in (commanded_m, measured_m))
    moved_m = float(np.sum(np.linalg.norm(commanded, axis=1)))
    if moved_m < _LEAST_PATH_M or float(np.sum(np.linalg.norm(measured, axis=1))) < _LEAST_PATH_M:
        return None
    most = min(int(MOST_LAG_S / step_s), int(len(commanded) * _LEAST_OVERLAP))
    scores = np.array([_agreement(commanded, measured, shift) for shift in range(-most, most + 1)])
    best = int(np.argmax(scores))
    part = 0.0
    if 0 < best < len(scores) - 1:
        before, peak, after = scores[best - 1 : best + 2]
        curve = before - 2 * peak + after
        part = float((before - after) / (2 * curve)) if curve < 0 else 0.0
    return LagSurvey(
        lag_ms=(best - most + part) * step_s * 1e3, correlation=float(scores[best]), moved_m=moved_m
    )


def _velocity(row_s: FloatArray, even_s: FloatArray, position_m: FloatArray) -> FloatArray:
    even = np.stack([np.interp(even_s, row_s, axis) for axis in position_m.T], axis=1)
    return np.diff(even, axis=0)


def _agreement(commanded: FloatArray, measured: FloatArray, shift: int) -> float:
    """Correlation of the commanded velocities with the measured ones ``shift`` steps later."""
    late = measured[shift:] if shift >= 0 else measured[:shift]
    early = commanded[: len(commanded) - shift] if shift >= 0 else commanded[-shift:]
    scale = float(np.sqrt(np.sum(early**2) * np.sum(late**2)))
    return float(np.sum(early * late)) / scale if scale > 0 else 0.0
