"""Faults in files, counts and rows: each is found by its name and numbers, and no other one."""

import shutil

import numpy as np
import pyarrow as pa
import pytest
from dataset_edits import FRONT, edit_column, edit_line, edit_lines, edit_table, rows_path, video_path
from fault_support import check, column, feature, info, line, spin, with_cells
from validation_cases import ROWS, write_dataset

from piper_collect.pipelines.validate import validate_dataset

EEF, TARGET, JOINTS = "observation.arm_eef", "action.arm_eef", "observation.arm_joint"


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    return write_dataset(tmp_path_factory.mktemp("good") / "piper", "piper")


def swap_poses(table):
    return table.set_column(1, EEF, table[TARGET]).set_column(3, TARGET, table[EEF])


@pytest.mark.parametrize("profile", ["piper", "train"])
def test_nothing_is_wrong_with_a_good_dataset(tmp_path, profile):
    report = validate_dataset(write_dataset(tmp_path / "ds", profile)).report
    assert not report.reaches("warning"), report.findings
    assert (report.facts["episodes"], report.facts["rows"]) == (2, 2 * ROWS)


FILES = {
    "total episodes": (info(lambda d: d.update(total_episodes=8)),
        ["totals"], ["total_episodes is 8", "say 2"]),
    "total frames": (info(lambda d: d.update(total_frames=7)), ["totals"], ["is 7, the other files say 90"]),
    "total tasks": (info(lambda d: d.pop("total_tasks")), ["totals"], ["has no total_tasks"]),
    "split": (info(lambda d: d.update(splits={"train": "0:9"})), ["splits"], ['"0:9"', "0:2"]),
    "length": (line("episodes.jsonl", lambda d: d.update(length=46)),
        ["length", "totals", "no-consumer"], ["45 rows, episodes.jsonl says 46"]),
    "no length": (line("episodes.jsonl", lambda d: d.update(length="45")),
        ["length", "totals", "no-consumer"], ['length is "45"']),
    "parquet missing": (lambda r: rows_path(r, 1).unlink(),
        ["file-missing", "no-consumer"], ["the parquet file of episodes 1 is missing (1 of 2"]),
    "video missing": (lambda r: video_path(r).unlink(),
        ["file-missing", "no-consumer"], [f"the video of {FRONT}"]),
    "orphan": (lambda r: shutil.copy(rows_path(r), rows_path(r, 7)),
        ["orphan-file"], ["episode_000007.parquet"]),
    "orphan extra": (lambda r: (r / "extras/episode_000009.quest.jsonl").write_text("{}\n"),
        ["orphan-file"], ["episode_000009.quest.jsonl"]),
    "bad extra": (lambda r: (r / "extras/episode_000000.quest.jsonl").write_text("{}\n{\n"),
        ["json"], ["quest.jsonl:2: is not valid JSON"]),
    "staging": (lambda r: (r / ".staging").mkdir(), ["interrupted-save"], ["the next command that changes"]),
    "episode gap": (lambda r: edit_line(r, "episodes.jsonl", 1, lambda d: d.update(episode_index=3)),
        ["episode-numbers", "file-missing", "orphan-file", "sources", "no-consumer"],
        ["3 comes where 1 should"]),
    "episode twice": (lambda r: edit_lines(r, "episodes.jsonl", lambda x: [*x, x[0]]),
        ["duplicate-line"], ["episode_index 0 was given in a line before"]),
    "broken line": (lambda r: edit_lines(r, "episodes.jsonl", lambda x: [*x, "{"]),
        ["json"], ["episodes.jsonl:3: is not valid JSON"]),
    "unknown task": (line("episodes.jsonl", lambda d: d.update(tasks=["sing"])),
        ["task-index", "tasks"], ['"sing" is not in meta/tasks.jsonl']),
    "empty task": (line("tasks.jsonl", lambda d: d.update(task=" ")),
        ["tasks", "task-index"], ['task 0 is " "']),
    "no tasks": (lambda r: (r / "meta/tasks.jsonl").unlink(),
        ["no-consumer", "tasks", "task-index", "totals"], ["the file is missing"]),
    "task index": (column("task_index", lambda c: c.__iadd__(4)),
        ["task-index", "no-consumer"], ["task_index 4"]),
    "feature size": (feature(JOINTS, shape=[5], names=list("abcde")),
        ["features", "shape", "stats", "modality"],
        ["float32[5], the format has float32[6]", "6 elements a cell, info.json says [5]"]),
    "feature type": (feature(JOINTS, dtype="float64"), ["features", "dtype"], ["the file has float32"]),
    "camera size": (feature(FRONT, shape=[48, 80, 3]), ["video-size"], ["48x64", "48x80"]),
    "undeclared": (info(lambda d: d["features"].pop("observation.gripper")),
        ["columns", "features", "modality"],
        ["column observation.gripper is in the file and not in info.json"]),
    "declared only": (info(lambda d: d["features"].update(more={"dtype": "float32", "shape": [2]})),
        ["columns", "stats"], ["column more is not in the file"]),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_a_fault_of_files_and_counts(name, good, tmp_path):
    spoil, codes, words = FILES[name]
    root = shutil.copytree(good, tmp_path / "ds")
    spoil(root)
    check(root, codes, words)


ROWS_AT_FAULT = {
    "frame_index": (column("frame_index", lambda c: c.__iadd__(1)), ["row-numbers"], ["runs from 1 to 45"]),
    "index": (lambda r: edit_column(r, "index", lambda c: c.__isub__(3), 1),
        ["row-numbers"], ["index runs from 42 to 86, not from 45"]),
    "episode_index": (column("episode_index", lambda c: c.__setitem__(7, 5)),
        ["row-numbers"], ["is 5 in 1 rows"]),
    "time back": (column("timestamp", lambda c: c.__setitem__(5, 0.0)),
        ["timestamps", "stats", "samples"], ["does not increase at 1 rows, first at row 5"]),
    "fps": (info(lambda d: d.update(fps=15)), ["fps"], ["rows come at 30", "info.json says 15"]),
    "start": (column("timestamp", lambda c: c.__iadd__(0.05)),
        ["start", "samples", "stats"], ["starts at 0.050 s"]),
    "hole": (lambda r: edit_column(r, "timestamp", lambda c: c[20:].__iadd__(0.3)),
        ["row-gaps", "time-span", "samples", "stats"], ["before row 20", "the longest 33"]),
    "not finite": (column(JOINTS, lambda c: c.__setitem__((4, 2), np.nan)),
        ["not-finite"], ["1 rows are not finite, first row 4"]),
    "null": (
        with_cells(JOINTS, lambda c: [None, *c[1:]]),
        ["nulls"], ["1 cells are empty"]),
    "ragged": (
        with_cells(JOINTS, lambda c: [[1.0], *c[1:]], pa.list_(pa.float32())),
        ["shape"], ["different lengths"]),
    "norm": (column(TARGET, lambda c: c[20:, 3:].__imul__(0.5)),
        ["quaternion-norm", "stats"], ["25 quaternions are not unit, first row 20 with norm 0.5"]),
    "sign": (column(TARGET, lambda c: c[10:, 3:].__imul__(-1)),
        ["quaternion-sign", "stats"], ["flips 1 times, first at row 10"]),
    "first w": (column(TARGET, lambda c: c[:, 3:].__imul__(-1)),
        ["quaternion-first-sign", "stats"], ["w = -0."]),
    "xyzw measured": (column(EEF, spin),
        ["quaternion-first-sign", "quaternion-order", "stats"], ["look like xyzw"]),
    "xyzw commanded": (column(TARGET, spin),
        ["quaternion-first-sign", "quaternion-order", "stats"], ["when one of them is read as xyzw"]),
    "joint range": (column(JOINTS, lambda c: c.__setitem__((9, 1), -1.0)),
        ["joint-range", "stats"], ["1 rows are out", "joint2 with -1 rad at row 9"]),
    "degrees": (column(JOINTS, lambda c: c.__imul__(180 / np.pi)),
        ["joint-range", "kinematics", "stats"], ["degrees?"]),
    "gripper in mm": (column("observation.gripper", lambda c: c.__imul__(1000)),
        ["gripper-range", "stats"], ["45 widths are out of the gripper's range"]),
    "reach": (column(EEF, lambda c: c[:, :3].__imul__(1000)),
        ["reach", "kinematics", "stats"], ["(millimetres?)"]),
    "jump": (column(TARGET, lambda c: c[30:, :3].__iadd__(0.25)), ["jump", "stats", "lag"], ["jumps 0.4"]),
    "other arm": (column(EEF, lambda c: c[:, :1].__iadd__(0.02)),
        ["kinematics", "stats"], ["20.0 mm (median)", "(s_v1_6_3)"]),
    "dead joints": (column(JOINTS, lambda c: c.__setitem__(slice(None), c[0])),
        ["kinematics", "stats", "still"], ["never changes"]),
    "swapped pose": (
        lambda r: edit_table(r, swap_poses),
        ["kinematics", "lag", "stats"], ["ms before its command"]),
    "two names": (lambda r: edit_table(r, lambda t: t.append_column(JOINTS, t[JOINTS])),
        ["columns", "no-consumer"], ["two columns have the name"]),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS_AT_FAULT)
def test_a_fault_of_rows(name, good, tmp_path):
    spoil, codes, words = ROWS_AT_FAULT[name]
    root = shutil.copytree(good, tmp_path / "ds")
    spoil(root)
    check(root, codes, words)
