"""Forward and inverse kinematics of the AgileX Piper, base_link to flange.

Constants: the modified (Craig) DH table of ``piper_sdk`` 0.6.2 ``kinematics/piper_fk.py``,
``T = Rx(alpha) Tx(a) Rz(q + theta0) Tz(d)``. Firmware from S-V1.6-3 on moved the zeros of joints 2 and 3
by two degrees (``dh_is_offset=1`` there, ``s_v1_6_3`` here); with the older table the same joints
give a flange 9.95 mm away in the same orientation. Frame 6 is the flange (``link6``, the SDK's end
pose), z6 the approach direction.

The parallel axes 2 and 3 and the meeting axes 4 to 6 reduce the chain to
``R = Rz(q1) Ry(t2 + t3) Rz(q4) Ry(q5) Rz(q6)``, where t is q + theta0, and to a wrist centre
``Rz(q1) (Ry(t2) (L1, 0, 0) + Ry(t2 + t3) (a, 0, d))`` above the shoulder. Both the scalar forward
path and the inverse rest on that.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from piper_collect.core.piper_firmware import ZEROS_MOVED, firmware_version
from piper_collect.core.se3 import quat_from_matrix
from piper_collect.core.types import FloatArray
from piper_collect.errors import KinematicsError

DhVariant: TypeAlias = Literal["s_v1_6_3", "older"]
Joints: TypeAlias = tuple[float, float, float, float, float, float]
Pose7: TypeAlias = tuple[float, float, float, float, float, float, float]
Limits: TypeAlias = Sequence[tuple[float, float]]

JOINT_NAMES = ("joint1", "joint2", "joint3", "joint4", "joint5", "joint6")
GRIPPER_NAME = "gripper"

JOINT_LIMITS_RAD = (
    (-2.6179, 2.6179),
    (0.0, 3.14),
    (-2.967, 0.0),
    (-1.745, 1.745),
    (-1.22, 1.22),
    (-2.09439, 2.09439),
)
"""Software limits of ``piper_sdk`` 0.6.2 (the mechanical stops lie a little beyond most of them)."""

JOINT_SPEED_RAD_S = (3.0, 3.0, 3.0, 3.0, 3.0, 3.0)
"""The lowest of the joint velocities in AgileX's URDF (5 rad/s for joints 1 to 5, 3 rad/s for joint 6)."""

GRIPPER_WIDTH_M = (0.0, 0.07)
"""Full opening of the standard gripper (``piper_sdk`` 0.6.2)."""

WORKING_POSE_RAD: Joints = (0.0, 1.2, -1.0, 0.0, 0.5, 0.0)
"""Flange 0.34 m up and 0.26 m in front of the base, far from limits and singularities."""

TOOL_TIP_M = 0.1358
"""Flange to the fingers' joint along z6 (AgileX's gripper URDF, joint7 origin)."""

LINK_POINT_NAMES = ("base", "shoulder", "elbow", "forearm", "wrist", "flange", "tool_tip")

SHOULDER_HEIGHT_M = 0.123
UPPER_ARM_M = 0.28503
FOREARM_A_M = -0.02198
FOREARM_D_M = 0.25075
FLANGE_M = 0.091

_THETA0_DEG: dict[str, tuple[float, float]] = {"s_v1_6_3": (-172.22, -102.78), "older": (-174.22, -100.78)}
_FOREARM_M = math.hypot(FOREARM_A_M, FOREARM_D_M)
_FOREARM_ANGLE = math.atan2(-FOREARM_D_M, FOREARM_A_M)
_SINGULAR = 1e-7  # sine of q5, or metres of wrist centre from axis 1, under which the angle is free
_REACH_SLACK = 1e-9  # cosine by which rounding may put a stretched arm out of reach
_LIMIT_SLACK_RAD = 1e-7  # rounding; a solution this far outside is put on the limit
_TURN = 2 * math.pi


def dh_offset_for_firmware(firmware: str) -> DhVariant | None:
    """DH variant of a firmware version as the arm reports it, e.g. ``S-V1.8-5``; None if unreadable."""
    version = firmware_version(firmware)
    if version is None:
        return None
    return "s_v1_6_3" if version >= ZEROS_MOVED else "older"


