"""What is ours of the export on a Ray cluster, with a stand-in for Ray that runs each task at once."""

import pickle
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from export_cases import files, run, small_bag

from piper_collect.cli.main import main
from piper_collect.config.profile import load_profile, with_dialect
from piper_collect.dataset.state import DatasetState
from piper_collect.errors import DatasetError
from piper_collect.pipelines import export as export_module
from piper_collect.pipelines.bag_episodes import ExportOptions
from piper_collect.pipelines.export import ExportSummary, export
from piper_collect.pipelines.export_run import ExportRun
from piper_collect.pipelines.prepare import BagJob
from piper_collect.pipelines.ray_prepare import AwayJob, Unfit, prepare_away
from piper_collect.pipelines.ray_workers import TRIES, RayWorkers

pytestmark = pytest.mark.usefixtures("no_sync")

LOST = ("WorkerCrashedError", "NodeDiedError", "LocalRayletDiedError", "OutOfMemoryError", "ObjectLostError")


class RayError(Exception):
    """As Ray has it: the base of the others."""


@dataclass
class StandIn:
    """Ray, as far as it is used here: tasks go over a wire, and the newest is ready first.

    Attributes:
        processors: Of each machine.
        lost: By bag, how often its worker is lost.
        most: Most tasks at the same time.
    """

    processors: tuple[int, ...] = (4, 3)
    lost: dict[str, int] = field(default_factory=dict)
    most: int = 0
    begun: list[str] = field(default_factory=list)
    options: dict[str, object] = field(default_factory=dict)
    exceptions: SimpleNamespace = field(
        default_factory=lambda: SimpleNamespace(
            RayError=RayError,
            RayTaskError=type("RayTaskError", (RayError,), {}),
            RaySystemError=type("RaySystemError", (RayError,), {}),
            **{name: type(name, (RayError,), {}) for name in LOST},
        )
    )

    def nodes(self) -> list[dict[str, object]]:
        gone = {"Alive": False, "Resources": {"CPU": 64.0}}
        return [*({"Alive": True, "Resources": {"CPU": float(n)}} for n in self.processors), gone]

    def remote(self, work: Callable[..., object]) -> SimpleNamespace:
        def begin(away: AwayJob, held: object) -> SimpleNamespace:
            self.begun.append(away.job.path.name)
            return SimpleNamespace(call=lambda: work(pickle.loads(pickle.dumps(away)), held), away=away)

        def with_options(**options: object) -> SimpleNamespace:
            self.options = options
            return SimpleNamespace(remote=_hashable(begin))

        return SimpleNamespace(options=with_options)

    def wait(
        self, tasks: list[object], num_returns: int, timeout: float
    ) -> tuple[list[object], list[object]]:
        self.most = max(self.most, len(tasks))
        return tasks[-num_returns:], tasks[:-num_returns]

    def get(self, task: "Task") -> object:
        name = task.of.away.job.path.name
        if self.lost.get(name, 0) > 0:
            self.lost[name] -= 1
            raise self.exceptions.WorkerCrashedError("it crashed")
        return pickle.loads(pickle.dumps(task.of.call()))


@dataclass(eq=False)
class Task:
    of: SimpleNamespace


def _hashable(begin: Callable[..., SimpleNamespace]) -> Callable[..., Task]:
    return lambda *args: Task(begin(*args))


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recordings")
    for number in range(5):
        small_bag(folder / f"episode_{number:06d}", number, cameras=("cam", "wrist"))
    return folder


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> StandIn:
    """In place of a cluster; its machines have a folder of temporary files below ``tmp_path``."""
    from contextlib import contextmanager

    made = StandIn()

    @contextmanager
    def on_ray(address: str, count: int | None) -> Iterator[RayWorkers]:
        yield RayWorkers(made, count)

    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    monkeypatch.setattr(export_module, "on_ray", on_ray)
    return made


def exported(recordings: Path, root: Path, workers: int | None = None, **options: object) -> ExportSummary:
    made_of = ExportOptions(profile=load_profile("train"), **options)
    return export([recordings], root, made_of, workers=workers, ray="stand-in")


