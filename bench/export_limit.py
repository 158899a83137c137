"""How near does an export come to nothing but encoding?

A is our export, all of it: hash, both readings of the bag, alignment, parquet, statistics, videos, every file
flushed to the disk. B is the encoder alone, on the same frames already in memory: a bare PyAV loop with a
thread a camera, and the ``ffmpeg`` command where there is one, a process a camera. All with the same
settings, one encoder thread a camera. Both change the colour space of raw frames by one call of FFmpeg; one
row more has the PyAV loop with our faster way. They take turns, each in a new process, so that whatever else
the machine does strikes all; ratios are taken within a turn, and medians of those are told.
"""

import argparse
import shutil
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from bench._machine import cpu_s, in_a_process, peak_memory_mb
from bench.encoders import encode_by_ffmpeg, encode_by_pyav, frames_of
from bench.recordings import SIZE, Transport, record
from piper_collect.config.profile import load_profile
from piper_collect.imaging.yuv420 import Yuv420Converter
from piper_collect.pipelines.bag_episodes import ExportOptions
from piper_collect.pipelines.export import export

GOAL = 1.15

Taken = tuple[float, float, float]
"""Seconds by the clock, of the processor, and peak memory in MB."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the bench's arguments."""
    parser.add_argument("--transport", nargs="+", default=["raw", "compressed"], metavar="NAME")
    parser.add_argument("--profile", default="piper", metavar="NAME")
    parser.add_argument(
        "--seconds", type=float, default=60.0, metavar="S", help="of recording; B holds 83 MB of raw a second"
    )
    parser.add_argument("--cameras", type=int, default=3, metavar="N")
    parser.add_argument("--repeats", type=int, default=5, metavar="N", help="turns; medians count")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="where to work (default: a temporary one)")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Measure each transport."""
    table: list[dict[str, Any]] = []
    goals: dict[str, bool] = {}
    for transport in args.transport:
        rows = measure(transport, args)
        table += rows
        ratios = {row["way"]: row["A/B wall"] for row in rows if "A/B wall" in row}
        ratios.pop("B PyAV, our colours", None)  # for comparison: no reference that others have
        # raw: against whatever is fastest; JPEG: against decoding, converting and encoding one by one
        against = max(ratios, key=lambda way: ratios[way]) if transport == "raw" else "B PyAV"
        ratio = ratios[against]
        goals[f"{transport}: A / {against}, by the clock: {ratio:.2f}, at most {GOAL}"] = ratio <= GOAL
    return {"settings": {**vars(args), "folder": str(args.folder)}, "table": table, "goals": goals}


def measure(transport: Transport, args: argparse.Namespace) -> list[dict[str, Any]]:
    """Record a bag, and let A and B take turns at it."""
    with TemporaryDirectory(prefix="bench_export_", dir=args.folder) as folder:
        bag = record(Path(folder) / "bag", args.seconds, cameras=args.cameras, transport=transport)
        ways: dict[str, Callable[..., Taken]] = {"A export": by_export}
        ways["B PyAV"] = by_pyav
        if transport == "raw":
            ways["B PyAV, our colours"] = by_pyav_as_ours
        if shutil.which("ffmpeg"):
            ways["B ffmpeg"] = by_raw_ffmpeg if transport == "raw" else by_jpeg_ffmpeg
        taken: dict[str, list[Taken]] = {name: [] for name in ways}
        for _ in range(args.repeats):
            for name, way in ways.items():
                out = Path(folder) / "out"
                out.mkdir()
                extra = (args.profile,) if name == "A export" else ()
                taken[name].append(in_a_process(way, bag, out, *extra))
                shutil.rmtree(out)
    frames = args.seconds * 30 * args.cameras
    return [line(transport, name, taken, frames) for name in ways]


def line(transport: str, name: str, taken: dict[str, list[Taken]], frames: float) -> dict[str, Any]:
    """Medians of one way, and A's ratio to it."""
    wall_s, cpu, memory_mb = (median(t[i] for t in taken[name]) for i in range(3))
    row = {
        "transport": transport,
        "way": name,
        "wall s": round(wall_s, 2),
        "cpu s": round(cpu, 2),
        "cpu ms/frame": round(1e3 * cpu / frames, 2),
        "peak MB": round(memory_mb),
    }
    if name.startswith("B"):
        pairs = list(zip(taken["A export"], taken[name], strict=True))
        row["A/B wall"] = round(median(a[0] / b[0] for a, b in pairs), 3)
        row["A/B cpu"] = round(median(a[1] / b[1] for a, b in pairs), 3)
    return row


def timed(work: Callable[[], object]) -> Taken:
    """What ``work`` took."""
    start, clock = cpu_s(), perf_counter()
    work()
    return perf_counter() - clock, cpu_s() - start, peak_memory_mb()


def by_export(bag: Path, out: Path, profile: str) -> Taken:
    """A."""
    options = ExportOptions(profile=load_profile(profile))
    return timed(lambda: _exported(bag, out / "dataset", options))


def by_pyav(bag: Path, out: Path) -> Taken:
    """B, in Python."""
    frames = frames_of(bag)
    return timed(lambda: encode_by_pyav(frames, SIZE, out))


def by_pyav_as_ours(bag: Path, out: Path) -> Taken:
    """The same, with the colour space changed as ours is, which takes less time than one ``reformat``."""
    frames = frames_of(bag)
    return timed(lambda: encode_by_pyav(frames, SIZE, out, converter=Yuv420Converter))


def by_raw_ffmpeg(bag: Path, out: Path) -> Taken:
    """B, by ffmpeg, from raw frames."""
    frames = frames_of(bag)
    return timed(lambda: encode_by_ffmpeg(frames, SIZE, "raw", out))


def by_jpeg_ffmpeg(bag: Path, out: Path) -> Taken:
    """B, by ffmpeg, from JPEG."""
    frames = frames_of(bag)
    return timed(lambda: encode_by_ffmpeg(frames, SIZE, "compressed", out))


def _exported(bag: Path, root: Path, options: ExportOptions) -> None:
    summary = export([bag], root, options)
    if summary.count("exported") != 1:
        raise RuntimeError(summary.bags[0].reason)
