"""Recordings to export: an arm at 200 Hz before cameras that see a moving scene with a sensor's noise."""

import heapq
import json
from collections.abc import Iterator
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, Literal

import numpy as np
import simplejpeg
from numpy.typing import NDArray
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from piper_collect.bag.backends import choose_storage
from piper_collect.bag.storage import TopicInfo
from piper_collect.config.load import dump_session
from piper_collect.config.schema import CameraSettings, SessionConfig, SessionSettings

Transport = Literal["compressed", "raw"]

FPS, STATE_HZ = 30.0, 200
SIZE = (480, 640)
NAMES = ("cam_front", "cam_wrist", "cam_side", "cam_top")
JPEG_QUALITY = 90

_START_NS = 1_700_000_000_000_000_000
_DELAY_MS = 10
_NOISES = 7  # a prime, so that no two frames near each other are alike
_JOINTS = [*(f"joint{i}" for i in range(1, 7)), "gripper"]
_MESSAGES = Path(__file__).resolve().parents[1] / "msg"

_Message = tuple[int, str, bytes]
"""Receive time, topic, CDR."""


def session_config(cameras: int, transport: Transport, size: tuple[int, int] = SIZE) -> SessionConfig:
    """The configuration that such a recording is read with."""
    height, width = size
    settings = CameraSettings(transport=transport, height=height, width=width)
    return SessionConfig(
        session=SessionSettings(task="push the cube", fps=FPS),
        cameras=dict.fromkeys(NAMES[:cameras], settings),
    )


def record(
    path: Path,
    seconds: float,
    *,
    cameras: int = 3,
    transport: Transport = "compressed",
    size: tuple[int, int] = SIZE,
    number: int = 0,
) -> Path:
    """Write a bag, one message at a time; the same one at every call.

    Args:
        path: The bag's folder.
        seconds: How long it lasts.
        cameras: How many there are.
        transport: What the cameras send.
        size: (height, width) of their pictures.
        number: Which episode of its session it is; each has its own time and pictures.
    """
    start_ns = _START_NS + number * 3_600_000_000_000
    config = session_config(cameras, transport, size)
    streams = [_arm(start_ns, seconds)]
    streams += [_camera(name, start_ns, seconds, transport, size, number) for name in config.cameras]
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = choose_storage("mcap", "pip").writer()
    writer.open(path, _about(config, number, start_ns, seconds))
    for topic, kind in _topics(config, transport).items():
        definition = _store().generate_msgdef(kind, ros_version=2)[0]
        writer.create_topic(TopicInfo(name=topic, type=kind, message_definition=definition))
    for receive_ns, topic, cdr in heapq.merge(*streams):
        writer.write(topic, cdr, receive_ns)
    writer.close()
    return path


