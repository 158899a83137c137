"""``piper-collect prune``: remove bags whose episodes are in a dataset."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from piper_collect.pipelines.prune import Prune, PruneItem

DESCRIPTION = """\
Remove the bags whose episodes a dataset holds. A bag may go when a dataset has episodes of just its content
(SHA-256 of its files), of all its parts, and each of them was read to its last row and frame just now.
Everything else is kept, and it is said why. A kill leaves each bag whole or gone.

A dataset can be made again from its bags, and not the other way round: what bags hold beyond the dataset
(full rates, other topics, the pictures as recorded) goes with them. Removed means deleted.
"""

EPILOG = """\
examples:
  piper-collect prune ~/piper_recordings --dataset ~/piper_datasets/pick --dry-run
  piper-collect prune ~/piper_recordings/pick_20260101_120000 --dataset ~/piper_datasets/pick
  piper-collect prune ~/piper_recordings --dataset ~/piper_datasets/pick --yes
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument(
        "paths", nargs="+", type=Path, metavar="SESSION", help="folder of a session, or any that holds bags"
    )
    parser.add_argument(
        "-d",
        "--dataset",
        action="append",
        default=[],
        type=Path,
        metavar="ROOT",
        help="dataset that holds the episodes; may be given several times (default: what the bags' own "
        "configuration names as session.dataset)",
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--yes", action="store_true", help="do not ask; needed where there is no terminal")
    how.add_argument("--dry-run", action="store_true", help="show what would go, and remove nothing")


def run(args: argparse.Namespace) -> int:
    """Prune; 0 when all that may go is gone, or is only shown, 1 when something that was to go stayed."""
    from piper_collect.errors import SessionError
    from piper_collect.pipelines.prune import remove
    from piper_collect.report.overview import spoken_bytes
    from piper_collect.report.tables import print_lines

    if not (args.yes or args.dry_run or sys.stdin.isatty()):
        raise SessionError(
            "bags are removed only when a person says so",
            got="no terminal",
            hint="run it in a terminal, or add --yes; --dry-run shows what would go",
        )
    prune = _look(args)
    _print(prune)
    if not prune.going and not prune.halfway:
        print_lines(["nothing to remove"])
        return 0
    if args.dry_run:
        print_lines([f"{_what(prune)}, would be deleted; nothing was removed"])
        return 0
    if not args.yes and not _agreed(prune):
        print_lines(["nothing was removed"])
        return 0
    gone: list[PruneItem] = []
    failed: list[PruneItem] = []
    for item in remove(prune):
        (failed if item.kept else gone).append(item)
    print_lines([f"removed {_bags(len(gone))}, {spoken_bytes(sum(item.size_bytes for item in gone))}"])
    for item in failed:
        print(f"error: {item.bag}: {item.kept}", file=sys.stderr)
    return 1 if failed else 0


def _look(args: argparse.Namespace) -> "Prune":
    from piper_collect.pipelines.prune import look_at

    if not sys.stderr.isatty():
        return look_at(args.paths, args.dataset)
    from piper_collect.report.progress import progress_bar

    with progress_bar() as bar:
        return look_at(
            args.paths,
            args.dataset,
            on_progress=lambda done, total, name: bar(f"{done + 1}/{total} {name}", done, total),
        )


def _print(prune: "Prune") -> None:
    from piper_collect.bag.sidecar import path_text
    from piper_collect.report.overview import spoken_bytes
    from piper_collect.report.tables import print_lines, print_table

    if prune.going:
        rows = [
            (
                path_text(item.bag.parent.name),
                path_text(item.bag.name),
                spoken_bytes(item.size_bytes),
                ", ".join(map(str, item.episodes)),
                path_text(item.dataset or ""),
            )
            for item in prune.going
        ]
        print_table("may be removed", ("session", "bag", "size", "episode", "dataset"), rows)
    print_lines(f"kept {path_text(item.bag)}: {item.kept}" for item in prune.staying)
    print_lines(
        f"left by a prune that was stopped, and removed as well: {path_text(path)}" for path in prune.halfway
    )


def _agreed(prune: "Prune") -> bool:
    print(f"{_what(prune)}, will be deleted; they cannot be brought back.", flush=True)
    try:
        return input('Type "yes" to delete: ').strip().lower() == "yes"
    except EOFError:
        return False


def _what(prune: "Prune") -> str:
    from piper_collect.report.overview import spoken_bytes

    return f"{_bags(len(prune.going))}, {spoken_bytes(sum(item.size_bytes for item in prune.going))}"


def _bags(count: int) -> str:
    return f"{count} bag{'' if count == 1 else 's'}"
