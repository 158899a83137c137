"""A small reader of URDF for tests: links, joints, and where each link is."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from xml.etree import ElementTree

import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class UrdfJoint:
    """A joint; ``limits`` are None where it has none."""

    name: str
    kind: str
    parent: str
    child: str
    origin: np.ndarray
    axis: np.ndarray
    limits: tuple[float, float] | None


def numbers(element: ElementTree.Element | None, attribute: str) -> np.ndarray:
    """Three numbers of an attribute; zeros where it is not there."""
    text = "0 0 0" if element is None else element.get(attribute, "0 0 0")
    values = np.array([float(word) for word in text.split()])
    assert values.shape == (3,)
    return values


def turned(axis: np.ndarray, angle: float) -> np.ndarray:
    """Rotation [3, 3] about an axis of length 1 (Rodrigues)."""
    x, y, z = axis
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.eye(3) + math.sin(angle) * cross + (1.0 - math.cos(angle)) * cross @ cross


def placed(origin: ElementTree.Element | None) -> np.ndarray:
    """Pose [4, 4] of an origin: fixed axes, R = Rz(yaw) Ry(pitch) Rx(roll)."""
    roll, pitch, yaw = numbers(origin, "rpy")
    ex, ey, ez = np.eye(3)
    pose = np.eye(4)
    pose[:3, :3] = turned(ez, yaw) @ turned(ey, pitch) @ turned(ex, roll)
    pose[:3, 3] = numbers(origin, "xyz")
    return pose


def joints_of(robot: ElementTree.Element) -> dict[str, UrdfJoint]:
    """Every joint by its name, in the order of the file."""
    joints = {}
    for element in robot.findall("joint"):
        name, parent, child = element.get("name"), element.find("parent"), element.find("child")
        assert name is not None
        assert parent is not None
        assert child is not None
        limit = element.find("limit")
        joints[name] = UrdfJoint(
            name=name,
            kind=element.get("type", ""),
            parent=parent.get("link", ""),
            child=child.get("link", ""),
            origin=placed(element.find("origin")),
            axis=numbers(element.find("axis"), "xyz"),
            limits=None if limit is None else (float(limit.get("lower", 0)), float(limit.get("upper", 0))),
        )
    return joints


def link_poses(robot: ElementTree.Element, positions: Mapping[str, float]) -> dict[str, np.ndarray]:
    """Pose [4, 4] of every link in the root link with the moving joints at ``positions``."""
    joints = joints_of(robot)
    children = {joint.child for joint in joints.values()}
    (root,) = [name for link in robot.findall("link") if (name := link.get("name", "")) not in children]
    poses = {root: np.eye(4)}
    left = list(joints.values())
    while left:
        ready = [joint for joint in left if joint.parent in poses]
        assert ready, f"these hang on no link: {[joint.name for joint in left]}"
        for joint in ready:
            motion = np.eye(4)
            if joint.kind == "revolute":
                motion[:3, :3] = turned(joint.axis, positions[joint.name])
            elif joint.kind == "prismatic":
                motion[:3, 3] = joint.axis * positions[joint.name]
            else:
                assert joint.kind == "fixed", joint.kind
            poses[joint.child] = poses[joint.parent] @ joint.origin @ motion
            left.remove(joint)
    return poses
