"""Rigid motions: unit quaternions ``[w, x, y, z]`` and ``pose7 = [x, y, z, qw, qx, qy, qz]``.

Every function works over leading axes, broadcasts like numpy and returns new arrays. ``T_a_b`` is the
pose of b in a, so ``pose_compose(T_a_b, T_b_c)`` is ``T_a_c``. Quaternions are Hamilton's; ``q`` and
``-q`` are the same rotation.
"""

import numpy as np
from numpy.typing import ArrayLike

from piper_collect.core.types import FloatArray
from piper_collect.errors import KinematicsError

IDENTITY_POSE7 = (0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)

_MIN_NORM = 1e-9
_ROTATION_TOLERANCE = 1e-6


def _array(values: ArrayLike, last: int, what: str) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim == 0 or array.shape[-1] != last:
        raise KinematicsError(f"{what} has the wrong shape", expected=f"[..., {last}]", got=array.shape)
    return array


def quat_normalize_wxyz(quat: ArrayLike) -> FloatArray:
    """Scale quaternions [..., 4] to unit norm; the sign is kept.

    Raises:
        KinematicsError: A quaternion is zero or not finite, so that it names no rotation.
    """
    quat = _array(quat, 4, "quaternion")
    norm = np.sqrt(np.sum(quat * quat, axis=-1, keepdims=True))
    if not np.all((norm > _MIN_NORM) & np.isfinite(norm)):
        raise KinematicsError("a quaternion names no rotation", expected="a finite norm above 0", got=quat)
    unit: FloatArray = quat / norm
    return unit


def quat_multiply(a: ArrayLike, b: ArrayLike) -> FloatArray:
    """Hamilton product a*b of [..., 4] wxyz: the rotation that applies ``b`` first."""
    a, b = _array(a, 4, "quaternion"), _array(b, 4, "quaternion")
    aw, ax, ay, az = a[..., 0], a[..., 1], a[..., 2], a[..., 3]
    bw, bx, by, bz = b[..., 0], b[..., 1], b[..., 2], b[..., 3]
    return np.stack(
        (
            aw * bw - ax * bx - ay * by - az * bz,
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
        ),
        axis=-1,
    )


def quat_conjugate(quat: ArrayLike) -> FloatArray:
    """Conjugate of [..., 4] wxyz; for unit quaternions the inverse rotation."""
    conjugate: FloatArray = _array(quat, 4, "quaternion") * np.array((1.0, -1.0, -1.0, -1.0))
    return conjugate


def quat_rotate(quat: ArrayLike, vector: ArrayLike) -> FloatArray:
    """Rotate vectors [..., 3] by unit quaternions [..., 4] wxyz."""
    quat, vector = _array(quat, 4, "quaternion"), _array(vector, 3, "vector")
    qx, qy, qz = quat[..., 1], quat[..., 2], quat[..., 3]
    vx, vy, vz = vector[..., 0], vector[..., 1], vector[..., 2]
    w = quat[..., 0]
    tx, ty, tz = 2 * (qy * vz - qz * vy), 2 * (qz * vx - qx * vz), 2 * (qx * vy - qy * vx)
    return np.stack(
        (
            vx + w * tx + qy * tz - qz * ty,
            vy + w * ty + qz * tx - qx * tz,
            vz + w * tz + qx * ty - qy * tx,
        ),
        axis=-1,
    )


def quat_from_rotvec(rotvec: ArrayLike) -> FloatArray:
    """Quaternion [..., 4] wxyz of a rotation vector [..., 3] (axis times angle in rad)."""
    rotvec = _array(rotvec, 3, "rotation vector")
    half = np.sqrt(np.sum(rotvec * rotvec, axis=-1, keepdims=True)) / 2
    # sin(half) / angle, written with sinc so that it tends to 1/2 where the angle vanishes
    return np.concatenate((np.cos(half), rotvec * np.sinc(half / np.pi) / 2), axis=-1)


def yaw_quat(yaw_rad: ArrayLike) -> FloatArray:
    """Quaternion [..., 4] wxyz of a turn about +z."""
    half = np.asarray(yaw_rad, dtype=np.float64) / 2
    zero = np.zeros_like(half)
    return np.stack((np.cos(half), zero, zero, np.sin(half)), axis=-1)


def wxyz_from_xyzw(quat_xyzw: ArrayLike) -> FloatArray:
    """Reorder ROS and scipy quaternions [..., 4] to wxyz."""
    return _array(quat_xyzw, 4, "quaternion")[..., [3, 0, 1, 2]]


def xyzw_from_wxyz(quat_wxyz: ArrayLike) -> FloatArray:
    """Reorder quaternions [..., 4] to the xyzw of ROS and scipy."""
    return _array(quat_wxyz, 4, "quaternion")[..., [1, 2, 3, 0]]


