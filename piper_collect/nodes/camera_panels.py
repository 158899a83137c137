"""Cameras' newest pictures for a page: taken as they come, decoded only when somebody looks."""

from collections.abc import Callable
from functools import partial

from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message
from rclpy.subscription import Subscription
from sensor_msgs.msg import CompressedImage, Image

from piper_collect.config.names import image_topic
from piper_collect.config.schema import VIDEO_TRANSPORTS, CameraSettings
from piper_collect.core.types import CameraFrame
from piper_collect.imaging.frames import parse_compressed_format
from piper_collect.imaging.panel import panel_jpeg
from piper_collect.nodes.convert import stamp_ns
from piper_collect.web.panels import Panels

PANEL_QOS = QoSProfile(
    depth=1, reliability=ReliabilityPolicy.BEST_EFFORT, durability=DurabilityPolicy.VOLATILE
)


def sends_pictures(camera: CameraSettings) -> bool:
    """Whether what a camera sends can be shown one by one; the packets of a video cannot."""
    return camera.transport not in VIDEO_TRANSPORTS


def subscribe_panel(
    node: Node, panels: Panels, name: str, camera: CameraSettings, *, width: int, quality: int
) -> Subscription:
    """Offer a camera's pictures to ``panels``, the newest in place of the one before.

    Args:
        node: Subscribes.
        panels: Takes them.
        name: The camera's.
        camera: Its settings.
        width: Most columns, in px.
        quality: JPEG quality of a picture that is made anew, 1 to 100.
    """

    def take(frame: Callable[[], CameraFrame]) -> None:
        panels.offer(name, lambda: panel_jpeg(frame(), width=width, quality=quality))

    return subscribe_frames(node, name, camera, take)


def subscribe_frames(
    node: Node, name: str, camera: CameraSettings, take: Callable[[Callable[[], CameraFrame]], None]
) -> Subscription:
    """Have ``take`` called with each picture of a camera, or rather with what reads it when it is wanted.

    Args:
        node: Subscribes, best effort: no camera waits for us, and the recorder neither.
        name: The camera's.
        camera: Its settings.
        take: Called from the node's executor.
    """
    compressed = camera.transport == "compressed"
    frame_of = _compressed_frame if compressed else _raw_frame
    kind = CompressedImage if compressed else Image

    def hear(payload: bytes) -> None:
        take(partial(frame_of, payload))

    return node.create_subscription(kind, image_topic(name, camera), hear, PANEL_QOS, raw=True)


def _compressed_frame(payload: bytes) -> CameraFrame:
    message = deserialize_message(payload, CompressedImage)
    pixels = bytes(message.data)
    return CameraFrame(
        stamp_ns=stamp_ns(message.header.stamp),
        encoding=parse_compressed_format(message.format, pixels),
        height=0,
        width=0,
        step=0,
        payload=pixels,
    )


def _raw_frame(payload: bytes) -> CameraFrame:
    message = deserialize_message(payload, Image)
    return CameraFrame(
        stamp_ns=stamp_ns(message.header.stamp),
        encoding=message.encoding,
        height=message.height,
        width=message.width,
        step=message.step,
        payload=bytes(message.data),
        big_endian=bool(message.is_bigendian),
    )
