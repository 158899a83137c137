"""The transports that send a video: what their messages are, and which packages bring them."""

from dataclasses import dataclass

FFMPEG_PACKET = "ffmpeg_image_transport_msgs/msg/FFMPEGPacket"
COMPRESSED_VIDEO = "foxglove_msgs/msg/CompressedVideo"
DISTRO = "jazzy"
"""The ROS distribution whose packages are named where none is set up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoTransport:
    """A transport of image_transport whose messages are packets of a video.

    Attributes:
        type_name: Type of its messages.
        plugin: ROS package of the plugin, which brings the messages too.
    """

    type_name: str
    plugin: str

    @property
    def package(self) -> str:
        """ROS package of the messages alone."""
        return self.type_name.partition("/")[0]


VIDEO_MESSAGES: dict[str, VideoTransport] = {
    "ffmpeg": VideoTransport(type_name=FFMPEG_PACKET, plugin="ffmpeg_image_transport"),
    "foxglove": VideoTransport(type_name=COMPRESSED_VIDEO, plugin="foxglove_compressed_video_transport"),
}
"""By the name of the transport, which is the last part of its topics."""


def apt_package(ros_package: str, distro: str) -> str:
    """What a package of ROS is called in apt."""
    return f"ros-{distro or DISTRO}-{ros_package.replace('_', '-')}"


def install_hint(type_name: str, distro: str) -> str:
    """What brings the messages of a type of these; empty for others."""
    known = [video.package for video in VIDEO_MESSAGES.values() if video.type_name == type_name]
    return f"apt install {apt_package(known[0], distro)} (PyPI has no wheel of it)" if known else ""
