"""finalize from outside: what the two files hold, on any v2 dataset, and when there are none."""

import json
from pathlib import Path

import finalize_reference as slow
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dataset_cases import add, episode, open_writer, tree
from numpy.testing import assert_allclose
from plain_dataset import (
    PIPER_FEATURES,
    POSE_NAMES,
    feature,
    random_episode,
    random_poses,
    write_plain_dataset,
)

from piper_collect.errors import DatasetError
from piper_collect.pipelines.finalize import finalize

GROOT = Path(__file__).parents[2] / "shared/cases/lerobot/v20_groot_robot_sim.PickNPlace"
NAMES = ("relative_stats.json", "delta_stats.json")
SIX = ["mean", "std", "min", "max", "q01", "q99"]


def both(root):
    """The two files, read as strict JSON."""

    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    return {
        name.split("_")[0]: json.loads((root / "meta" / name).read_text(), parse_constant=refuse)
        for name in NAMES
    }


def assert_stats(found, expected, tolerance=1e-6):
    assert list(found) == SIX
    for name, value in expected.items():
        assert_allclose(np.array(found[name]), value, atol=tolerance, rtol=0)


def as_stored(cells):
    return np.asarray(cells, dtype=np.float32).astype(np.float64)


def columns(episodes, key):
    return [as_stored(e[key]) for e in episodes]


@pytest.mark.parametrize("lengths", [(5, 12, 1, 33), (1,), (2,)])
def test_equals_the_slow_reference(tmp_path, lengths):
    rng = np.random.default_rng(sum(lengths))
    episodes = [random_episode(rng, rows) for rows in lengths]
    write_plain_dataset(tmp_path / "ds", episodes)
    summary = finalize(tmp_path / "ds", horizon=8, rot6d=True)
    assert (summary.episodes, summary.rows, summary.horizon) == (len(lengths), sum(lengths), 8)
    found = both(tmp_path / "ds")
    cases = [
        ("arm_eef", "action.arm_eef", (8, 7), slow.pose_change),
        ("arm_eef", "action.arm_eef.rot6d", (8, 9), slow.rot6d_change),
        ("gripper", "action.gripper", (8, 1), slow.difference),
    ]
    for name, key, shape, change in cases:
        state, action = (columns(episodes, f"{group}.{name}") for group in ("observation", "action"))
        for kind, expected in slow.stats(state, action, 8, change).items():
            assert_stats(found[kind][key], expected)
            assert np.shape(found[kind][key]["mean"]) == shape
    for kind in found:
        for key in ("observation.arm_joint", "observation.arm_eef", "observation.gripper"):
            assert_stats(found[kind][key], slow.six(np.concatenate(columns(episodes, key))))
        assert len(found[kind]) == 6


def test_a_dataset_of_our_own_by_hand(tmp_path):
    writer = open_writer(tmp_path)
    add(writer, episode())  # 4 rows: pose k is k * (0.1, 0.2, 0.3), turned a quarter about z; target 1 m off
    add(writer, episode("pick/episode_000001", ticks_ms=(0,)), bag="episode_000001")
    before = tree(tmp_path)
    finalize(tmp_path, horizon=3)
    found = both(tmp_path)
    assert {k: v for k, v in tree(tmp_path).items() if Path(k).name not in NAMES} == before
    assert list(found["relative"]) == list(found["delta"])
    # what lies at (x, y, z) of a state turned by a quarter lies at (y, -x, z) from it
    relative, delta = found["relative"]["action.arm_eef"], found["delta"]["action.arm_eef"]
    least, most = (
        [[1.0, 1.0, 1.0], [-1.0, -1.1, -1.2], [1.0, 1.0, 1.0]],
        [[1, 1.2, 1.4], [-1] * 3, [1, 1.3, 1.6]],
    )
    assert_allclose(np.array(relative["min"])[:, :3].T, least, atol=1e-6)
    assert_allclose(np.array(relative["max"])[:, :3].T, most, atol=1e-6)
    # of five windows three have a next action, two a second next one
    step = np.array([0.2, -0.1, 0.3])
    expected = [[1, -1, 1], step * 3 / 5, step * 2 / 5]
    assert_allclose(np.array(delta["mean"])[:, :3], expected, atol=1e-6)
    for stats in (relative, delta):
        assert_allclose(np.array(stats["mean"])[:, 3:], [[1, 0, 0, 0]] * 3, atol=1e-6)
    assert found["delta"]["action.gripper"]["std"][1:] == [[0.0], [0.0]]
    stats = json.loads((tmp_path / "meta/stats.json").read_text())
    for key in ("observation.arm_joint", "observation.arm_eef", "observation.gripper"):
        assert found["relative"][key] == found["delta"][key]
        assert_stats(found["relative"][key], stats[key], 1e-12)


