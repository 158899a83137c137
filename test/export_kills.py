"""Exports that are killed at seeded moments. As a program: what became of them, as JSON.

A child exports; at a seeded one of its file operations, and a seeded moment after it, it kills itself with
SIGKILL, in the middle of whatever it is doing then. The next one goes on where it stopped.
"""

import json
import os
import random
import shutil
import signal
import sys
import threading
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path

from crash_cases import failing
from export_cases import files, run, small_bag
from recover_cases import killed_at

from piper_collect.bag.session_folder import SessionFolder
from piper_collect.cli.main import main
from piper_collect.dataset.layout import STAGING
from piper_collect.dataset.transaction import recover
from piper_collect.pipelines.delete_last import delete_last

BAGS = 5
MOST_STEPS = 120
"""Of the file operations of one run, about two episodes."""

MOST_DELAY_S = 0.02
LINES = (
    "meta/episodes.jsonl",
    "meta/tasks.jsonl",
    "meta/episode_sources.jsonl",
    "meta/episodes_stats.jsonl",
    "meta/collection_sessions.jsonl",
)


@dataclass(slots=True)
class Tally:
    """What became of the exports.

    Attributes:
        killed: Exports that were killed before their end.
        in_a_save: Of those, how many in the middle of a save.
        finished: Exports that came to their end, each compared with an undisturbed one.
    """

    killed: int = 0
    in_a_save: int = 0
    finished: int = 0


def export_in_a_child(bags: Path, root: Path, workers: int, at: int, delay_s: float) -> tuple[int, str]:
    """Run the program in a process of its own; its exit code (negative for a signal) and what it said."""
    log = root.with_name("said.txt")
    child = os.fork()
    if child:
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return code, log.read_text(encoding="utf-8")

    def kill() -> None:
        threading.Timer(delay_s, os.kill, (os.getpid(), signal.SIGKILL)).start()

    with log.open("w", encoding="utf-8") as out, redirect_stdout(out), redirect_stderr(out):
        with failing(at, kill):
            words = ["export", str(bags), "-o", str(root), "--profile", "train", "--workers", str(workers)]
            code = main([*words, "--json"])
        out.flush()
        os._exit(code)
    return 0, ""


def check_last_good_state(root: Path, whole: dict[str, str], whole_root: Path) -> bool:
    """Repair a copy, in which is then a beginning of the undisturbed dataset; whether it was in a save."""
    if not root.exists() or not any(root.iterdir()):
        return False
    copy = shutil.copytree(root, root.with_name("copy"))
    torn = (copy / STAGING).exists()
    note = recover(copy)
    if torn != (note is not None and "interrupted save" in note):
        raise SystemExit(f"not said: {note}")
    for name, digest in files(copy).items():
        if name.startswith(("data/", "videos/")) and whole.get(name) != digest:
            raise SystemExit(f"{name} is not as it is to be")
        if name in LINES and not (whole_root / name).read_bytes().startswith((copy / name).read_bytes()):
            raise SystemExit(f"{name} is no beginning of what it is to be")
    shutil.rmtree(copy)
    return torn


def kill_exports(folder: Path, kills: int, workers: int, seed: int) -> Tally:
    """Kill so many exports; each that comes to its end must have made the same dataset, byte by byte."""
    bags = folder / "bags"
    for number in range(BAGS):
        small_bag(bags / f"episode_{number:06d}", number)
    run(bags, folder / "whole", "train")
    whole = files(folder / "whole")
    chance = random.Random(f"{seed} {workers}")
    tally, root, torn = Tally(), folder / "root" / "ds", False
    root.parent.mkdir()
    while tally.killed < kills or root.exists():
        last = tally.killed >= kills
        at = 0 if last else chance.randrange(1, MOST_STEPS)
        code, said = export_in_a_child(bags, root, workers, at, chance.uniform(0.0, MOST_DELAY_S))
        if code == -signal.SIGKILL:
            tally.killed += 1
            torn = check_last_good_state(root, whole, folder / "whole")
            tally.in_a_save += torn
            continue
        if code != 0 or files(root) != whole or set(os.listdir(root.parent)) != {"ds", "said.txt"}:
            raise SystemExit(f"exit code {code}, {os.listdir(root.parent)}:\n{said}")
        if torn and "interrupted save" not in said:
            raise SystemExit(f"the next run does not say what it found:\n{said}")
        tally.finished += 1
        torn = False
        shutil.rmtree(root)
    return tally


NAME = "pick_20260101_120000"


def kill_deletions(folder: Path) -> int:
    """How many kills a "delete last" survives, one at each of its file operations.

    Bag and dataset both have the episode then, or the bag alone, or neither; the next call goes on.
    """
    made, root = folder / "made", folder / "root"
    bags = [
        small_bag(made / "recordings" / NAME / f"episode_{number:06d}", number, session=NAME)
        for number in range(2)
    ]
    (made / "recordings" / NAME / ".recording").mkdir()
    run(bags, made / "ds", "train")
    run(bags[:1], folder / "one", "train")
    one = files(folder / "one")
    for step in count(1):
        shutil.copytree(made, root)
        session = SessionFolder(root / "recordings", NAME)
        if not killed_at(step, partial(delete_last, session, root / "ds")):
            return step - 1
        if session.episodes() == [0, 1]:
            delete_last(session, root / "ds")
        if session.episodes() != [0] or repaired(root / "ds") != one:
            raise SystemExit(f"step {step}: {session.episodes()} {sorted(files(root))}")
        shutil.rmtree(root)
    raise AssertionError


def repaired(root: Path) -> dict[str, str]:
    recover(root)
    return files(root)


if __name__ == "__main__":
    os.fsync = lambda descriptor: None
    match sys.argv[1:]:
        case "exports", where, kills, workers, seed:
            found = kill_exports(Path(where), int(kills), int(workers), int(seed))
            print(json.dumps([found.killed, found.in_a_save, found.finished]))
        case "deletions", where:
            print(kill_deletions(Path(where)))
