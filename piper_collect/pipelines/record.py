"""A collection session without ``ros2 launch``: start the graph, watch it, stop it whole."""

import contextlib
import signal
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from piper_collect.bag.session_folder import check_root
from piper_collect.config.graph import collection_graph
from piper_collect.config.load import dump_session
from piper_collect.config.schema import SessionConfig
from piper_collect.errors import ConfigError
from piper_collect.pipelines.foreground import Foreground
from piper_collect.pipelines.node_processes import NodeProcesses
from piper_collect.pipelines.session_summary import SavedSession, saved_sessions, sessions_in

_END_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEnd:
    """How a session ended.

    Attributes:
        failed: Nodes that ended on their own with an error, and their exit codes.
        missed: Those that the session went on without, and their exit codes.
        interrupted: Whether a signal asked for the end.
        killed: Nodes that had to be killed because they did not stop.
        began: Whether all nodes were started; if not, what failed has said why itself.
        saved: What the session left on the disk.
    """

    failed: Mapping[str, int] = field(default_factory=dict)
    missed: Mapping[str, int] = field(default_factory=dict)
    interrupted: bool = False
    killed: tuple[str, ...] = ()
    began: bool = True
    saved: tuple[SavedSession, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether every node ended as it should."""
        return not self.failed and not self.killed


def check_session(config: SessionConfig) -> None:
    """Refuse, before anything is started, a session that could only wait.

    Raises:
        ConfigError: The simulated operator has no task to record.
        SessionError: The recording root cannot be written.
    """
    check_root(Path(config.session.root).expanduser())
    check_task(config)


def check_task(config: SessionConfig) -> None:
    """Refuse a simulated operator without a task.

    Raises:
        ConfigError: Names the setting.
    """
    if config.devices.operator == "sim" and not config.session.task.strip():
        raise ConfigError("the task is empty", where="session.task", hint='give --task "what is done"')


def run_session(
    config: SessionConfig, *, extra_environment: Mapping[str, str] | None = None, keys: bool = False
) -> SessionEnd:
    """Run a session until a node that ends it is done, a node fails, or SIGINT, SIGTERM or SIGHUP comes.

    Args:
        config: The resolved configuration.
        extra_environment: Set for every node.
        keys: Whether keys of our terminal drive the session, and a line in it shows how it stands.

    Raises:
        ConfigError: No episode could ever start under ``config``.
        SessionError: The recording root cannot be written.
    """
    check_session(config)
    root = Path(config.session.root).expanduser()
    before = sessions_in(root)
    graph = collection_graph(config)
    spare = {spec.name for spec in graph.nodes if not spec.needed}
    with (
        end_asked() as asked,
        tempfile.TemporaryDirectory(prefix="piper_collect_") as folder,
        contextlib.ExitStack() as taken,
    ):
        session_file = Path(folder) / "session.yaml"
        session_file.write_text(dump_session(config), encoding="utf-8")
        foreground = Foreground(Path(folder)) if keys else None
        if foreground is not None:
            taken.enter_context(foreground.taken())
        nodes = NodeProcesses(graph, session_file, extra_environment, foreground)

        def over(ended: Mapping[str, int]) -> bool:
            if foreground is not None:
                foreground.look()
            return bool(asked) or not ended.keys() <= spare

        try:
            ended = nodes.watch(over)
        finally:
            killed = nodes.stop()
    enders = {spec.name for spec in graph.nodes if spec.ends_session}
    return SessionEnd(
        failed={n: code for n, code in ended.items() if n not in spare and (code != 0 or n not in enders)},
        missed={name: code for name, code in ended.items() if name in spare},
        interrupted=bool(asked),
        killed=killed,
        began=all(spec.name in nodes.processes for spec in graph.nodes),
        saved=saved_sessions(root, before, dump_session(config)),
    )


@contextlib.contextmanager
def end_asked() -> Iterator[list[int]]:
    """Take note of signals that ask for the end, for the length of the block."""
    asked: list[int] = []
    previous = {
        number: signal.signal(number, lambda received, _frame: asked.append(received))
        for number in _END_SIGNALS
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN  # nohup
    }
    try:
        yield asked
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
