"""Real node processes, and a node of the test's own, on a ROS domain that no other test run has.

Importing this skips the importing module where ROS is not there.
"""

import fcntl
import hashlib
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

_REASON = "rclpy does not import here: the nodes need ROS 2"
rclpy = pytest.importorskip("rclpy", reason=_REASON, exc_type=ImportError)
for _module in ("rclpy.executors", "piper_collect.msg", "piper_collect.srv", "sensor_msgs.msg"):
    pytest.importorskip(_module, reason=_REASON, exc_type=ImportError)

from rclpy.context import Context  # noqa: E402
from rclpy.executors import SingleThreadedExecutor  # noqa: E402
from rclpy.signals import SignalHandlerOptions  # noqa: E402

from piper_collect.config.load import dump_session  # noqa: E402
from piper_collect.config.schema import SessionConfig  # noqa: E402
from piper_collect.nodes.qos import STREAM_QOS  # noqa: E402
from piper_collect.pipelines.shared_memory import mapped_segments, remove_dead_segments  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
DEADLINE_S = 120.0
"""For what takes a second on an idle machine; only a test that fails waits so long."""

_TOKEN = "PIPER_COLLECT_TEST_RUN"
_DOMAINS = 101


class RosRun:
    """What all ROS tests of one test process share: domain, environment, the processes they started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.domain, self._claim = _claim_domain()
        self.token = uuid.uuid4().hex
        self.segments: set[str] = set()
        self._logs = 0
        profile = folder / "dds.xml"
        profile.write_text(_test_profile(), encoding="utf-8")
        self.shared = {
            "ROS_DOMAIN_ID": str(self.domain),
            "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
            "ROS_LOG_DIR": str(folder / "ros_log"),
            "FASTRTPS_DEFAULT_PROFILES_FILE": str(profile),
            "FASTDDS_DEFAULT_PROFILES_FILE": str(profile),
        }
        self._before = {name: os.environ.get(name) for name in self.shared}
        os.environ.update(self.shared)

    def environment(self, **changes: str | None) -> dict[str, str]:
        """Environment of a process of the tests; None leaves a variable out."""
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", _TOKEN: self.token}
        for name, value in changes.items():
            environment.pop(name, None)
            if value is not None:
                environment[name] = value
        return environment

    def launch(self, name: str, command: list[str], **changes: str | None) -> "RunningProcess":
        """Start a process that ``close`` will look for."""
        self._logs += 1
        log = self.folder / f"{self._logs:03d}_{name}.log"
        return RunningProcess(self, name, command, self.environment(**changes), log)

    def alive(self) -> dict[int, str]:
        """Processes with our mark in their environment, whoever started them: pid → command line."""
        mark = f"{_TOKEN}={self.token}".encode()
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
        for pid in found:
            self.segments |= mapped_segments(pid)
        return found

    def wait_until_gone(self, seconds: float = DEADLINE_S) -> dict[int, str]:
        """Processes of ours that are left after ``seconds``; returns as soon as there is none."""
        deadline = time.monotonic() + seconds
        while (left := self.alive()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return left

    def close(self) -> dict[int, str]:
        """Give back domain and shared memory; the processes that should have been gone (now killed)."""
        left = self.wait_until_gone(10.0)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        self.wait_until_gone(10.0)
        self.remove_dead_segments()
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        self._claim.close()
        return left

    def remove_dead_segments(self) -> None:
        """Remove what killed processes of ours left."""
        remove_dead_segments(self.segments)

    def dead_segments(self) -> list[str]:
        """Segments that processes of ours had mapped and that nobody holds any more."""
        return sorted(name for name in self.segments if _is_dead(name))


def _test_profile() -> str:
    """The package's own profile with small segments, and nodes that find each other soon, not within 3 s."""
    own = (ROOT / "config" / "fastdds_shm64.xml").read_text(encoding="utf-8")
    small = own.replace("67108864", "2097152")
    if "leaseAnnouncement" in small:
        return small
    soon = "<leaseAnnouncement><sec>0</sec><nanosec>200000000</nanosec></leaseAnnouncement>"
    builtin = f"<builtin><discovery_config>{soon}</discovery_config></builtin>"
    return small.replace("</useBuiltinTransports>", f"</useBuiltinTransports>{builtin}")


