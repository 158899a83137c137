"""The TacRich layout: units, orders, the gripper's tip, times and sources, as configuration over v3.0."""

import json
import math
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from dataset_cases import CAMERAS, T0, add, camera, episode, open_writer, rows_of, tree
from hypothesis import given
from hypothesis import strategies as st

from piper_collect.config.column_parts import ColumnPart
from piper_collect.config.column_spec import ColumnSpec
from piper_collect.config.profile import Profile, load_profile
from piper_collect.core.column_forms import in_form, local_poses, tool_pose
from piper_collect.core.se3 import matrix_from_pose
from piper_collect.core.types import CameraFrame, Episode
from piper_collect.dataset.edit import delete_episodes
from piper_collect.dataset.metadata import format_notes
from piper_collect.dataset.parquet import column_values
from piper_collect.dataset.v3.reader import open_v3
from piper_collect.errors import ConfigError
from piper_collect.imaging.depth import depth_of_png
from piper_collect.pipelines.validators import validator_of

pytestmark = pytest.mark.usefixtures("no_sync")
GRID = [0.0, 100 / 3, 200 / 3]
COS, SIN = 0.7660444431, 0.6427876097


def tacrich() -> Profile:
    return with_h264(load_profile("tacrich"))


def with_h264(made_of: Profile) -> Profile:
    """With H.264, which takes pictures as small as these."""
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


# -- UMI, tactile, depth ------------------------------------------------------------------------


def turned(about: str, degrees: float) -> list[float]:
    half = math.radians(degrees) / 2
    return [math.cos(half), *(math.sin(half) if axis == about else 0.0 for axis in "xyz")]


def umi_episode() -> Episode:
    """The tip goes 0.1 m along its own x axis, which looks along base y; then it turns by 90 degrees."""
    whole = episode(ticks_ms=GRID, frames_ms=GRID)
    poses = [[1.0, 2.0, 3.0, *turned("z", 90)], [1.0, 2.1, 3.0, *turned("z", 90)]]
    poses.append([1.0, 2.1, 3.0, *turned("z", 180)])
    columns = {"arm_eef": np.array(poses), "gripper": np.array([[0.01], [0.02], [0.04]])}
    samples = {k: s for k, s in whole.samples.items() if k in (*columns, *CAMERAS)}
    return replace(whole, columns=columns, samples=samples)


