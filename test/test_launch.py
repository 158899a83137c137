"""The launch files: the graph that `record` starts, and rviz beside it, as ROS users expect them."""

import re
import runpy
import sys
from pathlib import Path
from typing import Any

import launch_stub
import pytest
from launch_stub import FOLDER, Launched, run_launch_file

from piper_collect.config.display import session_robot, session_rviz
from piper_collect.config.graph import STOP_S, collection_graph
from piper_collect.config.load import load_session, override_session, session_from_text
from piper_collect.config.override import DeviceWords
from piper_collect.config.schema import SessionConfig
from piper_collect.errors import PiperCollectError
from piper_collect.pipelines import node_processes

COLLECT, MONITOR = "collect.launch.py", "monitor.launch.py"
NO_LAUNCH = "launch and launch_ros are not on PyPI; run this where ROS is installed"

SESSIONS: list[tuple[dict[str, str], dict[str, Any]]] = [
    ({"task": "stack the cups", "root": "~/somewhere"}, {"task": "stack the cups", "root": "~/somewhere"}),
    ({"config": "quest"}, {"config": "quest"}),
    (
        {"config": "piper_ros_bridge", "sim": "true", "task": "stack"},
        {"config": "piper_ros_bridge", "sim": True, "task": "stack"},
    ),
    ({"sim": "true", "quest": "true"}, {"sim": True, "operator": "quest"}),
    ({"arm": "can", "cameras": "realsense"}, {"arm": "can", "cameras": "realsense"}),
    ({"config": "agx_arm_bridge", "quest": "true"}, {"config": "agx_arm_bridge", "operator": "quest"}),
    ({"cameras": "none", "quest": "false"}, {"cameras": "none", "operator": "none"}),
]
"""Arguments of the launch file, and what `record` is told for the same session."""


@pytest.fixture(autouse=True)
def _temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))


def session_of(config: str = "default", task: str = "", root: str = "", **words: Any) -> SessionConfig:
    """The session that `record` runs with these words."""
    return override_session(load_session(config), task=task, root=root, devices=DeviceWords(**words))


def by_record(config: SessionConfig, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Executable, name, namespace and parameters of each node that `record` starts."""
    commands: list[list[str]] = []

    class Started:
        def __init__(self, command: list[str], **_: Any) -> None:
            commands.append(command)

    monkeypatch.setattr(node_processes.subprocess, "Popen", Started)
    graph = collection_graph(config)
    node_processes.NodeProcesses(graph, folder / "session.yaml").start(graph.nodes)
    found = []
    for command in commands:
        assert command[:3] == [sys.executable, "-m", "piper_collect.nodes"]
        words = command[3:]
        remaps = dict(words[i + 1].split(":=") for i, word in enumerate(words) if word == "-r")
        given = dict(words[i + 1].split(":=") for i, word in enumerate(words) if word == "-p")
        found.append((words[0], remaps["__node"], remaps.get("__ns", "").strip("/"), given))
    return found


def by_launch(launched: Launched) -> list[tuple[Any, ...]]:
    """The same of the launch file's nodes of ours."""
    nodes = [n.keywords for n in launched.of(launch_stub.Node) if n.keywords["package"] == "piper_collect"]
    found = []
    for node in nodes:
        _, *given = node["parameters"]
        assert all(given), "launch_ros writes a file for a dict that is empty, too"
        found.append((node["executable"], node["name"], node["namespace"], given[0] if given else {}))
    return found


@pytest.mark.parametrize(("arguments", "words"), SESSIONS)
def test_record_and_the_launch_file_start_the_same_nodes_with_the_same_parameters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: dict[str, str], words: dict[str, Any]
) -> None:
    config = session_of(**words)
    launched = run_launch_file(COLLECT, monkeypatch, **arguments)
    assert by_launch(launched) == by_record(config, tmp_path, monkeypatch)
    graph = collection_graph(config)
    assert [node[:2] for node in by_launch(launched)] == [(s.executable, s.name) for s in graph.nodes]
    assert launched.environment() == graph.environment
    (written,) = tmp_path.glob("piper_collect_*/session.yaml")
    assert session_from_text(written.read_text(), "launch") == config
    nodes = [node.keywords for node in launched.of(launch_stub.Node)]
    assert {node["parameters"][0] for node in nodes} == {str(written)}
    launched.end()
    assert not written.parent.exists()


