"""The same values in another form: units, the order of a quaternion, rotation-6D, a tool's frame."""

import numpy as np

from piper_collect.core.se3 import (
    pose_compose,
    pose_relative,
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


def local_poses(values: FloatArray) -> FloatArray:
    """Poses [T, 7] as seen from the first one: T_0⁻¹ T_i, the first of which is the identity.

    Quaternions are taken as rotations, of whatever norm; their signs stay continuous.
    """
    unit = _unit_poses(values)
    return pose_relative(np.broadcast_to(unit[0], unit.shape), unit)


def next_rows(values: FloatArray) -> FloatArray:
    """Each row's successor [T, D]; the last row keeps its own."""
    return np.concatenate((values[1:], values[-1:]))


def _unit_poses(values: FloatArray) -> FloatArray:
    return np.concatenate((values[:, :3], quat_normalize_wxyz(values[:, 3:])), axis=1)


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
        values = pose_compose(_unit_poses(values), np.broadcast_to(tool, values.shape))
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
