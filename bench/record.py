"""Does a recorder lose messages, and what does it cost?

Processes publish cameras (640x480, 30 Hz) and an arm (2 topics of 200 Hz) and note what they sent; a
recorder of another process writes a bag of it. What was sent while the bench looked on and does not lie in
the bag, by its stamp, is lost. The recorder is this package's node, or with ``--command`` any other.
"""

import argparse
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import monotonic, sleep, time_ns
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench._export_beside import exporting, make_recordings
from bench._machine import peak_memory_mb, private_memory_mb, session_cpu_s
from bench.publishers import LOADS, feeds

DEADLINE_S = 60.0
SETTLE_S = 1.0
"""Between what is looked for and what is counted, at both ends."""

_Stamps = Mapping[str, NDArray[np.int64]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the bench's arguments."""
    parser.add_argument(
        "--load", nargs="+", choices=LOADS, default=["raw3"], metavar="NAME", help=str([*LOADS])
    )
    parser.add_argument("--seconds", type=float, default=60.0, metavar="S", help="length of a run")
    parser.add_argument("--runs", type=int, default=10, metavar="N", help="runs of each load")
    parser.add_argument(
        "--busy-core", action="store_true", help="a process that computes all the time beside it"
    )
    parser.add_argument(
        "--export-watch", action="store_true", help="an `export --watch` that is never idle beside it"
    )
    parser.add_argument("--root", default="", metavar="FOLDER", help="where to record; by default in /tmp")
    parser.add_argument("--domain", type=int, default=96, metavar="ID", help="ROS domain to be alone in")
    parser.add_argument(
        "--command",
        default="",
        help="another recorder, ended by SIGINT, e.g. 'ros2 bag record -s mcap -o {bag} {topics}'",
    )
    parser.add_argument("--profile", default="", metavar="FILE", help="profile our recorder with cProfile")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Record every load as often as asked, and count."""
    os.environ.update(_environment(args.domain))
    rows, losses = [], {}
    with _to_export(args) as recordings:
        for load in args.load:
            runs = []
            for _ in range(args.runs):
                runs.append(_one(args, load, recordings))
                print(f"  {load}: {runs[-1]}", file=sys.stderr, flush=True)
            rows.append(_row(load, runs))
            losses[load] = [one.lost for one in runs]
    without = {load: sum(not any(lost.values()) for lost in by_run) for load, by_run in losses.items()}
    return {
        "settings": vars(args),
        "shared memory GB": round(shutil.disk_usage("/dev/shm").total / 1e9, 1),
        "table": rows,
        "lost": losses,
        "goals": {
            f"{load}: nothing lost in {without[load]} of {args.runs} runs": without[load] == args.runs
            for load in args.load
        },
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One recording.

    Attributes:
        sent: Messages that were published while the bench looked on.
        lost: Those that the bag does not have, by topic.
        told: Losses that the recorder itself told of; None where it keeps no count.
        gigabytes: Size of the bag.
        cpu_s: Processor time of the recorder, from when it recorded until the bag was closed.
        closing_s: How long closing the bag took.
        peak_mb: The most memory it has held, shared memory of the publishers in it.
        private_mb: The most that was its own.
        exported: Episodes that were exported meanwhile.
    """

    sent: int
    lost: Mapping[str, int]
    told: int | None
    gigabytes: float
    cpu_s: float
    closing_s: float
    peak_mb: float
    private_mb: float
    exported: int = 0


def _row(load: str, runs: list[Run]) -> dict[str, object]:
    told = [run.told for run in runs if run.told is not None]
    return {
        "load": load,
        "runs": len(runs),
        "sent a run": round(median(run.sent for run in runs)),
        "lost": sum(sum(run.lost.values()) for run in runs),
        "told": sum(told) if told else None,
        "CPU s": round(median(run.cpu_s for run in runs), 2),
        "GB": round(median(run.gigabytes for run in runs), 2),
        "CPU s a GB": round(median(run.cpu_s / run.gigabytes for run in runs), 2),
        "peak MB": round(max(run.peak_mb for run in runs)),
        "of it its own": round(max(run.private_mb for run in runs)),
        "closing s": round(median(run.closing_s for run in runs), 2),
        "exported beside": round(median(run.exported for run in runs)),
    }


def _environment(domain: int) -> dict[str, str]:
    """That of a session: the DDS profile, and how memory is asked for."""
    from piper_collect.config.graph import collection_graph
    from piper_collect.config.schema import SessionConfig

    ours = {"ROS_DOMAIN_ID": str(domain), "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}
    return {**collection_graph(SessionConfig()).environment, **ours}


@contextmanager
def _to_export(args: argparse.Namespace) -> Iterator[Path | None]:
    """What `export --watch` has to do; None where it does not run."""
    if not args.export_watch:
        yield None
        return
    with TemporaryDirectory(prefix="bench_watched_", dir=args.root or None) as folder:
        make_recordings(Path(folder))
        yield Path(folder)


def _one(args: argparse.Namespace, load: str, recordings: Path | None) -> Run:
    """One recording, of which only the figures stay."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="bench_record_", dir=args.root or None)))
        if args.busy_core:
            stack.enter_context(_started([sys.executable, "-c", "while True: pass"], signal.SIGKILL))
        bench = stack.enter_context(_bench_node())
        sent_files = [folder / f"sent_{k}.npz" for k in range(len(LOADS[load]))]
        with ExitStack() as publishing:
            for k, file in enumerate(sent_files):
                command = [sys.executable, "-m", "bench.publishers", load, str(k), str(file)]
                publishing.enter_context(_started(command, signal.SIGTERM))
            topics = [feed.topic for feed in feeds(load)]
            made = _record_other if args.command else _record_ours
            beside = publishing.enter_context(exporting(recordings, folder)) if recordings else None
            figures, window_ns, bag, told = made(args, load, topics, folder, bench)
        sent = _sent(sent_files, window_ns)
        held = _held(bag)
        lost = {name: len(np.setdiff1d(stamps, held[name])) for name, stamps in sent.items()}
        size = sum(file.stat().st_size for file in bag.iterdir())
        shutil.rmtree(bag)
    return Run(
        sent=sum(map(len, sent.values())),
        lost={name: number for name, number in lost.items() if number},
        told=told,
        gigabytes=size / 1e9,
        exported=beside.episodes if beside is not None else 0,
        **figures,
    )


_Recorded = tuple[dict[str, float], tuple[int, int], Path, int | None]


def _record_ours(
    args: argparse.Namespace, load: str, topics: list[str], folder: Path, bench: "Bench"
) -> _Recorded:
    from piper_collect.srv import StartEpisode
    from std_srvs.srv import Trigger

    file, root = folder / "session.yaml", folder / "recordings"
    file.write_text(_session(load, root), encoding="utf-8")
    profile = ["-m", "cProfile", "-o", args.profile] if args.profile else []
    command = [sys.executable, *profile, "-m", "piper_collect.nodes", "recorder_node"]
    command += ["--ros-args", "--params-file", str(file)]
    with _started(command, signal.SIGINT) as recorder:
        bench.until_subscribed(topics)
        deadline = monotonic() + DEADLINE_S
        while not (answer := bench.call(StartEpisode, "recorder/start_episode", task="record")).success:
            if monotonic() > deadline:
                raise TimeoutError(answer.message)
            sleep(0.2)
        figures, window_ns = _watch(
            args.seconds, recorder.pid, lambda: bench.call(Trigger, "recorder/stop_episode")
        )
    (bag,) = root.glob("*/episode_000000")
    counted = json.loads((bag / "episode.json").read_text())["topics"]
    return figures, window_ns, bag, sum(counted[topic]["lost"] for topic in topics)


def _record_other(
    args: argparse.Namespace, _load: str, topics: list[str], folder: Path, bench: "Bench"
) -> _Recorded:
    bag = folder / "bag"
    command = shlex.split(args.command.format(bag=bag, topics=" ".join(topics)))
    with _started(command, signal.SIGINT) as recorder:
        bench.until_subscribed(topics)

        def stop() -> None:
            recorder.send_signal(signal.SIGINT)
            os.waitid(os.P_PID, recorder.pid, os.WEXITED | os.WNOWAIT)  # its figures can still be read

        figures, window_ns = _watch(args.seconds, recorder.pid, stop)
    return figures, window_ns, bag, None


def _watch(seconds: float, pid: int, stop: Callable[[], object]) -> tuple[dict[str, float], tuple[int, int]]:
    """Look on for so long, then stop; the figures, and the time in which everything counts."""
    sleep(SETTLE_S)
    before_s, begin_ns, private_mb = session_cpu_s(pid), time_ns(), 0.0
    ends = monotonic() + seconds
    while (left_s := ends - monotonic()) > 0.0:
        sleep(min(left_s, 1.0))
        private_mb = max(private_mb, private_memory_mb(pid))
    end_ns = time_ns()
    sleep(SETTLE_S)
    peak_mb, stopping = peak_memory_mb(pid), monotonic()
    stop()
    return {
        "cpu_s": session_cpu_s(pid) - before_s,
        "closing_s": monotonic() - stopping,
        "peak_mb": peak_mb,
        "private_mb": private_mb,
    }, (begin_ns, end_ns)


def _session(load: str, root: Path) -> str:
    """A session that records every topic of a load."""
    from piper_collect.config.load import dump_session
    from piper_collect.config.schema import (
        CameraSettings,
        RecorderSettings,
        SessionConfig,
        SessionSettings,
        SourceSettings,
    )

    joints = tuple(f"joint{k}" for k in range(1, 7))
    cameras = {}
    for feed in feeds(load):
        name, _, transport = feed.topic.strip("/").partition("/image_raw")
        if name.startswith("cam_"):
            cameras[name] = CameraSettings(transport="compressed" if transport else "raw")
    config = SessionConfig(
        session=SessionSettings(root=str(root)),
        cameras=cameras,
        sources={
            "joint": SourceSettings(topic="arm/joint_states", field="position", select=joints, unit="rad"),
            "eef": SourceSettings(topic="arm/flange_pose", field="pose", unit="m"),
        },
        recorder=RecorderSettings(storage_backend="pip", extra_topics=("depth/image_raw",)),
    )
    return dump_session(config)


def _sent(files: list[Path], window_ns: tuple[int, int]) -> _Stamps:
    sent: dict[str, NDArray[np.int64]] = {}
    for file in files:
        with np.load(file) as stamps:
            for topic, stamp_ns in stamps.items():
                sent[topic] = stamp_ns[(stamp_ns >= window_ns[0]) & (stamp_ns < window_ns[1])]
    return sent


def _held(path: Path) -> _Stamps:
    """Stamps in a bag."""
    from piper_collect.bag.reader import open_bag

    held: dict[str, list[int]] = {}
    with open_bag(path) as bag:
        for topic in bag.topics:
            held[topic] = []
        for message in bag.messages():
            held[message.topic].append(bag.header_stamp_ns(message.topic, message.payload) or 0)
    return {topic: np.array(stamps, np.int64) for topic, stamps in held.items()}


@contextmanager
def _started(command: list[str], ending: signal.Signals) -> Iterator["subprocess.Popen[bytes]"]:
    """A process, ended by a signal."""
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=sys.stderr.fileno(), start_new_session=True
    )
    try:
        yield process
    finally:
        process.send_signal(ending)
        try:
            process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def _bench_node() -> Iterator["Bench"]:
    import rclpy
    from rclpy.utilities import try_shutdown

    rclpy.init()
    try:
        yield Bench(rclpy.create_node("bench_record"))
    finally:
        try_shutdown()


class Bench:
    """Tells the recorder what to do, and knows who listens.

    Args:
        node: Its node.
    """

    def __init__(self, node: Any) -> None:
        from rclpy.executors import SingleThreadedExecutor

        self._node = node
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(node)

    def until_subscribed(self, topics: list[str]) -> None:
        """Wait until somebody subscribes to all of ``topics``."""
        deadline = monotonic() + DEADLINE_S
        while missing := [topic for topic in topics if not self._node.count_subscribers(topic)]:
            if monotonic() > deadline:
                raise TimeoutError(f"nobody records {', '.join(missing)}")
            sleep(0.1)

    def call(self, service_type: Any, name: str, **fields: object) -> Any:
        """The answer of a service."""
        client = self._node.create_client(service_type, name)
        if not client.wait_for_service(DEADLINE_S):
            raise TimeoutError(f"nobody serves {name}")
        future = client.call_async(service_type.Request(**fields))
        self._executor.spin_until_future_complete(future, DEADLINE_S)
        self._node.destroy_client(client)
        return future.result()
