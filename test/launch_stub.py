"""Runs a launch file where `launch` is not installed, with classes that note what they are given.

Only the names that the project's launch files use are there, so another one fails to import.
"""

import runpy
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FOLDER = Path(__file__).parents[1] / "launch"


class Noted:
    """An object that was made, and how."""

    def __init__(self, *args: Any, **keywords: Any) -> None:
        self.args, self.keywords = args, keywords


class DeclareLaunchArgument(Noted): ...


class IncludeLaunchDescription(Noted): ...


class LaunchDescription(Noted): ...


class LogInfo(Noted): ...


class Node(Noted): ...


class OpaqueFunction(Noted): ...


class ParameterValue(Noted): ...


class PythonLaunchDescriptionSource(Noted): ...


class SetEnvironmentVariable(Noted): ...


class Shutdown(Noted): ...


class LaunchConfiguration(Noted):
    def perform(self, context: dict[str, str]) -> str:
        """The value of the argument."""
        return context[self.args[0]]


class PackageNotFoundError(KeyError): ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """What a launch file made of its arguments."""

    declared: dict[str, dict[str, Any]]
    actions: list[Any]
    at_end: list[Callable[[], None]]

    def of(self, kind: type) -> list[Any]:
        """The actions of one class."""
        return [action for action in self.actions if type(action) is kind]

    def said(self) -> list[str]:
        """What is told to the person who launches."""
        return [action.keywords["msg"] for action in self.of(LogInfo)]

    def environment(self) -> dict[str, str]:
        """The variables that are set."""
        return dict(action.args for action in self.of(SetEnvironmentVariable))

    def end(self) -> None:
        """Do what the launch left for the end of its process."""
        for last in self.at_end:
            last()


def run_launch_file(
    name: str, monkeypatch: pytest.MonkeyPatch, installed: tuple[str, ...] = (), **arguments: str
) -> Launched:
    """What ``name`` in ``launch/`` makes of ``arguments`` where the packages ``installed`` are."""

    def get_package_prefix(package: str) -> str:
        if package not in installed:
            raise PackageNotFoundError(package)
        return f"/opt/{package}"

    modules: dict[str, tuple[Any, ...]] = {
        "ament_index_python": (),
        "ament_index_python.packages": (PackageNotFoundError, get_package_prefix),
        "launch": (LaunchDescription,),
        "launch.actions": (
            DeclareLaunchArgument, IncludeLaunchDescription, LogInfo, OpaqueFunction, SetEnvironmentVariable,
            Shutdown,
        ),
        "launch.launch_description_sources": (PythonLaunchDescriptionSource,),
        "launch.substitutions": (LaunchConfiguration,),
        "launch_ros": (),
        "launch_ros.actions": (Node,),
        "launch_ros.parameter_descriptions": (ParameterValue,),
    }  # fmt: skip
    at_end: list[Callable[[], None]] = []

    def register(function: Callable[..., None], *args: Any, **keywords: Any) -> None:
        at_end.append(partial(function, *args, **keywords))

    with monkeypatch.context() as patched:
        patched.setattr("atexit.register", register)
        for module_name, things in modules.items():
            module = ModuleType(module_name)
            for thing in things:
                setattr(module, thing.__name__, thing)
            patched.setitem(sys.modules, module_name, module)
        entities = runpy.run_path(str(FOLDER / name))["generate_launch_description"]().args[0]
        declared = {
            entity.args[0]: entity.keywords for entity in entities if type(entity) is DeclareLaunchArgument
        }
        context = {word: keywords["default_value"] for word, keywords in declared.items()}
        assert set(arguments) <= set(context), "ros2 launch would ignore an argument that is not declared"
        context.update(arguments)
        (opaque,) = [entity for entity in entities if type(entity) is OpaqueFunction]
        return Launched(declared=declared, actions=opaque.keywords["function"](context), at_end=at_end)
