"""Small bags with one planted fault each, and what is to be said of them."""

import dataclasses

import numpy as np
from sample_bags import (
    MS,
    START,
    arm_messages,
    camera_messages,
    custom,
    header,
    joint_state,
    jpeg_image,
    picture,
    raw_image,
    write_bag,
)

from piper_collect.config.load import dump_session
from piper_collect.config.schema import CameraSettings, SessionConfig

ONE_CAMERA = SessionConfig(cameras={"cam": CameraSettings(width=64, height=48)})
TARGET, JOINTS, POSE = "/teleop/target", "/arm/joint_states", "/arm/flange_pose"
IMAGES = "/cam/image_raw/compressed"


def messages(count=120, images=None):
    """0.6 s of the arm and a camera at 30 Hz."""
    frames = camera_messages("cam", np.arange(2, count * 5, 100 / 3)) if images is None else images
    return [*arm_messages(count), *frames]


def bag(path, content, *, config=ONE_CAMERA, **more):
    known = custom(end_ms=600, session_config=dump_session(config), **more)
    return write_bag(path, content, known)


def shifted(content, topic, ms):
    """``content`` with the header stamps of a topic moved by ``ms(k)`` for its k-th message."""
    number = 0
    for name, receive_ns, message in content:
        if name == topic:
            stamp = message.header.stamp
            stamp_ns = stamp.sec * 10**9 + stamp.nanosec + round(ms(number) * MS)
            moved = header(stamp_ns, message.header.frame_id)
            message = dataclasses.replace(message, header=moved)
            number += 1
        yield name, receive_ns, message


def changed(content, topic, change, where=lambda k: True):
    """``content`` with the messages of a topic that ``where(k)`` picks changed by ``change``."""
    number = 0
    for name, receive_ns, message in content:
        if name == topic:
            if where(number):
                change(message)
            number += 1
        yield name, receive_ns, message


def without(content, topic, first_ms=0, last_ms=10**6):
    for name, receive_ns, message in content:
        if name != topic or not START + first_ms * MS <= receive_ns <= START + last_ms * MS:
            yield name, receive_ns, message


def zero(message):
    message.header.stamp.sec = message.header.stamp.nanosec = 0


def set_frame(message):
    message.header.frame_id = "world"


def set_nan(message):
    message.position[2] = np.nan


def set_norm(message):
    message.pose.orientation.w = 1.1


def cut_jpeg(message):
    message.data = message.data[:200]


def other_size(message):
    message.data = jpeg_image(START, picture((1, 2, 3), 50, 64)).data


def depth(stamp_ns, pixels):
    return raw_image(stamp_ns, pixels, "16UC1")


def raw(make_image, path):
    config = SessionConfig(cameras={"cam": CameraSettings(transport="raw")})
    images = camera_messages("cam", np.arange(2, 600, 100 / 3), make_image=make_image)
    return bag(path, messages(images=images), config=config)


