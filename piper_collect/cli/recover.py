"""``piper-collect recover``: whole bags of what a killed recorder left, and of damaged bags."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from piper_collect.pipelines.recover import Progress, Recovery

DESCRIPTION = """\
Makes a whole bag, with index and metadata.yaml, of a recording that was never finished (the recorder was
killed, the power was cut, the disk was full) or of a damaged bag: MCAP, or sqlite3 with its log. Says how
many messages of each topic were recovered, and how much can be missing at most.
"""
EPILOG = """\
A PATH is a bag, a storage file (.mcap, .db3), a session, or a recording root. Of a session or a root
every recording is taken that was never finished, and every bag that a look shows not to be whole.

An unfinished recording becomes the episode of its number in its session; where an episode has that number,
the next free one. Of any other bag recovered_NAME is made beside it. The new bag is written aside, read to
its end and compared, and only then moved into place. What is missing is never filled in: the bag is marked
incomplete, with the reasons, and export leaves it out unless told --allow-incomplete.

The original is never changed. That of a recording is kept as .recording/original_of_episode_N; remove it
when you like, or let --delete-original do it. Stopped at any moment, run it again.

exit code: 0 when all was recovered or nothing was to do, 1 when something could not be recovered

examples:
  piper-collect recover ~/piper_recordings
  piper-collect recover ~/piper_recordings/pick_20260101_120000 --dry-run
  piper-collect recover my_bag/my_bag_0.mcap
"""

_DONE = ("recovered", "recoverable", "done")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument(
        "paths", nargs="+", type=Path, metavar="PATH", help="a bag, a storage file, a session, or a root"
    )
    parser.add_argument("--dry-run", action="store_true", help="only look, and say what could be recovered")
    parser.add_argument(
        "--delete-original",
        action="store_true",
        help="remove each original once the recovered bag was read and is in place",
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON, and nothing else")
    parser.add_argument("--quiet", action="store_true", help="print errors only")
    parser.add_argument("--no-progress", action="store_true", help="no progress bar")


def run(args: argparse.Namespace) -> int:
    """Recover; 0 when nothing failed."""
    from piper_collect.pipelines.recover import recover

    show = sys.stderr.isatty() and not (args.json or args.quiet or args.no_progress)
    with _progress(show) as on_progress:
        results = recover(
            args.paths,
            dry_run=args.dry_run,
            delete_original=args.delete_original,
            on_progress=on_progress,
        )
    if args.json:
        _print_json(results)
    elif not args.quiet:
        _print_results(results)
    failed = [result for result in results if result.status == "failed"]
    if not args.json:
        for result in failed:
            print(f"error: {result.error}", file=sys.stderr)
    return 1 if failed else 0


@contextmanager
def _progress(show: bool) -> Iterator["Progress | None"]:
    if not show:
        yield None
        return
    from piper_collect.report.progress import progress_bar

    with progress_bar() as bar:

        def tell(number: int, bags: int, name: str, word: str, done: float, total: float) -> None:
            bar(f"{number + 1}/{bags} {name}: {word}", done, total)

        yield tell


def _print_json(results: Sequence["Recovery"]) -> None:
    import json
    from dataclasses import asdict

    from piper_collect.bag.sidecar import path_text

    rows = []
    for result in results:
        paths = {
            key: None if path is None else path_text(path)
            for key, path in (("source", result.source), ("bag", result.bag), ("original", result.original))
        }
        rows.append({**asdict(result), **paths})
    print(json.dumps({"bags": rows}, indent=2, allow_nan=False))


def _print_results(results: Sequence["Recovery"]) -> None:
    from piper_collect.bag.sidecar import path_text
    from piper_collect.report.tables import print_lines, print_table

    for result in results:
        if result.status in _DONE:
            topics = sorted({*result.counts, *result.lost})
            rows = [(t or "(topic not known)", result.counts.get(t, 0), result.lost.get(t)) for t in topics]
            print_table(path_text(result.source), ("topic", "messages", "known to be lost"), rows)
        print_lines(path_text(line) for line in _lines(result))
    counts = {status: sum(r.status == status for r in results) for status in (*_WORDS, "failed")}
    said = [f"{count} {_SUMMARY[status]}" for status, count in counts.items() if count]
    print_lines([", ".join(said) or "nothing to recover"])


_WORDS = {
    "recovered": "recovered",
    "recoverable": "can be recovered",
    "done": "was recovered before",
    "whole": "is whole: nothing to do",
    "empty": "holds no message: there is nothing to recover, remove it when you like",
    "busy": "is being recorded or recovered at this moment: left alone",
}
_SUMMARY = {
    "recovered": "recovered",
    "recoverable": "can be recovered",
    "done": "recovered before",
    "whole": "whole",
    "empty": "empty",
    "busy": "left alone",
    "failed": "failed",
}


def _lines(result: "Recovery") -> Iterator[str]:
    """What a person should know of one bag."""
    if result.status == "failed":
        return
    if result.status not in _DONE:
        yield f"{result.source}: {_WORDS[result.status]}"
        return
    seconds = ((result.end_ns or 0) - (result.start_ns or 0)) / 1e9
    where = f": {result.bag}" if result.bag is not None else ""
    yield f"{_WORDS[result.status]}, {sum(result.counts.values())} messages, {seconds:.2f} s{where}"
    yield f"missing at most: {_missing(result)}"
    yield from (f"not whole: {reason}" for reason in result.reasons)
    yield from (f"note: {note}" for note in result.notes)
    if result.original is None:
        yield "the original was removed"
    elif result.status != "recoverable":
        yield f"the original is kept: {result.original}"


def _missing(result: "Recovery") -> str:
    if result.most_missing_s == 0:
        return "nothing"
    if result.most_missing_s is None:
        return "not known: nothing in the bag bounds it"
    return f"{result.most_missing_s:.2f} s; after a power cut also what the system had not yet written"
