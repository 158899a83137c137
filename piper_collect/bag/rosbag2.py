"""``rosbag2_py``, where it can be imported: never at import time, and never needed."""

import importlib
import importlib.metadata
from typing import Any

from piper_collect.errors import ConfigError

_NEEDED = (
    "ConverterOptions",
    "MetadataIo",
    "SequentialReader",
    "SequentialWriter",
    "StorageFilter",
    "StorageOptions",
    "TopicMetadata",
    "get_registered_writers",
    "to_rclcpp_qos_vector",
)
"""What of it is used; all there since Jazzy."""
ROSBAG2_FAILURES = (OSError, ValueError, RuntimeError, TypeError, IndexError)
"""What its C++ exceptions become in Python (a TypeError: another signature than Jazzy's)."""

_OTHERWISE = "recorder.storage_backend: pip"


def load_rosbag2(storage_id: str) -> Any:
    """The module, once it is known to be able to store bags so.

    Args:
        storage_id: The storage plugin that is wanted.

    Raises:
        ConfigError: It is not installed or cannot be loaded, is older than Jazzy's, or lacks the plugin.
    """
    try:
        module = importlib.import_module("rosbag2_py")
    except (ImportError, OSError) as err:
        raise ConfigError(
            "rosbag2_py cannot be imported",
            got=err,
            hint=f"source the setup file of a ROS 2 installation, or set {_OTHERWISE}",
        ) from err
    missing = [name for name in _NEEDED if not hasattr(module, name)]
    if missing:
        raise ConfigError(
            "this rosbag2_py is too old",
            expected="that of ROS 2 Jazzy or later",
            got=f"one without {', '.join(missing)}",
            hint=f"set {_OTHERWISE}",
        )
    try:
        plugins = sorted(module.get_registered_writers())
    except ROSBAG2_FAILURES as err:
        raise ConfigError("rosbag2_py does not find its storage plugins", got=err) from err
    if storage_id not in plugins:
        raise ConfigError(
            "rosbag2_py has no plugin for this storage",
            got=storage_id,
            valid=plugins,
            hint=f"install ros-$ROS_DISTRO-rosbag2-storage-{storage_id}, or set {_OTHERWISE}",
        )
    return module


def rosbag2_version() -> str | None:
    """The installed version; None where nothing says."""
    try:
        return importlib.metadata.version("rosbag2_py")
    except importlib.metadata.PackageNotFoundError:
        return None
