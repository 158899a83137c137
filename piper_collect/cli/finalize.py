"""``piper-collect finalize``, also installed as ``piper-finalize``: statistics of relative actions."""

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from piper_collect.pipelines.finalize import FinalizeSummary, Progress

DESCRIPTION = """\
Writes meta/relative_stats.json and meta/delta_stats.json: statistics of the next H actions, relative to
the state of their row, and from one to the next; and the statistics of chunks of actions that the layout asks
for (meta/embodiment.json). Nothing else in the dataset is touched. Run it again when episodes were added or
removed.
"""
EPILOG = """\
examples:
  piper-collect finalize ~/piper_datasets/pick
  piper-finalize --root ~/piper_datasets/pick --horizon 16
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    root = parser.add_mutually_exclusive_group(required=True)
    root.add_argument("root", nargs="?", type=Path, metavar="ROOT", help="folder of the dataset")
    root.add_argument("--root", dest="root_option", type=Path, metavar="ROOT", help="the same, as an option")
    parser.add_argument(
        "--horizon", type=int, default=30, metavar="H", help="steps of a window (default: %(default)s)"
    )
    parser.add_argument(
        "--rot6d",
        action="store_true",
        help="poses also with the first two columns of the rotation matrix in place of the quaternion",
    )
    parser.add_argument("--json", action="store_true", help="print the summary as JSON, and nothing else")
    parser.add_argument("--quiet", action="store_true", help="print errors only")
    parser.add_argument("--no-progress", action="store_true", help="no progress bar")


def run(args: argparse.Namespace) -> int:
    """Finalize; 0 when the files were written."""
    from piper_collect.pipelines.finalize import finalize

    show = sys.stderr.isatty() and not (args.json or args.quiet or args.no_progress)
    with _progress(show) as on_progress:
        summary = finalize(
            args.root or args.root_option, horizon=args.horizon, rot6d=args.rot6d, on_progress=on_progress
        )
    if args.json:
        _print_json(summary)
    elif not args.quiet:
        _print_table(summary)
    return 0


@contextmanager
def _progress(show: bool) -> Iterator["Progress | None"]:
    if not show:
        yield None
        return
    from piper_collect.report.progress import progress_bar

    with progress_bar() as bar:
        yield bar


def _print_json(summary: "FinalizeSummary") -> None:
    import json
    from dataclasses import asdict

    print(json.dumps(asdict(summary), indent=2, allow_nan=False, default=str))


def _print_table(summary: "FinalizeSummary") -> None:
    from piper_collect.report.tables import print_lines, print_table

    rows = [
        (
            column.key,
            column.pair.observation,
            "pose" if column.pair.is_pose else "difference",
            f"{column.shape[0]} x {column.shape[1]}",
        )
        for column in summary.columns
    ]
    chunks = summary.chunks
    if chunks is not None:
        cells = f"{chunks.steps} at {chunks.rate_hz:g} Hz"
        rows.append((chunks.action, chunks.state, f"chunks ({chunks.key})", cells))
    print_table(str(summary.root), ("action", "relative to", "as", "steps x elements"), rows)
    print_lines(
        [
            ", ".join(_counts(summary)),
            *(f"wrote {path}" for path in summary.files),
            *(f"{_without(summary, key)}: {key}: {why}" for key, why in summary.left_out.items()),
        ]
    )


def _without(summary: "FinalizeSummary", key: str) -> str:
    """What an action column without statistics over windows is called."""
    has_chunks = summary.chunks is not None and summary.chunks.action == key
    return "over chunks only" if has_chunks else "left out"


def _counts(summary: "FinalizeSummary") -> Iterator[str]:
    if summary.columns:
        yield f"{summary.rows} windows of {summary.horizon} steps"
    if summary.chunks is not None:
        yield f"{summary.chunks.count} chunks of {summary.chunks.steps} steps"
    yield f"{summary.episodes} episodes"
