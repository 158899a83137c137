"""Small bags for the tests, written through the package's own writer."""

import io
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image as PilImage
from rosbags.typesys import Stores, get_types_from_msg, get_typestore
from video_definitions import COMPRESSED_VIDEO, FFMPEG_PACKET, VIDEO_DEFINITIONS

from piper_collect.bag.backends import choose_storage
from piper_collect.bag.storage import BagWriter, QosProfile, TopicInfo

MS = 1_000_000
START = 1_700_000_000_000_000_000
MSG_FOLDER = Path(__file__).resolve().parents[1] / "msg"
JOINTS = ["joint1", "joint2", "joint3", "joint4", "joint5", "joint6"]
JOINT_STATE = "sensor_msgs/msg/JointState"
POSE_STAMPED = "geometry_msgs/msg/PoseStamped"
TELEOP_TARGET = "piper_collect/msg/TeleopTarget"
ARM_STATUS = "piper_collect/msg/ArmStatus"
POWER_ON = 2
QUEST_INPUT = "piper_collect/msg/QuestInput"
IMAGE = "sensor_msgs/msg/Image"
CAMERA_INFO = "sensor_msgs/msg/CameraInfo"
COMPRESSED = "sensor_msgs/msg/CompressedImage"


def make_writer(storage_id: str) -> BagWriter:
    """A writer that writes alike on every machine."""
    return choose_storage(storage_id, "pip").writer()


@cache
def store():
    typestore = get_typestore(Stores.ROS2_JAZZY)
    types = {}
    for path in MSG_FOLDER.glob("*.msg"):
        types |= get_types_from_msg(path.read_text(encoding="utf-8"), f"piper_collect/msg/{path.stem}")
    for name, text in VIDEO_DEFINITIONS.items():
        types |= get_types_from_msg(text, name)
    typestore.register(types)
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


def arm_status(stamp_ns, firmware, faults=()):
    return make(ARM_STATUS, header(stamp_ns), "piper", POWER_ON, 1, 0, list(faults), firmware)


def controller(*, connected=True, buttons=(0.25, 1.0), axes=(0.0, -0.5), xyz=(0.1, 1.2, -0.3)):
    values = np.array(buttons, dtype=np.float64)
    place = pose(xyz, [0, 0, 0.6, 0.8])
    return make(
        "piper_collect/msg/QuestController",
        connected,
        ["meta-quest-touch-plus", "oculus-touch"] if connected else [],
        connected,
        False,
        place,
        connected,
        place,
        values,
        values > 0.5,
        values > 0.0,
        np.array(axes, dtype=np.float64),
    )


def quest_input(stamp_ns, sequence, *, headset_ms=1234.5, head_xyz=(0, 1.6, 0), left=None, right=None):
    return make(
        QUEST_INPUT,
        header(stamp_ns, "quest_local_floor"),
        headset_ms,
        sequence,
        "visible",
        True,
        pose(head_xyz, [0, 0, 0, 1]),
        left or controller(connected=False, buttons=(), axes=()),
        right or controller(),
    )


def camera_info(stamp_ns, *, focal=500.0, width=64, height=48, d=(0.1, -0.2, 0.0, 0.0, 0.03)):
    cx, cy = width / 2, height / 2
    return make(
        CAMERA_INFO,
        header(stamp_ns, "cam_optical"),
        height,
        width,
        "plumb_bob",
        np.array(d, dtype=np.float64),
        np.array([focal, 0, cx, 0, focal, cy, 0, 0, 1], dtype=np.float64),
        np.eye(3).ravel(),
        np.array([focal, 0, cx, 0, 0, focal, cy, 0, 0, 0, 1, 0], dtype=np.float64),
        1,
        2,
        make("sensor_msgs/msg/RegionOfInterest", 3, 4, 20, 30, False),
    )


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


def ffmpeg_packet(stamp_ns, data, text="h264;yuv420p;bgr8;bgr8", size=(48, 64)):
    content = np.frombuffer(data, dtype=np.uint8)
    return make(FFMPEG_PACKET, header(stamp_ns, "optical"), size[1], size[0], text, 0, 0, False, content)


def compressed_video(stamp_ns, data, text="h264"):
    content = np.frombuffer(data, dtype=np.uint8)
    return make(COMPRESSED_VIDEO, header(stamp_ns).stamp, "optical", content, text)


def write_bag(
    path: Path,
    messages: Iterable[tuple[str, int, object]],
    custom: Mapping[str, str] | None = None,
    types: Mapping[str, str] | None = None,
    qos: Mapping[str, tuple[QosProfile, ...]] | None = None,
    storage: str = "mcap",
) -> Path:
    """Write (topic, receive_ns, message) by receive time; ``types`` adds topics without messages."""
    path.parent.mkdir(parents=True, exist_ok=True)
    ordered = sorted(messages, key=lambda item: item[1])
    kinds = {**(types or {}), **{topic: message.__msgtype__ for topic, _, message in ordered}}
    writer = make_writer(storage)
    writer.open(path, dict(custom or {}))
    for topic, kind in kinds.items():
        definition = store().generate_msgdef(kind, ros_version=2)[0]
        offered = (qos or {}).get(topic, ())
        writer.create_topic(TopicInfo(name=topic, type=kind, qos=offered, message_definition=definition))
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
