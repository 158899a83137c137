"""The URDF is the arm that the kinematics describe, whatever the firmware and the base frame."""

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from numpy.testing import assert_allclose
from urdf_reader import joints_of, link_poses, numbers

from piper_collect.core.kinematics import (
    GRIPPER_WIDTH_M,
    JOINT_LIMITS_RAD,
    JOINT_NAMES,
    TOOL_TIP_M,
    WORKING_POSE_RAD,
    PiperKinematics,
)
from piper_collect.core.robot import FINGER_NAMES, model_joints, robot_description
from piper_collect.core.trail import Trail
from piper_collect.errors import KinematicsError

TEXT = (Path(__file__).parents[1] / "urdf" / "piper.urdf").read_text(encoding="utf-8")
LOW, HIGH = np.array(JOINT_LIMITS_RAD).T


def random_joints(count: int) -> np.ndarray:
    return np.random.default_rng(7).uniform(LOW, HIGH, (count, 6))


@pytest.mark.parametrize("variant", ["s_v1_6_3", "older"])
def test_the_flange_is_where_the_kinematics_have_it(variant: str) -> None:
    robot = ElementTree.fromstring(robot_description(TEXT, variant, "base_link"))
    kinematics = PiperKinematics(variant)
    for q in random_joints(50):
        links = link_poses(robot, model_joints(q, 0.03))
        frames = kinematics.frames(q)
        for i in range(6):
            assert_allclose(links[f"link{i + 1}"], frames[i], rtol=0, atol=1e-9)


def test_the_file_as_it_is_has_the_newer_firmwares_zeros() -> None:
    flange = link_poses(ElementTree.fromstring(TEXT), model_joints(WORKING_POSE_RAD, 0.0))["link6"]
    assert_allclose(flange, PiperKinematics("s_v1_6_3").frames(WORKING_POSE_RAD)[5], rtol=0, atol=1e-9)


def test_an_unknown_firmware_is_refused() -> None:
    with pytest.raises(KinematicsError, match="unknown DH variant"):
        robot_description(TEXT, "newest", "base_link")


def test_the_root_has_the_name_of_the_sessions_base_frame() -> None:
    robot = ElementTree.fromstring(robot_description(TEXT, "s_v1_6_3", "left_base"))
    assert set(link_poses(robot, model_joints(WORKING_POSE_RAD, 0.0))) == {
        "left_base", *(f"link{i}" for i in range(1, 9)), "gripper_base"
    }  # fmt: skip


def test_joints_and_limits_are_those_of_the_arm() -> None:
    joints = joints_of(ElementTree.fromstring(TEXT))
    moving = {name: joint for name, joint in joints.items() if joint.kind != "fixed"}
    assert tuple(moving) == (*JOINT_NAMES, *FINGER_NAMES)
    for name, limits in zip(JOINT_NAMES, JOINT_LIMITS_RAD, strict=True):
        assert moving[name].kind == "revolute"
        assert moving[name].limits == limits
    half = GRIPPER_WIDTH_M[1] / 2
    assert [moving[name].kind for name in FINGER_NAMES] == ["prismatic"] * 2
    assert [moving[name].limits for name in FINGER_NAMES] == [(0.0, half), (-half, 0.0)]


@pytest.mark.parametrize("width_m", [0.0, 0.02, 0.07])
def test_the_fingers_are_as_far_apart_as_the_gripper_is_open(width_m: float) -> None:
    positions = model_joints((0.1, 1.0, -1.0, 0.2, 0.3, 0.4), width_m)
    assert positions["joint7"] - positions["joint8"] == pytest.approx(width_m)
    links = link_poses(ElementTree.fromstring(TEXT), positions)
    assert np.linalg.norm(links["link7"][:3, 3] - links["link8"][:3, 3]) == pytest.approx(width_m)
    tip = links["link6"] @ [0.0, 0.0, TOOL_TIP_M, 1.0]
    assert_allclose((links["link7"][:, 3] + links["link8"][:, 3]) / 2, tip, atol=1e-12)


def test_the_fingers_shapes_touch_where_the_gripper_is_shut() -> None:
    robot = ElementTree.fromstring(TEXT)
    for name in ("link7", "link8"):
        (visual,) = robot.findall(f"link[@name='{name}']/visual")
        across, thickness = numbers(visual.find("origin"), "xyz")[2], visual.find("geometry/box")
        assert across == pytest.approx(numbers(thickness, "size")[2] / 2)


def test_every_link_has_a_shape_and_every_material_a_colour() -> None:
    robot = ElementTree.fromstring(TEXT)
    assert all(link.findall("visual/geometry/*") for link in robot.findall("link"))
    used = {material.get("name") for material in robot.findall("link/visual/material")}
    assert used == {material.get("name") for material in robot.findall("material")}


def test_a_trail_is_thinned_out_and_bounded() -> None:
    trail = Trail(seconds=2.0, step_m=0.01, most=3)
    for stamp, x in ((0, 0.0), (1, 0.005), (2, 0.02), (3, 0.04)):
        trail.add(stamp, (x, 0.0, 0.0))
    assert trail.points(3) == ((0.0, 0.0, 0.0), (0.02, 0.0, 0.0), (0.04, 0.0, 0.0))
    trail.add(4, (0.06, 0.0, 0.0))
    assert trail.points(4) == ((0.02, 0.0, 0.0), (0.04, 0.0, 0.0), (0.06, 0.0, 0.0))
    assert trail.points(2_000_000_003) == ((0.04, 0.0, 0.0), (0.06, 0.0, 0.0))
    assert trail.points(9_000_000_000) == ()


def test_a_trail_begins_anew_when_the_clock_is_set_back() -> None:
    trail = Trail(seconds=2.0, step_m=0.0, most=10)
    trail.add(1_000, (1.0, 0.0, 0.0))
    trail.add(500, (2.0, 0.0, 0.0))
    assert trail.points(600) == ((2.0, 0.0, 0.0),)
