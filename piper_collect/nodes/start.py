"""Starting one node by its name; ROS is imported only here, after the signal handlers are set."""

import importlib
import sys
from collections.abc import Sequence

from piper_collect.errors import ConfigError, PiperCollectError
from piper_collect.nodes import signals

NODES: dict[str, str] = {
    "arm_can_node": "a Piper on its CAN bus: joint states, flange pose, status; obeys joint commands",
    "arm_bridge_node": "the arm behind its vendor's node (piper_ros, agx_arm_ros), put right",
    "arm_sim_node": "a simulated Piper: joint states, flange pose, status",
    "camera_sim_node": "a simulated camera; -p camera:=NAME says which",
    "desk_node": "serves the page that shows the session to the person at the desk",
    "display_node": "what rviz shows of a session: fingers, trails, state",
    "keyboard_node": "the keys of this terminal drive a session that runs",
    "operator_sim_node": "a scripted operator with a headset",
    "quest_node": "serves the page that a headset opens, and publishes what the headset sends",
    "recorder_node": "records one bag an episode",
    "replay_node": "moves the arm as a recorded episode says, within limits; piper-collect replay starts it",
    "session_node": "turns the operator's buttons into episodes",
    "teleop_node": "moves the arm as the headset says, within limits",
    "view_node": "shows a running session in the Rerun viewer; piper-collect view --live starts it",
}
"""Executable → one line of help."""


def start_node(name: str, ros_arguments: Sequence[str]) -> int:
    """Run the node ``name`` until it ends; its exit code.

    Args:
        name: A key of ``NODES``.
        ros_arguments: What follows on the command line, e.g. ``--ros-args -p …``.
    """
    signals.listen()
    try:
        if name not in NODES:
            raise ConfigError("no such node", got=name, valid=NODES)
        try:
            module = importlib.import_module(f"piper_collect.nodes.{name}")
        except ModuleNotFoundError as err:
            raise ConfigError(
                f"{err.name} is not installed: nodes need ROS 2",
                where=name,
                hint="on Linux x86_64 pip install brings it; on a ROS machine source its setup.bash",
            ) from err
        return int(module.main([name, *ros_arguments]))
    except PiperCollectError as err:
        print(f"error: {err}", file=sys.stderr, flush=True)
        return 1
