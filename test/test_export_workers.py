"""Export with several processes: the same dataset, and nothing left when one of them, or all, are stopped."""

import errno
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from export_cases import bag, every, files, frame_messages, run, session, small_bag, sources, varied_bags
from sample_bags import START, arm_messages

from piper_collect.config.profile import load_profile
from piper_collect.dataset.guard import locked
from piper_collect.errors import DatasetError
from piper_collect.pipelines.ahead import ahead_folder, default_workers
from piper_collect.pipelines.bag_episodes import ExportOptions
from piper_collect.pipelines.export import export
from piper_collect.pipelines.workers import Lost, started

pytestmark = pytest.mark.usefixtures("no_sync")

DEADLINE_S = 180.0
REPOSITORY = Path(__file__).parents[1]


def exported(paths: list[Path], root: Path, workers: int, **options: object) -> list[tuple[object, ...]]:
    """What became of each bag."""
    made_of = ExportOptions(profile=load_profile("train"), save_raw_quest=True, split_s=0.1, **options)
    summary = export(paths, root, made_of, workers=workers)
    return [(b.status, b.reason, b.notes, b.warning, b.episodes, b.rows) for b in summary.bags]


def hidden(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if p.name.startswith("."))


def test_the_dataset_is_the_same_for_any_number_of_workers(tmp_path: Path) -> None:
    bags = varied_bags(tmp_path / "bags", 4, sessions=2)  # one of them was interrupted
    shutil.copytree(bags[0], tmp_path / "bags/copy")
    at = START + 7 * 10**10
    messages = [*arm_messages(30, start=at), *frame_messages("cam", every(50, 1, 100), start=at)]
    bags += [
        tmp_path / "bags/copy",
        bag(tmp_path / "bags/other_rate", messages, session(fps=20.0), end_ms=150, start=at),
        small_bag(tmp_path / "bags/lacks_a_camera", 8, cameras=("cam",)),
        small_bag(tmp_path / "bags/last", 9, cameras=("cam", "wrist")),
    ]
    one, three = (tmp_path / name / "ds" for name in ("one", "three"))
    said = exported(bags, one, 1)
    assert exported(bags, three, 3) == said
    assert files(three) == files(one)
    assert sorted(status for status, *_ in said) == [*["exported"] * 4, *["failed"] * 2, "held", "skipped"]
    assert max(s["parts"] for s in sources(one)) > 1
    again = exported(bags, three, 2)
    assert sorted(status for status, *_ in again) == [*["failed"] * 2, *["held"] * 5, "skipped"]
    replaced = exported([bags[1], bags[-1]], three, 2, replace=True)
    assert [status for status, *_ in replaced] == ["replaced"] * 2
    assert files(three) == files(one)
    assert hidden(three.parent) == []


def test_where_nothing_can_be_written_beside_the_dataset(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DatasetError, match="--workers 1"), ahead_folder(tmp_path / "file" / "ds"):
        pass


