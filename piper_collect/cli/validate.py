"""``piper-collect validate``: judge a dataset or a bag."""

import argparse
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from piper_collect.core.findings import Level, Report
    from piper_collect.pipelines.validate import Progress

DESCRIPTION = """\
Look at everything in a dataset, ours or another tool's: files, rows, videos, statistics, provenance, and what
each real consumer (LeRobot, GR00T) would do with it. A bag is judged as a recording.
"""

EPILOG = """\
exit code: 0 good, 3 findings at or above the threshold or not ready, 1 could not be read

examples:
  piper-collect validate ~/datasets/cups
  piper-collect validate ~/datasets/cups --html report.html --fail-on warn
  piper-collect validate ~/piper_recordings/cups_20260101_120000 --html bags.html
"""

EXIT_FINDINGS = 3
CONSUMER = "consumer"
"""Code of the findings that say what one consumer would do with a dataset."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument(
        "root", type=Path, metavar="ROOT", help="folder of a dataset, a bag, or folder of bags"
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON, and nothing else")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write the report as one HTML file, too")
    parser.add_argument(
        "--fail-on",
        choices=("warn", "fail"),
        default="fail",
        help="what makes the exit status 3: errors only (fail, the default), or warnings as well (warn)",
    )
    parser.add_argument(
        "--config", metavar="YAML", help="for bags: how to read them (default: as each was recorded)"
    )
    parser.add_argument(
        "--profile", metavar="NAME", help="for bags: the kind of dataset they are meant for (default: piper)"
    )
    parser.add_argument("--quick", action="store_true", help="read the videos' times, but decode no picture")
    parser.add_argument(
        "--ready",
        action="store_true",
        help="also look for what the layout asks for; write its file (dataset_ready.json) where all is there",
    )
    parser.add_argument("--quiet", action="store_true", help="print only findings at or above the threshold")


def run(args: argparse.Namespace) -> int:
    """Validate; 3 when a finding reaches the threshold, or what was to be ready is not."""
    threshold: Level = "warning" if args.fail_on == "warn" else "error"
    if args.ready:
        return _ready(args, threshold)
    return _told(args, _report(args), threshold)


def _told(args: argparse.Namespace, report: "Report", threshold: "Level") -> int:
    import json

    if args.json:
        print(json.dumps(report.to_json(), indent=2, allow_nan=False))
    else:
        _print(report, threshold if args.quiet else "info", summary=not args.quiet)
        if args.html is not None and not args.quiet:
            print(f"wrote {args.html}")
    return EXIT_FINDINGS if report.reaches(threshold) else 0


def _ready(args: argparse.Namespace, threshold: "Level") -> int:
    """Validate under the lock, so that what is said to be ready is what was looked at."""
    from piper_collect.dataset.guard import locked
    from piper_collect.errors import UsageError
    from piper_collect.pipelines.readiness import check_asked, judge_ready
    from piper_collect.report.tables import print_lines

    if args.quick or args.json:
        raise UsageError("--ready looks at every frame, and prints lines", got="--quick or --json")
    check_asked(args.root)
    with locked(args.root):
        report = _report(args)
        verdict = judge_ready(args.root, report)
    code = _told(args, report, threshold)
    if verdict.missing:
        print_lines(f"not ready: {what}" for what in verdict.missing)
        return EXIT_FINDINGS
    if not args.quiet:
        print_lines([f"ready: wrote {verdict.file}"])
    return code


def _report(args: argparse.Namespace) -> "Report":
    from piper_collect.dataset.layout import INFO, META
    from piper_collect.errors import ConfigError, DatasetError

    if not args.root.exists():
        raise DatasetError(
            "no such path", where=args.root, expected=f"a dataset (a folder with {META}/{INFO}), or a bag"
        )
    is_dataset = (args.root / META).is_dir()
    for name in ("config", "profile"):
        if is_dataset and getattr(args, name) is not None:
            raise ConfigError(f"--{name} is for bags", where=args.root, got="a dataset")
    try:
        return _dataset_report(args) if is_dataset else _bag_report(args)
    except OSError as err:
        if args.html is None:
            raise
        raise ConfigError(f"the report cannot be written: {err.strerror}", where=args.html) from err


def _bag_report(args: argparse.Namespace) -> "Report":
    from piper_collect.config.load import load_session
    from piper_collect.config.profile import load_profile
    from piper_collect.pipelines.bag_report import BagPage
    from piper_collect.pipelines.validate_bag import validate_bag

    config = load_session(args.config) if args.config else None
    profile = load_profile(args.profile or "piper")
    with ExitStack() as stack:
        page = stack.enter_context(BagPage(args.html, profile)) if args.html is not None else None
        report = validate_bag(
            args.root, config, profile=profile, on_bag=page.add if page is not None else None
        )
        if page is not None:
            page.finish(report)
    return report


def _dataset_report(args: argparse.Namespace) -> "Report":
    from piper_collect.pipelines.validation_report import ValidationPage
    from piper_collect.pipelines.validators import validator_of

    show = sys.stderr.isatty() and not (args.json or args.quiet)
    with ExitStack() as stack:
        page = stack.enter_context(ValidationPage(args.html)) if args.html is not None else None
        progress = stack.enter_context(_progress(show))
        outcome = validator_of(args.root)(
            args.root,
            decode=not args.quick,
            on_episode=page.add if page is not None else None,
            on_progress=progress,
        )
        if page is not None:
            page.finish(outcome.report, outcome.dataset)
    return outcome.report


@contextmanager
def _progress(show: bool) -> Iterator["Progress | None"]:
    if not show:
        yield None
        return
    from piper_collect.report.progress import progress_bar

    with progress_bar() as bar:
        yield lambda done, total: bar(f"episodes {done}/{total}", done, total)


def _print(report: "Report", least: "Level", *, summary: bool) -> None:
    from piper_collect.core.findings import LEVELS
    from piper_collect.report.tables import print_lines, print_table

    listed = [f for f in report.findings if LEVELS.index(f.level) <= LEVELS.index(least)]
    consumers = [f for f in listed if f.code == CONSUMER]
    print_lines(str(f) for level in LEVELS for f in listed if f.level == level and f not in consumers)
    print_lines(f"and {count} more [{code}]" for code, count in report.unlisted.items())
    if consumers:
        cells = [(f.where, _by_lines(f.text)) for f in consumers]
        print_table("", ("consumer", "what it does with the dataset"), cells)
    if summary:
        facts = report.facts
        counts = {key: facts[key] for key in ("bags", "episodes", "rows") if key in facts}
        counts |= {"errors": report.count("error"), "warnings": report.count("warning")}
        said = ", ".join(f"{n} {key.removesuffix('s') if n == 1 else key}" for key, n in counts.items())
        print_lines([f"{report.subject}: {said}"])


def _by_lines(text: str) -> str:
    """One reason a line; what stands in brackets stays together."""
    lines, depth = [""], 0
    for part in text.split("; "):
        lines[-1] += part
        depth += part.count("(") - part.count(")")
        if depth > 0:
            lines[-1] += "; "
        else:
            lines.append("")
    return "\n".join(line for line in lines if line)