def wrap_angle(angle_rad: float) -> float:
    """The same angle in (-pi, pi]."""
    return math.pi - (math.pi - angle_rad) % _TURN


class PiperKinematics:
    """The kinematics of one Piper.

    Args:
        dh_offset: ``s_v1_6_3`` for firmware S-V1.6-3 and newer, ``older`` before that.

    Raises:
        KinematicsError: Another variant is asked for.
    """

    def __init__(self, dh_offset: DhVariant) -> None:
        if dh_offset not in _THETA0_DEG:
            raise KinematicsError("unknown DH variant", got=dh_offset, valid=_THETA0_DEG)
        self.dh_offset: DhVariant = dh_offset
        self._theta2, self._theta3 = (math.radians(degrees) for degrees in _THETA0_DEG[dh_offset])

    @property
    def dh_table(self) -> FloatArray:
        """Modified DH rows [6, 4]: alpha rad, a m, d m, theta0 rad."""
        quarter = math.pi / 2
        return np.array(
            [
                (0.0, 0.0, SHOULDER_HEIGHT_M, 0.0),
                (-quarter, 0.0, 0.0, self._theta2),
                (0.0, UPPER_ARM_M, 0.0, self._theta3),
                (quarter, FOREARM_A_M, FOREARM_D_M, 0.0),
                (-quarter, 0.0, 0.0, 0.0),
                (quarter, 0.0, FLANGE_M, 0.0),
            ]
        )

    def forward(self, q: ArrayLike) -> FloatArray:
        """Flange poses [..., 7] (base_link, w >= 0) of joints [..., 6] in rad."""
        frames = self.frames(q)
        return np.concatenate(
            (frames[..., 5, :3, 3], quat_from_matrix(frames[..., 5, :3, :3])), axis=-1, dtype=np.float64
        )

    def frames(self, q: ArrayLike) -> FloatArray:
        """DH frames 1 to 6 [..., 6, 4, 4] in base_link of joints [..., 6] in rad."""
        joints = np.asarray(q, dtype=np.float64)
        if joints.ndim == 0 or joints.shape[-1] != 6 or not np.all(np.isfinite(joints)):
            raise KinematicsError("not joint angles", expected="finite [..., 6]", got=joints.shape)
        frames = np.zeros((*joints.shape, 4, 4))
        frame = np.broadcast_to(np.eye(4), (*joints.shape[:-1], 4, 4))
        for i, (alpha, a, d, theta0) in enumerate(self.dh_table):
            ca, sa = math.cos(alpha), math.sin(alpha)
            ct, s_t = np.cos(joints[..., i] + theta0), np.sin(joints[..., i] + theta0)
            step = np.zeros_like(frame)
            step[..., 0, 0], step[..., 0, 1], step[..., 0, 3] = ct, -s_t, a
            step[..., 1, 0], step[..., 1, 1], step[..., 1, 2], step[..., 1, 3] = (
                s_t * ca,
                ct * ca,
                -sa,
                -sa * d,
            )
            step[..., 2, 0], step[..., 2, 1], step[..., 2, 2], step[..., 2, 3] = s_t * sa, ct * sa, ca, ca * d
            step[..., 3, 3] = 1.0
            frame = frame @ step
            frames[..., i, :, :] = frame
        return frames

    def link_points(self, q: ArrayLike) -> FloatArray:
        """Points [..., 7, 3] along the arm in base_link, named by LINK_POINT_NAMES, for drawing."""
        frames = self.frames(q)
        origin = frames[..., :3, 3]
        elbow, flange = origin[..., 2, :], origin[..., 5, :]
        forearm = elbow + FOREARM_A_M * frames[..., 2, :3, 0]
        tip = flange + TOOL_TIP_M * frames[..., 5, :3, 2]
        base = np.zeros_like(flange)
        return np.stack((base, origin[..., 0, :], elbow, forearm, origin[..., 3, :], flange, tip), axis=-2)

    def forward_scalar(self, q: Sequence[float]) -> Pose7:
        """``forward`` of one joint vector in plain floats: the path for control loops."""
        t2, t23 = q[1] + self._theta2, q[1] + self._theta2 + q[2] + self._theta3
        c1, s1, c23, s23 = math.cos(q[0]), math.sin(q[0]), math.cos(t23), math.sin(t23)
        quat = _turn_z(_turn_y(_turn_z(_turn_y(_turn_z((1.0, 0.0, 0.0, 0.0), q[0]), t23), q[3]), q[4]), q[5])
        w, x, y, z = quat if quat[0] >= 0 else (-quat[0], -quat[1], -quat[2], -quat[3])
        out = UPPER_ARM_M * math.cos(t2) + FOREARM_A_M * c23 + FOREARM_D_M * s23
        up = SHOULDER_HEIGHT_M - UPPER_ARM_M * math.sin(t2) - FOREARM_A_M * s23 + FOREARM_D_M * c23
        px = c1 * out + FLANGE_M * 2 * (x * z + w * y)
        py = s1 * out + FLANGE_M * 2 * (y * z - w * x)
        return px, py, up + FLANGE_M * (1 - 2 * (x * x + y * y)), w, x, y, z

    def inverse(self, pose7: Sequence[float] | FloatArray) -> list[Joints]:
        """All joint solutions of a flange pose, each angle in (-pi, pi], limits not considered.

        Up to eight: shoulder in front or behind, elbow up or down, wrist flipped or not. Where an
        angle is free (wrist centre over the base, wrist stretched) it is 0. Empty out of reach.

        Raises:
            KinematicsError: The pose is not finite or its quaternion is zero.
        """
        return list(self._branches(_unit_pose(pose7), 0.0, 0.0))

    def inverse_near(
        self,
        pose7: Sequence[float] | FloatArray,
        reference_q: Sequence[float],
        limits: Limits = JOINT_LIMITS_RAD,
    ) -> Joints | None:
        """The solution inside ``limits`` that is nearest (sum of squares) to ``reference_q``.

        Angles that a singularity leaves free stay as near to those of the reference as the limits
        let them. None if no solution lies inside the limits.

        Raises:
            KinematicsError: The pose is not finite or its quaternion is zero.
        """
        best, best_cost = None, math.inf
        free_q1 = min(max(reference_q[0], limits[0][0]), limits[0][1])
        for branch in self._branches(_unit_pose(pose7), free_q1, reference_q[3]):
            stretched = branch[4] == 0.0  # said exactly by the singular case, and by it alone
            balanced = _balance_roll(branch, reference_q[3], limits) if stretched else branch
            inside = _into_limits(balanced, reference_q, limits)
            if inside is None:
                continue
            cost = sum((a - b) ** 2 for a, b in zip(inside, reference_q, strict=True))
            if cost < best_cost:
                best, best_cost = inside, cost
        return best

    def _branches(self, pose: Pose7, free_q1: float, free_q4: float) -> Iterator[Joints]:
        px, py, pz, w, x, y, z = pose
        zx, zy, zz = 2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)
        wx, wy, up = px - FLANGE_M * zx, py - FLANGE_M * zy, pz - FLANGE_M * zz - SHOULDER_HEIGHT_M
        radius = math.hypot(wx, wy)
        facing = math.atan2(wy, wx) if radius > _SINGULAR else free_q1
        for q1, out in ((facing, radius), (facing + math.pi, -radius)):
            cosine = out * out + up * up - UPPER_ARM_M**2 - _FOREARM_M**2
            cosine /= 2 * UPPER_ARM_M * _FOREARM_M
            if abs(cosine) > 1 + _REACH_SLACK:
                continue
            bend = math.acos(max(-1.0, min(1.0, cosine)))
            for elbow in (bend, -bend) if bend > 0 else (bend,):
                t2 = math.atan2(-up, out) - math.atan2(
                    _FOREARM_M * math.sin(elbow), UPPER_ARM_M + _FOREARM_M * math.cos(elbow)
                )
                t3 = elbow - _FOREARM_ANGLE
                for q4, q5, q6 in _wrist((w, x, y, z), q1, t2 + t3, free_q4):
                    q2, q3 = wrap_angle(t2 - self._theta2), wrap_angle(t3 - self._theta3)
                    yield wrap_angle(q1), q2, q3, wrap_angle(q4), q5, wrap_angle(q6)


