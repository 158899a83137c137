"""Exports killed at seeded moments, and several that want one dataset.

``PIPER_COLLECT_KILLS=50`` kills as many; ten are what a run of all tests has time for.
"""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from export_cases import files, run, small_bag

from piper_collect.cli.main import main
from piper_collect.config.profile import load_profile
from piper_collect.dataset.guard import locked
from piper_collect.errors import DatasetLockError
from piper_collect.pipelines.bag_episodes import ExportOptions
from piper_collect.pipelines.export import export

REPOSITORY = Path(__file__).parents[1]
KILLS = int(os.environ.get("PIPER_COLLECT_KILLS", "10"))


def kills_of(*words):
    """What the program that kills says."""
    command = [sys.executable, "test/export_kills.py", *map(str, words)]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.kills
@pytest.mark.parametrize(("workers", "kills"), [(1, KILLS), (2, max(KILLS // 3, 1))])
def test_after_any_kill_the_next_run_ends_in_the_same_dataset(fast_path, workers, kills, tally):
    killed, in_a_save, finished = json.loads(kills_of("exports", fast_path, kills, workers, 7))
    assert killed == kills
    assert finished >= 1
    tally("kills survived", killed)
    tally("of them in the middle of a save", in_a_save)
    tally("datasets compared byte by byte", finished)


# -- one at a time ---------------------------------------------------------------------------------

HOLDER = """
import sys
from pathlib import Path
from piper_collect.dataset.guard import locked
with locked(Path(sys.argv[1])):
    print("locked", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    """A recording, and a dataset made of it that another process is writing; its id."""
    folder = tmp_path_factory.mktemp("held")
    small_bag(folder / "recordings" / "episode_000000")
    run(folder / "recordings", folder / "ds", "train")
    command = [sys.executable, "-c", HOLDER, str(folder / "ds")]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env=environment, **pipes) as holder:
        assert holder.stdout.readline() == b"locked\n"
        yield folder, holder.pid
        holder.communicate()


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="/proc/locks tells who holds a lock")
@pytest.mark.parametrize(
    "words",
    [
        ("export", "recordings", "-o", "ds", "--profile", "train"),
        ("export", "recordings", "-o", "ds", "--profile", "train", "--workers", "2"),
        ("edit", "ds", "--delete", "0"),
        ("finalize", "ds"),
    ],
    ids=lambda words: " ".join(words[::3]),
)
def test_who_comes_second_is_told_who_holds_it(dataset, words, capsys, monkeypatch):
    folder, pid = dataset
    monkeypatch.chdir(folder)
    before = files(folder / "ds")
    assert main(list(words)) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "another process is writing this dataset" in err
    assert f"process {pid} (" in err
    assert f") on {socket.gethostname()}" in err
    assert files(folder / "ds") == before
    assert {path.name for path in folder.iterdir()} == {"recordings", "ds"}


def test_an_export_holds_its_dataset_from_the_first_bag_to_the_last(tmp_path):
    for number in range(2):
        small_bag(tmp_path / "recordings" / f"episode_{number:06d}", number)
    seen = []

    def look(number, count, name, fraction):
        root = tmp_path / "ds"
        if not root.exists():
            return
        with pytest.raises(DatasetLockError, match="another process is writing"), locked(root):
            pass
        seen.append(number)

    options = ExportOptions(profile=load_profile("train"))
    export([tmp_path / "recordings"], tmp_path / "ds", options, on_progress=look)
    assert set(seen) == {0, 1}
    with locked(tmp_path / "ds"):
        pass


# -- delete last -----------------------------------------------------------------------------------


def test_a_deletion_that_is_killed_at_any_step_is_made_again(fast_path, tally):
    survived = int(kills_of("deletions", fast_path))
    assert survived > 20
    tally("kills survived", survived)
