#!/usr/bin/env python3
"""Write docs/reliability.md from docs/reliability.toml and what the tests that it names counted.

usage: python scripts/reliability_docs.py              run those tests, then write the page
       python scripts/reliability_docs.py --only WORD  run those of the rows with this word in them
       python scripts/reliability_docs.py --junit F..  take the results of runs with pytest --junitxml F

A row whose tests are not among the results stays as the page has it; one that the page has not yet is left
out, and named. Nothing is written when a test failed. PIPER_COLLECT_KILLS=50 kills fifty times, not ten;
PIPER_COLLECT_FUZZ=10 tries ten times as many inputs.
"""

import argparse
import subprocess
import sys
import tempfile
import tomllib
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE, PAGE = ROOT / "docs" / "reliability.toml", ROOT / "docs" / "reliability.md"

HEAD = """\
# Reliability

What may go wrong, what then happens, and the test that shows it. Nothing here is claimed without one. Counts
are of one run of each row's tests, in which all of them passed.

This page is made by `scripts/reliability_docs.py` of `docs/reliability.toml`: it runs the tests that are
named there and adds up what they counted. Seeded kills are ten of a sort; `PIPER_COLLECT_KILLS=50` before any
test command, or before the script, makes them fifty. `PIPER_COLLECT_FUZZ=10` tries ten times as many spoilt
inputs, other ones in each run; `PIPER_COLLECT_SOAK=3` makes three minutes of the last row. Where counts are
that high, this was done:

```bash
PIPER_COLLECT_KILLS=50 python -m pytest -m kills
PIPER_COLLECT_FUZZ=10 python -m pytest test/test_fuzz.py test/test_cli_fuzz.py test/test_recover_fuzz.py
```
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One row: what may go wrong.

    Attributes:
        group: Heading that it stands under.
        fault: What happens to the system.
        result: What the system does then.
        tests: ``test_file.py`` or ``test_file.py::test_name``, all its parameters included.
    """

    group: str
    fault: str
    result: str
    tests: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What the tests of one row did, added up."""

    passed: int = 0
    skipped: int = 0
    counts: Counter[str] = field(default_factory=Counter)


def faults(source: Path = SOURCE) -> list[Fault]:
    """The rows as they are declared."""
    rows = tomllib.loads(source.read_text(encoding="utf-8"))["fault"]
    return [Fault(**{**row, "tests": tuple(row["tests"])}) for row in rows]


def outcomes(rows: Sequence[Fault], junit: Sequence[Path]) -> list[Outcome | None]:
    """What runs of the tests say of each row; None where not all of its tests are among them.

    Raises:
        SystemExit: A test of a row failed.
    """
    cases = [case for file in junit for case in ET.parse(file).iter("testcase")]
    return [_outcome(row, cases) for row in rows]


def _outcome(row: Fault, cases: Sequence[ET.Element]) -> Outcome | None:
    outcome = Outcome()
    for test in row.tests:
        mine = [case for case in cases if _is_of(case, test)]
        if not mine:
            return None
        for case in mine:
            _add(outcome, case, test)
    return outcome


def _is_of(case: ET.Element, test: str) -> bool:
    file, _, name = test.partition("::")
    module = case.get("classname", "").split(".")[-1]
    return f"{module}.py" == file and name in ("", case.get("name", "").partition("[")[0])


def _add(outcome: Outcome, case: ET.Element, test: str) -> None:
    if case.find("failure") is not None or case.find("error") is not None:
        raise SystemExit(f"error: {test} failed")
    if case.find("skipped") is not None:
        outcome.skipped += 1
        return
    outcome.passed += 1
    for entry in case.iter("property"):
        outcome.counts[entry.get("name", "")] += int(entry.get("value", "0"))


def counted(outcome: Outcome) -> str:
    """The last column: counts of things, then of tests."""
    told = [f"{count:,} {what}" for what, count in outcome.counts.items()]
    told.append(f"{outcome.passed} test{'s' if outcome.passed != 1 else ''}")
    if outcome.skipped:
        told.append(f"{outcome.skipped} skipped where this was made")
    return ", ".join(told)


def table(rows: Sequence[Fault], found: Sequence[Outcome | None], before: str) -> Iterator[str]:
    """Lines of the page below its head; ``before`` is the page as it was."""
    group = ""
    for row, outcome in zip(rows, found, strict=True):
        text = declared(row)
        lines = [line for line in before.splitlines() if line.startswith(text)]
        if outcome is None and not lines:
            print(f"left out, since not all of its tests have results: {row.fault}", file=sys.stderr)
            continue
        if row.group != group:
            group = row.group
            yield f"\n## {group}\n"
            yield "| fault | what happens | shown by | counted |"
            yield "|---|---|---|---|"
        yield lines[0] if outcome is None else f"{text} {counted(outcome)} |"


def declared(row: Fault) -> str:
    """The part of a row that does not depend on a run."""
    tests = ", ".join(f"[{test}](../test/{test.partition('::')[0]})" for test in row.tests)
    return f"| {row.fault} | {row.result} | {tests} |"


def run_tests(rows: Sequence[Fault], junit: Path) -> None:
    """Run every test that is named once."""
    named = dict.fromkeys(f"test/{test}" for row in rows for test in row.tests)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={junit}", *named]
    subprocess.run(command, cwd=ROOT, check=False)  # a failure is told by the results


def main() -> None:
    """Make the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--only", default="", metavar="WORD", help="run only the tests of rows with this word"
    )
    parser.add_argument("--junit", type=Path, nargs="+", metavar="FILE", help="results of earlier runs")
    args = parser.parse_args()
    rows = faults()
    before = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    with tempfile.TemporaryDirectory() as folder:
        junit = args.junit or [Path(folder) / "results.xml"]
        if not args.junit:
            run_tests([row for row in rows if args.only in f"{row.group} {declared(row)}"], junit[0])
        page = "\n".join([HEAD.rstrip("\n"), *table(rows, outcomes(rows, junit), before)]) + "\n"
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
