"""`piper-collect record`: run a collection session."""

import argparse

DESCRIPTION = """\
Starts the nodes of a collection session, each its own process, and records one bag an episode under
the recording root. Ctrl-C stops it whole: a running episode is saved and marked as interrupted.

The session is described by one YAML file (--config), which is a ROS parameter file too. Without one,
the arm, the cameras and the operator are simulated.
"""
EPILOG = """\
examples:
  piper-collect record --task "stack the cups" --root ~/recordings
  piper-collect record --config my_session.yaml
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument(
        "--config",
        default="default",
        metavar="YAML",
        help="session YAML: a path, or the name of one that comes with the package (default: %(default)s)",
    )
    parser.add_argument("--task", default="", metavar="TEXT", help="task string of the episodes")
    parser.add_argument("--root", default="", metavar="DIR", help="recording root (default: the file's)")


def run(arguments: argparse.Namespace) -> int:
    """Run the session; 0 when it ended as it should."""
    import sys

    from piper_collect.config.load import load_session, override_session
    from piper_collect.pipelines.record import run_session

    config = override_session(load_session(arguments.config), task=arguments.task, root=arguments.root)
    end = run_session(config)
    for name, code in end.failed.items():
        text = f"error: {name} ended by itself with exit code {code}; the session was stopped"
        print(text, file=sys.stderr)
    for name in end.killed:
        print(f"error: {name} did not stop and was killed", file=sys.stderr)
    return 0 if end.ok else 1
