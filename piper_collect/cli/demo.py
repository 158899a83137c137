"""``piper-collect demo``: the whole way with simulated devices, and a look at what came out."""

import argparse
from pathlib import Path

DESCRIPTION = """\
Records three episodes of a simulated arm with two cameras, one of which the operator discards, exports
the others as a dataset, validates it, and writes a contact sheet. Everything is real but the devices: ROS
nodes in processes of their own, DDS, rosbag2 bags, parquet and video.

The bags go to DIR/bags, the dataset to DIR/dataset. Nothing leaves this computer.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("demo"), metavar="DIR", help="folder (default: %(default)s)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the demo; 0 when the dataset came out as it should."""
    from piper_collect.pipelines.demo import run_demo
    from piper_collect.report.tables import print_lines, print_table

    outcome = run_demo(arguments.output, say=lambda line: print_lines([line]))
    columns = ("episode", "rows", "seconds", "frames", "task")
    rows = [(e.index, e.rows, e.seconds, e.frames, e.task) for e in outcome.episodes]
    print_table(str(outcome.dataset), columns, rows)
    print_lines(f"FAULT: {fault}" for fault in outcome.faults)
    print_lines(
        [
            f"bags           {outcome.bags}",
            f"dataset        {outcome.dataset}",
            f"contact sheet  {outcome.contact_sheet}",
            f"capture times  {outcome.checked}",
        ]
    )
    return 0 if not outcome.faults else 1
