"""The launch file: it resolves to the graph that `record` starts, and is what ROS users expect."""

import ast
import runpy
from pathlib import Path

import pytest

from piper_collect.config.graph import collection_graph
from piper_collect.config.load import load_session, override_session, session_from_text

FILE = Path(__file__).parents[1] / "launch" / "collect.launch.py"


def calls(name: str) -> list[ast.Call]:
    tree = ast.parse(FILE.read_text(encoding="utf-8"))
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name
    ]


def test_every_argument_is_documented_and_the_nodes_come_from_the_graph() -> None:
    arguments = {
        call.args[0].value: {k.arg for k in call.keywords} for call in calls("DeclareLaunchArgument")
    }
    assert set(arguments) == {"config", "task", "root"}
    for name, keywords in arguments.items():
        assert {"default_value", "description"} <= keywords, name
    assert len(calls("collection_graph")) == 1
    (node,) = calls("Node")
    values = {k.arg: ast.unparse(k.value) for k in node.keywords}
    assert values["package"] == "graph.package"
    assert values["executable"] == "spec.executable"
    assert values["parameters"] == "[session_file, dict(spec.parameters)]"


def test_it_resolves_to_the_graph_of_the_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launch = pytest.importorskip(
        "launch.launch_context", reason="launch is not on PyPI; run this where ROS is installed"
    )
    launch_ros = pytest.importorskip("launch_ros.actions", reason="launch_ros needs a ROS install")
    from launch.actions import OpaqueFunction, SetEnvironmentVariable
    from launch.utilities import perform_substitutions

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    module = runpy.run_path(str(FILE))
    context = launch.LaunchContext()
    context.launch_configurations.update(config="default", task="stack the cups", root="/data")
    (opaque,) = [e for e in module["generate_launch_description"]().entities if isinstance(e, OpaqueFunction)]
    actions = opaque.execute(context)

    expected = override_session(load_session("default"), task="stack the cups", root="/data")
    graph = collection_graph(expected)
    nodes = [a for a in actions if isinstance(a, launch_ros.Node)]
    described = [(n.node_package, n.node_executable) for n in nodes]
    assert described == [("piper_collect", spec.executable) for spec in graph.nodes]
    variables = {
        perform_substitutions(context, a.name): perform_substitutions(context, a.value)
        for a in actions
        if isinstance(a, SetEnvironmentVariable)
    }
    assert variables == graph.environment
    (written,) = tmp_path.glob("piper_collect_*/session.yaml")
    assert session_from_text(written.read_text(), "launch") == expected


def test_every_executable_of_the_graph_is_installed() -> None:
    cmake = (FILE.parents[1] / "CMakeLists.txt").read_text()
    installed = cmake.split("foreach(verb IN ITEMS")[1].split(")")[0].split()
    graph = collection_graph(load_session("default"))
    assert {spec.executable for spec in graph.nodes} <= set(installed)
    assert {"export", "exporter", "record", "check", "demo"} <= set(installed)