@pytest.mark.parametrize("how", ["removed", "held"])
def test_a_folder_that_another_export_takes_for_left_is_made_anew(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = tempfile.mkdtemp
    made: list[Path] = []
    with ExitStack() as other:

        def mkdtemp(**more: str) -> str:
            made.append(Path(real(**more)))
            if len(made) == 1 and how == "removed":
                made[0].rmdir()
            elif len(made) == 1:
                other.enter_context(locked(made[0]))
            return str(made[-1])

        monkeypatch.setattr(tempfile, "mkdtemp", mkdtemp)
        with ahead_folder(tmp_path / "ds") as folder:
            assert folder == made[1]
            assert folder.is_dir()
    assert hidden(tmp_path) == []


def test_a_folder_that_cannot_be_locked_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(DatasetError, match="cannot be locked"), ahead_folder(tmp_path / "ds"):
        pass
    assert hidden(tmp_path) == []


def echo(job: object, tell: object, ask: object) -> object:
    """Work for the pool: what the job says."""
    match job:
        case ("square", number):
            tell(number)
            return ask(number) ** 2
        case ("sleep", seconds):
            time.sleep(seconds)
            return seconds
        case "fail":
            raise ValueError("as asked")
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


def test_results_come_in_order_and_few_are_ahead() -> None:
    taken: list[int] = []
    told: list[tuple[int, int]] = []

    def jobs() -> Iterator[tuple[str, int]]:
        for number in range(12):
            taken.append(number)
            yield "square", number

    with started(echo, 2) as workers:
        results = []
        done = workers.in_order(jobs(), told=lambda n, v: told.append((n, v)), answer=lambda v: v + 1)
        for number, (job, result) in enumerate(done):
            assert len(taken) <= number + 4
            results.append((job[1], result))
    assert results == [(n, (n + 1) ** 2) for n in range(12)]
    assert sorted(told) == [(n, n) for n in range(12)]


def test_a_process_that_dies_loses_its_job_only_and_an_error_is_raised_here() -> None:
    with started(echo, 1) as workers:
        results = [r for _, r in workers.in_order(iter([("sleep", 0.0), "die", ("sleep", 0.0)]))]
        assert results == [0.0, Lost(exit_code=-signal.SIGKILL), 0.0]
        with pytest.raises(ValueError, match="as asked"):
            list(workers.in_order(iter(["fail"])))


def test_ctrl_c_is_not_missed_by_a_wait_that_it_did_not_interrupt() -> None:
    """As when it comes in the moment before the wait: another thread takes it, and Python notes it."""

    def interrupt() -> None:
        time.sleep(0.5)
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    def work() -> None:
        with started(echo, 1) as workers:
            thread.start()
            list(workers.in_order(iter([("sleep", length_s)])))

    thread, length_s, begin_s = threading.Thread(target=interrupt), 100.0, time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        work()
    assert time.monotonic() - begin_s < length_s
    thread.join()


EXPORT = """
import os, signal, sys, time
sys.path.insert(0, "")
from piper_collect.cli.main import main
from piper_collect.pipelines import prepare

if __name__ == "__mp_main__":
    real = prepare.content_hash

    def content_hash(path, kind):
        if path.name == "episode_000003":
            {act}
        return real(path, kind)

    prepare.content_hash = content_hash
if __name__ == "__main__":
    sys.exit(main(["export", {bags!r}, "-o", {root!r}, "--workers", "2", "--profile", "train", "--quiet"]))
"""
"""The program, with a worker that acts in its own way on one of the recordings."""


def started_export(tmp_path: Path, recordings: Path, act: str) -> subprocess.Popen[bytes]:
    script = tmp_path / "run.py"
    script.write_text(EXPORT.format(act=act, bags=str(recordings), root=str(tmp_path / "ds")))
    return subprocess.Popen([sys.executable, str(script)], cwd=REPOSITORY, stderr=subprocess.PIPE)


def children(pid: int) -> list[int]:
    """The processes below one, workers and helpers of multiprocessing alike."""
    found = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in found.read_text().split()] if found.exists() else []


def wait_for(what: str, holds: object) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline_s, what
        time.sleep(0.02)


def is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recordings")
    for number in range(6):
        small_bag(folder / f"episode_{number:06d}", number)
    return folder


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="/proc tells which processes there are")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_stopped_or_killed_it_leaves_whole_episodes_and_no_process(
    tmp_path: Path, recordings: Path, number: int
) -> None:
    root = tmp_path / "ds"
    process = started_export(tmp_path, recordings, "time.sleep(3600)")
    try:
        wait_for("three are not exported", lambda: len(exported_bags(root)) == 3)
        below = children(process.pid)
        assert len(below) >= 2
        for pid in below if number == signal.SIGINT else ():  # as a terminal sends it
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        process.send_signal(number)
        process.communicate(timeout=DEADLINE_S)
        assert process.returncode == (130 if number == signal.SIGINT else -signal.SIGKILL)
    finally:
        process.kill()
        process.communicate()
    wait_for("a process is left", lambda: not any(map(is_there, below)))
    assert (hidden(tmp_path) == []) == (number == signal.SIGINT)
    run(recordings, root, "train")
    run(recordings, tmp_path / "whole", "train")
    assert files(root) == files(tmp_path / "whole")
    with ahead_folder(root):
        assert len(hidden(tmp_path)) == 1
    assert hidden(tmp_path) == []


def test_a_worker_that_is_killed_loses_its_recording_only(tmp_path: Path, recordings: Path) -> None:
    process = started_export(tmp_path, recordings, "os.kill(os.getpid(), signal.SIGKILL)")
    try:
        said = process.communicate(timeout=DEADLINE_S)[1].decode()
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 1, said
    assert "episode_000003: the process that read the bag was ended (exit code -9)" in said
    assert exported_bags(tmp_path / "ds") == [f"episode_{k:06d}" for k in (0, 1, 2, 4, 5)]
    assert hidden(tmp_path) == []
    run(recordings, tmp_path / "ds", "train")
    assert exported_bags(tmp_path / "ds")[-1] == "episode_000003"


def exported_bags(root: Path) -> list[object]:
    """Names of the bags in the dataset; an export may be at work on it."""
    path = root / "meta/episode_sources.jsonl"
    return [s["bag"] for s in sources(root)] if path.exists() else []


def test_as_many_workers_as_there_are_cores_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(16)), raising=False)
    assert default_workers(100, 3, 10**12) == 5
    assert default_workers(2, 3, 10**12) == 2
    assert default_workers(100, 40, 10**12) == 1
    assert default_workers(100, 0, 10**12) == 16
    assert default_workers(100, 3, 120_000_000) == 2
    assert default_workers(100, 3, 1_000) == 1
