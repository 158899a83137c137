"""The arm as viewers know it: the joints of its URDF, and the URDF of one firmware and base frame."""

import math
from collections.abc import Sequence
from xml.etree import ElementTree

from piper_collect.core.kinematics import JOINT_NAMES, DhVariant, PiperKinematics

FINGER_NAMES = ("joint7", "joint8")
"""The gripper's prismatic joints, as AgileX's URDF names them; the opening is joint7 - joint8."""

ROOT_LINK = "base_link"
"""The link of the URDF that stands for ``arm.base_frame``."""


def model_joints(q: Sequence[float], width_m: float) -> dict[str, float]:
    """Every moving joint of the URDF and where it is.

    Args:
        q: Joints 1 to 6 in rad.
        width_m: Full opening of the gripper; each finger takes half of it.
    """
    fingers = (width_m / 2, -width_m / 2)
    return dict(zip((*JOINT_NAMES, *FINGER_NAMES), (*map(float, q), *fingers), strict=True))


def robot_description(urdf: str, dh_offset: DhVariant, base_frame: str) -> str:
    """``urdf`` with the zeros of joints 2 and 3 of a firmware, and its root named as a session's base frame.

    Args:
        urdf: Text of ``urdf/piper.urdf``.
        dh_offset: ``s_v1_6_3``, as the file has it, or ``older``.
        base_frame: Frame of the session's poses.

    Raises:
        KinematicsError: Another variant is asked for.
    """
    theta0 = PiperKinematics(dh_offset).dh_table[:, 3]
    rpy = {
        "joint2": (math.pi / 2, -(theta0[1] + math.pi), -math.pi),
        "joint3": (0.0, 0.0, theta0[2]),
    }
    robot = ElementTree.fromstring(urdf)
    for joint in robot.iter("joint"):
        if angles := rpy.get(joint.get("name", "")):
            for origin in joint.iter("origin"):
                origin.set("rpy", " ".join(repr(float(angle)) for angle in angles))
    for tag, attribute in (("link", "name"), ("parent", "link")):
        for element in robot.iter(tag):
            if element.get(attribute) == ROOT_LINK:
                element.set(attribute, base_frame)
    return ElementTree.tostring(robot, encoding="unicode")
