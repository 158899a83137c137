"""Scalar limits on one step of a motion: how far along may a pose, a joint vector or a width go."""

import math
from collections.abc import Sequence

from piper_collect.core.kinematics import Joints, Pose7
from piper_collect.core.quest import Quaternion, Vector3

MIN_JERK_PEAK = 1.875
"""Peak over mean speed of ``min_jerk``."""


def min_jerk(u: float) -> float:
    """Share of the way (10u^3 - 15u^4 + 6u^5) at share ``u`` of the time; at rest at and beyond the ends."""
    u = min(max(u, 0.0), 1.0)
    return u**3 * (10.0 - 15.0 * u + 6.0 * u * u)


def into_box(position_m: Vector3, low_m: Vector3, high_m: Vector3) -> Vector3:
    """The point of the box that is nearest."""
    x, y, z = (min(max(p, a), b) for p, a, b in zip(position_m, low_m, high_m, strict=True))
    return x, y, z


def shift_at_most(start_m: Vector3, end_m: Vector3, most_m: float) -> Vector3:
    """The point on the line from ``start_m`` to ``end_m`` that is ``most_m`` away at most."""
    distance = math.dist(start_m, end_m)
    if distance <= most_m:
        return end_m
    x, y, z = (a + (b - a) * most_m / distance for a, b in zip(start_m, end_m, strict=True))
    return x, y, z


def turn_at_most(start: Quaternion, end: Quaternion, most_rad: float) -> Quaternion:
    """The rotation (wxyz) on the shortest way from ``start`` to ``end`` that turns ``most_rad`` at most."""
    w0, x0, y0, z0 = start
    w1, x1, y1, z1 = end
    if w0 * w1 + x0 * x1 + y0 * y1 + z0 * z1 < 0.0:
        w1, x1, y1, z1 = -w1, -x1, -y1, -z1
    angle = rotation_between(start, end)
    if angle <= most_rad:
        return w1, x1, y1, z1
    a = math.sin((angle - most_rad) / 2) / math.sin(angle / 2)
    b = math.sin(most_rad / 2) / math.sin(angle / 2)
    return a * w0 + b * w1, a * x0 + b * x1, a * y0 + b * y1, a * z0 + b * z1


def rotation_between(a: Quaternion, b: Quaternion) -> float:
    """Angle in rad (0 to pi) between two rotations, exact for small ones."""
    apart = math.dist(a, b)
    together = math.hypot(a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3])
    return 4 * math.atan2(min(apart, together), max(apart, together))


def flange_step(a: Pose7, b: Pose7) -> tuple[float, float]:
    """Metres and radians between two poses."""
    return math.dist(a[:3], b[:3]), rotation_between(a[3:], b[3:])


def joint_share(start: Joints, end: Joints, most_rad: Sequence[float]) -> float:
    """The largest share (to 1) of the joint move that no joint's own bound forbids."""
    share = 1.0
    for a, b, most in zip(start, end, most_rad, strict=True):
        if abs(b - a) > most:
            share = min(share, most / abs(b - a))
    return share


def joints_between(start: Joints, end: Joints, share: float) -> Joints:
    """Joints at a share of the straight way in joint space."""
    q1, q2, q3, q4, q5, q6 = (a + (b - a) * share for a, b in zip(start, end, strict=True))
    return q1, q2, q3, q4, q5, q6
