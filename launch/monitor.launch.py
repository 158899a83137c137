"""Show a session that runs, here or on another machine of its ROS domain, in rviz; it only listens.

`collect.launch.py rviz:=true` includes this; beside `piper-collect record` it is started by itself.
"""

import atexit
import os
import shutil
import tempfile

from ament_index_python.packages import PackageNotFoundError, get_package_prefix
from launch import LaunchDescription
from launch.actions import (
    DeclareLaunchArgument,
    LogInfo,
    OpaqueFunction,
    SetEnvironmentVariable,
    Shutdown,
)
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue

from piper_collect.config.display import DISPLAY_NODE, session_robot, session_rviz
from piper_collect.config.graph import collection_graph
from piper_collect.config.load import dump_session, load_session
from piper_collect.config.names import DISPLAY_JOINTS_TOPIC
from piper_collect.config.override import switch


def start_display(context):
    """Make the arm's URDF and rviz's file for the configuration, and start what shows them."""
    config = load_session(LaunchConfiguration("config").perform(context))
    required = switch("required", LaunchConfiguration("required").perform(context))
    graph = collection_graph(config)
    folder = tempfile.mkdtemp(prefix="piper_collect_display_")
    # at the very end: a node may still be about to read its parameters when the launch is told to shut down
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    files = {}
    for name, text in (("session.yaml", dump_session(config)), ("session.rviz", session_rviz(config))):
        files[name] = os.path.join(folder, name)
        with open(files[name], "w", encoding="utf-8") as file:
            file.write(text)

    # in a namespace the frames are the rig's own, so that two rigs may both have a base_link
    frames = [("/tf", "tf"), ("/tf_static", "tf_static")]
    actions = [SetEnvironmentVariable(name, value) for name, value in graph.environment.items()]
    actions += [
        Node(
            package=graph.package,
            executable=DISPLAY_NODE.executable,
            name=DISPLAY_NODE.name,
            namespace=graph.namespace,
            parameters=[files["session.yaml"]],
            output="screen",
            emulate_tty=True,
        ),
        where_installed(
            "robot_state_publisher",
            "no arm is drawn",
            namespace=graph.namespace,
            parameters=[{"robot_description": ParameterValue(session_robot(config), value_type=str)}],
            remappings=[*frames, ("joint_states", DISPLAY_JOINTS_TOPIC)],
        ),
        where_installed(
            "rviz2",
            "no window opens",
            namespace=graph.namespace,
            arguments=["-d", files["session.rviz"]],
            remappings=frames,
            on_exit=Shutdown(reason="rviz was closed") if required else None,
        ),
    ]
    return actions


def where_installed(package, without, **node):
    """A node of a package of ROS where that is installed; else what is missing, and how to get it."""
    try:
        get_package_prefix(package)
    except PackageNotFoundError:
        distro = os.environ.get("ROS_DISTRO", "jazzy")
        name = package.replace("_", "-")
        return LogInfo(
            msg=f"{package} is not installed here, so {without}: sudo apt install ros-{distro}-{name}"
        )
    return Node(package=package, executable=package, name=package, output="screen", **node)


def generate_launch_description():
    """Describe the display; `ros2 launch piper_collect monitor.launch.py -s` shows the arguments."""
    return LaunchDescription(
        [
            DeclareLaunchArgument(
                "config",
                default_value="default",
                description="The session's YAML: a path (every session folder has its session.yaml), or the"
                " name of one in this package's config folder.",
            ),
            DeclareLaunchArgument(
                "required",
                default_value="true",
                description="true: closing rviz ends the whole launch; false: the rest goes on.",
            ),
            OpaqueFunction(function=start_display),
        ]
    )
