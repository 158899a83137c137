"""``piper-collect doctor``: what is missing or wrong before a session, and what to do."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from piper_collect.cli.session_options import add_session_options, session_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import ExitStack

    from piper_collect.config.schema import SessionConfig
    from piper_collect.core.checkup import Check, Checkup

DESCRIPTION = """\
Looks at what a session needs before it begins: packages, ROS environment, disk, what writes the bags,
clock, CAN interface, the pages' port and certificate; then, for a few seconds, at every topic that
somebody publishes already: type, QoS, rate, stamps, clocks, names, pictures. It sends nothing and moves
nothing.

Start the drivers first (piper_ros, realsense2_camera). What the session starts itself is not looked at.
"""
EPILOG = """\
FAIL: no episode would start, it could not be exported, or it would be wrong. warn: worth a look.

exit code: 0 nothing fails, 1 something does

examples:
  piper-collect doctor --config my_session.yaml
  piper-collect doctor --config my_session.yaml --seconds 10 --json doctor.json
  piper-collect doctor --config my_session.yaml --cameras none --quest
  piper-collect doctor --config quest --no-ros
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    add_session_options(parser)
    parser.add_argument(
        "--seconds", type=_seconds, default=3.0, metavar="S", help="how long to listen (default: %(default)g)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the same as JSON, too")
    parser.add_argument("--no-ros", action="store_true", help="look at the machine only, not at topics")


def run(arguments: argparse.Namespace) -> int:
    """Look, and tell; 0 when nothing fails."""
    from contextlib import ExitStack

    from piper_collect.core.checkup import Checkup
    from piper_collect.report.checkup_lines import print_checks, print_verdict

    config = session_of(arguments)
    machine = tuple(_machine(config, arguments.config))
    print_checks(machine)
    with ExitStack() as stack:  # all is told before ROS shuts down, which can hang
        topics = _topics(config, _why_no_topics(arguments, machine), arguments.seconds, stack)
        print_checks(topics)
        checkup = Checkup(subject=str(arguments.config), checks=(*machine, *topics))
        if arguments.json is not None:
            _write(checkup, arguments.json)
        print_verdict(checkup)
    return 0 if checkup.ok else 1


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.5 <= seconds <= 600.0:
        raise argparse.ArgumentTypeError(f"from 0.5 to 600 seconds (got {text!r})")
    return seconds


def _machine(config: "SessionConfig", source: str) -> "Iterator[Check]":
    from piper_collect.pipelines.machine_look import machine_checks, session_checks

    yield from session_checks(config, source)
    yield from machine_checks(config)
    try:
        from piper_collect.web.page_look import web_checks
    except ModuleNotFoundError:  # named among the packages
        return
    yield from web_checks(config)


def _why_no_topics(arguments: argparse.Namespace, machine: "Sequence[Check]") -> str:
    """Why no topic is looked at; empty when they are. In some environments ROS would end the program."""
    from piper_collect.core.ros_checks import ROS

    if arguments.no_ros:
        return "--no-ros"
    wrong = any(check.group == ROS and check.level == "FAIL" for check in machine)
    return "the ROS environment must be put right first" if wrong else ""


def _topics(config: "SessionConfig", why_not: str, seconds: float, stack: "ExitStack") -> "list[Check]":
    import os

    from piper_collect.config.graph import collection_graph
    from piper_collect.config.topic_wishes import topic_wishes
    from piper_collect.core.topic_checks import domain_checks
    from piper_collect.errors import ConfigError

    if why_not:
        return [_not_looked_at(why_not)]
    os.environ.update(collection_graph(config).environment)
    try:
        from piper_collect.nodes.topic_look import looked_at_topics

        domain = stack.enter_context(looked_at_topics(config, seconds))
    except (ImportError, ConfigError) as err:
        return [_not_looked_at(str(err))]
    return list(domain_checks(topic_wishes(config), domain))


def _not_looked_at(why: str) -> "Check":
    from piper_collect.core.checkup import Check
    from piper_collect.core.topic_look import TOPICS

    return Check(
        level="not known", group=TOPICS, where="all topics", what="not looked at", found=" ".join(why.split())
    )


def _write(checkup: "Checkup", path: Path) -> None:
    import json

    from piper_collect.errors import ConfigError
    from piper_collect.files import write_atomic

    try:
        write_atomic(
            path, json.dumps(checkup.to_json(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        )
    except OSError as err:
        raise ConfigError(f"cannot be written: {err.strerror}", where=path) from err
