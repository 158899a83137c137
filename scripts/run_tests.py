"""Run all the tests in two rows: those with nodes or a browser mostly wait, others run beside them.

When the others are done, a part of those with nodes follows in their row, so that both rows end at about the
same time. Arguments are handed on to each run of pytest.
"""

import subprocess
import sys
from collections.abc import Sequence
from tempfile import TemporaryFile

import pytest

NICE = 10
"""The others get what processor time the nodes leave."""

PYTEST = [sys.executable, "-m", "pytest"]


def main(arguments: list[str]) -> int:
    """Run both rows; 0 when none failed and there were tests to run."""
    with TemporaryFile() as report:
        print("the tests that only compute run beside these; their report comes last", flush=True)
        with subprocess.Popen(
            [sys.executable, __file__, "--beside", *arguments], stdout=report, stderr=subprocess.STDOUT
        ) as others:
            ended = [_run(["-m", "nodes and not late", *arguments])]
            ended.append(others.wait())
        report.seek(0)
        sys.stdout.buffer.write(report.read())
    return _joined(ended)


def beside(arguments: list[str]) -> int:
    """Run the other row: what only computes, then what is left of the nodes."""
    cache = ["-o", "cache_dir=.pytest_cache/beside"]
    computing = _run(["-m", "not nodes", *cache, *arguments], ["nice", "-n", str(NICE)])
    return _joined([computing, _run(["-m", "nodes and late", *cache, *arguments])], none=True)


def _run(arguments: Sequence[str], before: Sequence[str] = ()) -> int:
    return subprocess.run([*before, *PYTEST, *arguments], check=False).returncode


def _joined(ended: Sequence[int], *, none: bool = False) -> int:
    """One exit code for several; ``none``: where there were no tests at all, that is it."""
    failed = [code for code in ended if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)]
    if failed or pytest.ExitCode.OK in ended:
        return 1 if failed else 0
    return int(pytest.ExitCode.NO_TESTS_COLLECTED) if none else 1


if __name__ == "__main__":
    given = sys.argv[1:]
    sys.exit(beside(given[1:]) if given[:1] == ["--beside"] else main(given))
