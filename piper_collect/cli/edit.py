"""``piper-collect edit``: take episodes out of a dataset."""

import argparse
import re
from pathlib import Path

EPILOG = """\
The episodes after one that leaves move up, so that numbers stay without a gap; videos are not encoded again.
The change is made whole or not at all. To make an episode anew, use export --replace.

examples:
  piper-collect edit ROOT --delete 3,7-9
  piper-collect edit ROOT --keep 0-19
  piper-collect edit ROOT --delete-last pick_20260101_120000
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("root", type=Path, metavar="ROOT", help="folder of the dataset")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--delete", type=_numbers, metavar="LIST", help="episodes to take out, as in 3,7-9")
    what.add_argument("--keep", type=_numbers, metavar="LIST", help="episodes to keep; the others go")
    what.add_argument(
        "--delete-last", metavar="SESSION", help="the last episode, if it was recorded in this session"
    )


def _numbers(text: str) -> list[int]:
    """``3,7-9`` as numbers."""
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", part)
        if match is None:
            raise argparse.ArgumentTypeError(f"not a list of episodes: {text!r} (expected as in 3,7-9)")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or last - first > 1_000_000:
            raise argparse.ArgumentTypeError(f"not a range of episodes: {part.strip()!r}")
        found += range(first, last + 1)
    return found


def run(args: argparse.Namespace) -> int:
    """Edit; 0 when the dataset is as asked."""
    from piper_collect.dataset.edit import delete_episodes, delete_last, keep_episodes
    from piper_collect.report.tables import print_lines

    if args.delete_last is not None:
        edited = delete_last(args.root, args.delete_last)
    elif args.keep is not None:
        edited = keep_episodes(args.root, args.keep)
    else:
        edited = delete_episodes(args.root, args.delete)
    gone = ", ".join(map(str, edited.deleted)) or "none"
    print_lines([f"{args.root}: episodes taken out: {gone}; {edited.episodes} left"])
    print_lines(f"note: {note}" for note in edited.notes)
    return 0
