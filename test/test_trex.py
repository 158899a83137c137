"""The T-Rex layout: states and targets as rotation-6D, of one arm and of a rig of two with force sensors."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from dataset_cases import CAMERAS, QUARTER_TURN, add, columns, episode, open_writer, rows_of

from piper_collect.config.fitted import fitted_profile
from piper_collect.config.profile import load_profile
from piper_collect.dataset.embodiment import known_embodiment
from piper_collect.dataset.parquet import column_values
from piper_collect.dataset.readers import open_any
from piper_collect.pipelines.validators import validator_of

pytestmark = pytest.mark.usefixtures("no_sync")
GRID = [0.0, 100 / 3, 200 / 3]
ARM = [0, 1, 0, -1, 0, 0]
"""First and second column of the rotation matrix of 90 degrees about z."""


def test_one_arm(tmp_path: Path) -> None:
    one = episode(ticks_ms=GRID, frames_ms=GRID)
    writer = open_writer(tmp_path, profile=fitted_profile(load_profile("trex"), one.columns))
    for number in range(2):
        add(writer, episode(ticks_ms=GRID, frames_ms=GRID, start=0.1 * number), bag=f"b{number}")
    reader = open_any(tmp_path)
    rows, given = reader.rows(1), columns(3, 0.1)
    state = column_values(rows, "observation.state_eef10")
    np.testing.assert_allclose(state[:, :3], given["arm_eef"][:, :3], rtol=1e-6)
    np.testing.assert_allclose(state[:, 3:9], [ARM] * 3, atol=1e-7)
    np.testing.assert_allclose(state[:, 9:], given["gripper"], rtol=1e-6)
    action = column_values(rows, "action.eef10_absolute")
    np.testing.assert_allclose(action[:, :3], given["target_eef"][:, :3], rtol=1e-6)
    np.testing.assert_allclose(action[:, 9], 0.07, rtol=1e-6)
    joints = column_values(rows, "observation.state")
    np.testing.assert_allclose(joints, np.hstack([given["arm_joint"], given["gripper"]]), rtol=1e-6)
    assert "arm_eef" not in rows.column_names
    features = reader.info["features"]
    assert (reader.info["codebase_version"], features["observation.state_eef10"]["shape"]) == ("v2.1", [10])
    modality = json.loads((tmp_path / "meta/modality.json").read_text())
    assert modality["action"]["arm_rot6d"]["original_key"] == "action.eef10_absolute"
    assert set(modality["video"]) == set(CAMERAS)
    errors = [f for f in validator_of(tmp_path)(tmp_path).report.findings if f.level == "error"]
    # the episodes of these cases all start at the same moment
    assert [str(f) for f in errors if f.code != "t0"] == []


def test_two_arms_with_hands_and_force_sensors_are_configuration(tmp_path: Path) -> None:
    given = rig()
    path = tmp_path / "rig.yaml"
    path.write_text(rig_profile())
    what = episode(ticks_ms=GRID, frames_ms=GRID)
    samples = {**what.samples, **dict.fromkeys(given, rows_of(what.tick_ns))}
    add(
        open_writer(tmp_path / "ds", profile=load_profile(path)),
        replace(what, columns=given, samples=samples),
    )
    reader = open_any(tmp_path / "ds")
    shapes = {key: f["shape"] for key, f in reader.info["features"].items()}
    assert shapes["observation.state_eef62"] == shapes["action.eef62_absolute"] == [62]
    assert shapes["observation.tactile_force"] == [60]
    state = column_values(reader.rows(0), "observation.state_eef62")
    for side, start in (("left", 0), ("right", 31)):
        np.testing.assert_allclose(state[:, start : start + 3], given[f"{side}_eef"][:, :3], rtol=1e-6)
        np.testing.assert_allclose(state[:, start + 3 : start + 9], [ARM] * 3, atol=1e-7)
        np.testing.assert_allclose(state[:, start + 9 : start + 31], given[f"{side}_hand"], rtol=1e-6)
    force = column_values(reader.rows(0), "observation.tactile_force")
    np.testing.assert_allclose(force, given["force"], rtol=1e-6)
    said = known_embodiment(tmp_path / "ds")
    assert (said.tag, said.poses, said.files) == (
        "two_arms_eef62",
        (0, 31),
        ("relative_stats_dreamzero.json", "dataset_ready.json"),
    )


def rig() -> dict[str, np.ndarray]:
    """Columns of a rig by source; every number is another one."""
    found: dict[str, np.ndarray] = {}
    for number, side in enumerate(("left", "right")):
        for kind, start in (("", 1.0), ("target_", 5.0)):
            positions = start + number + np.arange(9).reshape(3, 3) / 10
            found[f"{kind}{side}_eef"] = np.hstack([positions, np.tile(QUARTER_TURN, (3, 1))])
            found[f"{kind}{side}_hand"] = start + 10 * number + np.arange(66).reshape(3, 22) / 100
    found["force"] = np.arange(180).reshape(3, 60) / 7 - math.pi
    return found


def rig_profile() -> str:
    """The profile of one arm with the columns of the rig instead of its own."""
    content = yaml.safe_load((Path(__file__).parents[1] / "config/profiles/trex.yaml").read_text())
    pose = ["x", "y", "z", "qw", "qx", "qy", "qz"]
    hand = [f"hand{n}" for n in range(22)]
    recorded, made = [], []
    for kind, key in (("", "observation.state_eef62"), ("target_", "action.eef62_absolute")):
        sources = {f"{kind}{side}_{part}": part for side in ("left", "right") for part in ("eef", "hand")}
        for source, part in sources.items():
            more = {"rotation": "quat_wxyz"} if part == "eef" else {}
            names = pose if part == "eef" else hand
            recorded.append({"key": source, "source": source, "stored": False, "names": names, **more})
        parts = [{"column": s, **({"form": "pose_rot6d"} if p == "eef" else {})} for s, p in sources.items()]
        made.append({"key": key, "parts": parts, "names": [f"e{n}" for n in range(62)]})
    force = [f"f{n}" for n in range(60)]
    made.append({"key": "observation.tactile_force", "source": "force", "names": force, "unit": "N and N m"})
    chunks = {"state": "observation.state_eef62", "action": "action.eef62_absolute", "key": "eef62"}
    said = content["embodiment"]
    said = {**said, "tag": "two_arms_eef62", "chunks": {**said["chunks"], **chunks}}
    said["ready"] = {
        **said["ready"],
        "columns": [chunks["state"], chunks["action"], "observation.tactile_force"],
    }
    return yaml.safe_dump({**content, "name": "rig", "embodiment": said, "columns": [*recorded, *made]})
