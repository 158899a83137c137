"""Export on a Ray cluster: the same dataset, whatever is lost on the way. Needs ``pip install '.[ray]'``."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from export_cases import files, run, small_bag, sources

from piper_collect.config.profile import load_profile
from piper_collect.errors import DatasetError
from piper_collect.pipelines import ray_workers
from piper_collect.pipelines.bag_episodes import ExportOptions
from piper_collect.pipelines.export import ExportSummary, export
from piper_collect.pipelines.ray_prepare import AwayJob, Sent, Unfit, prepare_away
from piper_collect.pipelines.ray_workers import TRIES

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install '.[ray]'")

pytestmark = [
    pytest.mark.usefixtures("no_sync"),
    pytest.mark.filterwarnings("default"),  # Ray's own are not ours to mend
]

DEADLINE_S = 120.0
REPOSITORY = Path(__file__).parents[1]
PROFILE = "train"


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recordings")
    for number in range(7):
        small_bag(folder / f"episode_{number:06d}", number, cameras=("cam", "wrist"))
    return folder


@pytest.fixture(scope="module")
def serial(recordings: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The files of the dataset as one process makes it."""
    root = tmp_path_factory.mktemp("serial") / "ds"
    run(recordings, root, PROFILE)
    return files(root)


@pytest.fixture(scope="module")
def temporary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the machines of the cluster put what is temporary."""
    return tmp_path_factory.mktemp("tmp")


@pytest.fixture(scope="module")
def cluster(temporary: Path) -> Iterator[object]:
    """Two machines, so to say, of two processors each, which know of this clone and of the tests."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "disabled")  # else it depends on what this user's folder has
        patch.setenv("PYTHONPATH", os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "test")]))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("TMPDIR", str(temporary))
        patch.setenv("RAY_TMPDIR", "/tmp")  # its sockets have no longer names
        started = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 2, "include_dashboard": False, "ray_client_server_port": free_port()},
        )
        started.add_node(num_cpus=2)
        yield started
        started.shutdown()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def exported(recordings: Path, root: Path, address: str, **options: object) -> ExportSummary:
    made_of = ExportOptions(profile=load_profile(PROFILE), **options)
    return export([recordings], root, made_of, ray=address)


def hidden(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if p.name.startswith("."))


def wait_for(what: str, holds: object) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline_s, what
        time.sleep(0.05)


def halting(away: AwayJob, held: object) -> Sent | Unfit:
    """In the cluster in place of ``prepare_away``: with a halt at the bag that a file beside it names.

    It comes when the videos are encoded, and another file tells which process is at it.
    """
    from piper_collect.dataset import stage

    mark = away.job.path.parent / f"halt_{away.job.path.name}"
    real = stage.encode_cameras

    def encode_cameras(*args: object, **more: object) -> object:
        made = real(*args, **more)
        if mark.exists():
            (mark.parent / f"pid_{away.job.path.name}_{os.getpid()}").touch()
            time.sleep(3600)
        return made

    stage.encode_cameras = encode_cameras
    try:
        return prepare_away(away, held)
    finally:
        stage.encode_cameras = real


class Killer(threading.Thread):
    """Kills each process that halts at a bag, up to a number of times."""

    def __init__(self, recordings: Path, bag: str, times: int) -> None:
        super().__init__(daemon=True)
        self._mark, self._bag, self._times = recordings / f"halt_{bag}", bag, times
        self._recordings = recordings
        self._mark.touch()
        self.killed: list[int] = []

    def run(self) -> None:
        while len(self.killed) < self._times:
            for path in self._recordings.glob(f"pid_{self._bag}_*"):
                pid = int(path.name.rpartition("_")[2])
                if len(self.killed) + 1 == self._times:
                    self._mark.unlink()
                path.unlink()
                self.killed.append(pid)
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)

    def __enter__(self) -> "Killer":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._mark.unlink(missing_ok=True)
        self.join(DEADLINE_S)


