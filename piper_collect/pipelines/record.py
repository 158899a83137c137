"""A collection session without ``ros2 launch``: start the graph, watch it, stop it whole."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from piper_collect.config.graph import Graph, NodeSpec, collection_graph
from piper_collect.config.load import dump_session
from piper_collect.config.schema import SessionConfig
from piper_collect.pipelines.shared_memory import mapped_segments, remove_dead_segments

PARENT_VARIABLE = "PIPER_COLLECT_PARENT_PID"
_POLL_S = 0.1
_END_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_STOP_S = ((signal.SIGINT, 20.0), (signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEnd:
    """How a session ended.

    Attributes:
        failed: Nodes that ended on their own with an error, and their exit codes.
        interrupted: Whether a signal asked for the end.
        killed: Nodes that had to be killed because they did not stop.
    """

    failed: Mapping[str, int] = field(default_factory=dict)
    interrupted: bool = False
    killed: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether every node ended as it should."""
        return not self.failed and not self.killed


class NodeProcesses:
    """The processes of a graph, each in a session of its own so that a terminal's Ctrl-C reaches only us.

    Args:
        graph: What to start.
        session_file: The resolved session YAML.
        extra_environment: Set over our own environment, e.g. a ROS_DOMAIN_ID.
    """

    def __init__(
        self, graph: Graph, session_file: Path, extra_environment: Mapping[str, str] | None = None
    ) -> None:
        self._graph = graph
        self._session_file = session_file
        self._environment = {
            **os.environ,
            **graph.environment,
            **(extra_environment or {}),
            PARENT_VARIABLE: str(os.getpid()),
        }
        self._segments: set[str] = set()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Start every node; it hears SIGINT from when it listens to it, until then the signal waits."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
        try:
            for spec in self._graph.nodes:
                self.processes[spec.name] = subprocess.Popen(
                    self._command(spec),
                    env=self._environment,
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def ended(self) -> dict[str, int]:
        """Nodes that have ended so far, and their exit codes; remembers the memory the others map."""
        codes = {}
        for name, process in self.processes.items():
            code = process.poll()
            if code is None:
                self._segments |= mapped_segments(process.pid)
            else:
                codes[name] = code
        return codes

    def stop(self) -> tuple[str, ...]:
        """Stop the recorder first, so that it hears all that was sent, then the rest.

        Returns:
            Names of the nodes that had to be killed.
        """
        self.ended()
        first = [spec.name for spec in self._graph.nodes if spec.executable == "recorder_node"]
        rest = [spec.name for spec in reversed(self._graph.nodes) if spec.name not in first]
        killed = [name for names in (first, rest) for name in self._stop(names)]
        remove_dead_segments(self._segments)
        return tuple(killed)

    def _stop(self, names: list[str]) -> list[str]:
        killed: list[str] = []
        for number, patience_s in _STOP_S:
            alive = [n for n in names if n in self.processes and self.processes[n].poll() is None]
            if number == signal.SIGKILL:
                killed = alive
            for name in alive:
                self.processes[name].send_signal(number)
            deadline = time.monotonic() + patience_s
            while time.monotonic() < deadline and any(self.processes[n].poll() is None for n in alive):
                time.sleep(0.05)
                self.ended()  # a node may map its memory as late as this
        return killed

    def _command(self, spec: NodeSpec) -> list[str]:
        command = [sys.executable, "-m", "piper_collect.nodes", spec.executable, "--ros-args"]
        command += ["--params-file", str(self._session_file), "-r", f"__node:={spec.name}"]
        if self._graph.namespace:
            command += ["-r", f"__ns:=/{self._graph.namespace}"]
        for name, value in spec.parameters.items():
            command += ["-p", f"{name}:={value}"]
        return command


def run_session(
    config: SessionConfig,
    *,
    extra_environment: Mapping[str, str] | None = None,
    on_end: Callable[[str, int], None] | None = None,
) -> SessionEnd:
    """Run a session until a node that ends it is done, a node fails, or SIGINT, SIGTERM or SIGHUP comes.

    Args:
        config: The resolved configuration.
        extra_environment: Set for every node.
        on_end: Told of each node that ended on its own, with its exit code.
    """
    asked: list[int] = []
    previous = {
        number: signal.signal(number, lambda received, _frame: asked.append(received))
        for number in _END_SIGNALS
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN  # nohup
    }
    graph = collection_graph(config)
    try:
        with tempfile.TemporaryDirectory(prefix="piper_collect_") as folder:
            session_file = Path(folder) / "session.yaml"
            session_file.write_text(dump_session(config), encoding="utf-8")
            nodes = NodeProcesses(graph, session_file, extra_environment)
            ended: dict[str, int] = {}
            try:
                nodes.start()
                while not asked and not ended:
                    time.sleep(_POLL_S)
                    ended = nodes.ended()
            finally:
                killed = nodes.stop()
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    enders = {spec.name for spec in graph.nodes if spec.ends_session}
    for name, code in ended.items():
        if on_end is not None:
            on_end(name, code)
    failed = {name: code for name, code in ended.items() if code != 0 or name not in enders}
    return SessionEnd(failed=failed, interrupted=bool(asked), killed=killed)
