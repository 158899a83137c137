"""finalize: rows a second, peak memory, time by the row from few rows to many, and against plain code.

Datasets of random poses in episodes of 200 to 400 rows. A run is the whole verb: reading the parquet
files (in the page cache after the first run), all windows, both files written. The plain code is the
reference of the tests, one transform at a time by scipy; it is timed without reading and writing.

Rates and ratios are by processor time, so that they hold on a busy machine, too; ``wall_s`` beside it is
what a clock says. All of it runs on one thread.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

import finalize_reference as slow
import numpy as np
from numpy.typing import NDArray
from plain_dataset import random_episode, write_plain_dataset

from bench._machine import in_a_process, peak_memory_mb
from piper_collect.pipelines.finalize import finalize

GOAL_RATIO = 1.3
GOAL_FASTER = 100

_Episode = dict[str, NDArray[np.float64]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the bench's arguments."""
    parser.add_argument("--rows", type=float, nargs="+", default=[1e3, 1e4, 1e5, 1e6], metavar="N")
    parser.add_argument("--horizon", type=int, default=30, metavar="H")
    parser.add_argument("--repeats", type=int, default=5, metavar="N", help="runs a size; the median counts")
    parser.add_argument(
        "--reference-rows", type=float, default=1e3, metavar="N", help="rows that the plain code does, too"
    )
    parser.add_argument("--reference-repeats", type=int, default=5, metavar="N")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Measure each size in a process of its own."""
    sizes = sorted({int(n) for n in (*args.rows, args.reference_rows)})
    with TemporaryDirectory(prefix="bench_finalize_") as folder:
        table = []
        for rows in sizes:
            root = Path(folder) / str(rows)
            write_plain_dataset(root, episodes(rows))
            table.append(in_a_process(measure, root, rows, args.horizon, args.repeats))
    by_rows = {row["rows"]: row for row in table}
    reference_rows = int(args.reference_rows)
    reference_s = in_a_process(measure_reference, reference_rows, args.horizon, args.reference_repeats)
    few, many = min((n for n in sizes if n >= 10_000), default=sizes[0]), sizes[-1]
    ratio = by_rows[many]["us/row"] / by_rows[few]["us/row"]
    faster = reference_s / by_rows[reference_rows]["cpu_s"]
    return {
        "horizon": args.horizon,
        "repeats": args.repeats,
        "table": table,
        "linearity": {"rows": [few, many], "time_per_row_ratio": ratio},
        "reference": {
            "rows": reference_rows,
            "repeats": args.reference_repeats,
            "cpu_s": reference_s,
            "rows/s": reference_rows / reference_s,
            "times_faster": faster,
        },
        "goals": {
            f"time by the row, {many} rows against {few}: {ratio:.2f}, at most {GOAL_RATIO}": ratio
            <= GOAL_RATIO,
            f"times faster than plain code, {reference_rows} rows: {faster:.0f}, at least {GOAL_FASTER}": (
                faster >= GOAL_FASTER
            ),
        },
    }


def episodes(rows: int) -> Iterator[_Episode]:
    """Random episodes of ``rows`` rows together, always the same."""
    rng = np.random.default_rng(rows)
    while rows > 0:
        length = min(rows, int(rng.integers(200, 401)))
        yield random_episode(rng, length)
        rows -= length


def measure(root: Path, rows: int, horizon: int, repeats: int) -> dict[str, Any]:
    """Finalize ``root`` some times."""
    before_mb = peak_memory_mb()
    cpu_s, wall_s, reading_s = [], [], []
    for _ in range(repeats):
        read_at: list[float] = []

        def tell(what: str, done: int, total: int, read_at: list[float] = read_at) -> None:
            if what.startswith("reading") and done == total:
                read_at.append(process_time())

        start, clock = process_time(), perf_counter()
        finalize(root, horizon=horizon, on_progress=tell)
        cpu_s.append(process_time() - start)
        wall_s.append(perf_counter() - clock)
        reading_s.append(read_at[0] - start)
    seconds = median(cpu_s)
    return {
        "rows": rows,
        "cpu_s": seconds,
        "of it reading": median(reading_s),
        "least": min(cpu_s),
        "most": max(cpu_s),
        "wall_s": median(wall_s),
        "rows/s": round(rows / seconds),
        "us/row": seconds / rows * 1e6,
        "MB before": round(before_mb),
        "MB peak": round(peak_memory_mb()),
    }


def measure_reference(rows: int, horizon: int, repeats: int) -> float:
    """Median processor time of the plain code on the same rows, in seconds."""
    found = list(episodes(rows))
    taken = []
    for _ in range(repeats):
        start = process_time()
        for name, change in (("arm_eef", slow.pose_change), ("gripper", slow.difference)):
            state, action = ([e[f"{group}.{name}"] for e in found] for group in ("observation", "action"))
            slow.stats(state, action, horizon, change)
        for name in ("arm_joint", "arm_eef", "gripper"):
            slow.six(np.concatenate([e[f"observation.{name}"] for e in found]))
        taken.append(process_time() - start)
    return median(taken)