@pytest.mark.parametrize("times", [1, TRIES])
def test_a_worker_that_is_killed_at_a_bag(
    times: int,
    tmp_path: Path,
    recordings: Path,
    serial: dict[str, str],
    cluster: object,
    temporary: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ray_workers, "prepare_away", halting)
    root, bag = tmp_path / "ds", "episode_000002"
    with Killer(recordings, bag, times) as killer:
        summary = exported(recordings, root, cluster.address)
    assert len(set(killer.killed)) == times
    (killed,) = [b for b in summary.bags if b.bag.name == bag]
    if times < TRIES:
        assert killed.notes[-1] == "begun anew once, since the worker that prepared it was lost"
    else:
        assert killed.status == "failed"
        assert f"begun {TRIES} times, and each time the worker that prepared it was lost" in killed.reason
        assert summary.exit_code == 1
        assert [s["bag"] for s in sources(root)] == [f"episode_{k:06d}" for k in (0, 1, 3, 4, 5, 6)]
        root = tmp_path / "again"
        summary = exported(recordings, root, cluster.address)
    assert summary.exit_code == 0
    assert files(root) == serial
    assert hidden(tmp_path) == []
    assert hidden(temporary) == []


@pytest.mark.parametrize("kind", ["auto", "ray://"])
def test_a_cluster_that_is_found_or_entered_from_outside(
    kind: str, tmp_path: Path, recordings: Path, serial: dict[str, str], cluster: object
) -> None:
    """Each in a process of its own, since one that uses Ray as a client cannot be part of a cluster later."""
    address, known = "auto", {"RAY_ADDRESS": cluster.address}
    if kind == "ray://":
        address = f"ray://127.0.0.1:{cluster.head_node._ray_params.ray_client_server_port}"
        known = {}
    words = ["export", str(recordings), "-o", str(tmp_path / "ds"), "--profile", PROFILE, "--ray", address]
    done = subprocess.run(
        [sys.executable, "-m", "piper_collect.cli.main", *words, "--quiet"],
        cwd=REPOSITORY,
        env={**os.environ, **known},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert files(tmp_path / "ds") == serial


def test_a_machine_that_is_lost_with_the_bags_that_it_was_at(
    tmp_path: Path, recordings: Path, serial: dict[str, str], cluster: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_workers, "prepare_away", halting)
    mark = recordings / "halt_episode_000001"
    mark.touch()
    nodes = [cluster.add_node(num_cpus=2, resources={"not the first": 2}) for _ in range(2)]
    machines = [node.all_processes["raylet"][0].process.pid for node in nodes]
    monkeypatch.setattr(ray_workers, "OPTIONS", {**ray_workers.OPTIONS, "resources": {"not the first": 1}})
    killed: list[int] = []

    def lose() -> None:
        wait_for("nobody is at the bag", lambda: list(recordings.glob("pid_episode_000001_*")))
        mark.unlink()
        (path,) = recordings.glob("pid_episode_000001_*")
        path.unlink()
        worker = int(path.name.rpartition("_")[2])
        killed.append(parent(worker))
        os.kill(killed[0] if killed[0] in machines else worker, signal.SIGKILL)

    loser = threading.Thread(target=lose, daemon=True)
    loser.start()
    summary = exported(recordings, tmp_path / "ds", cluster.address)
    loser.join(DEADLINE_S)
    assert killed[0] in machines
    assert summary.exit_code == 0
    assert "begun anew once, since the worker that prepared it was lost" in summary.bags[1].notes
    assert files(tmp_path / "ds") == serial


def test_a_bag_that_a_machine_does_not_see_ends_the_export(
    tmp_path: Path, recordings: Path, cluster: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_workers, "prepare_away", blind)
    with pytest.raises(DatasetError, match=r"machine .* of the cluster: it does not see .*episode_000003"):
        exported(recordings, tmp_path / "ds", cluster.address)
    assert [s["bag"] for s in sources(tmp_path / "ds")] == [f"episode_{k:06d}" for k in range(3)]
    assert hidden(tmp_path) == []


def blind(away: AwayJob, held: object) -> Sent | Unfit:
    """On a machine where one of the recordings is not."""
    if away.job.path.name != "episode_000003":
        return prepare_away(away, held)
    from dataclasses import replace

    away = replace(away, job=replace(away.job, path=Path("/nowhere") / away.job.path.name))
    return prepare_away(away, held)


LOCAL = """
import sys
sys.path[:0] = {path!r}
from piper_collect.cli.main import main
from piper_collect.pipelines import ray_workers
from test_export_ray import halting

ray_workers.prepare_away = halting
words = ["--workers", "2", "--profile", {profile!r}, "--quiet", "--ray", "local"]
sys.exit(main(["export", {bags!r}, "-o", {root!r}, *words]))
"""


def below(pid: int) -> list[int]:
    """All processes that ``pid`` started, and theirs."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            for child in map(int, task.read_text().split()):
                found += [child, *below(child)]
    return found


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_local_when_stopped_or_killed_leaves_whole_episodes_and_no_process(
    tmp_path: Path, recordings: Path, serial: dict[str, str], number: int
) -> None:
    root, temporary = tmp_path / "out/ds", tmp_path / "tmp"
    temporary.mkdir()
    path = [str(REPOSITORY), str(REPOSITORY / "test")]
    script = LOCAL.format(path=path, bags=str(recordings), root=str(root), profile=PROFILE)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path),
        "TMPDIR": str(temporary),
        "RAY_TMPDIR": "/tmp",
        "RAY_AUTH_MODE": "disabled",
    }
    mark = recordings / "halt_episode_000002"
    mark.touch()
    command = [sys.executable, "-c", script]
    with subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, start_new_session=True
    ) as process:
        try:
            wait_for("two are not exported", lambda: len(bags_of(root)) == 2)
            wait_for("nobody is at the third", lambda: list(recordings.glob("pid_episode_000002_*")))
            started = below(process.pid)
            assert len(started) >= 3
            if number == signal.SIGINT:
                os.killpg(process.pid, number)  # as a terminal sends it
            else:
                process.kill()
            said = process.communicate(timeout=DEADLINE_S)[1].decode()
        finally:
            process.kill()
            mark.unlink()
            for left in recordings.glob("pid_*"):
                left.unlink()
    assert process.returncode == (130 if number == signal.SIGINT else -signal.SIGKILL), said
    wait_for("a process is left", lambda: not any(map(is_there, started)))
    assert bags_of(root) == ["episode_000000", "episode_000001"]
    if number == signal.SIGINT:
        assert said.strip().splitlines()[-1] == "interrupted"
        assert hidden(root.parent) == []
    again = subprocess.run(command, env=environment, timeout=DEADLINE_S, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert files(root) == serial
    assert hidden(root.parent) == []
    assert hidden(temporary) == []


def bags_of(root: Path) -> list[object]:
    path = root / "meta/episode_sources.jsonl"
    return [s["bag"] for s in sources(root)] if path.exists() else []


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_where_something_else_than_a_cluster_listens(scheme: str, tmp_path: Path, recordings: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"{scheme}127.0.0.1:{silent.getsockname()[1]}"
        line = refusal("-o", str(tmp_path / "ds"), "--ray", address, recordings=recordings)
    assert "what listens there is no Ray cluster" in line
    assert list(tmp_path.iterdir()) == []


def test_where_no_cluster_runs(tmp_path: Path, recordings: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    assert "nobody listens there" in refusal(
        "-o", str(tmp_path / "ds"), "--ray", address, recordings=recordings
    )
    assert list(tmp_path.iterdir()) == []


def refusal(*words: str, recordings: Path) -> str:
    """The one line of an export that does not begin."""
    done = subprocess.run(
        [sys.executable, "-m", "piper_collect.cli.main", "export", str(recordings), *words],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    return line
