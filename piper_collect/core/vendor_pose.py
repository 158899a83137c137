"""The flange pose that the vendor's node publishes: taken, or held against our own kinematics."""

import math
from collections.abc import Sequence

import numpy as np

from piper_collect.core.kinematics import DhVariant, Joints, Pose7
from piper_collect.core.pose_checks import compare_kinematics
from piper_collect.core.vendor_arm import NOT_FINITE, StampFilter

NOT_UNIT = "its quaternion is not a rotation"
OTHER_FRAME = "it is in another frame"

FITS_MM = 3.0
"""Own kinematics and the arm's own account of its flange agree to this; the DH variants differ by 9.95."""
_TURNED_DEG = 2.0
_UNIT_TOLERANCE = 1e-3


class PoseFeedback:
    """Takes the vendor's flange poses, each stamp once and in order.

    Args:
        frames: Values of ``header.frame_id`` that mean the arm's base.

    Attributes:
        dropped: Messages left out, by reason.
    """

    def __init__(self, frames: Sequence[str]) -> None:
        self._frames = tuple(frames)
        self._stamps = StampFilter()
        self.dropped = self._stamps.dropped

    def take(
        self,
        position_m: tuple[float, float, float],
        xyzw: tuple[float, float, float, float],
        *,
        frame_id: str,
        stamp_ns: int,
    ) -> Pose7 | str:
        """One message: the pose (w >= 0), or why it is left out.

        Args:
            position_m: In the frame named.
            xyzw: Unit quaternion in the order of ROS.
            frame_id: As the header has it.
            stamp_ns: Header stamp; 0 when it is unset.
        """
        if not all(map(math.isfinite, (*position_m, *xyzw))):
            return self._stamps.drop(NOT_FINITE)
        if abs(math.hypot(*xyzw) - 1.0) > _UNIT_TOLERANCE:
            return self._stamps.drop(NOT_UNIT)
        if frame_id.lstrip("/") not in self._frames:
            return self._stamps.drop(OTHER_FRAME)
        refusal = self._stamps.refusal(stamp_ns)
        if refusal:
            return refusal
        x, y, z, w = xyzw if xyzw[3] >= 0 else (-xyzw[0], -xyzw[1], -xyzw[2], -xyzw[3])
        return (*position_m, w, x, y, z)


def dh_verdict(q: Joints, pose7: Pose7, dh_offset: DhVariant) -> str:
    """Whether the arm's own flange pose fits the other DH variant than the configured one; empty if not.

    The arm's firmware computes that pose itself, so it tells which variant is the arm's, which no other topic
    does.

    Args:
        q: Joints of an arm at rest, in rad.
        pose7: Its flange pose as the arm has it.
        dh_offset: The variant that is configured.
    """
    survey = compare_kinematics(np.array([q]), np.array([pose7]))
    if survey.variant == dh_offset or survey.median_mm > FITS_MM:
        return ""
    return (
        f"the arm's own end pose fits arm.dh_offset: {survey.variant} ({survey.median_mm:.1f} mm off),"
        f" not {dh_offset} as configured ({survey.other_median_mm:.1f} mm off)"
    )


def pose_verdict(q: Joints, pose7: Pose7) -> str:
    """What is wrong with a flange pose that belongs to the joints in neither variant; empty if nothing.

    Args:
        q: Joints of an arm at rest, in rad.
        pose7: The flange pose that the vendor's node has for it.
    """
    survey = compare_kinematics(np.array([q]), np.array([pose7]))
    if survey.median_deg > _TURNED_DEG:
        return (
            f"the vendor's end pose is turned {survey.median_deg:.0f} degrees from the kinematics of the"
            " joints, as older piper_ros has it: do not use it"
        )
    if survey.median_mm > FITS_MM:
        return (
            f"the vendor's end pose lies {survey.median_mm:.0f} mm from the kinematics of the joints: is a"
            " tool offset set, or the arm another model?"
        )
    return ""
