"""Does it take longer to append an episode to a long dataset than to a short one?

Both datasets are real: the short one is written episode by episode; the long one is made from it by the
same rewriting that serves edits, its episodes being those of the short one again and again. Appends to
the two alternate, so that whatever else the machine does strikes both.
"""

import argparse
import shutil
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

from bench.episodes import append_episode, made_episode, open_writer
from piper_collect.config.profile import Profile, load_profile
from piper_collect.dataset.guard import locked
from piper_collect.dataset.reader import open_dataset
from piper_collect.dataset.rewrite import Kept, Rewrite
from piper_collect.dataset.transaction import Transaction

GOAL = 1.3

_Taken = tuple[float, float]
"""Seconds by the clock, and of the processor."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the bench's arguments."""
    parser.add_argument("--profile", nargs="+", default=["piper", "train"], metavar="NAME")
    parser.add_argument("--short", type=int, default=20, metavar="N", help="episodes of the one dataset")
    parser.add_argument("--long", type=int, default=2000, metavar="N", help="episodes of the other")
    parser.add_argument("--rows", type=int, default=300, metavar="N", help="rows an episode")
    parser.add_argument("--repeats", type=int, default=15, metavar="N", help="pairs of appends to each")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Measure each profile."""
    table = [row for name in args.profile for row in measure(load_profile(name), args)]
    ratios = {row["profile"]: row["long/short"] for row in table if row["step"] == "append"}
    return {
        "settings": vars(args),
        "table": table,
        "goals": {
            f"{profile}: append to {args.long} episodes against {args.short}: {ratio:.2f}, at most {GOAL}": (
                ratio <= GOAL
            )
            for profile, ratio in ratios.items()
        },
    }


def measure(profile: Profile, args: argparse.Namespace) -> list[dict[str, Any]]:
    """Build both datasets, append to them in turn, and give a line a step."""
    with TemporaryDirectory(prefix="bench_append_") as folder:
        short, long = Path(folder) / "short", Path(folder) / "long"
        writer = open_writer(short, profile)
        for seed in range(args.short):
            append_episode(writer, made_episode(seed, profile, rows=args.rows))
        shutil.copytree(short, long)
        repeat_episodes(long, args.long)
        taken: dict[Path, dict[str, list[_Taken]]] = {short: {}, long: {}}
        for repeat in range(args.repeats):
            for root, steps in taken.items():
                for step, seconds in append_two(root, profile, args.short + 2 * repeat, args.rows):
                    steps.setdefault(step, []).append(seconds)
    return [line(profile.name, step, taken[short][step], taken[long][step]) for step in taken[short]]


def repeat_episodes(root: Path, episodes: int) -> None:
    """Make the dataset at ``root`` one of ``episodes`` episodes: its own, again and again."""
    with locked(root):
        dataset = open_dataset(root)
        change = Transaction(root)
        change.begin()
        order = [Kept(index=i % len(dataset.episodes)) for i in range(episodes)]
        Rewrite(change, dataset, order).stage()
        change.commit()


def append_two(root: Path, profile: Profile, seed: int, rows: int) -> Iterator[tuple[str, _Taken]]:
    """Open the dataset, append an episode and then another; what each step took."""
    first, second = (made_episode(seed + i, profile, rows=rows) for i in range(2))
    start = now()
    writer = open_writer(root, profile)
    opened = now()
    append_episode(writer, first)
    once = now()
    append_episode(writer, second)
    twice = now()
    yield "open", since(start, opened)
    yield "open and append", since(start, once)
    yield "append", since(once, twice)


def now() -> _Taken:
    """The clock, and the processor time of all threads of this process."""
    return perf_counter(), process_time()


def since(start: _Taken, end: _Taken) -> _Taken:
    """What lies between."""
    return end[0] - start[0], end[1] - start[1]


def line(profile: str, step: str, short: list[_Taken], long: list[_Taken]) -> dict[str, Any]:
    """Medians of a step, and how many times as long it takes in the long dataset."""
    wall = [median(t[0] for t in taken) for taken in (short, long)]
    cpu = [median(t[1] for t in taken) for taken in (short, long)]
    return {
        "profile": profile,
        "step": step,
        "short ms": round(1e3 * wall[0], 1),
        "long ms": round(1e3 * wall[1], 1),
        "long/short": round(wall[1] / wall[0], 3),
        "by cpu": round(cpu[1] / cpu[0], 3),
    }
