"""Which topics a session wants, and who publishes each."""

from dataclasses import replace

import pytest

from piper_collect.config.load import load_session
from piper_collect.config.names import recorded_topics
from piper_collect.config.topic_wishes import topic_wishes


def wishes_of(name, *, space="", **devices):
    config = load_session(name)
    config = replace(
        config,
        devices=replace(config.devices, **devices),
        session=replace(config.session, namespace=space),
    )
    return config, {wish.topic: wish for wish in topic_wishes(config)}


@pytest.mark.parametrize(
    "name", ["default", "quest", "piper_ros_bridge", "agx_arm_bridge", "piper_ros_realsense"]
)
@pytest.mark.parametrize("space", ["", "left"])
def test_every_recorded_topic_is_wished_for_as_the_recorder_wants_it(name, space):
    config, wishes = wishes_of(name, space=space)
    recorded = recorded_topics(config)
    assert {topic: wishes[topic].required for topic in recorded} == recorded


def test_with_everything_simulated_only_the_sessions_own_nodes_are_left():
    _, wishes = wishes_of("default")
    origins = {topic: wish.origin for topic, wish in wishes.items()}
    assert origins.pop("/teleop/target") == "session"
    assert set(origins.values()) == {"simulated"}


def test_a_camera_wants_its_rate_size_and_age():
    _, wishes = wishes_of("default")
    camera = wishes["/cam_front/image_raw/compressed"]
    assert (camera.feeds, camera.camera_hz, camera.camera_size) == (("cameras.cam_front",), 30.0, (640, 480))
    assert (camera.max_age_ms, camera.rows_hz) == (100.0, None)
    joints = wishes["/arm/joint_states"]
    assert (joints.feeds, joints.max_age_ms) == (("sources.arm_joint", "sources.gripper"), 50.0)
    assert joints.rows_hz == 30.0
    assert list(joints.readers) == ["teleop_node"]


def test_behind_a_vendors_node_its_topics_are_wished_for_too():
    _, wishes = wishes_of("piper_ros_bridge", space="left")
    assert wishes["/left/arm/joint_states"].publisher == "arm_bridge_node"
    joints = wishes["/left/joint_states_single"]
    assert (joints.origin, joints.required, joints.repeats) == ("driver", True, True)
    assert joints.start.startswith("ros2 run piper piper_single_ctrl")
    assert list(joints.readers) == ["arm_bridge_node"]
    assert not wishes["/left/end_pose_stamped"].required
    camera = wishes["/camera/cam_front/color/image_raw/compressed"]
    assert (camera.origin, camera.starts_with_launch) == ("driver", True)
    assert "camera_name:=cam_front" in camera.start
    assert wishes["/camera/cam_wrist/color/camera_info"].publisher == "realsense2_camera of cam_wrist"


def test_devices_that_run_elsewhere_are_looked_for():
    _, wishes = wishes_of("default", arm="none", cameras="none", operator="none")
    assert wishes["/arm/joint_states"].origin == "elsewhere"
    assert wishes["/cam_wrist/image_raw/compressed"].origin == "elsewhere"
    assert wishes["/quest/input"].origin == "elsewhere"
    assert wishes["/teleop/target"].origin == "session"
    _, bare = wishes_of("piper_ros_realsense")
    assert {wish.origin for wish in bare.values()} == {"elsewhere"}


def test_a_can_arm_is_the_sessions_own():
    _, wishes = wishes_of("default", arm="can")
    assert (wishes["/arm/status"].origin, wishes["/arm/status"].publisher) == ("session", "arm_can_node")
