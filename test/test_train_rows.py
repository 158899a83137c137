"""The profile train: what the columns are, and what rows say of the episode's end, task and validity."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from export_cases import bag, cells, lines, rows, run, session, small_bag, sources
from sample_bags import arm_messages

from piper_collect.config.profile import load_profile, with_dialect
from piper_collect.pipelines.validate import validate_dataset

pytestmark = pytest.mark.usefixtures("no_sync")

NAMES = ("arm_joint", "arm_eef", "gripper", "target_eef", "target_gripper", "cam", "wrist")
CAMERAS = ("cam", "wrist")
FLOATS = {
    "observation.state": 14,
    "action": 8,
    "observation.arm_joint": 6,
    "observation.arm_eef": 7,
    "observation.gripper": 1,
    "action.arm_eef": 7,
    "action.gripper": 1,
}
COLUMNS = {
    **{k: pa.list_(pa.float32(), n) if n > 1 else pa.float32() for k, n in FLOATS.items()},
    "next.reward": pa.float32(),
    "next.done": pa.bool_(),
    "annotation.human.action.task_description": pa.int64(),
    "annotation.human.validity": pa.int64(),
    **{
        f"source_{what}.{name}": kind
        for name in NAMES
        for what, kind in (("timestamp", pa.float64()), ("state", pa.int64()))
    },
    "timestamp": pa.float32(),
    **dict.fromkeys(("frame_index", "episode_index", "index", "task_index"), pa.int64()),
}


@pytest.mark.parametrize("dialect", ["v2.1", "v2.0"])
def test_columns_their_types_and_their_order(tmp_path, dialect):
    profile = with_dialect(load_profile("train"), f"lerobot-{dialect}")
    run(small_bag(tmp_path / "b", cameras=CAMERAS), tmp_path / "ds", profile)
    schema = rows(tmp_path / "ds").schema
    assert {name: schema.field(name).type for name in schema.names} == COLUMNS
    assert schema.names == list(COLUMNS)
    info = json.loads((tmp_path / "ds/meta/info.json").read_bytes())
    videos = [f"observation.images.{c}" for c in CAMERAS]
    assert info["codebase_version"] == dialect
    assert list(info["features"]) == [*list(COLUMNS)[:-5], *videos, *list(COLUMNS)[-5:]]
    for key, feature in info["features"].items():
        if key not in videos:
            kind = COLUMNS[key]
            scalar = not pa.types.is_fixed_size_list(kind)
            assert feature["shape"] == ([1] if scalar else [kind.list_size]), key
            assert np.dtype(feature["dtype"]) == np.dtype(
                (kind if scalar else kind.value_type).to_pandas_dtype()
            )
    assert info["features"]["action"]["names"] == [
        *(f"arm_eef.{n}" for n in ("x", "y", "z", "qw", "qx", "qy", "qz")),
        "gripper.width",
    ]


def test_state_and_action_are_put_together_from_the_columns(tmp_path):
    run(small_bag(tmp_path / "b"), tmp_path / "ds")
    table = rows(tmp_path / "ds")

    def together(*keys):
        return np.concatenate([cells(table, k).reshape(len(table), -1) for k in keys], axis=1)

    state = together("observation.arm_joint", "observation.arm_eef", "observation.gripper")
    np.testing.assert_array_equal(cells(table, "observation.state"), state)
    np.testing.assert_array_equal(cells(table, "action"), together("action.arm_eef", "action.gripper"))
    modality = json.loads((tmp_path / "ds/meta/modality.json").read_bytes())
    for group, width in (("state", 14), ("action", 8)):
        spans = [(part["start"], part["end"]) for part in modality[group].values()]
        assert [s for s, _ in spans] == [0, *(e for _, e in spans[:-1])]
        assert spans[-1][1] == width


def end_of(root, index=0):
    """Reward, done, and the validity's text, of each row."""
    table, tasks = (
        rows(root, index),
        {line["task_index"]: line["task"] for line in lines(root / "meta/tasks.jsonl")},
    )
    told = [tasks[i] for i in table["annotation.human.action.task_description"].to_pylist()]
    assert told == [tasks[i] for i in table["task_index"].to_pylist()]
    validity = [tasks[i] for i in table["annotation.human.validity"].to_pylist()]
    return table["next.reward"].to_pylist(), table["next.done"].to_pylist(), set(validity), set(told)


