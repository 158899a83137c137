"""Run all the tests in two rows: those with nodes or a browser mostly wait, others run beside them.

A file of those with nodes follows in the other row when that is done: both end at about the same time then.
With arguments, which are handed on to each run of pytest, none does.
"""

import subprocess
import sys
from collections.abc import Sequence
from tempfile import TemporaryFile
from threading import Thread
from typing import IO

import pytest

NICE = 10
"""The others get what processor time the nodes leave."""

LATE = ["test/test_keyboard.py"]
"""It takes about as long as the first row would end after the other, and needs no port of its own."""

PYTEST = [sys.executable, "-m", "pytest"]


def main(arguments: list[str]) -> int:
    """Run both rows; 0 when none failed and there were tests to run."""
    late = [] if arguments else LATE
    apart = ["-o", "cache_dir=.pytest_cache/beside"]
    others = [["nice", "-n", str(NICE), *PYTEST, "-m", "not nodes", *apart, *arguments]]
    others += [[*PYTEST, "-m", "nodes", *apart, *late]] if late else []
    ended: list[int] = []
    with TemporaryFile() as report:
        print("the tests that only compute run beside these; their report comes last", flush=True)
        beside = Thread(target=_run, args=(others, ended, report))
        beside.start()
        _run([[*PYTEST, "-m", "nodes", *(f"--ignore={file}" for file in late), *arguments]], ended)
        beside.join()
        report.seek(0)
        sys.stdout.buffer.write(report.read())
    failed = [code for code in ended if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)]
    return 1 if failed or pytest.ExitCode.OK not in ended else 0


def _run(commands: Sequence[Sequence[str]], ended: list[int], report: IO[bytes] | None = None) -> None:
    """Run one row, and note how each of it ended."""
    for command in commands:
        done = subprocess.run(command, check=False, stdout=report, stderr=report and subprocess.STDOUT)
        ended.append(done.returncode)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
