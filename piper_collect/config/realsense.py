"""Names of realsense2_camera: what a node has lies below ``<camera_namespace>/<camera_name>``."""

from collections.abc import Mapping
from typing import Protocol

COLOR_TOPIC = "/color/image_raw"
ALIGNED_DEPTH_TOPIC = "/aligned_depth_to_color/image_raw"
"""16UC1 in mm, as large as the colour image and seen from where it was taken."""

DEVICE_INFO = "/device_info"


class _Camera(Protocol):
    @property
    def topic(self) -> str: ...
    @property
    def fps(self) -> float: ...
    @property
    def serial(self) -> str: ...


def realsense_node(topic: str) -> str:
    """The node that publishes the colour topic ``topic``, as that is relative or absolute.

    Raises:
        ValueError: It is none.
    """
    node = topic.removesuffix(COLOR_TOPIC)
    if node == topic or not node.strip("/"):
        raise ValueError(
            f"topic is none of realsense2_camera: expected <namespace>/<name>{COLOR_TOPIC} (got {topic!r})"
        )
    return node


def check_realsense(cameras: Mapping[str, _Camera]) -> None:
    """Refuse cameras that realsense2_camera cannot be.

    Raises:
        ValueError: Names the camera and the setting.
    """
    taken: dict[str, str] = {}
    for name, camera in cameras.items():
        try:
            node = realsense_node(camera.topic).rpartition("/")[2]
        except ValueError as err:
            raise ValueError(f"cameras.{name}.{err}") from err
        if node in taken:
            raise ValueError(
                f"cameras.{name} and cameras.{taken[node]} are both called {node}: realsense2_camera names"
                " frames by the last part alone, so they must differ there"
            )
        taken[node] = name
        if camera.serial.startswith("_"):
            raise ValueError(
                f"cameras.{name}.serial is written without the leading underscore (got {camera.serial!r})"
            )
        if camera.fps != round(camera.fps):
            raise ValueError(f"cameras.{name}.fps must be whole for a RealSense (got {camera.fps:g})")
