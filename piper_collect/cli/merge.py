"""``piper-collect merge``: several datasets as one."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from piper_collect.dataset.merge import Merged

DESCRIPTION = """\
Write the episodes of several datasets, one dataset after the other, into a new one. It is what one export of
all their bags in this order would have made: rows are renumbered, videos taken as they are, statistics exact.
The datasets must have the same features, be made alike, and be recorded under the same control.
"""

EPILOG = """\
examples:
  piper-collect merge ~/piper_datasets/monday ~/piper_datasets/tuesday -o ~/piper_datasets/both
  piper-collect merge A B C -o ALL --skip-duplicates
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("roots", nargs="+", type=Path, metavar="ROOT", help="folder of a dataset")
    parser.add_argument(
        "-o", "--output", required=True, type=Path, metavar="OUT", help="folder of the new dataset"
    )
    parser.add_argument(
        "--skip-duplicates",
        action="store_true",
        help="take a recording that is in several of them once (default: refuse)",
    )
    parser.add_argument("--quiet", action="store_true", help="print errors only")


def run(args: argparse.Namespace) -> int:
    """Merge; 0 when the new dataset is there."""
    from piper_collect.report.tables import print_lines

    merged = _merge(args)
    if not args.quiet:
        count = sum(merged.episodes.values())
        print_lines([f"{merged.root}: {count} episodes, {merged.rows} rows"])
        print_lines(f"  {n} of {root}" for root, n in merged.episodes.items())
        print_lines(f"left out: {line}" for line in merged.skipped)
        print_lines(f"note: {note}" for note in merged.notes)
    return 0


def _merge(args: argparse.Namespace) -> "Merged":
    from piper_collect.dataset.merge import merge_datasets
    from piper_collect.errors import UsageError

    if len(args.roots) < 2:
        raise UsageError("there is nothing to merge", expected="two datasets or more", got=len(args.roots))
    if args.quiet or not sys.stderr.isatty():
        return merge_datasets(args.roots, args.output, skip_duplicates=args.skip_duplicates)
    from piper_collect.report.progress import progress_bar

    with progress_bar() as bar:
        return merge_datasets(
            args.roots,
            args.output,
            skip_duplicates=args.skip_duplicates,
            on_progress=lambda done, total: bar(f"episodes {done}/{total}", done, total),
        )
