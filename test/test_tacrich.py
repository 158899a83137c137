"""The TacRich layout: units, orders, the gripper's tip, times and sources, as configuration over v3.0."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from dataset_cases import CAMERAS, T0, add, episode, open_writer, tree
from hypothesis import given
from hypothesis import strategies as st

from piper_collect.config.column_parts import ColumnPart
from piper_collect.config.profile import ColumnSpec, Profile, load_profile
from piper_collect.core.column_forms import in_form, tool_pose
from piper_collect.core.se3 import matrix_from_pose
from piper_collect.dataset.edit import delete_episodes
from piper_collect.dataset.parquet import column_values
from piper_collect.dataset.v3.reader import open_v3
from piper_collect.errors import ConfigError
from piper_collect.pipelines.validators import validator_of

pytestmark = pytest.mark.usefixtures("no_sync")
GRID = [0.0, 100 / 3, 200 / 3]
COS, SIN = 0.7660444431, 0.6427876097


def tacrich() -> Profile:
    """With H.264, which takes pictures as small as these."""
    made_of = load_profile("tacrich")
    return replace(made_of, video=replace(made_of.video, codec="libx264", crf=0, preset="veryfast"))


def test_forms_of_literal_values() -> None:
    turned = np.array([[0.1, 0.2, 0.3, math.sqrt(0.5), 0.0, 0.0, math.sqrt(0.5)]])  # 90 degrees about z
    assert in_form(np.array([[math.pi, -math.pi / 2]]), "deg").tolist() == [[180.0, -90.0]]
    assert in_form(np.array([[0.07]]), "mm")[0, 0] == pytest.approx(70.0)
    np.testing.assert_allclose(
        in_form(turned, "pose_xyzw"), [[0.1, 0.2, 0.3, 0, 0, math.sqrt(0.5), math.sqrt(0.5)]]
    )
    # first column (0, 1, 0), second column (-1, 0, 0)
    np.testing.assert_allclose(
        in_form(turned, "pose_rot6d"), [[0.1, 0.2, 0.3, 0, 1, 0, -1, 0, 0]], atol=1e-15
    )
    with pytest.raises(ValueError, match="'cm'"):
        in_form(turned, "cm")


def test_the_tip_is_turned_by_40_degrees_and_moved_by_the_flange_s_own_axes() -> None:
    tool = tool_pose((0.0, 0.0, 0.2), 40.0)
    expected = [[COS, -SIN, 0, 0], [SIN, COS, 0, 0], [0, 0, 1, 0.2], [0, 0, 0, 1]]
    np.testing.assert_allclose(matrix_from_pose(tool), expected, atol=1e-10)
    # the flange points along base x (90 degrees about y): the tip lies 0.2 m along x
    flange = np.array([[1.0, 2.0, 3.0, math.sqrt(0.5), 0.0, math.sqrt(0.5), 0.0]])
    found = in_form(flange, "pose_rot6d", tool)[0]
    np.testing.assert_allclose(found[:3], [1.2, 2.0, 3.0], atol=1e-12)
    np.testing.assert_allclose(found[3:], [0, SIN, -COS, 0, COS, SIN], atol=1e-9)


@given(st.lists(st.floats(-1, 1), min_size=7, max_size=7))
def test_the_tip_is_the_product_of_the_matrices(pose: list[float]) -> None:
    flange = np.array([pose])
    flange[:, 3] += 2.0
    tool = tool_pose((0.01, -0.02, 0.2), 40.0)
    product = matrix_from_pose(flange) @ matrix_from_pose(tool)
    found = in_form(flange, "pose_rot6d", tool)
    np.testing.assert_allclose(found[:, :3], product[:, :3, 3], atol=1e-12)
    np.testing.assert_allclose(found[:, 3:6], product[:, :3, 0], atol=1e-12)
    np.testing.assert_allclose(found[:, 6:], product[:, :3, 1], atol=1e-12)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tacrich") / "ds"
    writer = open_writer(root, profile=tacrich(), cameras=CAMERAS)
    for number, session in enumerate(("one", "one", "two")):
        what = episode(ticks_ms=GRID, frames_ms=GRID, start=0.1 * number)
        add(writer, what, bag=f"b{number}", session=session)
    return root


def test_columns_are_those_of_the_spec(root: Path) -> None:
    reader = open_v3(root)
    features = reader.info["features"]
    shapes = {k: (f["dtype"], f["shape"]) for k, f in features.items() if f["dtype"] != "video"}
    assert shapes == {
        "observation.joint_position": ("float32", [6]),
        "observation.ee_pose": ("float32", [7]),
        "observation.gripper_distance": ("float32", [1]),
        "observation.state": ("float32", [14]),
        "observation.state_gripper": ("float32", [10]),
        "action": ("float32", [8]),
        "action_gripper": ("float32", [10]),
        "observation.timestamp": ("float64", [1]),
        "observation.source_timestamp_proprio": ("float64", [1]),
        "observation.source_timestamp_vision": ("float64", [1]),
        "timestamp": ("float32", [1]),
        "frame_index": ("int64", [1]),
        "episode_index": ("int64", [1]),
        "index": ("int64", [1]),
        "task_index": ("int64", [1]),
    }
    assert features["observation.state"]["names"][12:] == ["flange_qw", "gripper_distance_mm"]
    rows = reader.rows(1)
    assert set(rows.column_names) == set(shapes)
    joints, gripper = 0.1 + np.arange(3)[:, None] + np.arange(6) / 10, 10 * (0.1 + np.arange(3))
    state = column_values(rows, "observation.state")
    np.testing.assert_allclose(state[:, :6], np.rad2deg(joints), rtol=1e-6)
    np.testing.assert_allclose(state[:, 13], gripper, rtol=1e-6)
    np.testing.assert_array_equal(column_values(rows, "observation.joint_position"), state[:, :6])
    np.testing.assert_array_equal(column_values(rows, "observation.ee_pose"), state[:, 6:13])
    np.testing.assert_array_equal(column_values(rows, "observation.gripper_distance"), state[:, 13:])
    np.testing.assert_allclose(state[:, 9:13], [[0, 0, math.sqrt(0.5), math.sqrt(0.5)]] * 3, atol=1e-7)
    action = column_values(rows, "action_gripper")
    np.testing.assert_allclose(action[:, 9], 70.0, rtol=1e-6)
    # 90 degrees about z, and 40 more
    angle = math.radians(130)
    np.testing.assert_allclose(
        action[:, 3:9],
        [[math.cos(angle), math.sin(angle), 0, -math.sin(angle), math.cos(angle), 0]] * 3,
        atol=1e-6,
    )
    flange = column_values(rows, "action")
    np.testing.assert_allclose(action[:, :3], flange[:, :3] + [0, 0, 0.2], atol=1e-6)


def test_times_are_float64_seconds_since_the_epoch(root: Path) -> None:
    rows = open_v3(root).rows(0)
    expected = T0 / 1e9 + np.array(GRID) / 1e3
    for key in (
        "observation.timestamp",
        "observation.source_timestamp_proprio",
        "observation.source_timestamp_vision",
    ):
        values = column_values(rows, key)[:, 0]
        assert values.dtype == np.float64
        np.testing.assert_allclose(values - T0 / 1e9, expected - T0 / 1e9, atol=1e-6)


def test_sources_of_tasks(root: Path, tmp_path: Path) -> None:
    table = pq.ParquetFile(root / "meta/task_sources.parquet").read()
    assert table["source"].to_pylist() == ["one", "two"]
    assert table["collection_method"].to_pylist() == ["teleoperation"] * 2
    assert table["episode_count"].to_pylist() == [2, 1]
    assert table["frame_count"].to_pylist() == [6, 3]
    assert table["duration_s"].to_pylist() == pytest.approx([0.2, 0.1])
    for name, content in tree(root).items():
        if content is not None:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes(content)
    delete_episodes(tmp_path, [0])
    assert pq.ParquetFile(tmp_path / "meta/task_sources.parquet").read()["episode_count"].to_pylist() == [
        1,
        1,
    ]


def test_it_is_a_good_v3_dataset(root: Path) -> None:
    report = validator_of(root)(root).report
    assert [str(f) for f in report.findings if f.level == "error"] == []
    assert "modality" not in json.dumps(report.facts)


def test_profiles_that_cannot_be_are_refused() -> None:
    made_of = load_profile("tacrich")

    def with_column(**changes: object) -> Profile:
        column = ColumnSpec(**{"key": "x", "names": ("a",), **changes})
        return replace(made_of, columns=(*made_of.columns, column))

    with pytest.raises(ConfigError, match="made from a column that has no source"):
        with_column(parts=(ColumnPart(column="arm_joints"),))
    with pytest.raises(ValueError, match="1 names for 6 elements"):
        with_column(parts=(ColumnPart(column="arm_joint", form="deg"),))
    with pytest.raises(ValueError, match="is no pose"):
        with_column(parts=(ColumnPart(column="arm_joint", form="pose_rot6d"),))
    with pytest.raises(ValueError, match="needs the form of a pose"):
        ColumnPart(column="gripper", form="mm", tool=True)
    with pytest.raises(ValueError, match="sample_time needs of"):
        ColumnSpec(key="x", value="sample_time")
    with pytest.raises(ValueError, match="is not stored, and has no source"):
        ColumnSpec(key="x", value="unix_time", stored=False)
