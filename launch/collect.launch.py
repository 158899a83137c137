"""Start a collection session: the nodes that `piper-collect record` starts, under `ros2 launch`.

Keys drive it from a second terminal: `ros2 run piper_collect keyboard`.
"""

import atexit
import os
import shutil
import tempfile

from ament_index_python.packages import PackageNotFoundError, get_package_prefix
from launch import LaunchDescription
from launch.actions import (
    DeclareLaunchArgument,
    IncludeLaunchDescription,
    LogInfo,
    OpaqueFunction,
    SetEnvironmentVariable,
    Shutdown,
)
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

from piper_collect.config.drivers import driver_nodes
from piper_collect.config.graph import STOP_S, collection_graph
from piper_collect.config.load import dump_session, load_session, override_session
from piper_collect.config.override import DeviceWords, switch
from piper_collect.config.share import share_file
from piper_collect.pipelines.record import check_session


def start_session(context):
    """Resolve the configuration and turn its graph into launch actions."""
    said = {
        name: LaunchConfiguration(name).perform(context)
        for name in ("config", "task", "root", "sim", "arm", "cameras", "quest", "rviz")
    }
    shown = switch("rviz", said["rviz"])
    operator = {None: "", True: "quest", False: "none"}[switch("quest", said["quest"])]
    config = override_session(
        load_session(said["config"]),
        task=said["task"],
        root=said["root"],
        devices=DeviceWords(
            sim=bool(switch("sim", said["sim"])),
            arm=said["arm"],
            cameras=said["cameras"],
            operator=operator,
        ),
    )
    graph = collection_graph(config)
    check_session(config)
    folder = tempfile.mkdtemp(prefix="piper_collect_")
    # at the very end: a node may still be about to read its parameters when the launch is told to shut down
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    session_file = os.path.join(folder, "session.yaml")
    with open(session_file, "w", encoding="utf-8") as file:
        file.write(dump_session(config))

    actions = [SetEnvironmentVariable(name, value) for name, value in graph.environment.items()]
    actions += [
        Node(
            package=graph.package,
            executable=spec.executable,
            name=spec.name,
            namespace=graph.namespace,
            # launch_ros leaves a file behind for each dict
            parameters=[session_file, dict(spec.parameters)] if spec.parameters else [session_file],
            output="screen",
            emulate_tty=True,
            sigterm_timeout=str(STOP_S),
            on_exit=Shutdown(reason=f"{spec.name} ended") if spec.needed else None,
        )
        for spec in graph.nodes
    ]
    actions += [driver_action(driver) for driver in driver_nodes(config)]
    if shown:
        monitor = PythonLaunchDescriptionSource(str(share_file("launch", "monitor.launch.py")))
        # the session goes on when somebody closes the window
        words = {"config": session_file, "required": "false"}
        actions.append(IncludeLaunchDescription(monitor, launch_arguments=words.items()))
    return actions


def driver_action(driver):
    """Start a vendor's node where it is installed and may start by itself; else say what must run."""
    try:
        get_package_prefix(driver.package)
        here = bool(driver.executable)
    except PackageNotFoundError:
        here = False
    if not here:
        return LogInfo(msg=f"{driver.what} must be running: {driver.start}")
    return Node(
        package=driver.package,
        executable=driver.executable,
        name=driver.name,
        namespace=driver.namespace or "/",
        parameters=[dict(driver.parameters)],
        output="screen",
        emulate_tty=True,
    )


def generate_launch_description():
    """Describe the session; `ros2 launch piper_collect collect.launch.py -s` shows the arguments."""
    return LaunchDescription(
        [
            DeclareLaunchArgument(
                "config",
                default_value="default",
                description="Session YAML: a path, or the name of one in this package's config folder.",
            ),
            DeclareLaunchArgument(
                "task",
                default_value="",
                description="Task string of the episodes; empty keeps the configuration's.",
            ),
            DeclareLaunchArgument(
                "root",
                default_value="",
                description="Recording root; empty keeps the configuration's.",
            ),
            DeclareLaunchArgument(
                "sim",
                default_value="false",
                description="true: arm, cameras and operator are simulated, unless the next three say"
                " otherwise.",
            ),
            DeclareLaunchArgument(
                "arm",
                default_value="",
                description="sim, can, bridge, or none; empty keeps the configuration's.",
            ),
            DeclareLaunchArgument(
                "cameras",
                default_value="",
                description="sim, realsense, or none; empty keeps the configuration's.",
            ),
            DeclareLaunchArgument(
                "quest",
                default_value="",
                description="true: a person with a headset drives; false: nobody does, keys record;"
                " empty keeps the configuration's.",
            ),
            DeclareLaunchArgument(
                "rviz",
                default_value="false",
                description="true: rviz2 shows arm, target, cameras and state.",
            ),
            OpaqueFunction(function=start_session),
        ]
    )
