"""``piper-collect node``: run one ROS node of this package."""

import argparse

EPILOG = """\
What follows the name goes to ROS.

examples:
  piper-collect node recorder_node --ros-args --params-file my_session.yaml
  piper-collect node camera_sim_node --ros-args -p camera:=cam_front
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    from piper_collect.nodes.start import NODES

    about = "; ".join(f"{name}: {text}" for name, text in NODES.items())
    parser.add_argument("name", metavar="NODE", help=about)
    parser.add_argument("ros_arguments", nargs=argparse.REMAINDER, metavar="...", help="ROS arguments")


def run(arguments: argparse.Namespace) -> int:
    """Run the node until it ends."""
    from piper_collect.errors import UsageError
    from piper_collect.nodes.start import NODES, start_node

    if {"-h", "--help"} & set(arguments.ros_arguments):
        print(f"{arguments.name}: {NODES.get(arguments.name, 'no such node')}\n\n{EPILOG}", end="")
        return 0
    if arguments.name not in NODES:
        raise UsageError("no such node", got=arguments.name, valid=NODES)
    return start_node(arguments.name, arguments.ros_arguments)
