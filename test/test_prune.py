"""Bags leave only when a dataset holds their episodes, whole and sound; it is said why others stay."""

import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from dataset_edits import edit_column, edit_line, edit_lines, rows_path, video_path
from export_cases import files, run, small_bag

from piper_collect.bag.find import find_bags
from piper_collect.bag.removal import removed_halfway
from piper_collect.cli.main import main
from piper_collect.dataset.guard import locked
from piper_collect.errors import ConfigError, DatasetError
from piper_collect.pipelines.prune import look_at, remove

SESSION = "pick_20260101_120000"
CAM = "observation.images.cam"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A session of two bags, and the dataset of both."""
    folder = tmp_path_factory.mktemp("prune")
    for number in (0, 1):
        small_bag(folder / SESSION / f"episode_{number:06d}", number)
    (folder / SESSION / "session.json").write_text("{}")
    run(folder / SESSION, folder / "ds")
    return folder


@pytest.fixture
def home(tmp_path, made):
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path


def kept(home, **more):
    """Why each bag stays, by its name; empty where it may go."""
    prune = look_at([home / SESSION], [home / "ds"], **more)
    return {item.bag.name: item.kept for item in prune.items}


def test_what_the_dataset_holds_may_go_and_goes_whole(home):
    before = files(home / "ds")
    told = []
    prune = look_at([home / SESSION], [home / "ds"], on_progress=lambda *told_of: told.append(told_of))
    assert [(i.bag.name, i.episodes, i.kept) for i in prune.items] == [
        ("episode_000000", (0,), ""),
        ("episode_000001", (1,), ""),
    ]
    assert prune.items[0].size_bytes == sum(p.stat().st_size for p in (prune.items[0].bag).iterdir())
    assert told == [(0, 2, "episode_000000"), (1, 2, "episode_000001")]
    assert [item.kept for item in remove(prune)] == ["", ""]
    assert sorted(p.name for p in (home / SESSION).iterdir()) == ["session.json"]
    assert files(home / "ds") == before


def test_another_recording_and_one_changed_by_a_byte_stay(home):
    small_bag(home / SESSION / "episode_000002", 2)
    storage = home / SESSION / "episode_000001" / "episode_000001_0.mcap"
    content = bytearray(storage.read_bytes())
    content[len(content) // 2] ^= 1
    storage.write_bytes(content)
    said = kept(home)
    assert said["episode_000000"] == ""
    for name in ("episode_000001", "episode_000002"):
        assert said[name] == f"{home / 'ds'} has no episode of just this content"


def cut(path):
    path.write_bytes(path.read_bytes()[:-200])


UNSOUND = {
    "no rows": (lambda root: rows_path(root, 0).unlink(), "not a readable parquet file"),
    "rows cut": (lambda root: cut(rows_path(root, 0)), "not a readable parquet file"),
    "a row less than told": (
        lambda root: edit_line(root, "episodes.jsonl", 0, lambda line: line.update(length=99)),
        "rows, the metadata say 99",
    ),
    "a value that is none": (
        lambda root: edit_column(
            root, "observation.state", lambda cells: cells.__setitem__((1, 2), float("nan"))
        ),
        "values of observation.state are not finite",
    ),
    "rows of another episode": (
        lambda root: edit_column(root, "episode_index", lambda cells: cells.__setitem__(0, 1)),
        "the numbers in episode_index are not its own",
    ),
    "no video": (lambda root: video_path(root, CAM).unlink(), "not a readable video"),
    "video cut": (lambda root: cut(video_path(root, CAM)), "frames can be decoded, the metadata say 4"),
    "video of fewer frames": (
        lambda root: edit_line(
            root, "episodes.jsonl", 0, lambda line: line["video_frame_lengths"].update({CAM: 7})
        ),
        "the metadata say 7",
    ),
    "a picture damaged": (lambda root: damage_picture(video_path(root, CAM)), "frames are whole"),
    "episode gone": (
        lambda root: edit_lines(root, "episodes.jsonl", lambda lines: lines[1:]),
        "episode 0 is not in the dataset",
    ),
    "no task": (
        lambda root: edit_column(root, "task_index", lambda cells: cells.__setitem__(slice(None), 5)),
        "its task is not in tasks.jsonl",
    ),
}


def damage_picture(path):
    """Overwrite the pictures, and leave the header as it was."""
    content = bytearray(path.read_bytes())
    last = content.index(b"mdat") - 4
    last += int.from_bytes(content[last : last + 4], "big") - 1
    content[last - 8 : last] = bytes(8)
    path.write_bytes(content)


@pytest.mark.parametrize("name", UNSOUND)
def test_a_bag_whose_episode_is_not_sound_stays(home, name):
    spoil, why = UNSOUND[name]
    spoil(home / "ds")
    said = kept(home)
    assert said["episode_000000"]
    assert why in said["episode_000000"]
    if name not in ("episode gone", "a row less than told"):  # which move the numbers of all after it
        assert said["episode_000001"] == ""


def test_a_split_recording_goes_only_with_all_its_parts(tmp_path):
    bag = small_bag(tmp_path / SESSION / "episode_000000", rows=12)
    run(bag, tmp_path / "ds", split_s=0.2)
    assert kept(tmp_path) == {"episode_000000": ""}
    assert main(["edit", str(tmp_path / "ds"), "--delete", "0"]) == 0
    assert kept(tmp_path) == {"episode_000000": f"{tmp_path / 'ds'} has 2 of its 3 parts"}


def test_what_is_more_than_the_bag_or_stands_for_another_stays(home):
    session = home / SESSION
    (session / "episode_000000" / "notes.txt").write_text("mine")
    shutil.copytree(session / "episode_000001", session / "recovered_x")
    (session / "recovered_x" / "episode.json").write_text("{}")
    (session / "x").mkdir()
    said = kept(home)
    assert "holds more than the bag (got notes.txt)" in said["episode_000000"]
    assert "stands for the damaged x" in said["recovered_x"]
    (home / "elsewhere").symlink_to(session / "episode_000001")
    prune = look_at([home / "elsewhere"], [home / "ds"])
    assert "is no folder of its own" in prune.items[0].kept


def test_an_interrupted_or_running_save_and_a_missing_dataset_are_refused(home):
    with pytest.raises(ConfigError, match=r"no dataset is named.*--dataset ROOT"):
        look_at([home / SESSION])
    with pytest.raises(DatasetError, match="is no dataset"):
        look_at([home / SESSION], [home / "none"])
    with locked(home / "ds"), pytest.raises(DatasetError, match="another process is writing"):
        look_at([home / SESSION], [home / "ds"])
    (home / "ds" / ".staging").mkdir()
    with pytest.raises(DatasetError, match="holds an interrupted save"):
        look_at([home / SESSION], [home / "ds"])


def test_what_changes_between_the_look_and_the_removal_stays(home):
    prune = look_at([home / SESSION], [home / "ds"])
    rows = rows_path(home / "ds", 0)
    rows.write_bytes(rows.read_bytes())
    assert [item.kept for item in remove(prune)] == [
        "it or its episodes changed since they were looked at",
        "",
    ]
    assert [bag.name for bag in find_bags([home / SESSION])] == ["episode_000000"]


def test_a_bag_somebody_is_at_work_on_stays(home):
    prune = look_at([home / SESSION], [home / "ds"])
    with locked(home / SESSION / "episode_000000"):
        assert [item.kept for item in remove(prune)] == ["somebody is at work on it", ""]


KILLED = """
import os, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from piper_collect.pipelines.prune import look_at, remove
home, at = Path(sys.argv[2]), 0
STEPS = ("rename", "mkdir", "unlink", "rmdir", "fsync")
session = home / "pick_20260101_120000"
prune = look_at([session], [home / "ds"])
assert len(prune.going) == 2
while True:
    at += 1
    pid = os.fork()
    if pid == 0:
        calls = [0]
        def killing(real):
            def call(*args, **more):
                calls[0] += 1
                if calls[0] == at:
                    os._exit(9)
                return real(*args, **more)
            return call
        for name in STEPS:
            setattr(os, name, killing(getattr(os, name)))
        list(remove(prune))
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    for bag in ("episode_000000", "episode_000001"):
        there = sorted(p.name for p in (session / bag).iterdir()) if (session / bag).exists() else []
        assert there in ([], [bag + "_0.mcap", "metadata.yaml"]), (at, there)
        print(at, bag, "whole" if there else "gone")
    if code == 0:
        break
    # what a stopped prune left is found again, and goes on
    prune = look_at([session], [home / "ds"]) if any(session.glob("episode_*")) or \\
        any(session.glob(".recording/pruned_*")) else prune