FAULTS = {
    # name: (the bag, level, code, place after the bag's name, part of the text)
    "clean": (lambda p: bag(p, messages()), None),
    "interrupted": (
        lambda p: bag(p, messages(), outcome="interrupted"),
        ("error", "incomplete", "", "the recording was interrupted"),
    ),
    "lost too many": (
        lambda p: bag(p, messages(), complete="false", incomplete_reasons='["/cam lost 3"]'),
        ("error", "incomplete", "", "/cam lost 3"),
    ),
    "lost a few": (
        lambda p: bag(p, messages(), losses='{"/arm/joint_states": 2, "/teleop/target": 0}'),
        ("warning", "loss", f" {JOINTS}", "2 messages were published and never arrived"),
    ),
    "a topic is missing": (
        lambda p: bag(p, without(messages(), TARGET)),
        ("error", "missing-topic", f" {TARGET}", "target_eef, target_gripper needs it"),
    ),
    "an optional topic is missing": (
        lambda p: bag(
            p,
            messages(),
            config=SessionConfig(
                cameras={"cam": CameraSettings(), "cam_side": CameraSettings(required=False)}
            ),
        ),
        ("info", "missing-optional", " /cam_side/image_raw/compressed", "is left out"),
    ),
    "all stamps unset": (
        lambda p: bag(p, changed(messages(), JOINTS, zero)),
        ("warning", "stamps-unset", f" {JOINTS}", "all 120 header stamps are zero"),
    ),
    "some stamps unset": (
        lambda p: bag(p, changed(messages(), JOINTS, zero, lambda k: k in (7, 50))),
        ("warning", "stamps-unset", f" {JOINTS}", "2 of 120 header stamps are zero"),
    ),
    "equal stamps": (
        lambda p: bag(p, shifted(messages(), JOINTS, lambda k: -5 if k in (7, 50, 51) else 0)),
        ("warning", "stamps-equal", f" {JOINTS}", "2 stamps equal the one before"),
    ),
    "stamps ahead": (
        lambda p: bag(p, shifted(messages(), JOINTS, lambda k: 4)),
        ("warning", "stamps-future", f" {JOINTS}", "120 stamps lie after their receipt, at most 3.0 ms"),
    ),
    "a gap of the target": (
        lambda p: bag(p, without(messages(), TARGET, 200, 290)),
        ("warning", "samples-missing", f" {TARGET}", "18 samples are missing by the stamps"),
        ("warning", "gap", f" {TARGET}", "1 gap above max_age (50 ms), the longest 95.0 ms at 0.195 s"),
        ("warning", "row-gaps", "", "2 of 18 slots hold no commanded target"),
    ),
    "a gap of the camera": (
        lambda p: bag(p, without(messages(), IMAGES, 200, 400)),
        ("warning", "samples-missing", f" {IMAGES}", "6 samples are missing by the stamps"),
        ("warning", "gap", f" {IMAGES}", "1 gap above max_age (100 ms), the longest 233.3 ms"),
        ("warning", "rows-dropped", "", "(cam 4)"),
    ),
    "a slow camera": (
        lambda p: bag(p, messages(images=camera_messages("cam", range(2, 600, 66)))),
        ("warning", "rate", f" {IMAGES}", "15.15 Hz (by the median step), configured are 30 Hz"),
    ),
    "a slow arm": (
        lambda p: bag(p, [m for m in messages() if m[0] != POSE or m[1] // MS // 5 % 8 == 0]),
        ("warning", "rate", f" {POSE}", "25.00 Hz is less than the dataset's 30 rows a second"),
    ),
    "a camera that stops": (
        lambda p: bag(p, without(messages(), IMAGES, 250)),
        ("warning", "stops-early", f" {IMAGES}", "its last stamp lies 0.365 s before the end"),
        ("warning", "rows-dropped", "", "cam"),
    ),
    "a target that starts late": (
        lambda p: bag(p, without(messages(), TARGET, 0, 300)),
        ("warning", "starts-late", f" {TARGET}", "its first stamp lies 0.300 s after the start"),
    ),
    "no common time": (
        lambda p: bag(p, without(without(messages(), TARGET, 0, 300), IMAGES, 150)),
        ("error", "no-rows", "", "no tick at which every source has a fresh value"),
        ("warning", "starts-late", f" {TARGET}", "0.300 s"),
        ("warning", "stops-early", f" {IMAGES}", "0.465 s"),
    ),
    "another clock": (
        lambda p: bag(p, shifted(messages(), POSE, lambda k: -1.0e12)),
        ("error", "clocks-differ", "", "topics are stamped by different clocks"),
        ("warning", "clock-offset", f" {POSE}", "1000000000.0 s from the time of receipt"),
        ("warning", "few-messages", f" {POSE}", "0 messages in the episode"),
        ("warning", "stops-early", f" {POSE}", ""),
    ),
    "a broken image": (
        lambda p: bag(p, changed(messages(), IMAGES, cut_jpeg, lambda k: k == 5)),
        ("error", "image", f" {IMAGES}", "1 of 18 images do not become video"),
    ),
    "an image of another size": (
        lambda p: bag(p, changed(messages(), IMAGES, other_size, lambda k: k > 9)),
        ("error", "image-size", f" {IMAGES}", "64×48 (10), 64×50 (8)"),
    ),
    "raw images": (lambda p: raw(raw_image, p), None),
    "a depth camera": (
        lambda p: raw(depth, p),
        ("error", "image", " /cam/image_raw", "18 of 18 images do not become video"),
    ),
    "a quaternion that is none": (
        lambda p: bag(p, changed(messages(), POSE, set_norm, lambda k: k in (40, 41))),
        ("error", "quaternion-norm", f" {POSE} (arm_eef)", "2 of 120 quaternions are not unit"),
    ),
    "not a number": (
        lambda p: bag(p, changed(messages(), JOINTS, set_nan, lambda k: k == 40)),
        ("error", "not-finite", f" {JOINTS} (arm_joint)", "1 of 120 messages"),
    ),
    "a pose in another frame": (
        lambda p: bag(p, changed(messages(), POSE, set_frame)),
        ("error", "source", "", "the pose is in another frame than the arm's base"),
    ),
    "a gripper in millimetres": (
        lambda p: bag(p, [*arm_messages(120, width=50.0), *messages()[360:]]),
        ("error", "source", "", "set `unit: mm`"),
    ),
    "no joint names": (
        lambda p: bag(
            p,
            [
                (n, r, joint_state(r, list(m.position), names=list("abcdefg")) if n == JOINTS else m)
                for n, r, m in messages()
            ],
        ),
        ("error", "source", "", "the message does not name the joint"),
    ),
    "the camera's topic holds no images": (
        lambda p: bag(p, [(n if n != POSE else IMAGES, r, m) for n, r, m in [*arm_messages(120)]]
                      + [m for m in arm_messages(120) if m[0] == POSE]),
        ("error", "image", f" {IMAGES}", "not an image message"),
        ("warning", "rate", f" {IMAGES}", "200.00 Hz"),
    ),
    "an unreadable configuration": (
        lambda p: write_bag(p, messages(), custom(session_config="/**: {ros__parameters: {sesion: {}}}")),
        ("error", "no-config", "", "sesion"),
    ),
}  # fmt: skip
