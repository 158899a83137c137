"""Small bags for the tests, written through the package's own writer."""

import io
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image as PilImage
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from piper_collect.bag.backends import make_writer
from piper_collect.bag.storage import TopicInfo

MS = 1_000_000
START = 1_700_000_000_000_000_000
MSG_FOLDER = Path(__file__).resolve().parents[1] / "msg"
JOINTS = ["joint1", "joint2", "joint3", "joint4", "joint5", "joint6"]
JOINT_STATE = "sensor_msgs/msg/JointState"
POSE_STAMPED = "geometry_msgs/msg/PoseStamped"
TELEOP_TARGET = "piper_collect/msg/TeleopTarget"
IMAGE = "sensor_msgs/msg/Image"
COMPRESSED = "sensor_msgs/msg/CompressedImage"


@cache
def store():
    typestore = get_typestore(Stores.ROS2_JAZZY)
    text = (MSG_FOLDER / "TeleopTarget.msg").read_text(encoding="utf-8")
    typestore.register(get_types_from_msg(text, TELEOP_TARGET))
    return typestore


def make(name, *args):
    return store().types[name](*args)


def header(stamp_ns, frame_id=""):
    stamp = make("builtin_interfaces/msg/Time", stamp_ns // 10**9, stamp_ns % 10**9)
    return make("std_msgs/msg/Header", stamp, frame_id)


def joint_state(stamp_ns, position, names=(*JOINTS, "gripper"), velocity=(), effort=()):
    arrays = (np.array(v, dtype=np.float64) for v in (position, velocity, effort))
    return make(JOINT_STATE, header(stamp_ns), list(names), *arrays)


def pose(xyz, xyzw):
    return make(
        "geometry_msgs/msg/Pose",
        make("geometry_msgs/msg/Point", *map(float, xyz)),
        make("geometry_msgs/msg/Quaternion", *map(float, xyzw)),
    )


def pose_stamped(stamp_ns, xyz, xyzw, frame_id="base_link"):
    return make(POSE_STAMPED, header(stamp_ns, frame_id), pose(xyz, xyzw))


def teleop_target(stamp_ns, xyz, xyzw, width, frame_id="base_link"):
    return make(TELEOP_TARGET, header(stamp_ns, frame_id), pose(xyz, xyzw), float(width), True)


def picture(rgb, height=48, width=64):
    return np.broadcast_to(np.array(rgb, dtype=np.uint8), (height, width, 3)).copy()


def raw_image(stamp_ns, pixels, encoding="rgb8"):
    stored = pixels[..., ::-1] if encoding == "bgr8" else pixels
    h, w, _ = pixels.shape
    return make(
        IMAGE, header(stamp_ns, "optical"), h, w, encoding, 0, 3 * w, np.ascontiguousarray(stored).ravel()
    )


def jpeg_image(stamp_ns, pixels, text="rgb8; jpeg compressed bgr8"):
    buffer = io.BytesIO()
    PilImage.fromarray(pixels).save(buffer, "JPEG", quality=95)
    return make(
        COMPRESSED, header(stamp_ns, "optical"), text, np.frombuffer(buffer.getvalue(), dtype=np.uint8)
    )


def write_bag(
    path: Path,
    messages: Iterable[tuple[str, int, object]],
    custom: Mapping[str, str] | None = None,
    types: Mapping[str, str] | None = None,
) -> Path:
    """Write (topic, receive_ns, message) by receive time; ``types`` adds topics without messages."""
    path.parent.mkdir(parents=True, exist_ok=True)
    ordered = sorted(messages, key=lambda item: item[1])
    kinds = {**(types or {}), **{topic: message.__msgtype__ for topic, _, message in ordered}}
    writer = make_writer("mcap")
    writer.open(path, dict(custom or {}))
    for topic, kind in kinds.items():
        definition = store().generate_msgdef(kind, ros_version=2)[0]
        writer.create_topic(TopicInfo(name=topic, type=kind, message_definition=definition))
    for topic, receive_ns, message in ordered:
        writer.write(topic, bytes(store().serialize_cdr(message, message.__msgtype__)), receive_ns)
    writer.close()
    return path


def arm_messages(count, *, start=START, period_ms=5, width=0.05, delay_ms=1):
    """Joint states, flange poses and targets at 200 Hz: joint1, x and the target's x count ticks in mm."""
    for k in range(count):
        t = start + k * period_ms * MS
        at = t + delay_ms * MS
        position = [k * 1e-3, 0.1, -0.2, 0.3, -0.4, 0.5, width]
        yield "/arm/joint_states", at, joint_state(t, position)
        yield "/arm/flange_pose", at, pose_stamped(t, [k * 1e-3, 0.2, 0.3], [0, 0, 0.6, 0.8])
        yield "/teleop/target", at, teleop_target(t, [k * 1e-3, 0.25, 0.35], [0, 0.6, 0, 0.8], width / 2)


def camera_messages(name, stamps_ms, *, start=START, rgb=(200, 30, 40), make_image=jpeg_image):
    suffix = "image_raw/compressed" if make_image is jpeg_image else "image_raw"
    for t in stamps_ms:
        stamp = start + round(t * MS)
        yield f"/{name}/{suffix}", stamp + 9 * MS, make_image(stamp, picture(rgb))


def custom(*, session="pick_20260101_120000", episode=0, start=START, end_ms=1000, outcome="success", **more):
    known = {
        "session": session,
        "episode": str(episode),
        "task": "pick the cube",
        "tool_version": "0.1.0",
        "episode_start_ns": str(start),
    }
    if outcome:
        known |= {
            "episode_end_ns": str(start + end_ms * MS),
            "outcome": outcome,
            "complete": "true",
            "losses": "{}",
        }
    return {**known, **more}


def sample_bag(
    path, *, cameras=("cam_front", "cam_wrist"), count=200, start=START, make_image=jpeg_image, **more
):
    """One second of our own recording; cameras tick every 33 ms from 2 ms on."""
    messages = list(arm_messages(count, start=start))
    for name in cameras:
        messages += camera_messages(name, range(2, count * 5, 33), start=start, make_image=make_image)
    return write_bag(path, messages, custom(start=start, **more))