def quat_from_matrix(matrix: ArrayLike) -> FloatArray:
    """Unit quaternions [..., 4] wxyz with w >= 0 of rotation matrices [..., 3, 3].

    Raises:
        KinematicsError: A matrix is not a rotation.
    """
    m = _array(matrix, 3, "rotation matrix")
    if m.ndim < 2 or m.shape[-2] != 3:
        raise KinematicsError("rotation matrix has the wrong shape", expected="[..., 3, 3]", got=m.shape)
    gram = np.swapaxes(m, -1, -2) @ m
    proper = np.linalg.det(m) > 0
    if not (np.all(np.abs(gram - np.eye(3)) < _ROTATION_TOLERANCE) and np.all(proper)):
        raise KinematicsError("a matrix is not a rotation", expected="orthonormal columns, determinant +1")
    # 4 q qT: each column is the quaternion scaled by one of its elements, and the largest one loses least
    diagonal = np.stack([m[..., 0, 0], m[..., 1, 1], m[..., 2, 2]], axis=-1)
    squares = 1.0 + np.concatenate(
        (diagonal.sum(axis=-1, keepdims=True), 2 * diagonal - diagonal.sum(axis=-1, keepdims=True)), axis=-1
    )
    product = np.empty((*m.shape[:-2], 4, 4))
    product[..., range(4), range(4)] = squares
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        product[..., 0, i + 1] = product[..., i + 1, 0] = m[..., k, j] - m[..., j, k]
        product[..., i + 1, j + 1] = product[..., j + 1, i + 1] = m[..., i, j] + m[..., j, i]
    largest = np.argmax(squares, axis=-1)[..., None, None]
    quat = quat_normalize_wxyz(np.take_along_axis(product, largest, axis=-2)[..., 0, :])
    return np.where(quat[..., :1] < 0, -quat, quat)


def matrix_from_quat(quat: ArrayLike) -> FloatArray:
    """Rotation matrices [..., 3, 3] of quaternions [..., 4] wxyz, which are scaled to unit norm.

    Raises:
        KinematicsError: A quaternion is zero or not finite.
    """
    quat = quat_normalize_wxyz(quat)
    w, x, y, z = (quat[..., k] for k in range(4))
    rows = (
        (w * w + x * x - y * y - z * z, 2 * (x * y - w * z), 2 * (x * z + w * y)),
        (2 * (x * y + w * z), w * w - x * x + y * y - z * z, 2 * (y * z - w * x)),
        (2 * (x * z - w * y), 2 * (y * z + w * x), w * w - x * x - y * y + z * z),
    )
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def pose_compose(a: ArrayLike, b: ArrayLike) -> FloatArray:
    """T_a_c [..., 7] of T_a_b and T_b_c."""
    a, b = _array(a, 7, "pose"), _array(b, 7, "pose")
    position = a[..., :3] + quat_rotate(a[..., 3:], b[..., :3])
    return np.concatenate((position, quat_multiply(a[..., 3:], b[..., 3:])), axis=-1)


def pose_inverse(pose7: ArrayLike) -> FloatArray:
    """T_b_a [..., 7] of T_a_b."""
    pose7 = _array(pose7, 7, "pose")
    inverse = quat_conjugate(pose7[..., 3:])
    return np.concatenate((-quat_rotate(inverse, pose7[..., :3]), inverse), axis=-1)


def pose_relative(a: ArrayLike, b: ArrayLike) -> FloatArray:
    """T_b_c [..., 7] of T_a_b and T_a_c: where ``b`` is, seen from ``a``.

    The positions are subtracted before they are rotated, so nothing is lost far from the origin.
    """
    a, b = _array(a, 7, "pose"), _array(b, 7, "pose")
    inverse = quat_conjugate(a[..., 3:])
    position = quat_rotate(inverse, b[..., :3] - a[..., :3])
    return np.concatenate((position, quat_multiply(inverse, b[..., 3:])), axis=-1)


