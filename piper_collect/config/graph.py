"""The nodes of a collection session, described once: `record` and the launch file both start this."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from piper_collect.config.schema import SessionConfig
from piper_collect.config.share import PACKAGE, share_file

# glibc keeps image-sized blocks instead of giving them back to the kernel at every message
_MALLOC = {"MALLOC_MMAP_THRESHOLD_": "134217728", "MALLOC_TRIM_THRESHOLD_": "268435456"}
# Jazzy reads the first name, Kilted the second
DDS_PROFILE_VARIABLES = ("FASTRTPS_DEFAULT_PROFILES_FILE", "FASTDDS_DEFAULT_PROFILES_FILE")

_REACH_VARIABLES = ("ROS_AUTOMATIC_DISCOVERY_RANGE", "ROS_LOCALHOST_ONLY", "ROS_STATIC_PEERS")

STOP_S = 20.0
"""How long a node may take from SIGINT to its end, before it gets SIGTERM: the recorder saves an episode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """One process of the graph.

    Attributes:
        executable: Executable of this package, and module under ``piper_collect.nodes``.
        name: Node name.
        parameters: Parameters beside those of the session file.
        ends_session: Whether its normal end is the end of the session.
        starts_first: Whether `record` starts the others only when this one has started.
        stops_first: Whether `record` stops the others only when this one has stopped.
        needed: Whether the session ends when this one does; without one that only shows it goes on.
    """

    executable: str
    name: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    ends_session: bool = False
    starts_first: bool = False
    stops_first: bool = False
    needed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """What a session starts.

    Attributes:
        nodes: In starting order; those that do not stop first are stopped in reverse.
        namespace: ROS namespace of all of them.
        environment: Variables to set for all of them where the user has not set them.
    """

    nodes: tuple[NodeSpec, ...]
    namespace: str
    environment: Mapping[str, str]
    package: str = PACKAGE


def collection_graph(config: SessionConfig) -> Graph:
    """The graph of a collection session under ``config``."""
    nodes = [NodeSpec(executable="recorder_node", name="recorder", starts_first=True, stops_first=True)]
    nodes += _arm(config)
    if config.devices.cameras == "sim":
        nodes += [
            NodeSpec(executable="camera_sim_node", name=f"camera_sim_{camera}", parameters={"camera": camera})
            for camera in config.cameras
        ]
    nodes.append(NodeSpec(executable="teleop_node", name="teleop"))
    nodes.append(NodeSpec(executable="session_node", name="session"))
    if config.devices.operator == "sim":
        nodes.append(
            NodeSpec(executable="operator_sim_node", name="operator_sim", ends_session=True, stops_first=True)
        )
    if config.devices.operator == "quest":
        nodes.append(NodeSpec(executable="quest_node", name="quest"))
    if config.desk.serve:
        nodes.append(NodeSpec(executable="desk_node", name="desk", needed=False))
    return _graph(nodes, config)


def replay_graph(config: SessionConfig, plan: str, log: str) -> Graph:
    """The graph of a replay: the arm, and the node that drives it.

    Args:
        config: The session configuration.
        plan: File that says what is replayed.
        log: Folder for what was done.
    """
    driver = NodeSpec(
        executable="replay_node",
        name="replay",
        parameters={"plan": plan, "log": log},
        ends_session=True,
        starts_first=True,
        stops_first=True,
    )
    return _graph([driver, *_arm(config)], config)


def _arm(config: SessionConfig) -> list[NodeSpec]:
    """The node of the arm; none where it runs elsewhere."""
    if config.devices.arm == "none":
        return []
    name = f"arm_{config.devices.arm}"
    return [NodeSpec(executable=f"{name}_node", name=name)]


def _graph(nodes: Sequence[NodeSpec], config: SessionConfig) -> Graph:
    return Graph(
        nodes=tuple(nodes), namespace=config.session.namespace.strip("/"), environment=_environment(config)
    )


def _environment(config: SessionConfig) -> dict[str, str]:
    environment = {"PYTHONUNBUFFERED": "1", **_MALLOC}
    devices = config.devices
    alone = (devices.arm, devices.cameras) == ("sim", "sim") and devices.operator != "none"
    if alone and not any(name in os.environ for name in _REACH_VARIABLES):
        environment[_REACH_VARIABLES[0]] = "LOCALHOST"  # nothing of it runs on another machine
    profile = str(share_file("config", "fastdds_shm64.xml"))
    environment.update(dict.fromkeys(DDS_PROFILE_VARIABLES, profile))
    return {name: value for name, value in environment.items() if name not in os.environ}
