"""``piper-collect convert``: a dataset in another format."""

import argparse
import sys
from pathlib import Path

EPILOG = """\
The rows keep their numbers and the videos their packets: nothing is encoded again. What the new format cannot
hold is listed. The new dataset is made whole or not at all; the old one stays as it is.

formats:
  lerobot-v2.0, lerobot-v2.1, lerobot-v3.0, hdf5-cases (needs h5py: pip install 'piper_collect[hdf5]')

example:
  piper-collect convert ~/datasets/cups --to lerobot-v3.0 -o ~/datasets/cups_v3
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("root", type=Path, metavar="ROOT", help="folder of the dataset")
    parser.add_argument("--to", required=True, metavar="DIALECT", help="the format that it gets")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="OUT", help="folder of the new dataset"
    )
    parser.add_argument("--quiet", action="store_true", help="print errors only")


def run(args: argparse.Namespace) -> int:
    """Convert; 0 when the new dataset is there."""
    from contextlib import ExitStack

    from piper_collect.dataset.convert import convert_dataset
    from piper_collect.dataset.convert_targets import TARGETS
    from piper_collect.dataset.layout import INFO, META
    from piper_collect.errors import DatasetError, UsageError
    from piper_collect.report.progress import progress_bar
    from piper_collect.report.tables import print_lines

    if args.to not in TARGETS:
        raise UsageError("no such dialect", where="--to", got=args.to, valid=TARGETS)
    if not args.root.is_dir():
        raise DatasetError("is no dataset", where=args.root, expected=f"a folder with {META}/{INFO}")
    with ExitStack() as stack:
        tell = None
        if sys.stderr.isatty() and not args.quiet:
            bar = stack.enter_context(progress_bar())
            tell = lambda done, total: bar(f"episodes {done}/{total}", done, total)  # noqa: E731
        made = convert_dataset(args.root, args.output, TARGETS[args.to], tell)
    if not args.quiet:
        print_lines([f"{made.root}: {made.version}, {made.episodes} episodes, {made.rows} rows"])
        print_lines(f"not in it as it was: {text}" for text in made.lost)
    return 0
