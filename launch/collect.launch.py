"""Start a collection session: the nodes that `piper-collect record` starts, under `ros2 launch`."""

import os
import shutil
import tempfile

from launch import LaunchDescription
from launch.actions import (
    DeclareLaunchArgument,
    OpaqueFunction,
    RegisterEventHandler,
    SetEnvironmentVariable,
    Shutdown,
)
from launch.event_handlers import OnShutdown
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

from piper_collect.config.graph import collection_graph
from piper_collect.config.load import dump_session, load_session, override_session


def start_session(context):
    """Resolve the configuration and turn its graph into launch actions."""
    config = override_session(
        load_session(LaunchConfiguration("config").perform(context)),
        task=LaunchConfiguration("task").perform(context),
        root=LaunchConfiguration("root").perform(context),
    )
    graph = collection_graph(config)
    folder = tempfile.mkdtemp(prefix="piper_collect_")
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
            parameters=[session_file, dict(spec.parameters)],
            output="screen",
            emulate_tty=True,
            on_exit=Shutdown(reason=f"{spec.name} ended"),
        )
        for spec in graph.nodes
    ]
    remove_folder = OnShutdown(on_shutdown=lambda event, context: shutil.rmtree(folder, ignore_errors=True))
    return [*actions, RegisterEventHandler(remove_folder)]


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
            OpaqueFunction(function=start_session),
        ]
    )