@pytest.fixture(scope="module")
def umi(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("umi") / "ds"
    writer = open_writer(root, profile=with_h264(load_profile("tacrich_umi")), cameras=CAMERAS)
    add(writer, umi_episode())
    return root


def test_umi_is_local_with_the_next_pose_as_action(umi: Path, root: Path) -> None:
    reader, other = open_v3(umi), open_v3(root)
    state, action, tip, target = (
        column_values(reader.rows(0), key).astype(np.float64)
        for key in ("observation.state", "action", "observation.state_gripper", "action_gripper")
    )
    half = math.sqrt(0.5)
    local = [[0, 0, 0, 0, 0, 0, 1], [0.1, 0, 0, 0, 0, 0, 1], [0.1, 0, 0, 0, 0, half, half]]
    np.testing.assert_allclose(state[:, 6:13], local, atol=1e-6)
    np.testing.assert_allclose(action[:, :7], [local[1], local[2], local[2]], atol=1e-6)
    np.testing.assert_allclose(state[:, 13], [10, 20, 40], atol=1e-5)
    np.testing.assert_allclose(action[:, 7], [20, 40, 40], atol=1e-5)
    columns = [[1, 0, 0, 0, 1, 0], [1, 0, 0, 0, 1, 0], [0, 1, 0, -1, 0, 0]]
    np.testing.assert_allclose(tip[:, 3:9], columns, atol=1e-6)
    np.testing.assert_allclose(target[:, 3:9], [columns[1], columns[2], columns[2]], atol=1e-6)
    np.testing.assert_allclose(target[:, :3], np.array(local)[[1, 2, 2], :3], atol=1e-6)
    plain = [
        {k: (f["dtype"], f["shape"], f["names"]) for k, f in r.info["features"].items()}
        for r in (reader, other)
    ]
    assert plain[0] == plain[1]
    table = pq.ParquetFile(umi / "meta/task_sources.parquet").read()
    assert table["collection_method"].to_pylist() == ["umi"]


def test_the_zeros_of_umi_are_marked_and_checked(umi: Path, root: Path, tmp_path: Path) -> None:
    joints = [f"arm_j{k}" for k in range(1, 7)]
    features = open_v3(umi).info["features"]
    marked = {k: f["info"]["zero_filled"] for k, f in features.items() if "zero_filled" in f.get("info", {})}
    assert marked == {"observation.joint_position": joints, "observation.state": joints}
    assert not np.any(column_values(open_v3(umi).rows(0), "observation.joint_position"))
    assert not any("zero_filled" in f.get("info", {}) for f in open_v3(root).info["features"].values())
    report = validator_of(umi)(umi).report
    assert [str(f) for f in report.findings if f.level == "error"] == []
    assert sum(f.code == "zero-filled" for f in report.findings) == 2
    shutil.copytree(umi, tmp_path / "ds")
    info = json.loads((tmp_path / "ds/meta/info.json").read_text())
    info["features"]["observation.state"]["info"]["zero_filled"][0] = "gripper_distance_mm"
    (tmp_path / "ds/meta/info.json").write_text(json.dumps(info))
    errors = [
        f.text for f in validator_of(tmp_path / "ds")(tmp_path / "ds").report.findings if f.level == "error"
    ]
    assert errors == ["gripper_distance_mm is said to be zeros by the layout, and is not"]
    notes = list(format_notes(load_profile("tacrich_umi")))
    assert len(notes) == 2
    assert notes[0].startswith("6 numbers of observation.joint_position are zeros, as the layout wants")


def test_a_local_tip_begins_at_the_identity() -> None:
    pose = np.array([[1.0, 2.0, 3.0, *turned("x", 30)], [1.0, 2.0, 3.5, *turned("x", 60)]])
    found = local_poses(in_form(pose, "as_is", tool_pose((0.0, 0.0, 0.2), 40.0)))
    np.testing.assert_allclose(found[0], [0, 0, 0, 1, 0, 0, 0], atol=1e-12)
    first, last = (matrix_from_pose(p) @ matrix_from_pose(tool_pose((0, 0, 0.2), 40.0)) for p in pose)
    np.testing.assert_allclose(matrix_from_pose(found[1]), np.linalg.inv(first) @ last, atol=1e-12)


PAGE = Path(__file__).parents[1] / "docs/dataset.md"


def test_the_whole_layout_with_tactile_and_depth(tmp_path: Path) -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (text,) = (block for block in blocks if "tactile" in block)
    (tmp_path / "own.yaml").write_text(text)
    made_of = with_h264(load_profile(tmp_path / "own.yaml"))
    whole = episode(ticks_ms=GRID, frames_ms=GRID)
    pads = np.arange(3 * 2 * 32 * 58, dtype=np.float64).reshape(3, -1)
    mm = [np.full((16, 24), 500 + k, np.uint16) for k in range(3)]
    frames = [
        CameraFrame(stamp_ns=int(t), encoding="16UC1", height=16, width=24, step=48, payload=d.tobytes())
        for t, d in zip(whole.tick_ns, mm, strict=True)
    ]
    depth = camera("depth.cam_front", frames)
    what = replace(
        whole,
        columns={**whole.columns, "tactile": pads},
        samples={**whole.samples, **dict.fromkeys(("tactile", "depth.cam_front"), rows_of(whole.tick_ns))},
        cameras={
            **whole.cameras,
            "depth.cam_front": replace(depth, stream=replace(depth.stream, is_depth=True)),
        },
    )
    writer = open_writer(
        tmp_path / "ds", profile=made_of, cameras=CAMERAS, depths={"depth.cam_front": (16, 24)}
    )
    add(writer, what)
    reader = open_v3(tmp_path / "ds")
    described = {k: (f["dtype"], f["shape"]) for k, f in reader.info["features"].items()}
    assert described["observation.tactile"] == ("float32", [2, 32, 58])
    assert described["observation.depth.cam_front"] == ("image", [16, 24, 1])
    assert described["observation.source_timestamp_tactile"] == ("float64", [1])
    rows = reader.rows(0)
    cells = np.array(rows["observation.tactile"].to_pylist())
    np.testing.assert_array_equal(cells.reshape(3, -1), pads)
    assert cells[1, 1, 31, 57] == pads[1, -1]
    found = [depth_of_png(encoded) for encoded in reader.images(0, "observation.depth.cam_front")]
    np.testing.assert_array_equal(found, mm)
    assert reader.stats["observation.depth.cam_front"]["mean"] == [[[501.0]]]
    assert np.shape(reader.stats["observation.tactile"]["q99"]) == (2, 32, 58)
    findings = validator_of(tmp_path / "ds")(tmp_path / "ds").report.findings
    assert [str(f) for f in findings if f.level == "error"] == []


def test_profiles_that_extend_others(tmp_path: Path) -> None:
    def profile(text: str) -> Profile:
        (tmp_path / "own.yaml").write_text(text)
        return load_profile(tmp_path / "own.yaml")

    train = load_profile("train")
    (tmp_path / "base.yaml").write_text("{name: base, extends: train, chunks_size: 7}")
    made_of = profile(
        "name: own\nextends: base.yaml\nwithout: [next.done]\ncolumns:\n"
        "  - {key: next.reward, value: done}\n  - {key: observation.more, source: more, names: [a]}\n"
        "video: {crf: 30}\n"
    )
    assert (made_of.name, made_of.chunks_size, made_of.video) == ("own", 7, replace(train.video, crf=30))
    keys = [c.key for c in train.columns if c.key != "next.done"]
    assert [c.key for c in made_of.columns] == [*keys, "observation.more"]
    assert {c.key: c.value for c in made_of.columns}["next.reward"] == "done"
    for text, said in (
        ("{name: own, extends: own.yaml}", "extends itself"),
        ("{name: own, extends: [train]}", "expected a profile"),
        ("{name: own, extends: nobody}", "no profile of that name"),
        ("{name: own, extends: train, without: [next.don]}", "did you mean"),
        ("{name: own, extends: train, without: [[a]]}", "no such column"),
        ("{name: own, extends: train, columns: 3}", "expected a list"),
        ("{name: own, extends: train, columns: [3]}", "map of settings|map"),
        (
            "{name: own, extends: train, columns: [{key: a, value: done}, {key: a, value: done}]}",
            "given twice",
        ),
        ("{name: own, extends: train, colums: []}", "columns"),
    ):
        with pytest.raises(ConfigError, match=said):
            profile(text)


def test_zeros_and_local_parts_that_cannot_be_are_refused() -> None:
    for settings, said in (
        ({"form": "zeros"}, "needs a count"),
        ({"form": "zeros", "count": 2, "column": "arm_joint"}, "nothing else"),
        ({"form": "deg"}, "needs a column"),
        ({"form": "deg", "column": "a", "count": 2}, "no count"),
        ({"form": "deg", "column": "a", "local": True}, "local frame of a needs the form of a pose"),
    ):
        with pytest.raises(ValueError, match=said):
            ColumnPart(**settings)
