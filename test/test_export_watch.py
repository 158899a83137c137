"""``export --watch``: each bag as soon as it is closed, one after the other, and the same dataset as ever."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from export_cases import files, run, small_bag, sources
from sample_bags import START

from piper_collect.bag.backends import choose_storage
from piper_collect.bag.claim import Claim, is_claimed
from piper_collect.bag.reader import open_bag
from piper_collect.bag.recording import EpisodeRecording
from piper_collect.bag.session_folder import SessionFolder
from piper_collect.cli.main import main
from piper_collect.config.profile import load_profile
from piper_collect.dataset.edit import delete_episodes
from piper_collect.dataset.guard import locked
from piper_collect.pipelines import watch as watching
from piper_collect.pipelines.bag_episodes import ExportOptions
from piper_collect.pipelines.export_outcome import BagOutcome
from piper_collect.pipelines.watch import Watch

pytestmark = pytest.mark.usefixtures("no_sync")

DEADLINE_S = 60.0
LOOK_S = 0.04
SESSION = "pick_20260101_120000"


def wait_for(what: str, holds: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline_s, what
        time.sleep(0.02)


class Watcher:
    """A watch in a thread, and what it said."""

    def __init__(self, folder: Path, root: Path, **options: object) -> None:
        self.outcomes: list[BagOutcome] = []
        self.lines: list[str] = []
        self.asked = False
        self._watch = Watch(
            [folder],
            root,
            ExportOptions(profile=load_profile("train"), **options),
            stopped=lambda: self.asked,
            on_outcome=self.outcomes.append,
            say=self.lines.append,
            look_s=LOOK_S,
            quiet_s=20 * LOOK_S,
        )
        self._thread = threading.Thread(target=self._watch.run)

    @contextmanager
    def running(self) -> Iterator["Watcher"]:
        self._thread.start()
        try:
            yield self
        finally:
            self.asked = True
            self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()

    def has(self, *said: tuple[str, str]) -> bool:
        return [(o.bag.name, o.status) for o in self.outcomes] == list(said)

    def says(self, text: str) -> bool:
        return any(text in line for line in self.lines)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Closed bags, to be moved to where they are looked for."""
    folder = tmp_path_factory.mktemp("made")
    for number in range(3):
        small_bag(folder / f"episode_{number:06d}", number)
    return folder


@pytest.fixture
def session(tmp_path: Path) -> Path:
    folder = tmp_path / "recordings" / SESSION
    (folder / ".recording").mkdir(parents=True)
    return folder


def finish(made: Path, session: Path, number: int) -> Path:
    """Close a recording as the recorder does: it appears whole."""
    name = f"episode_{number:06d}"
    shutil.copytree(made / name, session / ".recording" / name)
    return (session / ".recording" / name).rename(session / name)