def pose_error(a: ArrayLike, b: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Distance [...] in metres and angle [...] in radians (0 to pi) between two poses [..., 7]."""
    a, b = _array(a, 7, "pose"), _array(b, 7, "pose")
    metres = np.asarray(np.sqrt(np.sum((a[..., :3] - b[..., :3]) ** 2, axis=-1)))
    relative = quat_multiply(quat_conjugate(a[..., 3:]), b[..., 3:])
    sine = np.sqrt(np.sum(relative[..., 1:] ** 2, axis=-1))
    return metres, np.asarray(2 * np.arctan2(sine, np.abs(relative[..., 0])))


def matrix_from_pose(pose7: ArrayLike) -> FloatArray:
    """Homogeneous matrices [..., 4, 4] of poses [..., 7]."""
    pose7 = _array(pose7, 7, "pose")
    matrix = np.zeros((*pose7.shape[:-1], 4, 4))
    matrix[..., :3, :3] = matrix_from_quat(pose7[..., 3:])
    matrix[..., :3, 3] = pose7[..., :3]
    matrix[..., 3, 3] = 1.0
    return matrix


def pose_from_matrix(matrix: ArrayLike) -> FloatArray:
    """Poses [..., 7] (w >= 0) of homogeneous matrices [..., 4, 4]."""
    matrix = _array(matrix, 4, "homogeneous matrix")
    if matrix.ndim < 2 or matrix.shape[-2] != 4:
        raise KinematicsError("matrix has the wrong shape", expected="[..., 4, 4]", got=matrix.shape)
    return np.concatenate((matrix[..., :3, 3], quat_from_matrix(matrix[..., :3, :3])), axis=-1)


def slerp(q0: ArrayLike, q1: ArrayLike, t: ArrayLike) -> FloatArray:
    """Rotations a fraction ``t`` [...] of the shortest way from ``q0`` to ``q1`` [..., 4] wxyz.

    The result at t = 1 is ``q1`` or ``-q1``, whichever lies on the side of ``q0``.
    """
    q0, q1 = _array(q0, 4, "quaternion"), _array(q1, 4, "quaternion")
    q1 = np.where(np.sum(q0 * q1, axis=-1, keepdims=True) < 0, -q1, q1)
    fraction = np.asarray(t, dtype=np.float64)[..., None]
    difference, total = q1 - q0, q1 + q0
    angle = 2 * np.arctan2(
        np.sqrt(np.sum(difference * difference, axis=-1, keepdims=True)),
        np.sqrt(np.sum(total * total, axis=-1, keepdims=True)),
    )
    # sin(s*angle) / sin(angle), written with sinc so that it tends to s where the angle vanishes.
    turn = angle / np.pi
    start = (1 - fraction) * np.sinc((1 - fraction) * turn) / np.sinc(turn)
    end = fraction * np.sinc(fraction * turn) / np.sinc(turn)
    return quat_normalize_wxyz(start * q0 + end * q1)


def continuous_sign(quats: ArrayLike) -> FloatArray:
    """Choose signs along a track [N, 4] wxyz so that no two neighbours lie in opposite halves.

    The first row gets w >= 0 (where w is 0, its first other element that is not 0 is positive), so a
    track and its negative come out the same.

    Raises:
        KinematicsError: The track is not [N, 4] or not finite.
    """
    quats = _array(quats, 4, "quaternion track")
    if quats.ndim != 2 or not np.all(np.isfinite(quats)):
        raise KinematicsError("not a track of quaternions", expected="finite [N, 4]", got=quats.shape)
    if quats.shape[0] == 0:
        return quats.copy()
    leading = quats[0][np.flatnonzero(quats[0])[:1]]
    signs = np.where(np.sum(quats[1:] * quats[:-1], axis=-1) < 0, -1.0, 1.0)
    first = -1.0 if leading.size and leading[0] < 0 else 1.0
    return quats * np.cumprod(np.concatenate(((first,), signs)))[:, None]


def canonical_sign(quats: ArrayLike) -> FloatArray:
    """Of ``q`` and ``-q`` [..., 4] wxyz, the one with w > 0.

    Where w is 0, the one whose first other element that is not 0 is positive: the two always give the
    same result.
    """
    quats = _array(quats, 4, "quaternion")
    negative = quats[..., 0] < 0
    if np.any(quats[..., 0] == 0):
        leading = np.argmax(quats != 0, axis=-1)[..., None]
        negative = np.take_along_axis(quats, leading, axis=-1)[..., 0] < 0
    return np.where(negative[..., None], -quats, quats)


def rot6d_from_quat(quat: ArrayLike) -> FloatArray:
    """First two columns of the rotation matrix [..., 6], one after the other, of [..., 4] wxyz.

    Raises:
        KinematicsError: A quaternion is zero or not finite.
    """
    matrix = matrix_from_quat(quat)
    return np.concatenate((matrix[..., 0], matrix[..., 1]), axis=-1)


def check_unit(quats: ArrayLike, tolerance: float = 1e-3) -> None:
    """Refuse quaternions [..., 4] whose norm is not 1.

    Raises:
        KinematicsError: Names the index and norm of the first that is off by more than ``tolerance``
            or not finite.
    """
    quats = _array(quats, 4, "quaternion")
    norm = np.sqrt(np.sum(quats * quats, axis=-1))
    wrong = np.argwhere(~(np.abs(norm - 1.0) <= tolerance))
    if len(wrong):
        index = tuple(int(i) for i in wrong[0])
        raise KinematicsError(
            "a quaternion has not unit norm",
            where=f"index {', '.join(map(str, index))}" if index else None,
            expected=f"1 within {tolerance:g}",
            got=f"norm {norm[index]:.6g}",
        )
