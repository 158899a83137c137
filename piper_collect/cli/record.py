"""`piper-collect record`: run a collection session."""

import argparse
import contextlib
import signal
from typing import TYPE_CHECKING

from piper_collect.cli.session_options import add_session_options, session_of

if TYPE_CHECKING:
    from piper_collect.pipelines.record import SessionEnd

DESCRIPTION = """\
Starts the nodes of a collection session, each its own process, and records one bag an episode under
the recording root. Ctrl-C stops it whole: a running episode is saved and marked as interrupted.

In a terminal, keys drive the session, and its last line shows how it stands:
  space  start an episode, then stop and save it      d    discard it
  x x    discard it, or delete the last one           h    move the arm home
  q      quit                                         ?    help

The session is described by one YAML file (--config), which is a ROS parameter file too. Without one,
the arm, the cameras and the operator are simulated.
"""
EPILOG = """\
exit code: 0 however a person ends it (q, Ctrl-C, a closed terminal), 1 when something failed

examples:
  piper-collect record --task "stack the cups" --root ~/recordings
  piper-collect record --config my_session.yaml
  piper-collect record --config my_session.yaml --sim --root ~/rehearsal      the same session, all simulated
  piper-collect record --sim --quest --task "stack the cups"                  a person drives a simulated arm
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    add_session_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the session; 0 when it ended as it should."""
    import sys

    from piper_collect.config.drivers import driver_nodes
    from piper_collect.pipelines.record import run_session
    from piper_collect.pipelines.session_summary import told
    from piper_collect.report.tables import print_lines

    config = session_of(arguments)
    for driver in driver_nodes(config):
        print(f"{driver.what} must be running: {driver.start}", flush=True)
    end = run_session(config, keys=sys.stdin.isatty() and sys.stdout.isatty())
    with contextlib.suppress(OSError):  # the terminal has been closed
        print_lines(_faults(end), sys.stderr)
        if end.began:
            print_lines(told(end.saved))
    return 0 if end.ok else 1


def _faults(end: "SessionEnd") -> list[str]:
    lines = []
    for name, code in end.failed.items():
        if code < 0:
            lines.append(f"error: {name} was killed by {signal.Signals(-code).name}; the session was stopped")
        elif end.began:  # else it refused, and has said why
            lines.append(f"error: {name} ended by itself with exit code {code}; the session was stopped")
    lines += [
        f"error: {name} ended by itself with exit code {code}; the session went on"
        for name, code in end.missed.items()
    ]
    return [*lines, *(f"error: {name} did not stop and was killed" for name in end.killed)]