def test_success_is_rewarded_in_the_last_row(tmp_path):
    run(small_bag(tmp_path / "b"), tmp_path / "ds")
    assert end_of(tmp_path / "ds") == (
        [0, 0, 0, 1],
        [False, False, False, True],
        {"valid"},
        {"pick the cube"},
    )
    assert lines(tmp_path / "ds/meta/tasks.jsonl") == [
        {"task_index": 0, "task": "pick the cube"},
        {"task_index": 1, "task": "valid"},
    ]


def test_an_interrupted_recording_is_done_but_neither_rewarded_nor_valid(tmp_path):
    path = small_bag(tmp_path / "b", outcome="interrupted")
    assert [b.status for b in run(path, tmp_path / "none").bags] == ["skipped"]
    run(path, tmp_path / "ds", allow_incomplete=True)
    assert end_of(tmp_path / "ds") == ([0] * 4, [False, False, False, True], {"invalid"}, {"pick the cube"})
    assert validate_dataset(tmp_path / "ds").report.ok


def test_success_with_losses_is_rewarded_and_invalid(tmp_path):
    reasons = json.dumps(["3 messages of /teleop/target were lost"])
    path = small_bag(tmp_path / "b", complete="false", incomplete_reasons=reasons)
    run(path, tmp_path / "ds", allow_incomplete=True)
    assert end_of(tmp_path / "ds") == (
        [0, 0, 0, 1],
        [False, False, False, True],
        {"invalid"},
        {"pick the cube"},
    )


def test_an_outcome_that_nobody_told_is_not_rewarded(tmp_path):
    path = small_bag(tmp_path / "b", outcome="")
    run(path, tmp_path / "ds", allow_incomplete=True)
    reward, done, *_ = end_of(tmp_path / "ds")
    assert sum(reward) == 0
    assert done == [False] * (len(done) - 1) + [True]


def test_of_a_split_recording_only_the_last_part_is_rewarded(tmp_path):
    run(small_bag(tmp_path / "b", rows=7), tmp_path / "ds", split_s=0.1)
    assert [s["part"] for s in sources(tmp_path / "ds")] == [0, 1, 2]
    ends = [end_of(tmp_path / "ds", i)[:2] for i in range(3)]
    assert ends == [
        ([0, 0], [False, True]),
        ([0, 0], [False, True]),
        ([0, 0, 1], [False, False, True]),
    ]
    assert validate_dataset(tmp_path / "ds").report.ok


def test_tasks_and_validity_share_the_lines_of_tasks(tmp_path):
    bags = [
        small_bag(tmp_path / "rec/b0", 0, task="valid"),
        small_bag(tmp_path / "rec/b1", 1, outcome="interrupted"),
        small_bag(tmp_path / "rec/b2", 2),
    ]
    run(bags, tmp_path / "ds", allow_incomplete=True)
    tasks = [line["task"] for line in lines(tmp_path / "ds/meta/tasks.jsonl")]
    assert tasks == ["valid", "pick the cube", "invalid"]
    assert [end_of(tmp_path / "ds", i)[2:] for i in range(3)] == [
        ({"valid"}, {"valid"}),
        ({"invalid"}, {"pick the cube"}),
        ({"valid"}, {"pick the cube"}),
    ]
    info = json.loads((tmp_path / "ds/meta/info.json").read_bytes())
    assert info["total_tasks"] == 3
    assert validate_dataset(tmp_path / "ds").report.ok


def test_an_episode_of_more_than_1024_s_is_said_and_how_to_split_it(tmp_path):
    slow = {k: replace(s, max_age_ms=2000.0) for k, s in session().sources.items()}
    config = session((), fps=1.0, sources=slow)
    path = bag(tmp_path / "b", arm_messages(1030, period_ms=1000), config, end_ms=1_030_000)
    (note,) = [n for n in run(path, tmp_path / "ds").bags[0].notes if "1024 s" in n]
    assert "an episode of 1030 s" in note
    assert "--split 1000" in note
    assert not [n for n in run(path, tmp_path / "split", split_s=1000.0).bags[0].notes if "1024 s" in n]
