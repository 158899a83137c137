"""The same values in another form: units, the order of a quaternion, rotation-6D, a tool's frame."""

import numpy as np

from piper_collect.core.se3 import (
    pose_compose,
    quat_normalize_wxyz,
    rot6d_from_quat,
    xyzw_from_wxyz,
    yaw_quat,
)
from piper_collect.core.types import FloatArray

_MM_PER_M = 1000.0


def tool_pose(translation_m: tuple[float, float, float], yaw_deg: float) -> FloatArray:
    """pose7 of a frame in the flange's, turned about its z axis."""
    return np.concatenate((np.array(translation_m), yaw_quat(np.deg2rad(yaw_deg))))


def in_form(values: FloatArray, form: str, tool: FloatArray | None = None) -> FloatArray:
    """``values`` [T, D] in another form.

    Args:
        values: Radians for ``deg``, metres for ``mm``, poses [T, 7] for those of poses.
        form: ``as_is``, ``deg``, ``mm``, ``pose_xyzw`` (7 elements) or ``pose_rot6d`` (9: xyz, then the first
            two columns of the rotation matrix).
        tool: pose7 of a frame in that of the poses: its pose is taken instead, T_B_G = T_B_F @ T_F_G.

    Raises:
        ValueError: There is no such form.
    """
    if tool is not None:
        unit = np.concatenate((values[:, :3], quat_normalize_wxyz(values[:, 3:])), axis=1)
        values = pose_compose(unit, np.broadcast_to(tool, values.shape))
    if form == "as_is":
        return values
    if form == "deg":
        return np.rad2deg(values)
    if form == "mm":
        return values * _MM_PER_M
    if form == "pose_xyzw":
        return np.concatenate((values[:, :3], xyzw_from_wxyz(values[:, 3:])), axis=1)
    if form == "pose_rot6d":
        return np.concatenate((values[:, :3], rot6d_from_quat(values[:, 3:])), axis=1)
    raise ValueError(f"no form of a column is called {form!r}")
