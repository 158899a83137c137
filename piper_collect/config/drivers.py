"""Nodes of vendors that a session needs and does not own: what they are called, and how they are started."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from piper_collect.config.bridge import VENDORS
from piper_collect.config.names import resolve_topic
from piper_collect.config.realsense import realsense_node
from piper_collect.config.schema import CameraSettings, SessionConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverNode:
    """One node of a vendor.

    Attributes:
        what: It, for people.
        package: Its ROS package.
        executable: Its executable there; empty where it is left to a person to start.
        namespace: Absolute.
        name: Node name.
        parameters: Of the node.
        start: The command that starts it by hand.
    """

    what: str
    package: str
    start: str
    executable: str = ""
    namespace: str = ""
    name: str = ""
    parameters: Mapping[str, str | bool] = field(default_factory=dict)


def driver_nodes(config: SessionConfig) -> tuple[DriverNode, ...]:
    """What must run beside the session's own nodes."""
    drivers = []
    if config.devices.arm == "bridge":
        vendor = VENDORS[config.bridge.vendor]
        drivers.append(DriverNode(what=config.bridge.vendor, package=vendor.package, start=vendor.start))
    if config.devices.cameras == "realsense":
        space = config.session.namespace
        drivers += [_realsense(camera, space) for camera in config.cameras.values()]
    return tuple(drivers)


def _realsense(camera: CameraSettings, space: str) -> DriverNode:
    """realsense2_camera: one node a camera, colour alone unless depth is asked for."""
    namespace, _, name = resolve_topic(realsense_node(camera.topic), space).rpartition("/")
    parameters: dict[str, str | bool] = {
        "camera_name": name,
        "rgb_camera.color_profile": f"{camera.width}x{camera.height}x{camera.fps:.0f}",
        "rgb_camera.color_format": "RGB8",
        "enable_color": True,
        "enable_depth": camera.aligned_depth,
        "align_depth.enable": camera.aligned_depth,
    }
    if camera.serial:
        # a launch argument of digits alone would become a number; the driver takes the underscore off
        parameters["serial_no"] = f"_{camera.serial}"
    words = [f"{key}:={_word(value)}" for key, value in parameters.items()]
    return DriverNode(
        what=f"realsense2_camera of {name}",
        package="realsense2_camera",
        executable="realsense2_camera_node",
        namespace=namespace,
        name=name,
        parameters=parameters,
        start=f"ros2 launch realsense2_camera rs_launch.py camera_namespace:={namespace.lstrip('/') or '/'} "
        + " ".join(words),
    )


def _word(value: str | bool) -> str:
    """A value as a launch argument has it."""
    return str(value).lower() if isinstance(value, bool) else value
