"""A save that fails or is killed at any step leaves the old state or the new one, never a third."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from dataset_cases import SIZE, add, episode, open_writer, tree

from piper_collect.core.types import Episode
from piper_collect.dataset.writer import DatasetWriter, SavedEpisode
from piper_collect.errors import DatasetError

STEPS = ("replace", "fsync", "mkdir", "unlink", "rmdir")
ONE_CAMERA = {"cam_front": SIZE}
REPOSITORY = Path(__file__).parents[1]


def no_sync(descriptor: int) -> None:
    """Instead of os.fsync: it is slow, and no test here cuts the power."""


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", no_sync)


def begin(root: Path) -> DatasetWriter:
    return open_writer(root, cameras=ONE_CAMERA)


def small(name: str, task: str, start: float) -> Episode:
    return episode(name, task=task, start=start, cameras=tuple(ONE_CAMERA), frames_ms=(0, 40))


@contextmanager
def failing(at: int, fail: Callable[[], None], *, for_good: bool = False) -> Iterator[list[int]]:
    """Make the ``at``-th of the file operations in STEPS (and all later ones) call ``fail`` instead."""
    calls = [0]
    real = {name: getattr(os, name) for name in STEPS}

    def counted(name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            calls[0] += 1
            if calls[0] == at or (for_good and calls[0] > at):
                fail()
            return real[name](*args, **kwargs)

        return call

    for name in STEPS:
        setattr(os, name, counted(name))
    try:
        yield calls
    finally:
        for name in STEPS:
            setattr(os, name, real[name])


def disk_error() -> None:
    raise OSError(28, "No space left on device")


def second(writer: DatasetWriter) -> SavedEpisode:
    """The save under test: a new task, a new session."""
    return add(writer, small("later/episode_000000", "place the cube", 9.0), "b1", "later")


def prepare(root: Path, existing: bool) -> None:
    first = root.parent / "first"
    if existing and not first.exists():
        add(begin(first), small("pick/episode_000000", "pick the cube", 0.0))
    if existing:
        shutil.copytree(first, root)


def states(folder: Path, existing: bool) -> tuple[dict[str, Any], dict[str, Any], int]:
    """The tree before the save, the tree after it, and how many file operations it takes."""
    root = folder / "reference"
    prepare(root, existing)
    old = tree(root)
    writer = begin(root)
    with failing(0, disk_error) as calls:
        second(writer)
    return old, tree(root), calls[0]


@pytest.mark.parametrize("existing", [True, False], ids=["existing", "new"])
def test_one_error_at_every_step(tmp_path: Path, existing: bool) -> None:
    old, new, steps = states(tmp_path, existing)
    assert steps > 30
    outcomes = []
    for at in range(1, steps + 1):
        root = tmp_path / f"at{at}"
        prepare(root, existing)
        writer = begin(root)
        try:
            with failing(at, disk_error):
                second(writer)
        except OSError:
            assert tree(root) == old, at
            assert root.exists() == existing
            outcomes.append("old")
            second(writer)
        else:
            outcomes.append("new")
        assert tree(root) == new, at
        shutil.rmtree(root)
    assert set(outcomes) == {"old", "new"}


@pytest.mark.parametrize("existing", [True, False], ids=["existing", "new"])
def test_a_disk_that_fails_for_good(tmp_path: Path, existing: bool) -> None:
    old, new, steps = states(tmp_path, existing)
    outcomes = set()
    for at in range(1, steps + 1):
        root = tmp_path / f"at{at}"
        prepare(root, existing)
        writer = begin(root)
        with failing(at, disk_error, for_good=True), suppress(OSError, DatasetError):
            second(writer)
        again = begin(root)
        assert tree(root) in (old, new), at
        outcomes.add("old" if tree(root) == old else "new")
        if tree(root) == old:
            second(again)
        assert tree(root) == new, at
        shutil.rmtree(root)
    assert outcomes == {"old", "new"}


def test_a_repair_that_is_interrupted_too(tmp_path: Path) -> None:
    old, new, steps = states(tmp_path, True)
    repairs, seen = 0, set()
    for at in range(1, steps + 1, 6):
        dirty = tmp_path / f"dirty{at}"
        prepare(dirty, True)
        writer = begin(dirty)
        with failing(at, disk_error, for_good=True), suppress(OSError, DatasetError):
            second(writer)
        with failing(0, disk_error) as calls:
            begin(Path(shutil.copytree(dirty, tmp_path / "counted")))
        whole = tree(tmp_path / "counted")
        shutil.rmtree(tmp_path / "counted")
        for stop in range(1, calls[0] + 1):
            root = Path(shutil.copytree(dirty, tmp_path / "twice"))
            with failing(stop, disk_error, for_good=True), suppress(OSError, DatasetError):
                begin(root)
            begin(root)
            assert tree(root) == whole, (at, stop)
            shutil.rmtree(root)
            repairs += 1
        assert whole in (old, new)
        seen.add("old" if whole == old else "new")
    assert repairs > 20
    assert seen == {"old", "new"}


def test_an_interrupt_after_the_commit_completes_the_save(tmp_path: Path) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    old, new, steps = states(tmp_path, True)
    ends = []
    for at in range(1, steps + 1):
        root = tmp_path / f"at{at}"
        prepare(root, True)
        writer = begin(root)
        with failing(at, interrupt), pytest.raises(KeyboardInterrupt):
            second(writer)
        assert tree(root) in (old, new), at
        assert writer.episodes == begin(root).episodes == (1 if tree(root) == old else 2)
        ends.append(writer.episodes)
        shutil.rmtree(root)
    assert ends == sorted(ends)
    assert set(ends) == {1, 2}


@pytest.mark.parametrize("existing", [True, False], ids=["existing", "new"])
def test_killed_at_every_step(tmp_path: Path, existing: bool) -> None:
    run = subprocess.run(
        [sys.executable, __file__, str(tmp_path), "existing" if existing else "new"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    ends = json.loads(run.stdout)
    assert len(ends) > 30
    assert ends == sorted(ends, reverse=True)
    assert set(ends) == {"old", "new"}


def kill_at_every_step(folder: Path, existing: bool) -> list[str]:
    old, new, steps = states(folder, existing)
    ends = []
    for at in range(1, steps + 1):
        root = folder / f"at{at}"
        prepare(root, existing)
        child = os.fork()
        if child == 0:
            with failing(at, lambda: os._exit(9)):
                second(begin(root))
            os._exit(0)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 9:
            raise SystemExit(f"step {at} was not reached")
        dirty = tree(root) not in (old, new)
        writer = begin(root)
        found = tree(root)
        if found not in (old, new):
            raise SystemExit(f"step {at} left a third state: {sorted(found)}")
        if dirty and not writer.notes:
            raise SystemExit(f"step {at}: the repair was not said")
        ends.append("new" if found == new else "old")
        if found == old:
            second(writer)
        if tree(root) != new:
            raise SystemExit(f"step {at}: saving again gives another dataset")
        shutil.rmtree(root)
    return ends


if __name__ == "__main__":
    os.fsync = no_sync
    print(json.dumps(kill_at_every_step(Path(sys.argv[1]), sys.argv[2] == "existing")))