def test_bags_are_exported_as_they_appear(tmp_path: Path, made: Path, session: Path) -> None:
    with Watcher(tmp_path / "recordings", tmp_path / "ds").running() as watcher:
        wait_for("it says that it waits", lambda: watcher.says("waiting for recordings below"))
        for number in range(3):
            recording = session / ".recording" / f"episode_{number + 7:06d}"
            shutil.copytree(made / f"episode_{number:06d}", recording)
            (recording / "episode.json").write_text("{}")
            claim = Claim.take(recording)
            assert claim is not None
            assert is_claimed(recording)
            finish(made, session, number)
            wait_for("it is exported", lambda n=number: len(watcher.outcomes) == n + 1)
            wait_for(
                "it waits", lambda r=recording: watcher.says(f"waiting for {r}, which is being recorded")
            )
            claim.release()
            wait_for("it is left out", lambda r=recording: watcher.says(f"never finished: {r}"))
    assert watcher.has(*((f"episode_{k:06d}", "exported") for k in range(3)))
    run(tmp_path / "recordings", tmp_path / "plain")
    assert files(tmp_path / "ds") == files(tmp_path / "plain")
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_a_bag_that_fails_stops_no_other_and_is_tried_again_when_it_changes(
    tmp_path: Path, made: Path, session: Path
) -> None:
    bad = finish(made, session, 0)
    storage = next(bad.glob("*.mcap"))
    whole = storage.read_bytes()
    storage.write_bytes(whole[: len(whole) // 2] + bytes(100) + whole[len(whole) // 2 + 100 :])
    with Watcher(tmp_path / "recordings", tmp_path / "ds").running() as watcher:
        finish(made, session, 1)
        wait_for("both were seen", lambda: len(watcher.outcomes) == 2)
        storage.write_bytes(whole)
        wait_for("it is exported", lambda: len(watcher.outcomes) == 3)
    assert watcher.has(
        ("episode_000000", "failed"), ("episode_000001", "exported"), ("episode_000000", "exported")
    )
    assert str(bad) in watcher.outcomes[0].reason


def test_a_bag_that_fails_again_is_told_once(
    tmp_path: Path, made: Path, session: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "_FIRST_WAIT_S", LOOK_S)
    tries: list[Path] = []
    real = watching.prepare
    monkeypatch.setattr(watching, "prepare", lambda job, *rest: tries.append(job.path) or real(job, *rest))
    bad = finish(made, session, 0)
    with Watcher(tmp_path / "recordings", tmp_path / "ds", task=" ").running() as watcher:
        wait_for("it is tried again", lambda: len(tries) == 3)
        shutil.rmtree(bad)
        count = len(tries)
    assert watcher.has(("episode_000000", "failed"))
    assert count == 3


def test_what_is_still_written_is_waited_for(tmp_path: Path, made: Path, session: Path) -> None:
    folder = tmp_path / "recordings/theirs"  # of a recorder that writes metadata.yaml last
    folder.mkdir()
    growing = folder / "theirs_0.mcap"
    content = next((made / "episode_000000").glob("*.mcap")).read_bytes()
    with Watcher(tmp_path / "recordings", tmp_path / "ds").running() as watcher:
        for part in range(1, 5):
            growing.write_bytes(content[: part * len(content) // 5])
            wait_for("it is waited for", lambda: watcher.says(f"waiting for {folder}, which may still"))
        growing.write_bytes(content)
        wait_for("it is exported", lambda: watcher.has(("theirs", "exported")))
    assert not watcher.has(("theirs", "failed"))  # it was never read half-written


def test_interrupted_recordings_are_told_once(tmp_path: Path, session: Path) -> None:
    small_bag(session / "episode_000000", outcome="interrupted")
    with Watcher(tmp_path / "recordings", tmp_path / "ds").running() as watcher:
        wait_for("it is skipped", lambda: watcher.outcomes)
        wait_for("it looks again", lambda: watcher.says("waiting for recordings below"))
    assert watcher.has(("episode_000000", "skipped"))
    with Watcher(tmp_path / "recordings", tmp_path / "ds", allow_incomplete=True).running() as watcher:
        wait_for("it is exported", lambda: watcher.has(("episode_000000", "exported")))


def test_others_may_change_the_dataset_meanwhile(tmp_path: Path, made: Path, session: Path) -> None:
    root = tmp_path / "ds"
    first = finish(made, session, 0)
    with Watcher(tmp_path / "recordings", root).running() as watcher:
        wait_for("it is exported", lambda: len(watcher.outcomes) == 1)
        finish(made, session, 1)
        wait_for("so is the next", lambda: len(watcher.outcomes) == 2)
        delete_episodes(root, [1])
        finish(made, session, 2)
        wait_for("and the one after", lambda: len(watcher.outcomes) == 3)
    assert {o.status for o in watcher.outcomes} == {"exported"}
    assert [s["bag"] for s in sources(root)] == [first.name, "episode_000002"]


def test_a_bag_that_is_deleted_while_it_is_read_does_not_come_in(
    tmp_path: Path, made: Path, session: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = finish(made, session, 0)
    real = watching.prepare

    def prepare(job, *rest):
        prepared = real(job, *rest)
        if job.path == first:
            shutil.rmtree(first)
        return prepared

    monkeypatch.setattr(watching, "prepare", prepare)
    with Watcher(tmp_path / "recordings", tmp_path / "ds").running() as watcher:
        wait_for("it is gone", lambda: not first.exists())
        finish(made, session, 1)
        wait_for("the next is exported", lambda: watcher.outcomes)
    assert watcher.has(("episode_000001", "exported"))
    assert [s["bag"] for s in sources(tmp_path / "ds")] == ["episode_000001"]


def test_another_process_that_writes_the_dataset_is_waited_for(
    tmp_path: Path, made: Path, session: Path
) -> None:
    root = tmp_path / "ds"
    root.mkdir()
    finish(made, session, 0)
    with Watcher(tmp_path / "recordings", root).running() as watcher:
        with locked(root):
            wait_for("it waits", lambda: watcher.says("another process is writing this dataset"))
            assert watcher.outcomes == []
        wait_for("it is exported", lambda: watcher.has(("episode_000000", "exported")))


def started(recordings: Path, root: Path, *more: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "piper_collect", "export", "--watch", str(recordings), "-o", str(root)]
    return subprocess.Popen(
        [*command, "--profile", "train", *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[1],
    )


def next_line(process: "subprocess.Popen[str]", beginning: str, *, is_error: bool = False) -> str:
    """The next line that begins so; where none comes, the process is killed."""
    guard = threading.Timer(DEADLINE_S, process.kill)
    guard.start()
    stream = process.stderr if is_error else process.stdout
    assert stream is not None
    try:
        for line in stream:
            if line.startswith(beginning):
                return line
    finally:
        guard.cancel()
    raise AssertionError(f"no line {beginning!r}")


def test_killed_resumed_and_stopped(tmp_path: Path, made: Path, session: Path) -> None:
    recordings, root = tmp_path / "recordings", tmp_path / "ds"
    finish(made, session, 0)
    process = started(recordings, root)
    try:
        assert f"{session / 'episode_000000'} as episode 0: " in next_line(process, "exported")
        assert os.getpriority(os.PRIO_PROCESS, process.pid) == 19
        finish(made, session, 1)
        wait_for("it is at work", lambda: any(tmp_path.glob(".ds.ahead-*")) or len(sources(root)) == 2)
    finally:
        process.kill()
        process.communicate()
    finish(made, session, 2)
    small_bag(session / "episode_000003", 2, cameras=("another",))
    process = started(recordings, root)
    try:
        assert next_line(process, "in the dataset already")
        assert "as episode 2: " in next_line(process, f"exported {session}/episode_000002")
        assert str(session / "episode_000003") in next_line(process, "error: ", is_error=True)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=DEADLINE_S)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 1
    assert "stopped: " in out
    assert out.rstrip().endswith("1 failed")
    run([session / f"episode_{k:06d}" for k in range(3)], tmp_path / "plain")
    assert files(root) == files(tmp_path / "plain")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ([], "--watch needs -o"),
        (["-o", "ds", "--replace"], "--replace"),
        (["-o", "ds", "--workers", "2"], "--wor"),
    ],
)
def test_options_that_make_no_sense(
    more: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "nice", lambda by: 0)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert main(["export", "--watch", "recordings", *more]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(("times", "code"), [(1, 0), (2, 130)])
def test_ctrl_c_ends_it_well_and_a_second_one_interrupts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], times: int, code: int
) -> None:
    def look(_watch: Watch) -> None:
        for _ in range(times):
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(os, "nice", lambda by: 0)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(Watch, "run", look)
    assert main(["export", "--watch", str(tmp_path), "-o", str(tmp_path / "ds")]) == code
    assert ("stopped: nothing new" in capsys.readouterr().out) is (code == 0)


def test_an_episode_of_the_recorder_is_exported_once_it_is_saved(tmp_path: Path) -> None:
    recorded = small_bag(tmp_path / "elsewhere/episode_000000")
    folder = SessionFolder(tmp_path / "recordings", SESSION)
    with open_bag(recorded) as bag, Watcher(tmp_path / "recordings", tmp_path / "ds").running() as watcher:
        wait_for("it waits for the folder", lambda: watcher.says("waiting for recordings below"))
        config = bag.custom_data["session_config"]
        folder.prepare(config, {"session": SESSION})
        recording = EpisodeRecording(
            folder,
            storage=choose_storage("mcap", "pip"),
            topics=bag.topics.values(),
            task="pick the cube",
            start_ns=START,
            session_yaml=config,
            session_record={"session": SESSION},
        )
        for message in bag.messages():
            recording.write(message.topic, message.payload, message.receive_ns)
        wait_for("it is being recorded", lambda: watcher.says("episode_000000, which is being recorded"))
        assert watcher.outcomes == []
        recording.finish(end_ns=bag.end_ns, outcome="success", incomplete_reasons=[], topics={})
        wait_for("it is exported", lambda: watcher.has(("episode_000000", "exported")))
    assert sources(tmp_path / "ds")[0]["session"] == SESSION
