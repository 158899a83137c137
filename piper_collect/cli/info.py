"""``piper-collect info``: one screen on a dataset or on recordings."""

import argparse
from pathlib import Path

DESCRIPTION = """\
Say on one screen what one asks first: what is in a dataset, in a recording, in a session's folder or in any
folder of recordings, which trainers load it, what was lost, what is unfinished, and what comes next.

Nothing is written, and no lock is taken. Of a dataset five episodes are opened at most; validate looks at
all.
"""

EPILOG = """\
examples:
  piper-collect info ~/piper_datasets/pick
  piper-collect info ~/piper_recordings/pick_20260101_120000
  piper-collect info ~/piper_recordings/pick_20260101_120000/episode_000003 --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument(
        "path", type=Path, metavar="ROOT|BAG", help="a dataset, a bag, or a folder with bags below it"
    )
    parser.add_argument("--json", action="store_true", help="print all of it as JSON, and nothing else")


def run(args: argparse.Namespace) -> int:
    """Look and tell; 0 when it could be looked at."""
    import json

    from piper_collect.dataset.layout import META
    from piper_collect.pipelines.overview.dataset import dataset_overview
    from piper_collect.pipelines.overview.recordings import recordings_overview
    from piper_collect.report.overview import print_overview

    is_dataset = (args.path / META).is_dir()
    overview = dataset_overview(args.path) if is_dataset else recordings_overview(args.path)
    if args.json:
        print(json.dumps(overview.to_json(), indent=2, ensure_ascii=False, allow_nan=False))
    else:
        print_overview(overview)
    return 0
