"""A replay in processes: the node that drives, and the arm; watched, and stopped whole."""

import contextlib
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from piper_collect.config.graph import replay_graph
from piper_collect.config.load import dump_session
from piper_collect.config.schema import SessionConfig
from piper_collect.core.replay import ReplayPlan
from piper_collect.core.replay_log import ReplayLog
from piper_collect.devices.terminal import KeyReader
from piper_collect.pipelines.node_processes import NodeProcesses
from piper_collect.pipelines.record import end_asked
from piper_collect.pipelines.replay_files import read_log, write_plan

STOP_KEY = " "


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReplayEnd:
    """How a replay ended.

    Attributes:
        log: What was done; None where the node ended before it could say.
        failed: Nodes that ended with an error, and their exit codes.
        interrupted: Whether a signal or a key asked for the end.
        killed: Nodes that had to be killed because they did not stop.
    """

    log: ReplayLog | None
    failed: Mapping[str, int] = field(default_factory=dict)
    interrupted: bool = False
    killed: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether all of the episode was replayed and every node ended as it should."""
        return self.log is not None and self.log.phase == "done" and not self.failed and not self.killed


def run_replay(
    config: SessionConfig, plan: ReplayPlan, *, extra_environment: Mapping[str, str] | None = None
) -> ReplayEnd:
    """Replay until the end of the episode, a fault, a signal, or the space bar in our terminal.

    Args:
        config: The resolved configuration.
        plan: What is replayed.
        extra_environment: Set for every node.
    """
    with end_asked() as asked, tempfile.TemporaryDirectory(prefix="piper_collect_") as name:
        folder = Path(name)
        session_file, plan_file = folder / "session.yaml", folder / "plan.json"
        session_file.write_text(dump_session(config), encoding="utf-8")
        write_plan(plan_file, plan)
        graph = replay_graph(config, str(plan_file), name)
        with _stop_key() as pressed:
            nodes = NodeProcesses(graph, session_file, extra_environment)
            try:
                ended = nodes.watch(lambda ended: bool(ended or asked or pressed()))
            finally:
                killed = nodes.stop()
        return ReplayEnd(
            log=read_log(folder),
            failed={name: code for name, code in ended.items() if code != 0 or name != "replay"},
            interrupted=not ended,
            killed=killed,
        )


@contextlib.contextmanager
def _stop_key() -> Iterator[Callable[[], bool]]:
    """Whether the space bar was pressed, where we have a terminal; it is set back when the block ends."""
    if not sys.stdin.isatty():
        yield lambda: False
        return
    keys = KeyReader(sys.stdin.fileno())
    try:
        yield lambda: keys.enter() and STOP_KEY in keys.read()
    finally:
        keys.leave()