def test_every_node_but_the_desks_page_ends_the_session_and_may_take_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nodes = [node.keywords for node in run_launch_file(COLLECT, monkeypatch).of(launch_stub.Node)]
    assert len(nodes) > 5
    for node in nodes:
        assert isinstance(node["on_exit"], launch_stub.Shutdown) is (node["name"] != "desk"), node["name"]
    assert {float(node["sigterm_timeout"]) for node in nodes} == {STOP_S}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (COLLECT, {"config", "task", "root", "sim", "arm", "cameras", "quest", "rviz"}),
        (MONITOR, {"config", "required"}),
    ],
)
def test_every_argument_is_documented(name: str, expected: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    declared = run_launch_file(name, monkeypatch).declared
    assert set(declared) == expected
    for argument, keywords in declared.items():
        assert keywords["description"].endswith("."), argument
        assert isinstance(keywords["default_value"], str), argument


def test_the_descriptions_name_the_valid_words(monkeypatch: pytest.MonkeyPatch) -> None:
    from piper_collect.config.override import device_choices

    declared = run_launch_file(COLLECT, monkeypatch).declared
    for device in ("arm", "cameras"):
        words = re.split(r", (?:or )?", declared[device]["description"].partition(";")[0])
        assert tuple(words) == device_choices(device)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"arm": "snim"}, "did you mean 'sim'"),
        ({"cameras": "webcam"}, "Valid: sim, realsense, none"),
        ({"quest": "perhaps"}, "quest: neither on nor off"),
        ({"sim": "2"}, "sim: neither on nor off"),
        ({"rviz": "on"}, "rviz: neither on nor off"),
        ({"config": "defualt"}, "did you mean 'default'"),
        ({"config": "piper_ros_bridge", "sim": "true"}, "the task is empty"),
        ({"root": "/proc/nowhere"}, "the recording root cannot be written"),
    ],
)
def test_a_bad_word_is_refused_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: dict[str, str], expected: str
) -> None:
    with pytest.raises(PiperCollectError, match=re.escape(expected)):
        run_launch_file(COLLECT, monkeypatch, **arguments)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("installed", [(), ("realsense2_camera",)])
def test_the_cameras_are_started_where_their_driver_is_installed(
    monkeypatch: pytest.MonkeyPatch, installed: tuple[str, ...]
) -> None:
    launched = run_launch_file(COLLECT, monkeypatch, installed, config="piper_ros_bridge", task="stack")
    nodes = [node.keywords["package"] for node in launched.of(launch_stub.Node)]
    assert [package for package in nodes if package != "piper_collect"] == list(installed) * 2
    assert launched.said()[0].startswith("piper_ros must be running: ros2 run piper piper_single_ctrl")
    assert len(launched.said()) == (1 if installed else 3)


def test_rviz_is_shown_when_asked_for_and_closing_it_ends_no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not run_launch_file(COLLECT, monkeypatch).of(launch_stub.IncludeLaunchDescription)
    launched = run_launch_file(COLLECT, monkeypatch, rviz="true")
    (included,) = launched.of(launch_stub.IncludeLaunchDescription)
    assert Path(included.args[0].args[0]) == FOLDER / MONITOR
    arguments = dict(included.keywords["launch_arguments"])
    session = Path(arguments["config"])
    assert session_from_text(session.read_text(), "launch") == load_session("default")
    monitor = run_launch_file(MONITOR, monkeypatch, ("rviz2", "robot_state_publisher"), **arguments)
    assert [node.keywords.get("on_exit") for node in monitor.of(launch_stub.Node)] == [None] * 3


