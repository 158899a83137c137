"""``piper-collect finalize`` and ``piper-finalize``: arguments, what is said, exit codes."""

import json
import os
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from plain_dataset import PIPER_FEATURES, feature, random_episode, write_plain_dataset

from piper_collect.cli import main as cli

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def dataset(tmp_path):
    rng = np.random.default_rng(3)
    features = PIPER_FEATURES | {"action.alone": feature(1)}
    episodes = [random_episode(rng, n) | {"action.alone": np.ones((n, 1))} for n in (7, 4)]
    write_plain_dataset(tmp_path / "ds", episodes, features)
    return tmp_path / "ds"


def shapes(dataset, name="relative_stats.json"):
    stats = json.loads((dataset / "meta" / name).read_text())
    return {key: np.shape(value["mean"]) for key, value in stats.items() if key.startswith("action")}


def test_says_what_was_written_and_left_out(dataset, capsys):
    assert cli.main(["finalize", str(dataset)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "11 windows of 30 steps, 2 episodes" in out
    assert f"wrote {dataset}/meta/relative_stats.json" in out
    assert f"wrote {dataset}/meta/delta_stats.json" in out
    assert "left out: action.alone: there is no numeric column observation.alone" in out
    assert shapes(dataset) == {"action.arm_eef": (30, 7), "action.gripper": (30, 1)}


def test_the_other_name_takes_the_root_as_an_option(dataset, capsys, monkeypatch):
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    module, function = scripts["piper-finalize"].split(":")
    words = ["/somewhere/bin/piper-finalize", "--root", str(dataset), "--horizon", "5", "--rot6d"]
    monkeypatch.setattr(sys, "argv", words)
    assert getattr(import_module(module), function)() == 0
    assert "11 windows of 5 steps" in capsys.readouterr().out
    assert shapes(dataset, "delta_stats.json") == {
        "action.arm_eef": (5, 7),
        "action.arm_eef.rot6d": (5, 9),
        "action.gripper": (5, 1),
    }


def test_the_ros_executable_of_either_name(dataset, tmp_path):
    for name, words in (("finalize", [str(dataset)]), ("piper-finalize", ["--root", str(dataset)])):
        program = tmp_path / name
        program.write_bytes((ROOT / "scripts/verb").read_bytes())
        done = subprocess.run(
            [sys.executable, program, *words, "--quiet"],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            timeout=60,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        assert (dataset / "meta/delta_stats.json").exists()
        (dataset / "meta/delta_stats.json").unlink()


def test_json_is_all_there_is_on_stdout(dataset, capsys):
    assert cli.main(["finalize", str(dataset), "--json", "--horizon", "4"]) == 0
    out, err = capsys.readouterr()
    summary = json.loads(out)
    assert err == ""
    assert (summary["horizon"], summary["episodes"], summary["rows"]) == (4, 2, 11)
    assert [(c["key"], c["shape"], c["pair"]["is_pose"]) for c in summary["columns"]] == [
        ("action.arm_eef", [4, 7], True),
        ("action.gripper", [4, 1], False),
    ]
    assert list(summary["left_out"]) == ["action.alone"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["finalize", "nowhere"], "error: nowhere: is no dataset"),
    ],
)
def test_an_error_is_one_line_and_exit_1(dataset, monkeypatch, capsys, words, said):
    monkeypatch.chdir(dataset.parent)
    assert cli.main(words) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(said)
    assert err.count("\n") == 1


def test_without_a_pair_of_columns_the_reason_is_said(tmp_path, capsys):
    features = {"observation.state": feature(2), "action": feature(2)}
    rows = {key: np.ones((3, 2)) for key in features}
    write_plain_dataset(tmp_path / "ds", [rows], features)
    assert cli.main(["finalize", str(tmp_path / "ds")]) == 1
    err = capsys.readouterr().err
    assert "no action column has an observation column of the same name and width" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("words", [[], ["ds", "--root", "ds"], ["ds", "--horizon", "many"]])
def test_a_usage_error_is_exit_2(words, capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main(["finalize", *words])
    assert stopped.value.code == 2
    assert "usage: piper-collect finalize" in capsys.readouterr().err
