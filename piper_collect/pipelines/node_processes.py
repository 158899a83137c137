"""The processes of a graph: started, watched, stopped whole."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from piper_collect.config.graph import STOP_S, Graph, NodeSpec
from piper_collect.pipelines.foreground import Foreground
from piper_collect.pipelines.shared_memory import mapped_segments, remove_dead_segments

PARENT_VARIABLE = "PIPER_COLLECT_PARENT_PID"
"""Process that a node ends with."""

STARTED_VARIABLE = "PIPER_COLLECT_STARTED_FILE"
"""File that a node makes when it has started."""

_POLL_S = 0.05
_MEMORY_TURNS = 20
_STOP_S = ((signal.SIGINT, STOP_S), (signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0))


class NodeProcesses:
    """The processes of a graph, each in a session of its own so that a terminal's Ctrl-C reaches only us.

    Args:
        graph: What to start.
        session_file: The resolved session YAML; what is needed beside it is made in its folder.
        extra_environment: Set over our own environment, e.g. a ROS_DOMAIN_ID.
        foreground: The terminal, where the session has one: its keyboard is one more node.
    """

    def __init__(
        self,
        graph: Graph,
        session_file: Path,
        extra_environment: Mapping[str, str] | None = None,
        foreground: Foreground | None = None,
    ) -> None:
        self._graph = graph
        self._session_file = session_file
        self._foreground = foreground
        self._environment = {
            **os.environ,
            **graph.environment,
            **(extra_environment or {}),
            PARENT_VARIABLE: str(os.getpid()),
        }
        self._segments: set[str] = set()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def watch(self, over: Callable[[Mapping[str, int]], bool]) -> dict[str, int]:
        """Start the graph, and wait until it is over.

        Nodes that others must not start without come first: they refuse where another session or driver
        runs, before anything of this one sends on its topics.

        Args:
            over: Asked at every turn, with the nodes that have ended so far and their exit codes.

        Returns:
            Which nodes had ended when it was over, but for the keyboard, and how.
        """
        keyboard = [] if self._foreground is None else [self._foreground.keyboard]
        first = [spec for spec in self._graph.nodes if spec.starts_first]
        rest = [spec for spec in self._graph.nodes if not spec.starts_first]
        self.start([*first, *keyboard])
        turn = 0
        while True:
            ended = self.ended()
            for spec in keyboard:
                ended.pop(spec.name, None)  # a session goes on without keys
            if over(ended):
                return ended
            if rest and all(self.has_started(spec) for spec in first):
                self.start(rest)
                rest = []
            if turn % _MEMORY_TURNS == 0:
                self.note_memory()
            turn += 1
            time.sleep(_POLL_S)

    def start(self, nodes: Iterable[NodeSpec]) -> None:
        """Start nodes; each hears SIGINT from when it listens to it, until then the signal waits."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
        try:
            for spec in nodes:
                self.processes[spec.name] = self._start(spec)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def has_started(self, spec: NodeSpec) -> bool:
        """Whether a node has done what it does before it begins to work."""
        return self._started_file(spec).exists()

    def ended(self) -> dict[str, int]:
        """Nodes that have ended so far, and their exit codes."""
        codes = {name: process.poll() for name, process in self.processes.items()}
        return {name: code for name, code in codes.items() if code is not None}

    def note_memory(self) -> None:
        """Remember the shared memory that the nodes map, which a node that is killed would leave behind."""
        for process in self.processes.values():
            if process.poll() is None:
                self._segments |= mapped_segments(process.pid)

    def stop(self) -> tuple[str, ...]:
        """Stop the recorder first, so that it hears all that was sent, then the rest, at last the keyboard.

        An operator who is a node is told at the same time as the recorder, whose end is none of his doing.

        Returns:
            Names of the nodes, but for the keyboard, that had to be killed.
        """
        self.note_memory()
        first = [spec.name for spec in self._graph.nodes if spec.stops_first]
        rest = [spec.name for spec in reversed(self._graph.nodes) if spec.name not in first]
        killed = [*self._stop(first), *self._stop(rest)]
        if self._foreground is not None:
            # it hears the terminal's Ctrl-C itself, and shows what the others say until it is told to end;
            # where it cannot end, because the terminal is held, nothing is lost
            self._stop([self._foreground.keyboard.name], _STOP_S[1:])
        remove_dead_segments(self._segments)
        return tuple(killed)

    def _stop(self, names: list[str], stages: Iterable[tuple[signal.Signals, float]] = _STOP_S) -> list[str]:
        killed: list[str] = []
        for number, patience_s in stages:
            alive = [n for n in names if n in self.processes and self.processes[n].poll() is None]
            if number == signal.SIGKILL:
                killed = alive
            for name in alive:
                self.processes[name].send_signal(number)
            deadline = time.monotonic() + patience_s
            while time.monotonic() < deadline and any(self.processes[n].poll() is None for n in alive):
                time.sleep(0.05)
                self.note_memory()  # a node may map it as late as this
        return killed

    def _start(self, spec: NodeSpec) -> "subprocess.Popen[bytes]":
        environment = {**self._environment, STARTED_VARIABLE: str(self._started_file(spec))}
        command = self._command(spec)
        if self._foreground is None:
            return subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, start_new_session=True
            )
        if spec == self._foreground.keyboard:
            return self._foreground.start_keyboard(command, environment)
        return self._foreground.start_node(command, environment)

    def _started_file(self, spec: NodeSpec) -> Path:
        return self._session_file.parent / f"{spec.name}.started"

    def _command(self, spec: NodeSpec) -> list[str]:
        command = [sys.executable, "-m", "piper_collect.nodes", spec.executable, "--ros-args"]
        command += ["--params-file", str(self._session_file), "-r", f"__node:={spec.name}"]
        if self._graph.namespace:
            command += ["-r", f"__ns:=/{self._graph.namespace}"]
        for name, value in spec.parameters.items():
            command += ["-p", f"{name}:={value}"]
        return command
