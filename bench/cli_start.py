"""How long does the program take to say what it can do?

A person waits for ``--help``. Every verb's is measured, in new processes, in turns with a Python that does
nothing.
"""

import argparse
import subprocess
import sys
from statistics import median
from time import perf_counter
from typing import Any

GOAL_S = 0.3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the bench's arguments."""
    parser.add_argument("--repeats", type=int, default=15, metavar="N", help="calls; the median counts")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Call each help in turns."""
    from piper_collect.cli.main import VERBS

    program = [sys.executable, "-m", "piper_collect"]
    calls = {"python alone": [sys.executable, "-c", ""], "--help": [*program, "--help"]}
    calls |= {f"{verb} --help": [*program, verb, "--help"] for verb in VERBS}
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(args.repeats):
        for name, command in calls.items():
            start = perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            taken[name].append(perf_counter() - start)
    medians = {name: median(seconds) for name, seconds in taken.items()}
    slowest = max(medians, key=lambda name: medians[name])
    return {
        "settings": vars(args),
        "table": [
            {"call": name, "median ms": round(1e3 * medians[name]), "most ms": round(1e3 * max(taken[name]))}
            for name in calls
        ],
        "goals": {
            f"{slowest}: {medians[slowest]:.2f} s, at most {GOAL_S} s": medians[slowest] <= GOAL_S,
        },
    }