def test_lists_scalars_and_other_types_of_other_tools(tmp_path):
    rng = np.random.default_rng(0)
    cells = {key: rng.normal(size=(6, width)) for key, width in (("joints", 3), ("grip", 1), ("tool", 1))}
    features = {
        f"{group}.{key}": feature(v.shape[1])
        for group in ("observation", "action")
        for key, v in cells.items()
    }
    features["observation.count"] = feature(1, dtype="int64")
    features["observation.touched"] = feature(1, dtype="bool")
    features["observation.images.cam"] = {"dtype": "video", "shape": [3, 64, 64], "names": None}
    features["observation.state"] = feature(2, {"motors": ["a", "b"]}, "float64")
    features["action"] = feature(2)
    rows = {
        "observation.joints": pa.array(cells["joints"].tolist(), pa.list_(pa.float32())),
        "action.joints": pa.array((cells["joints"] + 1).tolist(), pa.large_list(pa.float64())),
        "observation.grip": pa.array(cells["grip"][:, 0], pa.float32()),
        "action.grip": pa.array((cells["grip"] + 1).tolist(), pa.list_(pa.float32(), 1)),
        "observation.tool": pa.array(cells["tool"].tolist(), pa.list_(pa.float64())),
        "action.tool": pa.array(cells["tool"][:, 0] + 1, pa.float64()),
        "observation.count": pa.array([3, 1, 4, 1, 5, 9]),
        "observation.touched": pa.array([True] * 6),
        "observation.state": pa.array(np.ones((6, 2)).tolist(), pa.list_(pa.float64())),
        "action": pa.array(np.ones((6, 2)).tolist(), pa.list_(pa.float32())),
    }
    for version in ("v2.0", "v2.1"):
        root = tmp_path / version
        write_plain_dataset(root, [rows], features, version=version)
        summary = finalize(root, horizon=2)
        assert [c.key for c in summary.columns] == ["action.joints", "action.grip", "action.tool"]
        assert not any(c.pair.is_pose for c in summary.columns)
        assert set(summary.observations) == {
            f"observation.{k}" for k in ("joints", "grip", "tool", "count", "state")
        }
        relative = both(root)["relative"]
        for key in ("joints", "grip", "tool"):
            assert_allclose(relative[f"action.{key}"]["mean"][0], np.ones(cells[key].shape[1]), atol=1e-6)
        assert relative["observation.count"]["max"] == [9.0]


def test_a_file_that_stores_a_wider_type_loses_nothing(tmp_path):
    features = {"observation.grip": feature(1), "action.grip": feature(1)}
    narrow, wide = (
        {key: pa.array(cells, kind) for key in features}
        for cells, kind in (([3, 4], pa.int16()), ([0.1, 0.2], pa.float64()))
    )
    for name, order in (("widens", (narrow, wide)), ("narrows", (wide, narrow))):
        root = tmp_path / name
        write_plain_dataset(root, order, features)
        finalize(root)
        assert both(root)["delta"]["observation.grip"]["min"] == [0.1]
        assert both(root)["delta"]["observation.grip"]["max"] == [4.0]