def _turn_z(quat: tuple[float, float, float, float], angle: float) -> tuple[float, float, float, float]:
    w, x, y, z = quat
    c, s = math.cos(angle / 2), math.sin(angle / 2)
    return w * c - z * s, x * c + y * s, y * c - x * s, z * c + w * s


def _turn_y(quat: tuple[float, float, float, float], angle: float) -> tuple[float, float, float, float]:
    w, x, y, z = quat
    c, s = math.cos(angle / 2), math.sin(angle / 2)
    return w * c - y * s, x * c - z * s, y * c + w * s, z * c + x * s


def _wrist(
    quat: tuple[float, float, float, float], q1: float, t23: float, free_q4: float
) -> Iterator[tuple[float, float, float]]:
    """Both (q4, q5, q6) with Rz(q4) Ry(q5) Rz(q6) = Ry(-t23) Rz(-q1) R."""
    # Half-angle form of ZYZ: w = cos(q5/2) cos((q4+q6)/2), z = cos(q5/2) sin((q4+q6)/2),
    # y = sin(q5/2) cos((q6-q4)/2), x = sin(q5/2) sin((q6-q4)/2).
    base = _turn_y(_turn_z((1.0, 0.0, 0.0, 0.0), q1), t23)
    bw, bx, by, bz = base[0], -base[1], -base[2], -base[3]
    w, x, y, z = quat
    rw, rx = bw * w - bx * x - by * y - bz * z, bw * x + bx * w + by * z - bz * y
    ry, rz = bw * y - bx * z + by * w + bz * x, bw * z + bx * y - by * x + bz * w
    along, across = math.hypot(rw, rz), math.hypot(rx, ry)
    q5 = 2 * math.atan2(across, along)
    if 2 * across < _SINGULAR:
        yield free_q4, 0.0, 2 * math.atan2(rz, rw) - free_q4
        return
    if 2 * along < _SINGULAR:
        yield free_q4, math.pi, 2 * math.atan2(rx, ry) + free_q4
        return
    half_sum, half_difference = math.atan2(rz, rw), math.atan2(rx, ry)
    q4, q6 = half_sum - half_difference, half_sum + half_difference
    yield q4, q5, q6
    yield q4 + math.pi, -q5, q6 + math.pi


