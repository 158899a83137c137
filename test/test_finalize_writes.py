"""When finalize does not write, and how: refusals with their place, whole files, the same bytes again."""

import os
import signal
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from dataset_cases import tree
from plain_dataset import PIPER_FEATURES, feature, random_episode, write_plain_dataset

from piper_collect.dataset.guard import locked
from piper_collect.errors import ConfigError, DatasetError
from piper_collect.pipelines.finalize import finalize

NAMES = ("relative_stats.json", "delta_stats.json")


def _without_pairs(rows):
    return {"observation.state": rows["observation.gripper"], "action": rows["action.gripper"]}


def _with(key, row, value):
    def change(rows):
        cells = np.array(rows[key])
        cells[row] = value
        return rows | {key: cells}

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_without_pairs, ["no action column", "got action", "observation.NAME"]),
        (
            _with("action.gripper", 1, np.nan),
            ["1 of 8 rows are not finite", "action.gripper, episode 1, row 1"],
        ),
        (_with("observation.arm_joint", 0, np.inf), ["observation.arm_joint, episode 1, row 0"]),
        (_with("action.arm_eef", 2, 0.0), ["not unit", "action.arm_eef, episode 1, row 2"]),
        (
            _with("observation.arm_eef", 1, [1, 0, 0, 1.1, 0, 0, 0]),
            ["not unit", "observation.arm_eef, episode 1, row 1"],
        ),
        (
            lambda rows: {k: v for k, v in rows.items() if k != "action.gripper"},
            ["columns are missing", "action.gripper"],
        ),
        (
            lambda rows: rows | {"action.gripper": np.zeros((3, 2))},
            ["another size", "expected 1, got 2", "episode_000001"],
        ),
        (
            lambda rows: (
                rows
                | {"action.gripper": pa.array([1e308] * 3), "observation.gripper": pa.array([-1e308] * 3)}
            ),
            ["column action.gripper", "3 values are not finite"],
        ),
        (
            lambda rows: rows | {"action.gripper": pa.array([1.0, None, 2.0])},
            ["1 values of action.gripper are missing"],
        ),
        (lambda rows: rows | {"action.gripper": pa.array([[1.0], None, [2.0]])}, ["missing"]),
        (
            lambda rows: rows | {"action.gripper": pa.array([[1.0], [], [2.0, 3.0]])},
            ["not all the same size"],
        ),
        (lambda rows: rows | {"action.gripper": pa.array(["a", "b", "c"])}, ["is not numeric", "string"]),
    ],
)
def test_what_cannot_be_is_refused_and_placed(tmp_path, change, words):
    rng = np.random.default_rng(0)
    changed = change(random_episode(rng, 3))
    features = PIPER_FEATURES if "action" not in changed else {k: feature(1) for k in changed}
    first = random_episode(rng, 5)
    write_plain_dataset(
        tmp_path / "ds", [_without_pairs(first) if "action" in changed else first, changed], features
    )
    before = tree(tmp_path)
    with pytest.raises(DatasetError) as refused:
        finalize(tmp_path / "ds")
    for word in words:
        assert word in str(refused.value)
    assert tree(tmp_path) == before


def test_a_dataset_that_is_not_whole_is_refused(tmp_path):
    with pytest.raises(DatasetError, match="is no dataset"):
        finalize(tmp_path / "nowhere")
    with pytest.raises(DatasetError, match="is no dataset"):
        finalize(tmp_path)
    root = tmp_path / "ds"
    write_plain_dataset(root, [random_episode(np.random.default_rng(0), 3)])
    with pytest.raises(ConfigError, match="1 to 10000, got 0"):
        finalize(root, horizon=0)
    with locked(root), pytest.raises(DatasetError, match="another process"):
        finalize(root)
    (root / ".staging").mkdir()
    with pytest.raises(DatasetError, match="interrupted save"):
        finalize(root)
    (root / ".staging").rmdir()
    lines = root / "meta/episodes.jsonl"
    lines.write_text('{"episode_index": 0, "length": 4}\n')
    with pytest.raises(DatasetError, match=r"expected 4, got 3"):
        finalize(root)
    lines.write_text('{"episode_index": 0}\n')
    with pytest.raises(DatasetError, match="episode 0 has no length"):
        finalize(root)
    lines.write_text("")
    with pytest.raises(DatasetError, match="no rows"):
        finalize(root)


def test_again_gives_the_same_bytes(tmp_path):
    rng = np.random.default_rng(7)
    write_plain_dataset(tmp_path / "ds", [random_episode(rng, rows) for rows in (40, 3)])
    finalize(tmp_path / "ds")
    first = tree(tmp_path / "ds")
    finalize(tmp_path / "ds")
    assert tree(tmp_path / "ds") == first
    finalize(tmp_path / "ds", horizon=5)
    assert tree(tmp_path / "ds") != first


def test_a_failed_write_leaves_the_old_files(tmp_path, monkeypatch):
    root = tmp_path / "ds"
    write_plain_dataset(root, [random_episode(np.random.default_rng(7), 9)])
    finalize(root, horizon=2)
    before = tree(root)

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DatasetError, match=r"relative_stats\.json: cannot be written: No space left"):
        finalize(root, horizon=3)
    assert tree(root) == before


KILLED = """
import os, signal, sys
from pathlib import Path
from piper_collect.pipelines.finalize import finalize
calls, fsync = [], os.fsync
def kill(descriptor):
    calls.append(descriptor)
    if len(calls) == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    fsync(descriptor)
os.fsync = kill
finalize(Path(sys.argv[1]), horizon=3)
"""


def test_a_kill_leaves_old_files_or_new_ones(tmp_path, tally):
    root = tmp_path / "ds"
    write_plain_dataset(root, [random_episode(np.random.default_rng(7), 9)])
    finalize(root, horizon=3)
    new = tree(root)
    finalize(root, horizon=2)
    old = tree(root)
    paths = [f"meta/{name}" for name in NAMES]
    others = root / "meta/.delta_stats.json.x2y.tmp"  # of a tool that is at work
    others.touch()
    old[str(others.relative_to(root))] = new[str(others.relative_to(root))] = b""
    for call, renamed in ((1, []), (2, paths[:1]), (3, paths[:1]), (4, paths)):
        finalize(root, horizon=2)
        assert tree(root) == old
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", KILLED, str(root), str(call)]
        done = subprocess.run(command, env=environment, timeout=60, capture_output=True)
        assert done.returncode == -signal.SIGKILL, done.stderr
        tally("kills survived")
        left = tree(root)
        assert {p: left[p] == new[p] for p in paths} == {p: p in renamed for p in paths}
        assert {p: left[p] == old[p] for p in paths} == {p: p not in renamed for p in paths}
    finalize(root, horizon=3)
    assert tree(root) == new  # nor is anything left over