@pytest.mark.parametrize(
    ("names", "modality", "is_pose"),
    [
        (POSE_NAMES, None, True),
        (None, "quat_wxyz", True),
        (None, "quaternion", True),
        (None, "axis_angle", False),
        (None, None, False),
        ([f"motor_{i}" for i in range(7)], None, False),
    ],
)
def test_a_pose_is_known_by_names_or_by_rotation_type(tmp_path, names, modality, is_pose):
    features = {key: feature(7, names) for key in ("observation.hand", "action.hand")}
    parts = {
        group: {"rot": {"start": 3, "end": 7, "original_key": f"{key}.hand", "rotation_type": modality}}
        for group, key in (("state", "observation"), ("action", "action"))
    }
    rng = np.random.default_rng(2)
    rows = {key: random_poses(rng, 9) for key in features}
    write_plain_dataset(tmp_path / "ds", [rows], features, modality=parts if modality else None)
    summary = finalize(tmp_path / "ds", horizon=2)
    assert [c.pair.is_pose for c in summary.columns] == [is_pose]
    change = slow.pose_change if is_pose else slow.difference
    state, action = columns([rows], "observation.hand"), columns([rows], "action.hand")
    for kind, expected in slow.stats(state, action, 2, change).items():
        assert_stats(both(tmp_path / "ds")[kind]["action.hand"], expected)


def test_actions_without_a_like_observation_are_left_out_and_named(tmp_path):
    rng = np.random.default_rng(0)
    features = PIPER_FEATURES | {
        "action.alone": feature(1),
        "action.arm_joint": feature(2),
        "observation.xyzw": feature(7, ["x", "y", "z", "qx", "qy", "qz", "qw"]),
        "action.xyzw": feature(7),
        "observation.two": feature(14),
        "action.two": feature(14),
    }
    more = {key: rng.normal(size=(3, f["shape"][0])) for key, f in features.items()}
    turns = {"start": 3, "end": 7, "original_key": "action.two", "rotation_type": "quat_wxyz"}
    write_plain_dataset(
        tmp_path / "ds", [more | random_episode(rng, 3)], features, modality={"action": {"left": turns}}
    )
    summary = finalize(tmp_path / "ds")
    assert [c.key for c in summary.columns] == ["action.arm_eef", "action.gripper"]
    assert summary.left_out["action.alone"] == "there is no numeric column observation.alone"
    assert summary.left_out["action.arm_joint"] == "it has 2 elements, observation.arm_joint has 6"
    assert "observation.xyzw has the elements x y z qx qy qz qw" in summary.left_out["action.xyzw"]
    assert "action.two" in summary.left_out["action.two"]
    assert "observation.two" in both(tmp_path / "ds")["relative"]


def test_progress_comes_to_its_end(tmp_path):
    write_plain_dataset(tmp_path / "ds", [random_episode(np.random.default_rng(7), 9)] * 2)
    told = []
    finalize(tmp_path / "ds", horizon=4, on_progress=lambda *what: told.append(what))
    assert told[:2] == [("reading episodes", 1, 2), ("reading episodes", 2, 2)]
    assert [done for _, done, _ in told[2:]] == list(range(1, 17))
    assert {total for _, _, total in told[2:]} == {16}


@pytest.mark.skipif(not GROOT.exists(), reason="the sample datasets are not here")
def test_a_public_dataset(tmp_path):
    with pytest.raises(DatasetError, match=r"no action column .* got action\)"):
        finalize(GROOT)
    # the same rows with columns of one name
    root = tmp_path / "ds"
    info = json.loads((GROOT / "meta/info.json").read_text())
    info["features"]["action.motors"] = info["features"].pop("action")
    info["features"]["observation.motors"] = info["features"].pop("observation.state")
    (root / "meta").mkdir(parents=True)
    (root / "meta/info.json").write_text(json.dumps(info))
    for name in ("episodes.jsonl", "tasks.jsonl", "modality.json"):
        (root / "meta" / name).write_bytes((GROOT / "meta" / name).read_bytes())
    cells = []
    for path in sorted(GROOT.glob("data/*/*.parquet")):
        new = {"action": "action.motors", "observation.state": "observation.motors"}
        table = pq.read_table(path, partitioning=None)
        table = table.rename_columns([new.get(name, name) for name in table.column_names])
        (root / path.relative_to(GROOT)).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, root / path.relative_to(GROOT))
        cells.append([np.array(table[name].to_pylist()) for name in new.values()])
    summary = finalize(root, horizon=16)
    assert (summary.episodes, summary.rows) == (5, 2096)
    stacks = [
        action[np.minimum(np.arange(len(action))[:, None] + np.arange(16), len(action) - 1)] - state[:, None]
        for action, state in cells
    ]
    assert_stats(both(root)["relative"]["action.motors"], slow.six(np.concatenate(stacks)), 1e-12)