def _unit_pose(pose7: Sequence[float] | FloatArray) -> Pose7:
    if len(pose7) != 7:
        raise KinematicsError("not a pose", expected="[x, y, z, qw, qx, qy, qz]", got=pose7)
    px, py, pz, w, x, y, z = (float(value) for value in pose7)
    norm = math.sqrt(w * w + x * x + y * y + z * z)
    if not (math.isfinite(px + py + pz + norm) and norm > 1e-9):
        raise KinematicsError("not a pose", expected="finite numbers and a quaternion above 0", got=pose7)
    return px, py, pz, w / norm, x / norm, y / norm, z / norm


def _balance_roll(branch: Joints, reference_q4: float, limits: Limits) -> Joints:
    """Of a stretched wrist, where only q4 + q6 counts, the q4 nearest to the reference that fits both."""
    q1, q2, q3, q4, q5, q6 = branch
    (low4, high4), (low6, high6) = limits[3], limits[5]
    nearest: Joints | None = None
    for total in (q4 + q6, q4 + q6 - _TURN, q4 + q6 + _TURN):
        low, high = max(low4, total - high6), min(high4, total - low6)
        if low > high + _LIMIT_SLACK_RAD:
            continue
        fitted = min(max(reference_q4, low), high)
        if nearest is None or abs(fitted - reference_q4) < abs(nearest[3] - reference_q4):
            nearest = (q1, q2, q3, fitted, q5, total - fitted)
    return branch if nearest is None else nearest


def _into_limits(branch: Joints, reference_q: Sequence[float], limits: Limits) -> Joints | None:
    """Each angle on the turn nearest to the reference that lies inside the limits; None if none does."""
    inside = []
    for angle, reference, (low, high) in zip(branch, reference_q, limits, strict=True):
        nearest = angle + _TURN * round((reference - angle) / _TURN)
        for turned in (nearest, nearest - _TURN, nearest + _TURN):
            if low - _LIMIT_SLACK_RAD <= turned <= high + _LIMIT_SLACK_RAD:
                inside.append(min(max(turned, low), high))
                break
        else:
            return None
    q1, q2, q3, q4, q5, q6 = inside
    return q1, q2, q3, q4, q5, q6
