"""The same recordings come to the same bytes: elsewhere, in several runs, whatever the process is set to."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from export_cases import files, run, varied_bags
from golden.make import BAG

from piper_collect.cli.main import main
from piper_collect.dataset.edit import delete_episodes
from piper_collect.pipelines.finalize import finalize
from piper_collect.pipelines.validate import validate_dataset

pytestmark = pytest.mark.usefixtures("no_sync")

REPOSITORY = Path(__file__).parents[1]
PROFILES = ("piper", "train")
SETTINGS = [
    {"PYTHONHASHSEED": "0", "LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "TZ": "UTC"},
    {"PYTHONHASHSEED": "4242", "LC_ALL": "C.UTF-8", "LANG": "tr_TR.UTF-8", "TZ": "Asia/Kathmandu"},
]
EXPORTS = """
import os, sys
os.fsync = lambda descriptor: None
from piper_collect.cli.main import main
words = sys.argv[1:]
while words:
    end = words.index(";")
    if code := main(words[:end]):
        sys.exit(code)
    words = words[end + 1 :]
"""


@pytest.fixture(scope="module")
def bags(tmp_path_factory):
    """Two sessions, and a task of odd characters."""
    folder = tmp_path_factory.mktemp("recordings")
    golden = shutil.copytree(BAG, folder / BAG.parent.name / BAG.name)
    return [golden, *varied_bags(folder, 3)]


def elsewhere(exports, folder, settings):
    """Export in a process of its own: words of the command line, run by run."""
    found = subprocess.run(
        [sys.executable, "-c", EXPORTS, *(word for words in exports for word in (*words, ";"))],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), **settings},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert found.returncode == 0, found.stderr


def words(paths, root, profile):
    taken = ["--save-raw-quest", "--allow-incomplete", "--quiet", "--profile", profile]
    return ["export", *map(str, paths), "-o", str(root), *taken]


def test_the_same_bytes_everywhere(bags, tmp_path):
    few, many, moved = tmp_path / "few", tmp_path / "ä b", tmp_path / "moved"
    few.mkdir()
    many.mkdir()
    copies = [shutil.copytree(b, moved / b.parent.name / b.name) for b in bags]
    wide = {"golden": bags[:1], "varied": bags[1:]}
    for profile in PROFILES:
        for name, paths in wide.items():
            run(paths, few / f"{profile}_{name}", profile, save_raw_quest=True, allow_incomplete=True)
    runs = {"golden": [copies[:1]], "varied": [copies[1:3], [*copies[3:], *copies[1:2]]]}
    for settings, part in zip(SETTINGS, (slice(0, 1), slice(1, None)), strict=True):
        exports = [
            words(paths, many / f"{profile}_{name}", profile)
            for profile in PROFILES
            for name in runs
            for paths in runs[name][part]
        ]
        elsewhere(exports, many, settings)
    for profile in PROFILES:
        for name in wide:
            one, other = files(few / f"{profile}_{name}"), files(many / f"{profile}_{name}")
            assert len(one) > 10
            assert one == other, (profile, name)
    text = [p.read_bytes() for root in many.iterdir() for p in root.rglob("*") if p.is_file()]
    assert not any(os.fsencode(folder) in content for content in text for folder in (many, moved))


@pytest.mark.parametrize("name", [b"caf\xe9", "茶 = 50 %".encode(), b"?a#b&c"], ids=repr)
def test_a_folder_of_any_name(bags, tmp_path, name):
    """Latin-1, too: the name of a folder is any bytes, and need not be text."""
    root, plain = tmp_path / os.fsdecode(name), tmp_path / "plain"
    for folder in (root, plain):
        run(bags[1:3], folder, "train", allow_incomplete=True)
        finalize(folder, horizon=3)
    assert files(root) == files(plain)
    report = validate_dataset(root).report
    assert [f for f in report.findings if f.level == "error"] == []
    assert main(["edit", str(root), "--delete", "0"]) == 0
    run(bags[2], plain, "train", allow_incomplete=True, replace=True)
    delete_episodes(plain, [0])
    assert files(root) == files(plain)
