"""``piper-collect export``: make a dataset from bags, or add them to one."""

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from piper_collect.pipelines.export import ExportSummary, Progress

EPILOG = """\
A PATH is a bag or a folder that holds some, at most three folders down. Bags come in the order of their
start. A bag that the dataset holds already is left alone, so that an export that was stopped is simply
run again.

examples:
  piper-collect export ~/piper_recordings/pick_20260101_120000 -o ~/piper_datasets/pick
  piper-collect export my_bag -o ROOT --config piper_ros_realsense --task "pick the cube"
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument(
        "paths", nargs="+", type=Path, metavar="PATH", help="a bag, or a folder that holds some"
    )
    parser.add_argument(
        "-o", "--output", required=True, type=Path, metavar="ROOT", help="folder of the dataset"
    )
    parser.add_argument(
        "--profile", default="piper", metavar="NAME", help="kind of dataset (default: %(default)s)"
    )
    parser.add_argument(
        "--config", metavar="YAML", help="how to read the bags (default: as each was recorded)"
    )
    parser.add_argument("--task", metavar="TEXT", help="task string, in place of the recorded one")
    parser.add_argument("--allow-incomplete", action="store_true", help="take interrupted recordings, too")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON, and nothing else")
    parser.add_argument("--quiet", action="store_true", help="print errors only")
    parser.add_argument("--no-progress", action="store_true", help="no progress bar")


def run(args: argparse.Namespace) -> int:
    """Export; 0 when every bag was exported, held already or rightly left out."""
    from piper_collect.config.load import load_session
    from piper_collect.config.profile import load_profile
    from piper_collect.pipelines.export import export

    show = sys.stderr.isatty() and not (args.json or args.quiet or args.no_progress)
    with _progress(show) as on_progress:
        summary = export(
            args.paths,
            args.output,
            profile=load_profile(args.profile),
            config=load_session(args.config) if args.config else None,
            config_name=args.config or "",
            allow_incomplete=args.allow_incomplete,
            task=args.task,
            on_progress=on_progress,
        )
    if args.json:
        _print_json(summary)
    elif not args.quiet:
        _print_tables(summary)
    for bag in summary.bags:
        if bag.status == "failed" and not args.json:
            print(f"error: {bag.reason}", file=sys.stderr)
    return summary.exit_code


@contextmanager
def _progress(show: bool) -> Iterator["Progress | None"]:
    if not show:
        yield None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from piper_collect.report.tables import console_for

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console_for(sys.stderr), transient=True) as bar:
        task = bar.add_task("", total=1.0)

        def tell(number: int, bags: int, name: str, fraction: float) -> None:
            bar.update(
                task, total=bags, completed=number + fraction, description=f"{number + 1}/{bags} {name}"
            )

        yield tell


def _print_json(summary: "ExportSummary") -> None:
    import json
    from dataclasses import asdict

    from piper_collect.bag.sidecar import path_text

    bags = [{**asdict(bag), "bag": path_text(bag.bag)} for bag in summary.bags]
    content = {"root": path_text(summary.root), "bags": bags, "notes": list(summary.notes)}
    print(json.dumps(content, indent=2, allow_nan=False))


def _print_tables(summary: "ExportSummary") -> None:
    from piper_collect.bag.sidecar import path_text
    from piper_collect.report.tables import print_lines, print_table

    rows = []
    for bag in summary.bags:
        counts = bag.counts or {}
        frames = ", ".join(f"{name} {n}" for name, n in (bag.video_frames or {}).items())
        rows.append(
            (
                path_text(bag.bag.name),
                bag.status,
                bag.episode_index,
                bag.rows or None,
                counts.get("gaps"),
                counts.get("dropped"),
                frames,
                bag.duration_s or None,
            )
        )
    columns = ("bag", "", "episode", "rows", "gaps", "dropped", "frames", "seconds")
    print_table(path_text(summary.root), columns, rows)
    words = {
        "exported": "exported",
        "held": "in the dataset already",
        "skipped": "skipped",
        "failed": "failed",
    }
    print_lines([", ".join(f"{summary.count(s)} {words[s]}" for s in words if summary.count(s))])  # type: ignore[arg-type]
    print_lines(dict.fromkeys(f"read with: {bag.config}" for bag in summary.bags if bag.config))
    for bag in summary.bags:
        if bag.status == "skipped":
            print_lines([f"skipped {bag.bag.name}: {bag.reason} (--allow-incomplete takes it all the same)"])
        print_lines(f"note: {bag.bag.name}: {note}" for note in bag.notes)
    print_lines(f"note: {note}" for note in summary.notes)
