"""validate of HDF5 cases: a good dataset passes, and each fault is named."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from export_cases import run, small_bag
from test_hdf5_cases import CASE, KEY, fill

from piper_collect.cli.main import main
from piper_collect.config.profile import load_profile, with_dialect
from piper_collect.core.findings import Report
from piper_collect.pipelines.validators import validator_of

h5py = pytest.importorskip("h5py", reason="h5py is not installed (pip install 'piper_collect[hdf5]')")
pytestmark = pytest.mark.usefixtures("no_sync")
FILE = f"{CASE}/dataset/episode_0001.h5"
CASE_LIST = f"{CASE}/dataset/meta/episode.jsonl"


def report(root: Path) -> Report:
    return validator_of(root)(root).report


def test_what_an_export_makes_is_without_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(tmp_path)
    found = report(tmp_path)
    assert found.count("error") == found.count("warning") == 0
    assert (found.facts["episodes"], found.facts["rows"]) == (4, 14)
    assert main(["validate", str(tmp_path)]) == 0
    assert "h5py" in capsys.readouterr().out


def stored(name: str, change: Callable[[Any], None]) -> Callable[[Path], None]:
    def damage(root: Path) -> None:
        with h5py.File(root / FILE, "r+") as file:
            change(file[name] if name else file)

    return damage


def listed(name: str, change: Callable[[str], str]) -> Callable[[Path], None]:
    def damage(root: Path) -> None:
        path = root / name
        path.write_text(change(path.read_text()))

    return damage


def set_cell(dataset: Any) -> None:
    dataset[0, 0] = 9.0


def set_nan(dataset: Any) -> None:
    dataset[1] = np.nan


def garble(video: Any) -> None:
    video[:64] = 0


def shorten(file: Any) -> None:
    values = file["columns/timestamp"][:-1]
    del file["columns/timestamp"]
    file["columns/timestamp"] = values


def drop_names(file: Any) -> None:
    del file["agent_pose_names"]


@pytest.mark.parametrize(
    ("damage", "code", "said"),
    [
        (stored("actions", set_cell), "fields", "actions does not follow from the rows"),
        (stored("agent_pose", set_cell), "fields", "agent_pose does not follow from the rows"),
        (stored("ee_pose", set_cell), "fields", "ee_pose does not follow from the rows"),
        (stored("columns/observation.gripper", set_nan), "not-finite", "1 rows are not finite"),
        (stored("columns/timestamp", set_nan), "timestamps", "rows do not lie at k/fps"),
        (stored("camera_cam_front_rgb", garble), "video", "not a readable video"),
        (stored("", lambda f: f.attrs.__setitem__("frame_count", 7)), "attributes", "frame_count is 7"),
        (stored("", shorten), "rows-unreadable", ""),
        (stored("", drop_names), "fields", "agent_pose_names"),
        (lambda root: (root / FILE).unlink(), "rows-unreadable", "not a readable file"),
        (listed(CASE_LIST, lambda t: t[:0]), "cases", "is not what"),
        (listed("meta/cases.jsonl", lambda t: t.split("\n")[0] + "\n"), "cases", "lists 1 cases"),
        (lambda root: (root / CASE / "resolved_config.yaml").unlink(), "cases", "missing"),
        (listed("meta/info.json", lambda t: t.replace('frames": 14', 'frames": 15')), "totals", "14"),
        (lambda root: (root / ".staging").mkdir(), "interrupted-save", "was left here"),
    ],
)  # fmt: skip
def test_faults_are_named(tmp_path: Path, damage: Callable[[Path], None], code: str, said: str) -> None:
    fill(tmp_path)
    damage(tmp_path)
    found = report(tmp_path)
    assert not found.ok
    assert [f for f in found.findings if f.code == code and f.level == "error" and said in f.text]


def test_invalid_poses_are_told_and_flags_must_follow_from_the_rows(tmp_path: Path) -> None:
    fill(tmp_path)
    stored("ee_pose_valid", lambda flags: flags.__setitem__(0, False))(tmp_path)
    warning, error, _ = [f for f in report(tmp_path).findings if f.level != "info"]
    told = {f.text for f in (warning, error)}
    assert told == {"ee_pose is not valid in 1 of 2 rows", "ee_pose_valid does not follow from the rows"}
    stored("columns/source_state.arm_eef", lambda state: state.__setitem__(0, 2))(tmp_path)
    # the export did not count that row
    told = [f for f in report(tmp_path).findings if f.level != "info" and f.code != "consumer"]
    (warning,) = [f for f in told if f.code != "source-state"]
    assert len(told) == 2
    assert (warning.level, warning.code) == ("warning", "pose")


def test_paths_that_lead_out_of_the_dataset_are_not_followed(tmp_path: Path) -> None:
    fill(tmp_path)
    path = tmp_path / "meta/episodes.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[0]["hdf5_path"] = "../elsewhere.h5"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = report(tmp_path)
    assert [f for f in found.findings if "leads out of the dataset" in f.text]
    assert KEY in str(found.facts["cameras"])


def test_what_was_lost_is_told_as_of_the_other_formats(tmp_path: Path) -> None:
    fill(tmp_path)
    path = tmp_path / "meta/episode_sources.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[1] |= {"marked_rows": {"stale": {"cam_front": 2}}}
    lines[2]["counts"] = {**lines[2]["counts"], "slots": 9, "gaps": 3, "dropped": 2}
    lines[3]["recording"] = {"incomplete_reasons": ["the disk was full"], "losses": {"/a": 3}}
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = [(f.level, f.code, f.where) for f in report(tmp_path).findings if f.code != "consumer"]
    assert ("warning", "stale-rows", "episode 1") in found
    assert ("warning", "lost-rows", "episode 2") in found
    assert ("warning", "incomplete", "episode 3") in found
    assert ("info", "losses", "episode 3") in found


def test_states_of_rows_are_held_against_the_counts_of_the_export(tmp_path: Path) -> None:
    bag = small_bag(tmp_path / "episode_000000", rows=6)
    root = tmp_path / "ds"
    run(bag, root, with_dialect(load_profile("train"), "hdf5-cases"))
    assert [f.code for f in report(root).findings if f.level == "error"] == []
    path = root / "meta/episode_sources.jsonl"
    line = json.loads(path.read_text())
    line["marked_rows"] = {"stale": {}, "repeated": {"arm_eef": 2}}
    path.write_text(json.dumps(line) + "\n")
    (error,) = [f for f in report(root).findings if f.code == "source-state"]
    assert error.text == "0 rows of source_state.arm_eef have state 1, the export counted 2 repeated"


def test_without_provenance_it_says_that_losses_cannot_be_told(tmp_path: Path) -> None:
    fill(tmp_path)
    (tmp_path / "meta/episode_sources.jsonl").unlink()
    assert "no-sources" in [f.code for f in report(tmp_path).findings if f.level == "warning"]
