"""The nodes of a collection session, described once: `record` and the launch file both start this."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from piper_collect.config.schema import SessionConfig
from piper_collect.config.share import PACKAGE, share_file

# glibc keeps image-sized blocks instead of giving them back to the kernel at every message
_MALLOC = {"MALLOC_MMAP_THRESHOLD_": "134217728", "MALLOC_TRIM_THRESHOLD_": "268435456"}
# Jazzy reads the first name, Kilted the second
_DDS_PROFILE_VARIABLES = ("FASTRTPS_DEFAULT_PROFILES_FILE", "FASTDDS_DEFAULT_PROFILES_FILE")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """One process of the graph.

    Attributes:
        executable: Executable of this package, and module under ``piper_collect.nodes``.
        name: Node name.
        parameters: Parameters beside those of the session file.
        ends_session: Whether its normal end is the end of the session.
    """

    executable: str
    name: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    ends_session: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """What a session starts.

    Attributes:
        nodes: In starting order; they are stopped recorder first, then in reverse.
        namespace: ROS namespace of all of them.
        environment: Variables to set for all of them where the user has not set them.
    """

    nodes: tuple[NodeSpec, ...]
    namespace: str
    environment: Mapping[str, str]
    package: str = PACKAGE


def collection_graph(config: SessionConfig) -> Graph:
    """The graph of a collection session under ``config``."""
    nodes = [NodeSpec(executable="recorder_node", name="recorder")]
    if config.devices.arm == "sim":
        nodes.append(NodeSpec(executable="arm_sim_node", name="arm_sim"))
    if config.devices.cameras == "sim":
        nodes += [
            NodeSpec(executable="camera_sim_node", name=f"camera_sim_{camera}", parameters={"camera": camera})
            for camera in config.cameras
        ]
    nodes.append(NodeSpec(executable="teleop_node", name="teleop"))
    nodes.append(NodeSpec(executable="session_node", name="session"))
    if config.devices.operator == "sim":
        nodes.append(NodeSpec(executable="operator_sim_node", name="operator_sim", ends_session=True))
    return Graph(
        nodes=tuple(nodes), namespace=config.session.namespace.strip("/"), environment=_environment()
    )


def _environment() -> dict[str, str]:
    environment = {"PYTHONUNBUFFERED": "1", **_MALLOC}
    profile = str(share_file("config", "fastdds_shm64.xml"))
    environment.update(dict.fromkeys(_DDS_PROFILE_VARIABLES, profile))
    return {name: value for name, value in environment.items() if name not in os.environ}
