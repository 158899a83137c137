"""The Makefile with a virtual environment, and a Python, whose paths have spaces."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

MAKEFILE = Path(__file__).parents[1] / "Makefile"
STUB = """#!/bin/sh
echo "$(basename "$0") $*" >> "$LOG"
if [ "$2" = venv ]; then
  mkdir -p "$3/bin"
  for name in python pip piper-collect ruff mypy; do cp "$0" "$3/bin/$name"; done
fi
"""

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


@pytest.mark.parametrize("venv", [".venv", "my envs/the env"])
def test_paths_with_spaces_are_one_word(tmp_path: Path, venv: str) -> None:
    work, log = tmp_path / "a work", tmp_path / "log"
    work.mkdir()
    text = MAKEFILE.read_text(encoding="utf-8")
    (work / "Makefile").write_text(text, encoding="utf-8")
    folders, files = re.search(r"find ([\w ]+?) -type f.*?\\\n\t(.+)", text, re.DOTALL).groups()
    for folder in folders.split():
        (work / folder).mkdir()
    for name in files.splitlines()[0].split():
        (work / name).touch()
    python = work / "a python"
    python.write_text(STUB)
    python.chmod(0o755)

    def make(*words: str) -> list[str]:
        log.write_text("")
        command = ["make", *words, f"VENV={venv}", f"PYTHON={python}", "DEMO=a demo"]
        done = subprocess.run(
            command, cwd=work, env={**os.environ, "LOG": str(log)}, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return log.read_text().splitlines()

    assert make("demo") == [
        f"a python -m venv {venv}",
        "python -m pip install --quiet --disable-pip-version-check .[test]",
        "piper-collect demo --output a demo",
    ]
    # nothing is installed again
    assert make("test") == ["ruff check", "ruff format --check", "mypy ", "python scripts/run_tests.py"]
    assert (work / venv / ".installed").is_file()
    (work / "my envs").mkdir(exist_ok=True)
    make("clean")
    assert sorted(p.name for p in (work / "my envs").iterdir()) == []
    assert not (work / venv).exists()