def _is_dead(segment: str) -> bool:
    if not Path("/dev/shm", segment).exists():
        return False
    try:
        with Path("/dev/shm", f"{segment}_el").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _claim_domain() -> tuple[int, socket.socket]:
    """A domain from 1 to 101 that no other test run on this machine holds, and what holds it."""
    for step in range(_DOMAINS):
        domain = 1 + (os.getpid() * 37 + step) % _DOMAINS
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            claim.bind(f"\0piper_collect_test_domain_{domain}")  # abstract: gone with the process
        except OSError:
            claim.close()
            continue
        return domain, claim
    raise RuntimeError("every ROS domain from 1 to 101 is taken by another test run")


class RunningProcess:
    """A process of a test and what it printed."""

    def __init__(
        self, run: RosRun, name: str, command: list[str], environment: dict[str, str], log: Path
    ) -> None:
        self.name = name
        self._run = run
        self._log = log
        with log.open("wb") as out:
            self._popen = subprocess.Popen(
                command,
                env=environment,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.pid = self._popen.pid
        self.may_end = False

    def log(self) -> str:
        """All it printed so far."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._popen.poll()

    def send(self, number: signal.Signals) -> None:
        """Send a signal to this process alone."""
        self._run.alive()
        self._popen.send_signal(number)

    def wait(self, seconds: float = DEADLINE_S) -> int:
        """Its exit code, once it ended by itself."""
        try:
            return self._popen.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} has not ended after {seconds:.0f} s:\n{self.log()}") from None

    def end(self) -> None:
        """End it, gently if it lets us."""
        for number, seconds in ((signal.SIGINT, 30.0), (signal.SIGKILL, 30.0)):
            if self._popen.poll() is not None:
                return
            self.send(signal.SIGCONT)
            self.send(number)
            try:
                self._popen.wait(seconds)
            except subprocess.TimeoutExpired:
                continue


class Rig:
    """The nodes of one test, and a node of the test itself that talks to them."""

    def __init__(self, run: RosRun, folder: Path) -> None:
        self.run = run
        self.folder = folder
        self.processes: list[RunningProcess] = []
        self._context = Context()
        rclpy.init(context=self._context, signal_handler_options=SignalHandlerOptions.NO)
        self.node = rclpy.create_node("bench", context=self._context)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self.node)
        self._files = 0
        self._deaf: list[Any] = []

    def start(
        self, executable: str, config: SessionConfig, *, site: Path | None = None, **parameters: str
    ) -> RunningProcess:
        """Start a node of the package under ``config``; ``site`` is added to its Python path."""
        self._files += 1
        file = self.folder / f"session_{self._files}.yaml"
        file.write_text(dump_session(config), encoding="utf-8")
        return self.start_with(executable, file, site=site, **parameters)

    def start_with(
        self, executable: str, file: Path, *, site: Path | None = None, **parameters: str
    ) -> RunningProcess:
        """Start a node of the package with a parameter file."""
        command = [sys.executable, "-m", "piper_collect.nodes", executable]
        command += ["--ros-args", "--params-file", str(file)]
        for name, value in parameters.items():
            command += ["-p", f"{name}:={value}"]
        path = os.pathsep.join(map(str, [ROOT, *([site] if site else [])]))
        return self.add(self.run.launch(executable, command, PYTHONPATH=path))

    def add(self, process: RunningProcess) -> RunningProcess:
        """Take care of ``process``: it must not end unasked, and ends with the rig."""
        self.processes.append(process)
        return process

    def end(self, process: RunningProcess, number: signal.Signals = signal.SIGINT) -> int:
        """Signal a process and wait for its end; its exit code."""
        process.may_end = True
        process.send(number)
        return process.wait()

    def spin(self, seconds: float = 0.01) -> None:
        """Let the test's node take at most one thing that came, or wait for it."""
        self._executor.spin_once(timeout_sec=seconds)

    def until(
        self, holds: Callable[[], Any], what: str, *, meanwhile: Callable[[], None] | None = None
    ) -> None:
        """Spin until ``holds()`` is true, calling ``meanwhile`` at every turn.

        Raises:
            AssertionError: it did not come true in a long time, or a process ended unasked.
        """
        deadline = time.monotonic() + DEADLINE_S
        while not holds():
            ended = [p for p in self.processes if p.exit_code() is not None and not p.may_end]
            if ended or time.monotonic() > deadline:
                logs = "\n".join(f"--- {p.name} ({p.exit_code()})\n{p.log()}" for p in self.processes)
                why = f"{ended[0].name} ended" if ended else f"not within {DEADLINE_S:.0f} s"
                raise AssertionError(f"{what}: {why}\n{logs}")
            if meanwhile is not None:
                meanwhile()
            self.spin()

    def call(self, service_type: Any, name: str, **fields: object) -> Any:
        """The answer of a service."""
        future = self.ask(service_type, name, **fields)
        self.until(future.done, f"no answer from {name}")
        return future.result()

    def ask(self, service_type: Any, name: str, **fields: object) -> Any:
        """Call a service that is there; the future of its answer."""
        client = self.node.create_client(service_type, name)
        self.until(client.service_is_ready, f"nobody serves {name}")
        return client.call_async(service_type.Request(**fields))

    def listen(self, message_type: type, topic: str, qos: Any = STREAM_QOS) -> list[Any]:
        """A list that grows by every message on ``topic``."""
        heard: list[Any] = []
        self.node.create_subscription(message_type, topic, heard.append, qos)
        return heard

    def publisher(self, message_type: type, topic: str, qos: Any = STREAM_QOS) -> Any:
        """A publisher of the test's node."""
        return self.node.create_publisher(message_type, topic, qos)

    def every(self, period_s: float, act: Callable[[], None]) -> Any:
        """Call ``act`` again and again while the rig spins; cancel the timer to end it."""
        return self.node.create_timer(period_s, act)

    def now_ns(self) -> int:
        """Now on the clock that stamps are made of."""
        return time.time_ns()

    def deaf_node(self) -> Any:
        """A node that others find and that never takes what it is sent."""
        self._deaf.append(rclpy.create_node(f"deaf_{len(self._deaf)}", context=self._context))
        return self._deaf[-1]

    def close(self) -> None:
        """End what still runs, all at once."""
        for process in self.processes:
            if process.exit_code() is None:
                process.send(signal.SIGCONT)
                process.send(signal.SIGINT)
        for process in self.processes:
            process.end()
        self.run.segments |= mapped_segments(os.getpid())
        self._executor.shutdown()
        for node in (self.node, *self._deaf):
            node.destroy_node()
        rclpy.try_shutdown(context=self._context)
        self.run.remove_dead_segments()


def digests(folder: Path) -> dict[str, str]:
    """Path and content hash of every file below ``folder``."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def one_session(root: Path) -> Path:
    """The only session folder below ``root``."""
    (session,) = [path for path in root.iterdir() if path.is_dir()]
    return session


def names(folder: Path) -> set[str]:
    """What lies in ``folder``."""
    return {path.name for path in folder.iterdir()}


@contextmanager
def rig_in(run: RosRun, folder: Path) -> Iterator[Rig]:
    """A rig that ends with the block; two at once would hear each other."""
    rig = Rig(run, folder)
    try:
        yield rig
    finally:
        rig.close()


def record_command(file: Path) -> list[str]:
    """The command that runs a session."""
    return [sys.executable, "-m", "piper_collect.cli.main", "record", "--config", str(file)]
