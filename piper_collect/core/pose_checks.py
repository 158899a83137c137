"""Poses against the kinematics of the Piper, and quaternions against each other."""

from typing import Literal

import numpy as np

from piper_collect.core.kinematics import DhVariant, PiperKinematics
from piper_collect.core.survey import KinematicsSurvey
from piper_collect.core.types import FloatArray

VARIANTS: tuple[DhVariant, ...] = ("s_v1_6_3", "older")


def quat_angles_deg(a: FloatArray, b: FloatArray) -> FloatArray:
    """Angle between two rotations each, in degrees: float64 [T] of unit quaternions [T, 4] in one order."""
    cosine = np.abs(np.sum(a * b, axis=1))
    angles: FloatArray = np.degrees(2 * np.arccos(np.clip(cosine, 0.0, 1.0)))
    return angles


def unit(quats: FloatArray) -> FloatArray:
    """``quats`` [T, 4] divided by their norms; a zero one stays."""
    norm = np.linalg.norm(quats, axis=1, keepdims=True)
    scaled: FloatArray = quats / np.where(norm > 0, norm, 1.0)
    return scaled


def compare_kinematics(joints_rad: FloatArray, pose7: FloatArray) -> KinematicsSurvey:
    """Measured flange poses [T, 7] against the forward kinematics of joints [T, 6], both DH variants.

    The quaternion is read as wxyz and as xyzw; where the numbers mean the other order, that one fits.
    """
    flanges = {variant: PiperKinematics(variant).forward(joints_rad) for variant in VARIANTS}
    away_mm = {v: np.linalg.norm(f[:, :3] - pose7[:, :3], axis=1) * 1e3 for v, f in flanges.items()}
    medians = {v: float(np.median(away)) for v, away in away_mm.items()}
    variant = min(VARIANTS, key=lambda v: medians[v])
    flange = flanges[variant]
    quats = unit(pose7[:, 3:])
    turned: dict[Literal["wxyz", "xyzw"], float] = {
        "wxyz": float(np.median(quat_angles_deg(quats, flange[:, 3:]))),
        "xyzw": float(np.median(quat_angles_deg(np.roll(quats, 1, axis=1), flange[:, 3:]))),
    }
    order: Literal["wxyz", "xyzw"] = "xyzw" if turned["xyzw"] < turned["wxyz"] else "wxyz"
    return KinematicsSurvey(
        variant=variant,
        median_mm=medians[variant],
        max_mm=float(np.max(away_mm[variant])),
        median_deg=turned["wxyz"],
        other_median_mm=max(medians.values()),
        order=order,
        order_median_deg=turned[order],
    )
