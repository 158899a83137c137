"""``piper-collect push``: a dataset to the Hugging Face Hub."""

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from piper_collect.pipelines.push import Progress

DESCRIPTION = """\
Upload a dataset to the Hugging Face Hub, with a card: columns, tasks, provenance, quality, pictures. A new
repository is private unless --public is given. Looked at before with validate (without decoding): a dataset
with errors is refused. Needs pip install 'piper_collect[push]', and a token (hf auth login, or HF_TOKEN).

The metadata go last: an upload that fails leaves what was there before, and run again it goes on.
"""

EPILOG = """\
examples:
  piper-collect push ~/piper_datasets/pick me/pick --dry-run
  piper-collect push ~/piper_datasets/pick me/pick --license cc-by-4.0
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("root", type=Path, metavar="ROOT", help="folder of the dataset")
    parser.add_argument("repo_id", metavar="REPO_ID", help="dataset repository, as in user/name")
    parser.add_argument(
        "--dry-run", action="store_true", help="upload nothing; write the card and its pictures into a folder"
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FOLDER", help="for --dry-run: where (default: ROOT_card)"
    )
    parser.add_argument("--public", action="store_true", help="make a new repository public")
    parser.add_argument("--license", default="", metavar="ID", help="licence to name on the card")
    parser.add_argument("--keep-card", action="store_true", help="leave the card that is there as it is")
    parser.add_argument("--allow-errors", action="store_true", help="push although validate finds errors")


def run(args: argparse.Namespace) -> int:
    """Push; 0 when it is on the hub, or the card is written."""
    from piper_collect.errors import UsageError
    from piper_collect.pipelines.push import check_card_folder, check_repo_id, make_card, push, write_card
    from piper_collect.report.overview import spoken_bytes
    from piper_collect.report.tables import print_lines

    check_repo_id(args.repo_id)
    if args.output is not None and not args.dry_run:
        raise UsageError("-o is for --dry-run", where=args.output)
    place = args.root.absolute()
    folder = args.output or place.with_name(f"{place.name}_card")
    if args.dry_run:
        check_card_folder(folder)
    with _progress() as progress:
        if args.dry_run:
            title = args.repo_id.rpartition("/")[2]
            card = make_card(args.root, title, license_id=args.license, on_progress=progress)
            write_card(card, folder)
            lines = [f"error: {error}" for error in card.errors]
            lines.append(f"wrote {folder}: {len(card.files)} files; nothing was uploaded")
        else:
            pushed = push(
                args.root,
                args.repo_id,
                public=args.public,
                keep_card=args.keep_card,
                allow_errors=args.allow_errors,
                license_id=args.license,
                on_progress=progress,
            )
            lines = [f"{pushed.url}: {pushed.files} files, {spoken_bytes(pushed.size_bytes)}"]
            lines += [f"deleted there: {name}" for name in pushed.deleted]
    print_lines(lines)
    return 0


@contextmanager
def _progress() -> "Iterator[Progress | None]":
    if not sys.stderr.isatty():
        yield None
        return
    from piper_collect.report.progress import progress_bar

    with progress_bar() as bar:
        yield lambda what, done, total: bar(f"{what} {done}/{total}", done, total)
