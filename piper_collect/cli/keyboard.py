"""``piper-collect keyboard``: drive a session that runs elsewhere with the keys of this terminal."""

import argparse

DESCRIPTION = """\
Drives a session that is running, `ros2 launch`'s for one, from this terminal: space starts an episode, then
stops and saves it; ? shows the other keys. The last line shows how the session stands. Leaving with q leaves
the session as it is.
"""
EPILOG = """\
examples:
  piper-collect keyboard
  piper-collect keyboard --ros-args -r __ns:=/left_rig
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("--ros-args", nargs=argparse.REMAINDER, default=[], metavar="...", help="for ROS")


def run(arguments: argparse.Namespace) -> int:
    """Read keys until told to stop."""
    from piper_collect.nodes.start import start_node

    return start_node("keyboard_node", ["--ros-args", *arguments.ros_args] if arguments.ros_args else [])
