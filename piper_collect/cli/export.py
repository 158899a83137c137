"""``piper-collect export``: make a dataset from bags, or add them to one."""

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from piper_collect.pipelines.bag_episodes import ExportOptions
    from piper_collect.pipelines.export import Progress
    from piper_collect.pipelines.export_outcome import BagOutcome, ExportSummary

EPILOG = """\
A PATH is a bag or a folder that holds some, at most three folders down. Bags come in the order of their
start. A bag that the dataset holds already is left alone, so that an export that was stopped is simply
run again.

profiles:
  piper   true capture times in rows and videos, exactly the format of docs/dataset.md (the default)
  train   rows at k/fps, one frame a row, true times beside them: LeRobot and GR00T load it as it is
  train_depth
          train as LeRobot v3.0, with the depth images of cameras that have depth_topic or aligned_depth
  tacrich the TacRich layout over LeRobot v3.0: degrees, millimetres, rotation-6D of the gripper's tip; AV1
  tacrich_umi
          tacrich of a hand-held gripper: local poses, the next pose as action, zeros for joints
  trex    the T-Rex layout over LeRobot v2.1, of one arm: the flange as rotation-6D, then the gripper
  FILE    one of your own; copy one of config/profiles

exit code:
  0   every bag is in the dataset, but for those that are not whole, which are named
  1   a bag failed, or none is in the dataset; those that are, stay in it
  130 stopped by Ctrl-C; --watch, which Ctrl-C ends, exits with 0 then, or with 1 where a bag failed
      (130 after a second Ctrl-C)

examples:
  piper-collect export ~/piper_recordings/pick_20260101_120000 -o ~/piper_datasets/pick
  piper-collect export ~/piper_recordings/pick_20260101_120000 -o ~/piper_datasets/pick_train --profile train
  piper-collect export --watch ~/piper_recordings -o ~/piper_datasets/pick
  piper-collect export my_bag -o ROOT --profile train --dialect lerobot-v3.0      (LeRobot 0.4)
  piper-collect export my_bag -o ROOT --profile train --dialect hdf5-cases        (needs h5py)
  piper-collect export my_bag -o ROOT --config piper_ros_realsense --task "pick the cube"
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument(
        "paths", nargs="+", type=Path, metavar="PATH", help="a bag, or a folder that holds some"
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="ROOT",
        help="folder of the dataset (default: a new one, <recording root>/<task>_<YYYYMMDD_HHMMSS>)",
    )
    parser.add_argument(
        "--profile",
        default="piper",
        metavar="NAME",
        help="kind of dataset: one of those below, or a YAML file (default: %(default)s)",
    )
    parser.add_argument(
        "--dialect",
        metavar="NAME",
        help="on-disk format, in place of the profile's own: lerobot-v2.0, lerobot-v2.1, lerobot-v3.0 "
        "or hdf5-cases",
    )
    parser.add_argument(
        "--codec",
        metavar="NAME",
        help="video encoder, in place of the profile's own: libx264, libx265 or libsvtav1 (AV1)",
    )
    parser.add_argument(
        "--config", metavar="YAML", help="how to read the bags (default: as each was recorded)"
    )
    parser.add_argument("--task", metavar="TEXT", help="task string, in place of the recorded one")
    parser.add_argument("--allow-incomplete", action="store_true", help="take interrupted recordings, too")
    parser.add_argument(
        "--split",
        type=_seconds,
        metavar="S",
        help="make several episodes of recordings longer than S seconds",
    )
    parser.add_argument(
        "--replace",
        action="store_true",
        help="make the episodes of bags that are in the dataset anew, in place",
    )
    _add_ways_to_run(parser)
    parser.add_argument(
        "--save-raw-quest", action="store_true", help="keep the raw headset input under extras/"
    )
    parser.add_argument(
        "--strict-binding",
        action="store_true",
        help="refuse a session recorded under other control parameters than the one before, not only warn",
    )
    _add_output(parser)


def _add_ways_to_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--workers",
        type=_count,
        metavar="N",
        help="bags to read and encode at the same time, each in a process with one encoder thread a camera; "
        "the dataset is the same for any N (default: the processor's cores by the cameras, "
        "and 1 a 50 MB of bags at most)",
    )
    parser.add_argument(
        "--watch",
        action="store_true",
        help="go on: export each bag as soon as it is closed, at low priority, until Ctrl-C "
        "(which waits for the episode in hand; a second one does not, and nothing is lost); needs -o",
    )
    parser.add_argument(
        "--ray",
        metavar="ADDRESS",
        help="read and encode on a Ray cluster: auto, local, HOST:PORT or ray://HOST:PORT; the dataset is "
        "the same (with --workers N so many bags at the same time, else as its processors are for)",
    )


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json",
        action="store_true",
        help="print the summary as JSON, and nothing else; with --watch a line of JSON a bag",
    )
    parser.add_argument("--quiet", action="store_true", help="print errors only")
    parser.add_argument("--no-progress", action="store_true", help="no progress bar")


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"not a number of seconds above 0: {text!r}")
    return value


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"not a number from 1 on: {text!r}")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Export; see ``EPILOG`` for the exit code."""
    if args.watch:
        from piper_collect.cli.export_watch import get_low_priority, watch

        get_low_priority()  # before there are other threads
        return watch(args, _options(args))
    from piper_collect.pipelines.export import export

    options = _options(args)
    show = sys.stderr.isatty() and not (args.json or args.quiet or args.no_progress)
    with _progress(show) as on_progress:
        summary = export(
            args.paths, args.output, options, workers=args.workers, ray=args.ray, on_progress=on_progress
        )
    if args.json:
        _print_json(summary)
    elif not args.quiet:
        _print_tables(summary)
    for bag in summary.bags:
        if bag.warning:
            print(bag.warning, file=sys.stderr)
    if not args.json:
        for line in _left_out(summary):
            print(line, file=sys.stderr)
        for reason in dict.fromkeys(bag.reason for bag in summary.bags if bag.status == "failed"):
            print(f"error: {reason}", file=sys.stderr)
    return summary.exit_code


