"""A source or camera that cannot be read is found from the topic's type, or from its first message."""

from dataclasses import replace

import numpy as np
import pytest
from sample_bags import (
    COMPRESSED,
    IMAGE,
    JOINT_STATE,
    MSG_FOLDER,
    POSE_STAMPED,
    START,
    TELEOP_TARGET,
    header,
    joint_state,
    jpeg_image,
    make,
    picture,
    pose_stamped,
    raw_image,
    store,
    teleop_target,
)

from piper_collect.bag.definitions import Definitions
from piper_collect.bag.source_check import SourceCheck
from piper_collect.config.schema import CameraSettings, SessionConfig, SessionSettings, SourceSettings
from piper_collect.errors import BagError, ConfigError, ImageError

SIX = ("joint1", "joint2", "joint3", "joint4", "joint5", "joint6")


def check_of(namespace="", **sources):
    definitions = Definitions()
    definitions.register_msgs(MSG_FOLDER)
    made = {key: SourceSettings(**settings) for key, settings in sources.items()}
    session = replace(SessionSettings(), namespace=namespace)
    return SourceCheck(SessionConfig(session=session, sources=made), definitions)


def payload(message):
    return bytes(store().serialize_cdr(message, message.__msgtype__))


@pytest.mark.parametrize(
    ("field", "type_name"),
    [
        ("position", JOINT_STATE),
        ("effort", JOINT_STATE),
        ("pose", POSE_STAMPED),
        ("pose.position.x", POSE_STAMPED),
        ("flange_pose", TELEOP_TARGET),
        ("gripper_width", TELEOP_TARGET),
        ("right.button_values", "piper_collect/msg/QuestInput"),
    ],
)
def test_a_field_that_is_there_passes(field, type_name):
    check_of(a={"topic": "x", "field": field}).check_type("/x", type_name)


@pytest.mark.parametrize(
    ("field", "type_name", "said"),
    [
        (
            "positions",
            JOINT_STATE,
            f"{JOINT_STATE} has no such field (got positions); did you mean 'position'?",
        ),
        ("poze", POSE_STAMPED, f"{POSE_STAMPED} has no such field (got poze); did you mean 'pose'?"),
        (
            "flange_pos",
            TELEOP_TARGET,
            "did you mean 'flange_pose'? Valid: header, flange_pose, gripper_width,",
        ),
        (
            "pose.positon",
            POSE_STAMPED,
            "geometry_msgs/msg/Pose has no such field (got positon); did you mean",
        ),
        ("position.x", JOINT_STATE, "float64[] has no such field (got x) Valid: none."),
        ("pose.position.x.y", POSE_STAMPED, "float64 has no such field (got y)"),
    ],
)
def test_a_mistyped_field_names_the_source_and_the_nearest_field(field, type_name, said):
    with pytest.raises(ConfigError) as caught:
        check_of(good={"topic": "x", "field": "header"}, arm={"topic": "x", "field": field}).check_type(
            "/x", type_name
        )
    assert str(caught.value).startswith("sources.arm.field (topic /x): ")
    assert said in str(caught.value)


def test_topics_are_those_of_the_namespace():
    check = check_of("rig", arm={"topic": "x", "field": "nothing"})
    assert (check.feeds("/rig/x"), check.feeds("/x")) == (True, False)
    check.check_type("/x", JOINT_STATE)
    with pytest.raises(ConfigError):
        check.check_type("/rig/x", JOINT_STATE)


def test_a_message_that_can_be_read_passes():
    check = check_of(
        arm={"topic": "x", "field": "position", "select": SIX, "unit": "rad"},
        gripper={"topic": "x", "field": "position", "select": ("gripper",), "unit": "m"},
        eef={"topic": "y", "field": "flange_pose", "unit": "m"},
    )
    check.check_message("/x", JOINT_STATE, payload(joint_state(START, [0.0] * 6 + [0.05])))
    check.check_message("/y", TELEOP_TARGET, payload(teleop_target(START, [0, 0, 0], [0, 0, 0, 1], 0.05)))