def test_the_dataset_is_that_of_one_process_and_nothing_is_left(
    tmp_path: Path, recordings: Path, stand_in: StandIn
) -> None:
    summary = exported(recordings, tmp_path / "ds", save_raw_quest=True)
    assert summary.exit_code == 0
    run(recordings, tmp_path / "serial", save_raw_quest=True)
    assert files(tmp_path / "ds") == files(tmp_path / "serial")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["ds", "serial", "tmp"]
    assert list((tmp_path / "tmp").iterdir()) == []
    stand_in.begun.clear()
    again = exported(recordings, tmp_path / "ds")
    assert [b.status for b in again.bags] == ["held"] * 5
    assert exported(recordings, tmp_path / "ds", replace=True).count("replaced") == 5
    assert files(tmp_path / "ds") == files(tmp_path / "serial")


def test_in_lerobot_v3_too(tmp_path: Path, recordings: Path, stand_in: StandIn) -> None:
    v3 = with_dialect(load_profile("train"), "lerobot-v3.0")
    summary = export([recordings], tmp_path / "ds", ExportOptions(profile=v3), workers=None, ray="stand-in")
    assert summary.exit_code == 0
    run(recordings, tmp_path / "serial", v3)
    assert files(tmp_path / "ds") == files(tmp_path / "serial")


def test_as_many_bags_at_the_same_time_as_there_are_processors_for(
    tmp_path: Path, recordings: Path, stand_in: StandIn
) -> None:
    exported(recordings, tmp_path / "ds")
    assert stand_in.options["num_cpus"] == 2  # one a camera
    assert stand_in.most == 3  # two on the machine with four processors, one on that with three
    stand_in.most, stand_in.processors = 0, (1, 1)
    exported(recordings, tmp_path / "small_machines")
    assert (stand_in.options["num_cpus"], stand_in.most) == (1, 2)
    stand_in.most = 0
    exported(recordings, tmp_path / "asked", workers=1)
    assert stand_in.most == 1
    stand_in.processors = (0,)
    with pytest.raises(DatasetError, match="no machine of the cluster has a processor"):
        exported(recordings, tmp_path / "none")


