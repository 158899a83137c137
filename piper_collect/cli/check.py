"""``piper-collect check``: look for faults in a dataset."""

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("root", type=Path, metavar="ROOT", help="folder of the dataset")
    parser.add_argument("--json", action="store_true", help="print the report as JSON, and nothing else")


def run(args: argparse.Namespace) -> int:
    """Check; 1 when there is an error in the dataset."""
    import json

    from piper_collect.pipelines.check import check_dataset
    from piper_collect.report.tables import print_lines

    report = check_dataset(args.root)
    if args.json:
        print(json.dumps(report.to_json(), indent=2, allow_nan=False))
    else:
        print_lines(str(finding) for finding in report.findings)
        facts = report.facts
        said = f"{report.subject}: {facts['episodes']} episodes, {facts['rows']} rows"
        errors = sum(f.level == "error" for f in report.findings)
        print_lines([f"{said}, {errors} errors, {len(report.findings) - errors} warnings"])
    return 0 if report.ok else 1