"""


def test_a_kill_at_any_step_leaves_each_bag_whole_or_gone(home):
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(Path(__file__).parent), str(home)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )
    assert done.returncode == 0, done.stderr
    states = [line.split()[1:] for line in done.stdout.splitlines()]
    assert states[0] == ["episode_000000", "whole"]
    assert states[-2:] == [["episode_000000", "gone"], ["episode_000001", "gone"]]
    assert not removed_halfway(home / SESSION)


def program(home, *words, answer=None):
    """Exit code and output; with an answer it runs in a terminal."""
    command = [
        sys.executable,
        "-m",
        "piper_collect",
        "prune",
        str(home / SESSION),
        "-d",
        str(home / "ds"),
        *words,
    ]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    master, slave = pty.openpty()
    try:
        os.write(master, b"" if answer is None else answer.encode() + b"\n")
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL if answer is None else slave,
            capture_output=True,
            text=True,
            timeout=60,
            env=environment,
        )
    finally:
        os.close(master)
        os.close(slave)
    return done.returncode, done.stdout + done.stderr


def test_it_asks_a_person_and_only_a_person(home):
    code, said = program(home)
    assert (code, "bags are removed only when a person says so" in said) == (1, True)
    assert "add --yes; --dry-run shows what would go" in said
    assert len(find_bags([home / SESSION])) == 2
    code, said = program(home, answer="no")
    assert code == 0
    assert "2 bags" in said
    assert "nothing was removed" in said
    assert len(find_bags([home / SESSION])) == 2
    code, said = program(home, answer="yes")
    assert code == 0
    assert "removed 2 bags" in said
    assert not list((home / SESSION).glob("episode_*"))


def test_a_dry_run_shows_what_would_go_without_a_terminal_and_removes_nothing(home):
    small_bag(home / SESSION / "episode_000002", 2)
    halfway = home / SESSION / ".recording" / "pruned_episode_000007"
    halfway.mkdir(parents=True)
    (halfway / "rest.mcap").write_bytes(b"x")
    before = files(home)
    code, said = program(home, "--dry-run")
    assert code == 0
    assert "may be removed" in said
    assert "2 bags, " in said
    assert "would be deleted; nothing was removed" in said
    assert f"kept {home / SESSION / 'episode_000002'}" in said
    assert "left by a prune that was stopped" in said
    assert files(home) == before


def test_a_dry_run_and_yes_are_one_or_the_other(home, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["prune", str(home / SESSION), "--yes", "--dry-run"])
    assert stopped.value.code == 2
    assert len(find_bags([home / SESSION])) == 2


def test_yes_removes_what_may_go_and_says_what_stays(home, capsys):
    small_bag(home / SESSION / "episode_000002", 2)
    assert main(["prune", str(home / SESSION), "-d", str(home / "ds"), "--yes"]) == 0
    out = capsys.readouterr().out
    assert "removed 2 bags" in out
    assert f"kept {home / SESSION / 'episode_000002'}: {home / 'ds'} has no episode" in out
    assert [bag.name for bag in find_bags([home / SESSION])] == ["episode_000002"]
    assert main(["prune", str(home / SESSION), "-d", str(home / "ds"), "--yes"]) == 0
    assert "nothing to remove" in capsys.readouterr().out


def test_the_dataset_that_the_session_names_is_looked_at(tmp_path):
    from dataclasses import replace

    from export_cases import bag, every, frame_messages, session
    from sample_bags import arm_messages

    config = session()
    config = replace(config, session=replace(config.session, dataset=str(tmp_path / "ds")))
    messages = [*arm_messages(30), *frame_messages("cam", every(100 / 3, 1, 150))]
    bag(tmp_path / SESSION / "episode_000000", messages, config, end_ms=150)
    with pytest.raises(ConfigError):
        look_at([tmp_path / SESSION])
    run(tmp_path / SESSION, tmp_path / "ds")
    assert [item.kept for item in look_at([tmp_path / SESSION]).items] == [""]
