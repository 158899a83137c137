"""How far apart two motions are at the same times."""

from dataclasses import dataclass

import numpy as np

from piper_collect.core.se3 import pose_error
from piper_collect.core.types import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PathErrors:
    """The distance of two motions over time.

    Attributes:
        time_s: float64 [M], in the order given.
        position_m: float64 [M].
        rotation_rad: float64 [M], angle between the rotations.
        width_m: float64 [M] of gripper widths, signed; None where one of the two has none.
    """

    time_s: FloatArray
    position_m: FloatArray
    rotation_rad: FloatArray
    width_m: FloatArray | None = None

    @property
    def count(self) -> int:
        """M."""
        return len(self.time_s)

    @property
    def position_rms_mm(self) -> float:
        """Root mean square of the distance."""
        return _rms(self.position_m) * 1e3

    @property
    def position_max_mm(self) -> float:
        """Greatest distance."""
        return float(self.position_m.max()) * 1e3

    @property
    def rotation_rms_deg(self) -> float:
        """Root mean square of the angle."""
        return float(np.degrees(_rms(self.rotation_rad)))

    @property
    def rotation_max_deg(self) -> float:
        """Greatest angle."""
        return float(np.degrees(self.rotation_rad.max()))

    @property
    def width_rms_mm(self) -> float | None:
        """Root mean square of the difference of the widths."""
        return None if self.width_m is None else _rms(self.width_m) * 1e3

    @property
    def width_max_mm(self) -> float | None:
        """Greatest difference of the widths."""
        return None if self.width_m is None else float(np.abs(self.width_m).max()) * 1e3


def path_errors(
    time_s: FloatArray,
    first_pose7: FloatArray,
    second_pose7: FloatArray,
    first_width_m: FloatArray | None = None,
    second_width_m: FloatArray | None = None,
) -> PathErrors | None:
    """Compare two motions, time by time.

    Args:
        time_s: [M].
        first_pose7: [M, 7].
        second_pose7: [M, 7].
        first_width_m: [M], or None.
        second_width_m: [M], or None.

    Returns:
        None where there is no time to compare at.
    """
    if not len(time_s):
        return None
    metres, radians = pose_error(first_pose7, second_pose7)
    width = None if first_width_m is None or second_width_m is None else first_width_m - second_width_m
    return PathErrors(time_s=time_s, position_m=metres, rotation_rad=radians, width_m=width)


def _rms(values: FloatArray) -> float:
    return float(np.sqrt(np.mean(values**2)))
