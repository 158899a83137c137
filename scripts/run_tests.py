"""Run all the tests in two processes: those with nodes or a browser mostly wait, others run beside them.

Arguments are handed on to both runs of pytest.
"""

import subprocess
import sys
from tempfile import TemporaryFile

import pytest

NICE = 10
"""The others get what processor time the nodes leave."""

PYTEST = [sys.executable, "-m", "pytest"]


def main(arguments: list[str]) -> int:
    """Run both; 0 when none failed and there were tests to run."""
    with TemporaryFile() as report:
        beside = ["nice", "-n", str(NICE), *PYTEST, "-m", "not nodes", "-o", "cache_dir=.pytest_cache/beside"]
        print("the tests that only compute run beside these; their report comes last", flush=True)
        with subprocess.Popen([*beside, *arguments], stdout=report, stderr=subprocess.STDOUT) as others:
            ended = [subprocess.run([*PYTEST, "-m", "nodes", *arguments], check=False).returncode]
            ended.append(others.wait())
        report.seek(0)
        sys.stdout.buffer.write(report.read())
    failed = [code for code in ended if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)]
    return 1 if failed or pytest.ExitCode.OK not in ended else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