@pytest.mark.parametrize(
    ("settings", "message", "said"),
    [
        (
            {"field": "position", "select": ("joint7",)},
            joint_state(START, [0.0] * 7),
            "does not name the joint",
        ),
        (
            {"field": "position", "select": ("gripper",), "unit": "m"},
            joint_state(START, [0.0] * 6 + [50.0]),
            "set `unit: mm`",
        ),
        (
            {"field": "pose"},
            pose_stamped(START, [0, 0, 0], [0, 0, 0, 1], "world"),
            "expected base_link, got world",
        ),
        ({"field": "header"}, joint_state(START, [0.0] * 7), "not made of numbers"),
    ],
)
def test_a_message_that_cannot_be_read_is_told_as_the_export_would_tell_it(settings, message, said):
    with pytest.raises(BagError) as caught:
        check_of(a={"topic": "x", **settings}).check_message("/x", message.__msgtype__, payload(message))
    assert said in str(caught.value)
    assert "source a (topic /x)" in str(caught.value)


def camera_check(transport="raw"):
    definitions = Definitions()
    definitions.register_msgs(MSG_FOLDER)
    cameras = {"cam": CameraSettings(topic="cam/color/image_raw", transport=transport)}
    return SourceCheck(SessionConfig(cameras=cameras, sources={}), definitions)


def image(encoding, pixels, *, big_endian=0):
    height, width = pixels.shape
    size = pixels.itemsize * width
    return make(
        IMAGE, header(START), height, width, encoding, big_endian, size, pixels.view(np.uint8).ravel()
    )


def compressed(text, payload):
    return make(COMPRESSED, header(START), text, np.frombuffer(payload, np.uint8))


def test_a_camera_that_becomes_video_passes():
    check = camera_check()
    assert check.feeds("/cam/color/image_raw")
    check.check_type("/cam/color/image_raw", IMAGE)
    grey = np.full((4, 6), 40_000, ">u2")
    for message in (raw_image(START, picture((1, 2, 3))), image("mono16", grey, big_endian=1)):
        check.check_message("/cam/color/image_raw", IMAGE, payload(message))
    check = camera_check("compressed")
    check.check_type("/cam/color/image_raw/compressed", COMPRESSED)
    message = jpeg_image(START, picture((1, 2, 3)))
    check.check_message("/cam/color/image_raw/compressed", COMPRESSED, payload(message))


def test_a_camera_topic_that_is_no_image_is_refused_by_its_type():
    with pytest.raises(
        ConfigError, match=r"cameras\.cam\.topic .*not a topic of images.*JointState"
    ) as caught:
        camera_check().check_type("/cam/color/image_raw", JOINT_STATE)
    assert "sensor_msgs/msg/CompressedImage" in str(caught.value)


PNG_16 = bytes.fromhex("89504e470d0a1a0a0000000d4948445200000008000000061000000000")


@pytest.mark.parametrize(
    ("transport", "message", "said"),
    [
        ("raw", image("16UC1", np.zeros((4, 6), np.uint16)), "depth images do not become video (got 16UC1)"),
        ("raw", image("rgb16", np.zeros((4, 18), np.uint16)), "encoding do not become video (got rgb16)"),
        ("raw", image("rgb8", np.zeros((4, 6), np.uint8)), "a row is shorter than its pixels"),
        ("compressed", compressed("16UC1; compressedDepth png", b""), "depth images (compressedDepth)"),
        ("compressed", compressed("16UC1; png compressed", PNG_16), "PNG images of 16 bits"),
        ("compressed", compressed("rgb8; tiff compressed", b"II"), "unknown image compression (got rgb8; "),
        ("compressed", compressed("jpeg", b"\xff\xd8\xff\xda"), "the JPEG image is cut off"),
    ],
)  # fmt: skip
def test_a_camera_that_does_not_become_video_is_refused_by_topic_and_encoding(transport, message, said):
    topic = "/cam/color/image_raw" + ("/compressed" if transport == "compressed" else "")
    with pytest.raises(ImageError) as caught:
        camera_check(transport).check_message(topic, message.__msgtype__, payload(message))
    assert f"camera cam (topic {topic}): " in str(caught.value)
    assert said in str(caught.value)
