"""A simulated camera's pictures as packets of H.264, in the messages of its transport."""

import os
import sys
from array import array

import numpy as np
from rclpy.node import Node
from std_msgs.msg import Header

from piper_collect.config.names import image_topic
from piper_collect.config.schema import CameraSettings
from piper_collect.config.video_transports import FFMPEG_PACKET, VIDEO_MESSAGES, install_hint
from piper_collect.errors import ConfigError, ImageError
from piper_collect.imaging.h264_encoder import PIXEL_FORMAT, H264Encoder, Packet
from piper_collect.nodes.qos import STREAM_QOS
from piper_collect.nodes.vendor_types import vendor_type

_KEY_FLAG = 1  # AV_PKT_FLAG_KEY
_CODEC = "h264"
_ENCODING = f"{_CODEC};{PIXEL_FORMAT};rgb8;rgb8"
"""The codec, then the formats of the pictures: for the encoder, before that, and of the source."""


class VideoPublisher:
    """Publishes one stream while somebody subscribes; each time somebody does again it begins anew.

    Args:
        node: The camera's node.
        name: The camera.
        camera: Its settings; the transport is one that sends a video.
        gop: Pictures from one key frame to the next.

    Raises:
        ConfigError: The messages are not installed here, or pictures of this size cannot be encoded.
    """

    def __init__(self, node: Node, name: str, camera: CameraSettings, gop: int) -> None:
        self._type_name = VIDEO_MESSAGES[camera.transport].type_name
        self._class = message_class(name, camera)
        self._name, self._camera, self._gop = name, camera, gop
        self._encoder = self._new_encoder()
        self._publisher = node.create_publisher(self._class, image_topic(name, camera), STREAM_QOS)
        self._running = False

    def is_wanted(self) -> bool:
        """Whether somebody subscribes now; where nobody does, the stream ends."""
        wanted = self._publisher.get_subscription_count() > 0
        self._running = self._running and wanted
        return wanted

    def take(self, header: Header, rgb: np.ndarray, *, dropped: bool = False) -> None:
        """Encode the next picture and publish its packet, unless it is to be lost."""
        if not self._running:
            self._encoder, self._running = self._new_encoder(), True
        packet = self._encoder.encode(rgb)
        if not dropped:
            self._publisher.publish(self._message(header, packet))

    def _new_encoder(self) -> H264Encoder:
        camera = self._camera
        try:
            return H264Encoder(camera.width, camera.height, fps=camera.fps, gop=self._gop)
        except ImageError as err:
            raise ConfigError(
                err.what,
                where=f"cameras.{self._name} (transport {camera.transport})",
                got=err.got,
                hint="give another width and height, or another transport",
            ) from err

    def _message(self, header: Header, packet: Packet) -> object:
        data = array("B", packet.data)
        if self._type_name != FFMPEG_PACKET:
            return self._class(timestamp=header.stamp, frame_id=header.frame_id, data=data, format=_CODEC)
        return self._class(
            header=header,
            width=self._camera.width,
            height=self._camera.height,
            encoding=_ENCODING,
            pts=packet.number,
            flags=_KEY_FLAG if packet.is_key else 0,
            is_bigendian=sys.byteorder == "big",
            data=data,
        )


def message_class(name: str, camera: CameraSettings) -> type:
    """The class of the messages of a camera's transport.

    Raises:
        ConfigError: It is not installed here.
    """
    video = VIDEO_MESSAGES[camera.transport]
    package, _, leaf = video.type_name.split("/")
    found = vendor_type("msg", f"{package}/{leaf}")
    if found is None:
        hint = install_hint(video.type_name, os.environ.get("ROS_DISTRO", ""))
        raise ConfigError(
            f"the messages of this transport are not installed here: {video.type_name}",
            where=f"cameras.{name}.transport: {camera.transport}",
            hint=f"{hint}, or set transport: compressed",
        )
    return found
