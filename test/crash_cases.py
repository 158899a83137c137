"""Changes of a dataset that stop at any file operation; as a program, it kills each at every one of them."""

import importlib.util
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dataset_cases import SIZE, episode, open_writer, profile, tree

from piper_collect.config.profile import Profile, load_profile, with_dialect
from piper_collect.core.types import Episode
from piper_collect.dataset.edit import delete_episodes
from piper_collect.dataset.stage import EpisodeExtras, EpisodeIdentity
from piper_collect.dataset.writer import DatasetWriter

STEPS = ("replace", "fsync", "mkdir", "unlink", "rmdir", "link")
CAMERA = "cam_front"
PIPER = replace(profile(), chunks_size=2)
TRAIN = replace(load_profile("train"), chunks_size=2)
V3 = with_dialect(replace(load_profile("train"), row_samples="none"), "lerobot-v3.0")
CASES = with_dialect(replace(load_profile("train"), row_samples="extras"), "hdf5-cases")


def no_sync(descriptor: int) -> None:
    """Instead of os.fsync: it is slow, and no test here cuts the power."""


def small(number: int, rows: int = 2) -> Episode:
    """An episode with a task of its own, good for both profiles."""
    ticks_ms = [k * 100 / 3 for k in range(rows)]
    return episode(
        f"pick/episode_{number:06d}",
        task=f"task {number}",
        start=float(number),
        ticks_ms=ticks_ms,
        frames_ms=(0, 30),
        cameras=(CAMERA,),
    )


def begin(root: Path, made_of: Profile = PIPER) -> DatasetWriter:
    return open_writer(root, profile=made_of, cameras={CAMERA: SIZE})


def headset(path: Path) -> int:
    path.write_text('{"sequence": 1}\n')
    return 1


def save(writer: DatasetWriter, number: int, *, rows: int = 2, instead_of: int | None = None) -> None:
    """Save an episode of a session, a calibration and a headset of its own."""
    known: dict[str, Any] = {
        "identity": EpisodeIdentity(session=f"s{number}", bag=f"b{number}", content_hash=f"hash {number}"),
        "session_record": {"session": f"s{number}", "arm": {"firmware": None}},
        "extras": EpisodeExtras(quest=headset, cameras={CAMERA: {"k": [number]}}),
    }
    if instead_of is None:
        writer.add_episode(small(number, rows), **known)
    else:
        writer.replace_episode(instead_of, small(number, rows), **known)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of a dataset.

    Attributes:
        episodes: How many the dataset has before.
        apply: Makes the change.
        reopen: Repairs what was left, and tells what was done.
        made_of: Profile of the dataset.
    """

    episodes: int
    apply: Callable[[Path], object]
    reopen: Callable[[Path], Sequence[str]]
    made_of: Profile = PIPER

    def prepare(self, root: Path) -> None:
        """The dataset before the change, copied from one that is made once."""
        first = root.parent / "first"
        if not self.episodes:
            return
        if not first.exists():
            writer = begin(first, self.made_of)
            for number in range(self.episodes):
                save(writer, number)
            for name in ("relative_stats.json", "delta_stats.json"):
                (first / "meta" / name).write_text("{}\n")
        shutil.copytree(first, root)

    def states(self, folder: Path) -> tuple[dict[str, Any], dict[str, Any], int]:
        """The tree before the change, the tree after it, and how many file operations it takes."""
        root = folder / "reference"
        self.prepare(root)
        old = tree(root)
        with failing(0, disk_error) as calls:
            self.apply(root)
        return old, tree(root), calls[0]


def by_writer(made_of: Profile) -> Callable[[Path], Sequence[str]]:
    return lambda root: begin(root, made_of).notes


CHANGES = {
    "first": Change(episodes=0, apply=lambda root: save(begin(root), 1), reopen=by_writer(PIPER)),
    "append": Change(episodes=1, apply=lambda root: save(begin(root), 1), reopen=by_writer(PIPER)),
    "append train": Change(
        episodes=1,
        apply=lambda root: save(begin(root, TRAIN), 1),
        reopen=by_writer(TRAIN),
        made_of=TRAIN,
    ),
    "append v3.0": Change(
        episodes=1,
        apply=lambda root: save(begin(root, V3), 1),
        reopen=by_writer(V3),
        made_of=V3,
    ),
    "replace v3.0": Change(
        episodes=2,
        apply=lambda root: save(begin(root, V3), 9, rows=3, instead_of=0),
        reopen=by_writer(V3),
        made_of=V3,
    ),
    "delete": Change(
        episodes=3,
        apply=lambda root: delete_episodes(root, [1]),
        reopen=lambda root: delete_episodes(root, []).notes,
        made_of=with_dialect(TRAIN, "lerobot-v2.0"),
    ),
    "replace": Change(
        episodes=2, apply=lambda root: save(begin(root), 9, rows=3, instead_of=0), reopen=by_writer(PIPER)
    ),
}
if importlib.util.find_spec("h5py") is not None:
    CHANGES |= {
        "append HDF5": Change(
            episodes=1,
            apply=lambda root: save(begin(root, CASES), 1),
            reopen=by_writer(CASES),
            made_of=CASES,
        ),
        "replace HDF5": Change(
            episodes=2,
            apply=lambda root: save(begin(root, CASES), 9, rows=3, instead_of=0),
            reopen=by_writer(CASES),
            made_of=CASES,
        ),
        "delete HDF5": Change(
            episodes=3,
            apply=lambda root: delete_episodes(root, [1]),
            reopen=lambda root: delete_episodes(root, []).notes,
            made_of=CASES,
        ),
    }


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


def killed(change: Change, root: Path, at: int) -> None:
    """Make the change in a process that dies at this file operation."""
    child = os.fork()
    if child == 0:
        with failing(at, lambda: os._exit(9)):
            change.apply(root)
        os._exit(0)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 9:
        raise SystemExit(f"step {at} was not reached")


def kill_at_every_step(change: Change, folder: Path) -> list[str]:
    """What each step's kill ended in: ``old`` or ``new``."""
    folder.mkdir()
    old, new, steps = change.states(folder)
    ends = []
    for at in range(1, steps + 1):
        root = folder / f"at{at}"
        change.prepare(root)
        killed(change, root, at)
        dirty = tree(root) not in (old, new)
        notes = change.reopen(root) if root.exists() else ()
        found = tree(root)
        if found not in (old, new):
            raise SystemExit(f"step {at} left a third state: {sorted(found)}")
        if dirty and not any("interrupted save" in note for note in notes):
            raise SystemExit(f"step {at}: the repair was not said")
        ends.append("new" if found == new else "old")
        shutil.rmtree(root, ignore_errors=True)
    return ends


if __name__ == "__main__":
    os.fsync = no_sync
    ends = {name: kill_at_every_step(CHANGES[name], Path(sys.argv[1]) / name) for name in sys.argv[2:]}
    print(json.dumps(ends))
