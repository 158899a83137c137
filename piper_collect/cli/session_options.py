"""Options that say which session is meant; ``record`` and ``doctor`` have the same."""

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from piper_collect.config.schema import SessionConfig


def add_session_options(parser: argparse.ArgumentParser) -> None:
    """Declare them."""
    parser.add_argument(
        "--config",
        default="default",
        metavar="YAML",
        help="session YAML: a path, or the name of one that comes with the package (default: %(default)s)",
    )
    parser.add_argument("--task", default="", metavar="TEXT", help="task string of the episodes")
    parser.add_argument("--root", default="", metavar="DIR", help="recording root (default: the file's)")
    devices = parser.add_argument_group("devices", "instead of those of the file")
    devices.add_argument("--sim", action="store_true", help="simulate all that the following do not name")
    devices.add_argument("--arm", default="", metavar="WORD", help="sim, can, bridge, or none")
    devices.add_argument("--cameras", default="", metavar="WORD", help="sim, realsense, or none")
    operator = devices.add_mutually_exclusive_group()
    operator.add_argument("--operator", default="", metavar="WORD", help="sim, quest, or none (keys alone)")
    operator.add_argument(
        "--quest", action="store_const", const="quest", dest="operator", help="the same as --operator quest"
    )


def session_of(arguments: argparse.Namespace) -> "SessionConfig":
    """The configuration that they mean.

    Raises:
        UsageError: A word names no device.
        ConfigError: It cannot be read, or is none that can be used.
    """
    from piper_collect.config.load import load_session, override_session
    from piper_collect.config.override import DeviceWords, device_choices
    from piper_collect.errors import UsageError

    for device in ("arm", "cameras", "operator"):
        word, choices = getattr(arguments, device), device_choices(device)
        if word and word not in choices:
            raise UsageError("not a valid choice", where=f"--{device}", got=word, valid=choices)
    words = DeviceWords(
        sim=arguments.sim, arm=arguments.arm, cameras=arguments.cameras, operator=arguments.operator
    )
    config = load_session(arguments.config)
    return override_session(config, task=arguments.task, root=arguments.root, devices=words)
