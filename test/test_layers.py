"""The layers: imports go one way, ROS is imported in nodes only, and export works where ROS is not."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "piper_collect"
LEVEL = {
    "errors": 0, "files": 0, "core": 1, "config": 2, "imaging": 2, "bag": 3, "dataset": 3, "devices": 3,
    "report": 3, "pipelines": 4, "web": 5, "nodes": 6, "cli": 7, "__init__": 0, "__main__": 8,
}  # fmt: skip
ROS = (
    "rclpy",
    "rosidl",
    "ament",
    "builtin_interfaces",
    "geometry_msgs",
    "sensor_msgs",
    "std_msgs",
    "std_srvs",
    "visualization_msgs",
)
GENERATED = ("msg", "srv")
VENDORS = ("piper_sdk", "can")
"""Libraries of hardware, optional: only devices use them, and only once a device is opened."""
MODULES = sorted(PACKAGE.rglob("*.py"))


def imports(path: Path) -> list[str]:
    names = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names.append(node.module or "")
    return names


def layer(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_go_one_way_and_ros_stays_in_nodes(path: Path) -> None:
    here = layer(path)
    for name in imports(path):
        if name.split(".")[0].startswith(ROS):
            assert here == "nodes", f"{name} is imported in {here}"
        if not name.startswith("piper_collect."):
            continue
        there = name.split(".")[1]
        if there in GENERATED:
            assert here == "nodes", f"{name} is imported in {here}"
        elif there != here:
            assert LEVEL[there] < LEVEL[here], f"{here} imports {name}"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_vendors_libraries_are_imported_by_devices_only_and_late(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not [name for name in imports(path) if name.split(".")[0] in VENDORS], "not late"
    named = [name for name in VENDORS if f'import_module("{name}' in text]
    assert not named or layer(path) == "devices", f"{named} is imported in {layer(path)}"


def test_core_uses_numpy_scipy_and_the_standard_library_only() -> None:
    allowed = {"numpy", "scipy", "piper_collect", *sys.stdlib_module_names}
    forbidden = {"os", "pathlib", "time", "subprocess", "socket", "threading", "random"}
    for path in (PACKAGE / "core").rglob("*.py"):
        tops = {name.split(".")[0] for name in imports(path)}
        assert tops <= allowed, f"{path.name}: {tops - allowed}"
        assert not tops & forbidden, f"{path.name}: {tops & forbidden}"


BLOCK_ROS = f"""
import importlib, pkgutil, sys
class Block:
    def find_spec(self, name, path=None, target=None):
        top, generated = name.split(".")[0], ("piper_collect.msg", "piper_collect.srv")
        if top.startswith({ROS!r}) or top in {VENDORS!r} or name in generated:
            raise ModuleNotFoundError(f"{{name}} is blocked", name=name)
sys.meta_path.insert(0, Block())
import piper_collect
ros = ("piper_collect.nodes", "piper_collect.msg", "piper_collect.srv")
for found in pkgutil.walk_packages([{str(PACKAGE)!r}], "piper_collect."):
    if not found.name.endswith("__main__") and not found.name.startswith(ros):
        importlib.import_module(found.name)
from piper_collect.cli.main import main
code = main(["node", "recorder_node"])
assert code == 1, code
"""


def test_everything_but_the_nodes_imports_without_ros_and_vendors_libraries() -> None:
    done = subprocess.run(
        [sys.executable, "-c", BLOCK_ROS], capture_output=True, text=True, timeout=60, cwd=PACKAGE.parent
    )
    assert done.returncode == 0, done.stderr
    assert "nodes need ROS 2" in done.stderr


def test_help_imports_nothing_heavy() -> None:
    code = """
import sys
from piper_collect.cli.main import VERBS, main
for words in (["--help"], *([verb, "--help"] for verb in VERBS)):
    try:
        main(words)
    except SystemExit as end:
        assert end.code == 0, end.code
heavy = {"numpy", "scipy", "av", "pyarrow", "rclpy", "rich", "rosbags", "mcap", "PIL", "yaml"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=PACKAGE.parent
    )
    assert done.returncode == 0, done.stderr