def test_few_are_ahead_of_one_that_takes_long(
    tmp_path: Path, recordings: Path, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest ends first here, so that the first one's result is the last to come."""
    at_first: list[int] = []
    real = stand_in.get

    def get(task: Task) -> object:
        if task.of.away.job.path.name == "episode_000000":
            at_first.append(len(stand_in.begun))
        return real(task)

    monkeypatch.setattr(stand_in, "get", get)
    exported(recordings, tmp_path / "ds", workers=2)
    assert at_first == [4]


def test_a_bag_whose_worker_is_lost_is_begun_again_a_few_times(
    tmp_path: Path, recordings: Path, stand_in: StandIn
) -> None:
    stand_in.lost = {"episode_000001": TRIES - 1, "episode_000003": TRIES}
    summary = exported(recordings, tmp_path / "ds")
    assert [b.status for b in summary.bags] == ["exported"] * 3 + ["failed", "exported"]
    assert "begun anew 3 times, since the worker that prepared it was lost" in summary.bags[1].notes
    assert "begun 4 times" in summary.bags[3].reason
    assert "WorkerCrashedError: it crashed" in summary.bags[3].reason
    assert stand_in.begun.count("episode_000003") == TRIES
    assert summary.exit_code == 1


def test_a_cluster_that_fails_is_said_and_what_is_in_the_dataset_stays(
    tmp_path: Path, recordings: Path, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = stand_in.get

    def get(task: Task) -> object:
        if task.of.away.job.path.name == "episode_000003":
            raise stand_in.exceptions.RayError("no more")
        return real(task)

    monkeypatch.setattr(stand_in, "get", get)
    with pytest.raises(DatasetError, match="the cluster failed: no more"):
        exported(recordings, tmp_path / "ds", workers=1)
    monkeypatch.undo()
    run([recordings / f"episode_{k:06d}" for k in range(3)], tmp_path / "three")
    assert files(tmp_path / "ds") == files(tmp_path / "three")


def away(recordings: Path, tmp_path: Path) -> AwayJob:
    with ExitStack() as stack:
        job = ExportRun(tmp_path / "ds", ExportOptions(profile=load_profile("train")), stack)
        begun = job.begin(recordings / "episode_000000")
        assert isinstance(begun, BagJob)
        return AwayJob.of(begun)


def test_a_machine_that_cannot_do_the_work_says_so(
    tmp_path: Path, recordings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = away(recordings, tmp_path)
    host = socket.gethostname()
    missing = replace(there, job=replace(there.job, path=tmp_path / "not_here"))
    assert prepare_away(missing, {}) == Unfit(
        host=host,
        what=f"it does not see {tmp_path}/not_here",
        hint="every machine of the cluster must reach the recordings under the same path as this one",
    )
    other = replace(there, job=replace(there.job, path=recordings / "episode_000001"))
    assert prepare_away(other, {}).what == f"it has another recording at {recordings}/episode_000001"
    shorter = replace(there, size=there.size - 1)
    assert "another recording" in prepare_away(shorter, {}).what
    (tmp_path / "file").touch()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "file"))
    assert "a recording cannot be prepared there" in prepare_away(there, {}).what
    older = replace(there, version="0.0.1")
    assert prepare_away(older, {}).what.endswith("this one 0.0.1")


def test_such_a_machine_ends_the_export_and_what_is_in_the_dataset_stays(
    tmp_path: Path, recordings: Path, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    def elsewhere(there: AwayJob, held: object) -> object:
        if there.job.path.name == "episode_000002":
            return Unfit(host="far", what="it does not see it", hint="share it")
        return prepare_away(there, held)

    monkeypatch.setattr("piper_collect.pipelines.ray_workers.prepare_away", elsewhere)
    with pytest.raises(DatasetError, match="machine far of the cluster: it does not see it -> share it"):
        exported(recordings, tmp_path / "ds", workers=1)
    monkeypatch.undo()
    run([recordings / f"episode_{k:06d}" for k in range(2)], tmp_path / "two")
    assert files(tmp_path / "ds") == files(tmp_path / "two")


def test_a_dataset_says_what_it_holds_of_all_bags_at_once() -> None:
    lines = [
        {"episode_index": 0, "content_hash": "a", "part": 0, "parts": 2},
        {"episode_index": 1, "content_hash": "", "part": 0, "parts": 1},
        {"episode_index": 2, "content_hash": "b"},
        {"episode_index": 3, "content_hash": "a", "part": 1, "parts": 2},
    ]
    state = DatasetState(sources=tuple(lines))
    held = state.held_by_hash()
    assert held == {"a": state.held("a"), "b": state.held("b")}
    assert held["a"].indexes == (0, 3)


@pytest.mark.parametrize("address", ["somewhere", "host:", ":6379", "ray://host", "host:0", "host:99999"])
def test_what_is_not_an_address(
    address: str, tmp_path: Path, recordings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(recordings), "-o", str(tmp_path / "ds"), "--ray", address]) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert "Valid: auto, local, HOST:PORT, ray://HOST:PORT" in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_where_nobody_listens(
    scheme: str, tmp_path: Path, recordings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    address = f"{scheme}127.0.0.1:{port}"
    assert main(["export", str(recordings), "-o", str(tmp_path / "ds"), "--ray", address]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: --ray {address}: nobody listens there")
    assert list(tmp_path.iterdir()) == []


def test_without_ray(
    tmp_path: Path,
    recordings: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "grpc", ModuleType("grpc"))
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main(["export", str(recordings), "-o", str(tmp_path / "ds"), "--ray", "local"]) == 1
    assert (
        capsys.readouterr().err == "error: --ray: ray is not installed -> pip install 'piper_collect[ray]'\n"
    )
    assert list(tmp_path.iterdir()) == []