def test_the_monitor_shows_the_session_that_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = load_session("piper_ros_bridge")
    installed = ("rviz2", "robot_state_publisher")
    launched = run_launch_file(MONITOR, monkeypatch, installed, config="piper_ros_bridge")
    display, robot, rviz = (node.keywords for node in launched.of(launch_stub.Node))
    assert (display["package"], display["executable"]) == ("piper_collect", "display_node")
    (session,) = tmp_path.glob("piper_collect_display_*/session.yaml")
    assert display["parameters"] == [str(session)]
    assert session_from_text(session.read_text(), "launch") == config
    (parameters,) = robot["parameters"]
    description = parameters["robot_description"]
    assert description.args == (session_robot(config),)
    assert description.keywords == {"value_type": str}  # else launch_ros reads it as YAML
    assert dict(robot["remappings"])["joint_states"] == "display/joint_states"
    assert rviz["arguments"] == ["-d", str(session.parent / "session.rviz")]
    assert Path(rviz["arguments"][1]).read_text() == session_rviz(config)
    assert isinstance(rviz["on_exit"], launch_stub.Shutdown)
    assert launched.environment() == collection_graph(config).environment
    launched.end()
    assert not session.parent.exists()


def test_what_is_missing_for_rviz_is_said_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROS_DISTRO", "kilted")
    launched = run_launch_file(MONITOR, monkeypatch)
    assert [node.keywords["package"] for node in launched.of(launch_stub.Node)] == ["piper_collect"]
    robot, rviz = launched.said()
    assert robot.endswith("sudo apt install ros-kilted-robot-state-publisher")
    assert rviz == "rviz2 is not installed here, so no window opens: sudo apt install ros-kilted-rviz2"


@pytest.mark.parametrize("rviz", ["false", "true"])
def test_the_real_launch_resolves_to_the_graph(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rviz: str
) -> None:
    launch = pytest.importorskip("launch.launch_context", reason=NO_LAUNCH)
    launch_ros = pytest.importorskip("launch_ros.actions", reason=NO_LAUNCH)
    from launch.actions import OpaqueFunction, SetEnvironmentVariable
    from launch.utilities import perform_substitutions

    def resolved(name: str, **arguments: str) -> list[Any]:
        context.launch_configurations.update(arguments)
        described = runpy.run_path(str(FOLDER / name))["generate_launch_description"]()
        for declared in described.get_launch_arguments():
            declared.execute(context)
        (opaque,) = [entity for entity in described.entities if isinstance(entity, OpaqueFunction)]
        return opaque.execute(context)

    context = launch.LaunchContext()
    expected = session_of(task="stack the cups", root="~/somewhere", cameras="none")
    actions = resolved(COLLECT, task="stack the cups", root="~/somewhere", cameras="none", rviz=rviz)
    graph = collection_graph(expected)
    nodes = [action for action in actions if isinstance(action, launch_ros.Node)]
    assert [(node.node_package, node.node_executable) for node in nodes] == [
        ("piper_collect", spec.executable) for spec in graph.nodes
    ]
    variables = {
        perform_substitutions(context, action.name): perform_substitutions(context, action.value)
        for action in actions
        if isinstance(action, SetEnvironmentVariable)
    }
    assert variables == graph.environment
    (written,) = tmp_path.glob("piper_collect_*/session.yaml")
    assert session_from_text(written.read_text(), "launch") == expected
    if rviz == "true":
        shown = resolved(MONITOR, config=str(written))
        ours = [action for action in shown if isinstance(action, launch_ros.Node)]
        assert ours[0].node_executable == "display_node"


def test_every_executable_of_the_graph_is_installed() -> None:
    cmake = (FOLDER.parent / "CMakeLists.txt").read_text()
    installed = cmake.split("foreach(verb IN ITEMS")[1].split(")")[0].split()
    graph = collection_graph(load_session("default"))
    verbs = {
        "export",
        "exporter",
        "finalize",
        "piper-finalize",
        "record",
        "doctor",
        "validate",
        "demo",
        "recover",
    }
    assert {*(spec.executable for spec in graph.nodes), "display_node", *verbs} <= set(installed)


@pytest.mark.parametrize("folder", ["config", "launch", "rviz", "urdf"])
def test_both_builds_install_what_is_looked_for_at_run_time(folder: str) -> None:
    root = FOLDER.parent
    made = re.search(r"install\(DIRECTORY ([^)]*) DESTINATION share", (root / "CMakeLists.txt").read_text())
    assert made is not None
    assert folder in made[1].split()
    assert f'"{folder}"' in re.search(r"SHARED = \((.*)\)", (root / "setup.py").read_text())[1]
