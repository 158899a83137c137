"""What rviz is given: every topic, frame and class in it is one that there is, whatever the session."""

import struct
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from urdf_reader import joints_of

from piper_collect.config.display import IMAGE, MARKERS, MEASURED, ROBOT, TARGET, session_robot, session_rviz
from piper_collect.config.load import load_session
from piper_collect.config.names import DISPLAY_JOINTS_TOPIC, DISPLAY_MARKERS_TOPIC, recorded_topics
from piper_collect.config.schema import CameraSettings, SessionConfig

ROOT = Path(__file__).parents[1]
OWN_CONFIGS = sorted(path.stem for path in (ROOT / "config").glob("*.yaml"))
CLASSES = {
    "rviz_default_plugins": {
        "Grid", "RobotModel", "TF", "Pose", "MarkerArray", "Image", "Interact", "MoveCamera", "FocusCamera",
        "Measure", "Orbit",
    },
    "rviz_common": {"Displays", "Views", "Time"},
}  # fmt: skip
"""Of ``plugins_description.xml`` of rviz_default_plugins, and the panels of rviz_common (Jazzy)."""

MESSAGES = {"Pose": "PoseStamped", "MarkerArray": "MarkerArray", "Image": "Image", "RobotModel": "String"}
"""What each display class with a topic subscribes."""

RELATIVE = {
    "arm/flange_pose": "PoseStamped",
    "end_pose_stamped": "PoseStamped",
    "teleop/target_pose": "PoseStamped",
    DISPLAY_MARKERS_TOPIC: "MarkerArray",
    "robot_description": "String",
}


def shown(config: SessionConfig) -> dict:
    return yaml.safe_load(session_rviz(config))


def displays(content: dict) -> dict[str, dict]:
    found = content["Visualization Manager"]["Displays"]
    assert len({display["Name"] for display in found}) == len(found)
    return {display["Name"]: display for display in found}


def topic_of(display: dict) -> dict | None:
    return display.get("Topic") or display.get("Description Topic")


def classes(content: object) -> list[str]:
    if isinstance(content, dict):
        own = [content["Class"]] if content.get("Class") else []
        return own + [name for value in content.values() for name in classes(value)]
    return [name for value in content for name in classes(value)] if isinstance(content, list) else []


def own_file() -> dict:
    return yaml.safe_load((ROOT / "rviz" / "collect.rviz").read_text(encoding="utf-8"))


def test_every_class_is_one_of_rviz():
    found = {tuple(name.split("/")) for name in classes(own_file())}
    assert found <= {(package, name) for package, names in CLASSES.items() for name in names}
    assert own_file()["Visualization Manager"]["Views"]["Current"]["Class"] == "rviz_default_plugins/Orbit"


def test_the_file_is_that_of_the_default_session():
    assert shown(load_session("default")) == own_file()


@pytest.mark.parametrize("name", OWN_CONFIGS)
def test_every_topic_is_one_of_the_session(name):
    config = load_session(name)
    images = {topic.removesuffix("/compressed") for topic in recorded_topics(config)}
    for display in displays(shown(config)).values():
        block = topic_of(display)
        if block is None:
            assert display["Class"].split("/")[1] in ("Grid", "TF")
        elif display["Class"] == IMAGE:
            assert block["Value"] in images
        else:
            message = MESSAGES[display["Class"].split("/")[1]]
            assert RELATIVE[block["Value"].removeprefix("/")] == message


@pytest.mark.parametrize("name", OWN_CONFIGS)
def test_there_is_what_a_person_wants_to_see(name):
    config = load_session(name)
    found = displays(shown(config))
    assert {ROBOT, MEASURED, TARGET, MARKERS, *config.cameras} <= set(found)
    assert all(found[each]["Enabled"] for each in (ROBOT, MEASURED, TARGET, MARKERS, *config.cameras))
    late = found[ROBOT]["Description Topic"]
    assert late["Durability Policy"] == "Transient Local"  # a window opened later gets it too
    assert set(found[MARKERS]["Namespaces"]) == {"measured", "target", "state"}


def test_namespace_base_frame_preset_and_cameras_are_the_sessions():
    base = SessionConfig()
    config = replace(
        base,
        session=replace(base.session, namespace="left"),
        arm=replace(base.arm, base_frame="left_base", preset="piper_ros"),
        cameras={
            "top": CameraSettings(),
            "cam_front": CameraSettings(topic="/rig/front/color/image_raw"),
            "third": CameraSettings(transport="raw"),
        },
    )
    content = shown(config)
    found = displays(content)
    assert content["Visualization Manager"]["Global Options"]["Fixed Frame"] == "left_base"
    assert {name: topic_of(found[name])["Value"] for name in (ROBOT, MEASURED, TARGET, MARKERS)} == {
        ROBOT: "/left/robot_description",
        MEASURED: "/left/end_pose_stamped",
        TARGET: "/left/teleop/target_pose",
        MARKERS: "/left/display/markers",
    }
    images = {name: topic_of(d)["Value"] for name, d in found.items() if d["Class"] == IMAGE}
    assert images == {
        "top": "/left/top/image_raw",
        "cam_front": "/rig/front/color/image_raw",
        "third": "/left/third/image_raw",
    }
    robot = ElementTree.fromstring(session_robot(config))
    assert robot.find("link").get("name") == "left_base"
    assert panels(content) == ["Displays", "top", "cam_front", "Views", "Time"]


def panels(content: dict) -> list[str]:
    """The panels that the window's layout names (QMainWindow::saveState, a QString after 0xfb)."""
    state = bytes.fromhex(content["Window Geometry"]["QMainWindow State"])
    found, at = [], 0
    while (at := state.find(b"\xfb", at)) >= 0:
        (length,) = struct.unpack_from(">I", state, at + 1)
        found.append(state[at + 5 : at + 5 + length].decode("utf-16-be"))
        at += 5 + length
    return found


def test_the_windows_layout_names_panels_that_there_are():
    content = own_file()
    known = {panel["Name"] for panel in content["Panels"]} | set(displays(content))
    assert set(panels(content)) <= known
    assert {"cam_front", "cam_wrist"} <= set(panels(content))


def test_a_session_without_cameras_shows_none():
    content = shown(replace(SessionConfig(), cameras={}))
    assert IMAGE not in classes(content)


@pytest.mark.parametrize("variant", ["s_v1_6_3", "older"])
def test_the_robot_is_that_of_the_sessions_firmware(variant):
    base = SessionConfig()
    config = replace(base, arm=replace(base.arm, dh_offset=variant))
    pitch = {"s_v1_6_3": 7.78, "older": 5.78}[variant]
    joints = {
        joint.get("name"): joint for joint in ElementTree.fromstring(session_robot(config)).iter("joint")
    }
    assert float(joints["joint2"].find("origin").get("rpy").split()[1]) * 180 / 3.141592653589793 == (
        pytest.approx(-pitch)
    )


def test_the_display_nodes_joints_are_those_of_the_urdf():
    from piper_collect.core.robot import model_joints

    moving = joints_of(ElementTree.fromstring(session_robot(SessionConfig()))).values()
    assert list(model_joints((0.0,) * 6, 0.0)) == [joint.name for joint in moving if joint.kind != "fixed"]
    assert DISPLAY_JOINTS_TOPIC != "joint_states"  # piper_ros may take that for commands
