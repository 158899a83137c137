"""What an export costs with more workers, longer episodes, and more of them.

Workers: recordings of one camera, so that a worker is one encoder thread. Lengths: recordings of three
cameras; peak memory is that of the process, or of the one worker that held most. Episodes: tiny recordings,
ten times as many each time, where what is not encoding would show if it grew.
"""

import argparse
import shutil
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from bench._machine import cpu_s, in_a_process, peak_below_mb, peak_memory_mb
from bench.recordings import FPS, SIZE, Transport, record
from piper_collect.config.profile import load_profile
from piper_collect.pipelines.bag_episodes import ExportOptions
from piper_collect.pipelines.export import export

GOAL_TWO_WORKERS = 1.8
GOAL_MEMORY_RATIO = 1.2
GOAL_MEMORY_MB = 400.0
GOAL_ROW_RATIO = 1.3
TINY = (48, 64)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the bench's arguments."""
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2, 4], metavar="N")
    parser.add_argument("--bags", type=int, default=8, metavar="N", help="recordings that workers share")
    parser.add_argument("--bag-seconds", type=float, default=20.0, metavar="S")
    parser.add_argument("--lengths", type=float, nargs="*", default=[10.0, 60.0, 600.0], metavar="S")
    parser.add_argument("--length-repeats", type=int, default=1, metavar="N", help="memory hardly varies")
    parser.add_argument("--episodes", type=int, nargs="*", default=[10, 100, 1000], metavar="N")
    parser.add_argument("--transport", default="compressed", metavar="NAME")
    parser.add_argument("--profile", default="piper", metavar="NAME")
    parser.add_argument("--repeats", type=int, default=5, metavar="N", help="turns; medians count")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="where to work (default: a temporary one)")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Measure the three."""
    table: list[dict[str, Any]] = []
    goals: dict[str, bool] = {}
    for part in (by_workers, by_length, by_episodes):
        with TemporaryDirectory(prefix="bench_scale_", dir=args.folder) as folder:
            part(Path(folder), args, table, goals)
    return {"settings": {**vars(args), "folder": str(args.folder)}, "table": table, "goals": goals}


def by_workers(
    folder: Path, args: argparse.Namespace, table: list[dict[str, Any]], goals: dict[str, bool]
) -> None:
    """The same recordings by each number of workers, in turns."""
    if not args.workers:
        return
    make(folder / "bags", args.bags, args.bag_seconds, cameras=1, transport=args.transport, size=SIZE)
    taken: dict[int, list[dict[str, float]]] = {n: [] for n in args.workers}
    for _ in range(args.repeats):
        for count, runs in taken.items():
            runs.append(exported(folder, args.profile, count))
    for count, runs in taken.items():
        table.append(line(f"{count} workers", args.bags, runs, args.bags * args.bag_seconds * FPS))
    if {1, 2} <= set(taken):
        faster = median(a["wall"] / b["wall"] for a, b in zip(taken[1], taken[2], strict=True))
        goals[f"two workers are {faster:.2f} times as fast as one, at least {GOAL_TWO_WORKERS}"] = (
            faster >= GOAL_TWO_WORKERS
        )


def by_length(
    folder: Path, args: argparse.Namespace, table: list[dict[str, Any]], goals: dict[str, bool]
) -> None:
    """One recording of each length."""
    peaks = {}
    for seconds in args.lengths:
        make(folder / "bags", 1, seconds, cameras=3, transport=args.transport, size=SIZE)
        runs = [exported(folder, args.profile, 1) for _ in range(args.length_repeats)]
        table.append(line(f"{seconds:g} s", 1, runs, seconds * FPS))
        peaks[seconds] = table[-1]["peak MB"]
        shutil.rmtree(folder / "bags")
    if len(peaks) < 2:
        return
    short, long = min(peaks), max(peaks)
    ratio = peaks[long] / peaks[short]
    what = f"peak memory, {long:g} s against {short:g} s: {ratio:.2f}, at most {GOAL_MEMORY_RATIO}"
    goals[what] = ratio <= GOAL_MEMORY_RATIO
    most = max(peaks.values())
    goals[f"peak memory {most} MB, at most {GOAL_MEMORY_MB:g}"] = most <= GOAL_MEMORY_MB


def by_episodes(
    folder: Path, args: argparse.Namespace, table: list[dict[str, Any]], goals: dict[str, bool]
) -> None:
    """Datasets of more and more tiny episodes."""
    costs = {}
    for episodes in args.episodes:
        make(folder / "bags", episodes, 1.0, cameras=1, transport="compressed", size=TINY)
        runs = [exported(folder, args.profile, 1)]
        table.append(line(f"{episodes} episodes of 1 s", episodes, runs, episodes * FPS))
        costs[episodes] = table[-1]["cpu ms/row"]
        shutil.rmtree(folder / "bags")
    if len(costs) < 2:
        return
    few, many = min(costs), max(costs)
    ratio = costs[many] / costs[few]
    what = f"time by the row, {many} episodes against {few}: {ratio:.2f}, at most {GOAL_ROW_RATIO}"
    goals[what] = ratio <= GOAL_ROW_RATIO


def make(
    folder: Path, count: int, seconds: float, *, cameras: int, transport: Transport, size: tuple[int, int]
) -> None:
    """Record ``count`` bags."""
    for number in range(count):
        bag = folder / f"episode_{number:06d}"
        record(bag, seconds, cameras=cameras, transport=transport, size=size, number=number)


def line(what: str, bags: int, runs: list[dict[str, float]], rows: float) -> dict[str, Any]:
    """Medians of some runs."""
    wall, cpu, memory = (median(run[key] for run in runs) for key in ("wall", "cpu", "memory"))
    return {
        "what": what,
        "bags": bags,
        "wall s": round(wall, 2),
        "cpu s": round(cpu, 2),
        "wall ms/row": round(1e3 * wall / rows, 2),
        "cpu ms/row": round(1e3 * cpu / rows, 2),
        "peak MB": round(memory),
    }


def exported(folder: Path, profile: str, workers: int) -> dict[str, float]:
    """Export the bags of ``folder`` in a new process, and take away what came of it."""
    try:
        return in_a_process(measure, folder, profile, workers)
    finally:
        shutil.rmtree(folder / "dataset", ignore_errors=True)


def measure(folder: Path, profile: str, workers: int) -> dict[str, float]:
    """What an export takes; with several workers the memory is that of the largest process."""
    options = ExportOptions(profile=load_profile(profile))
    start, clock = cpu_s(), perf_counter()
    summary = export([folder / "bags"], folder / "dataset", options, workers=workers)
    taken = {"wall": perf_counter() - clock, "cpu": cpu_s() - start}
    if summary.count("exported") != len(summary.bags):
        raise RuntimeError("; ".join(bag.reason for bag in summary.bags if bag.reason))
    return {**taken, "memory": max(peak_memory_mb(), peak_below_mb())}