def pictures(seed: int, frames: int, size: tuple[int, int] = SIZE) -> Iterator[NDArray[np.uint8]]:
    """uint8 [H, W, 3] RGB: a blurred pattern that drifts, under noise of 2 levels."""
    height, width = size
    rng = np.random.default_rng(seed)
    coarse = rng.integers(30, 220, (height // 16 + 8, width // 16 + 8, 3)).astype(np.float32)
    scene = np.kron(coarse, np.ones((16, 16, 1), np.float32))
    for axis in (0, 1):
        scene = np.mean([np.roll(scene, k, axis) for k in range(-6, 7, 3)], axis=0)
    grain = rng.normal(0.0, 2.0, (_NOISES, height, width, 1)).astype(np.float32)
    for k in range(frames):
        across = round(50 + 40 * np.sin(k / 20)), round(50 + 40 * np.cos(k / 27))
        view = scene[across[0] : across[0] + height, across[1] : across[1] + width]
        yield np.clip(view + grain[k % _NOISES], 0, 255).astype(np.uint8)


def _about(config: SessionConfig, number: int, start_ns: int, seconds: float) -> dict[str, str]:
    return {
        "session": "push_20260101_120000",
        "episode": str(number),
        "task": config.session.task,
        "tool_version": "bench",
        "episode_start_ns": str(start_ns),
        "episode_end_ns": str(start_ns + round(seconds * 1e9)),
        "outcome": "success",
        "complete": "true",
        "losses": json.dumps({}),
        "session_config": dump_session(config),
    }


def _topics(config: SessionConfig, transport: Transport) -> dict[str, str]:
    image = "sensor_msgs/msg/CompressedImage" if transport == "compressed" else "sensor_msgs/msg/Image"
    return {
        "/arm/joint_states": "sensor_msgs/msg/JointState",
        "/arm/flange_pose": "geometry_msgs/msg/PoseStamped",
        "/teleop/target": "piper_collect/msg/TeleopTarget",
        **{_image_topic(name, transport): image for name in config.cameras},
    }


def _image_topic(camera: str, transport: Transport) -> str:
    return f"/{camera}/image_raw" + ("/compressed" if transport == "compressed" else "")


def _arm(start_ns: int, seconds: float) -> Iterator[_Message]:
    for k in range(round(seconds * STATE_HZ)):
        stamp_ns = start_ns + k * 1_000_000_000 // STATE_HZ
        at_s = k / STATE_HZ
        joints = np.array([0.3 * np.sin(at_s + j) for j in range(6)] + [0.05])
        half = 0.2 * np.sin(at_s)
        place = _pose([0.3 + 0.05 * np.sin(at_s), 0.1, 0.2], [np.sin(half), 0.0, 0.0, np.cos(half)])
        none = np.zeros(0)
        header, receive_ns = _header(stamp_ns, "base_link"), stamp_ns + 1_000_000
        state = _make("sensor_msgs/msg/JointState", header, _JOINTS, joints, none, none)
        yield receive_ns, "/arm/joint_states", _cdr(state)
        yield receive_ns, "/arm/flange_pose", _cdr(_make("geometry_msgs/msg/PoseStamped", header, place))
        target = _make("piper_collect/msg/TeleopTarget", header, place, 0.05, True)
        yield receive_ns, "/teleop/target", _cdr(target)


def _camera(
    name: str, start_ns: int, seconds: float, transport: Transport, size: tuple[int, int], number: int
) -> Iterator[_Message]:
    topic, seed = _image_topic(name, transport), 10 * number + NAMES.index(name)
    height, width = size
    for k, rgb in zip(count(), pictures(seed, round(seconds * FPS), size)):
        stamp_ns = start_ns + 2_000_000 + round(k * 1e9 / FPS)
        header = _header(stamp_ns, f"{name}_optical")
        if transport == "compressed":
            encoded = simplejpeg.encode_jpeg(rgb, quality=JPEG_QUALITY, colorsubsampling="420")
            cells = np.frombuffer(encoded, np.uint8)
            image = _make("sensor_msgs/msg/CompressedImage", header, "rgb8; jpeg compressed bgr8", cells)
        else:
            image = _make("sensor_msgs/msg/Image", header, height, width, "rgb8", 0, 3 * width, rgb.ravel())
        yield stamp_ns + _DELAY_MS * 1_000_000, topic, _cdr(image)


@cache
def _store() -> Any:
    store = get_typestore(Stores.ROS2_JAZZY)
    text = (_MESSAGES / "TeleopTarget.msg").read_text(encoding="utf-8")
    store.register(get_types_from_msg(text, "piper_collect/msg/TeleopTarget"))
    return store


def _make(name: str, *fields: object) -> Any:
    return _store().types[name](*fields)


def _header(stamp_ns: int, frame_id: str) -> Any:
    stamp = _make("builtin_interfaces/msg/Time", stamp_ns // 10**9, stamp_ns % 10**9)
    return _make("std_msgs/msg/Header", stamp, frame_id)


def _pose(xyz: list[float], xyzw: list[float]) -> Any:
    position = _make("geometry_msgs/msg/Point", *map(float, xyz))
    return _make("geometry_msgs/msg/Pose", position, _make("geometry_msgs/msg/Quaternion", *map(float, xyzw)))


def _cdr(message: Any) -> bytes:
    return bytes(_store().serialize_cdr(message, message.__msgtype__))