def _options(args: argparse.Namespace) -> "ExportOptions":
    from piper_collect.config.load import load_session
    from piper_collect.config.profile import load_profile, with_codec, with_dialect
    from piper_collect.pipelines.bag_episodes import ExportOptions

    profile = load_profile(args.profile)
    profile = with_dialect(profile, args.dialect) if args.dialect else profile
    return ExportOptions(
        profile=with_codec(profile, args.codec) if args.codec else profile,
        config=load_session(args.config) if args.config else None,
        config_name=args.config or "",
        allow_incomplete=args.allow_incomplete,
        task=args.task,
        split_s=args.split,
        save_raw_quest=args.save_raw_quest,
        strict_binding=args.strict_binding,
        replace=args.replace,
    )


def _left_out(summary: "ExportSummary") -> list[str]:
    return [
        f"left out {_name(bag)}: {bag.reason} (--allow-incomplete takes it all the same)"
        for bag in summary.bags
        if bag.status == "skipped"
    ]


@contextmanager
def _progress(show: bool) -> Iterator["Progress | None"]:
    if not show:
        yield None
        return
    from piper_collect.report.progress import progress_bar

    with progress_bar() as bar:

        def tell(number: int, bags: int, name: str, fraction: float) -> None:
            bar(f"{number + 1}/{bags} {name}", number + fraction, bags)

        yield tell


def _print_json(summary: "ExportSummary") -> None:
    import json
    from dataclasses import asdict

    from piper_collect.bag.sidecar import path_text

    bags = [{**asdict(bag), "bag": path_text(bag.bag)} for bag in summary.bags]
    root = path_text(summary.root) if summary.root else None
    content = {"root": root, "bags": bags, "notes": list(summary.notes)}
    print(json.dumps(content, indent=2, allow_nan=False))


def _name(bag: "BagOutcome") -> str:
    from piper_collect.bag.sidecar import path_text

    return path_text(f"{bag.bag.parent.name}/{bag.bag.name}")


def _print_tables(summary: "ExportSummary") -> None:
    from piper_collect.bag.sidecar import path_text
    from piper_collect.report.tables import print_lines, print_table

    rows = []
    for bag in summary.bags:
        counts = bag.counts or {}
        frames = ", ".join(f"{name} {n}" for name, n in (bag.video_frames or {}).items())
        rows.append(
            (
                path_text(bag.bag.parent.name),
                path_text(bag.bag.name),
                bag.status,
                ", ".join(map(str, bag.episodes)),
                bag.rows or None,
                counts.get("gaps"),
                counts.get("dropped"),
                frames,
                bag.duration_s or None,
            )
        )
    columns = ("session", "bag", "", "episode", "rows", "gaps", "dropped", "frames", "seconds")
    print_table(path_text(summary.root) if summary.root else "no dataset", columns, rows)
    words = {
        "exported": "exported",
        "replaced": "made anew",
        "held": "in the dataset already",
        "skipped": "skipped",
        "failed": "failed",
    }
    print_lines([", ".join(f"{summary.count(s)} {words[s]}" for s in words if summary.count(s))])  # type: ignore[arg-type]
    print_lines(dict.fromkeys(f"read with: {bag.config}" for bag in summary.bags if bag.config))
    for bag in summary.bags:
        print_lines(f"note: {_name(bag)}: {note}" for note in bag.notes)
    print_lines(f"note: {note}" for note in summary.notes)
