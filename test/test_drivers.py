"""The vendors' nodes of a session: what they are called, and how they are started."""

from dataclasses import replace

import pytest

from piper_collect.cli.main import main
from piper_collect.config.drivers import driver_nodes
from piper_collect.config.load import load_session, session_from_text
from piper_collect.config.names import recorded_topics
from piper_collect.config.schema import CameraSettings, DeviceSettings, SessionConfig
from piper_collect.errors import ConfigError

FRONT = "/camera/cam_front/color/image_raw"


def cameras(space="", **settings):
    base = SessionConfig()
    return replace(
        base,
        session=replace(base.session, namespace=space),
        devices=DeviceSettings(arm="none", cameras="realsense", operator="none"),
        cameras={"cam_front": CameraSettings(**{"topic": FRONT, **settings})},
    )


def test_a_realsense_is_started_with_its_serial_pinned_and_colour_alone():
    (driver,) = driver_nodes(cameras(serial="831612070001"))
    assert (driver.package, driver.executable) == ("realsense2_camera", "realsense2_camera_node")
    assert (driver.namespace, driver.name) == ("/camera", "cam_front")
    assert driver.parameters == {
        "camera_name": "cam_front",
        "serial_no": "_831612070001",
        "rgb_camera.color_profile": "640x480x30",
        "rgb_camera.color_format": "RGB8",
        "enable_color": True,
        "enable_depth": False,
        "align_depth.enable": False,
    }
    assert driver.start == (
        "ros2 launch realsense2_camera rs_launch.py camera_namespace:=camera camera_name:=cam_front"
        " rgb_camera.color_profile:=640x480x30 rgb_camera.color_format:=RGB8 enable_color:=true"
        " enable_depth:=false align_depth.enable:=false serial_no:=_831612070001"
    )


def test_aligned_depth_is_switched_on_and_recorded_beside_the_picture():
    config = cameras(aligned_depth=True, width=1280, height=720, fps=15.0)
    (driver,) = driver_nodes(config)
    assert driver.parameters["enable_depth"] is driver.parameters["align_depth.enable"] is True
    assert driver.parameters["rgb_camera.color_profile"] == "1280x720x15"
    assert "serial_no" not in driver.parameters
    assert recorded_topics(config)["/camera/cam_front/aligned_depth_to_color/image_raw"] is False


def test_a_relative_topic_is_in_the_namespace_of_the_rig():
    (driver,) = driver_nodes(cameras("left", topic="camera/cam_front/color/image_raw"))
    assert (driver.namespace, driver.name) == ("/left/camera", "cam_front")


@pytest.mark.parametrize(
    ("name", "package", "start"),
    [
        ("piper_ros_bridge", "piper", "ros2 run piper piper_single_ctrl"),
        ("agx_arm_bridge", "agx_arm_ctrl", "ros2 launch agx_arm_ctrl start_single_agx_arm.launch.py"),
    ],
)
def test_the_arms_vendor_is_named_and_left_to_a_person(name, package, start):
    arm, *rest = driver_nodes(load_session(name))
    assert (arm.package, arm.executable) == (package, "")
    assert arm.start.startswith(start)
    assert "auto_enable:=false" in arm.start
    assert [driver.name for driver in rest] == ["cam_front", "cam_wrist"]


def test_a_simulated_session_needs_nobody():
    assert driver_nodes(load_session("default")) == ()


def test_record_says_what_must_run_beside_it(monkeypatch, capsys):
    from piper_collect.pipelines.record import SessionEnd

    monkeypatch.setattr("piper_collect.pipelines.record.run_session", lambda config, keys: SessionEnd())
    assert main(["record", "--config", "piper_ros_bridge", "--task", "stack"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 4
    assert said[3] == "no episode was saved"
    assert said[0].startswith("piper_ros must be running: ros2 run piper piper_single_ctrl")
    assert said[1].startswith("realsense2_camera of cam_front must be running: ros2 launch realsense2_camera")


@pytest.mark.parametrize(
    ("camera", "words"),
    [
        (
            "{topic: cam_front/image_raw}",
            ["cameras.a.topic", "none of realsense2_camera", "/color/image_raw"],
        ),
        ("{topic: /color/image_raw}", ["cameras.a.topic", "none of realsense2_camera"]),
        (
            "{topic: /c/a/color/image_raw, serial: '_12'}",
            ["cameras.a.serial", "without the leading underscore"],
        ),
        ("{topic: /c/a/color/image_raw, fps: 29.97}", ["cameras.a.fps must be whole", "29.97"]),
        ("{topic: /c/b/color/image_raw}", ["cameras.b and cameras.a are both called b"]),
    ],
)
def test_what_no_realsense_can_be_is_refused(camera, words):
    text = (
        "/**: {ros__parameters: {devices: {cameras: realsense}, cameras: {names: [a, b], "
        f"a: {camera}, b: {{topic: /d/b/color/image_raw}}}}}}}}"
    )
    with pytest.raises(ConfigError) as caught:
        session_from_text(text, "x.yaml")
    for word in words:
        assert word in str(caught.value)


def test_depth_needs_a_realsense_topic_to_be_derived_from():
    with pytest.raises(ValueError, match="none of realsense2_camera"):
        CameraSettings(topic="cam/image_raw", aligned_depth=True)
