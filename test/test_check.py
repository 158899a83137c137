"""The check finds each fault that is put into a dataset, by its name, and nothing in a good one."""

import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sample_bags import sample_bag

from piper_collect.config.profile import load_profile
from piper_collect.errors import DatasetError
from piper_collect.pipelines.check import check_dataset
from piper_collect.pipelines.export import export

PARQUET = "data/chunk-000/episode_000000.parquet"
VIDEO = "videos/chunk-000/observation.images.cam_front/episode_000000.mp4"


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    folder = tmp_path_factory.mktemp("good")
    sample_bag(folder / "bag")
    assert export([folder / "bag"], folder / "ds", profile=load_profile("piper")).exit_code == 0
    return folder / "ds"


@pytest.fixture
def dataset(good, tmp_path):
    return shutil.copytree(good, tmp_path / "ds")


def codes(root):
    return sorted({f.code for f in check_dataset(root).findings if f.level == "error"})


def edit_json(path, change):
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value) + "\n")


def edit_column(root, key, change):
    table = pq.read_table(root / PARQUET)
    cells = np.array(table[key].to_pylist())
    change(cells)
    kind = table.schema.field(key).type
    at = table.column_names.index(key)
    pq.write_table(table.set_column(at, key, pa.array(cells.tolist(), kind)), root / PARQUET)


def test_a_good_dataset_has_no_findings(good):
    report = check_dataset(good)
    assert report.findings == ()
    assert report.ok
    assert report.facts == {
        "episodes": 1,
        "rows": 30,
        "cameras": ["observation.images.cam_front", "observation.images.cam_wrist"],
        "tasks": 1,
    }


def test_no_dataset_is_an_error(tmp_path):
    with pytest.raises(DatasetError, match="is no dataset"):
        check_dataset(tmp_path)


@pytest.mark.parametrize("key", ["total_episodes", "total_frames", "total_tasks"])
def test_totals(dataset, key):
    edit_json(dataset / "meta/info.json", lambda info: info.update({key: 8}))
    assert codes(dataset) == ["totals"]


def test_a_file_that_no_episode_names(dataset):
    shutil.copy(dataset / PARQUET, dataset / "data/chunk-000/episode_000001.parquet")
    assert codes(dataset) == ["orphan-file"]


def test_a_missing_parquet_and_a_missing_video(dataset):
    (dataset / VIDEO).unlink()
    assert codes(dataset) == ["video-unreadable"]
    (dataset / PARQUET).unlink()
    assert "rows-unreadable" in codes(dataset)


def test_frame_counts(dataset):
    def change(line):
        line["video_frame_lengths"]["observation.images.cam_front"] = 12

    edit_json(dataset / "meta/episodes.jsonl", change)
    assert codes(dataset) == ["frame-count"]


def test_length(dataset):
    edit_json(dataset / "meta/episodes.jsonl", lambda line: line.update(length=31))
    assert codes(dataset) == ["length", "totals"]


def test_a_column_that_is_not_declared(dataset):
    edit_json(dataset / "meta/info.json", lambda info: info["features"].pop("observation.gripper"))
    assert codes(dataset) == ["columns"]


def test_timestamps_that_go_back(dataset):
    edit_column(dataset, "timestamp", lambda cells: cells.__setitem__(5, 0.0))
    assert codes(dataset) == ["stats", "timestamps"]


def test_row_numbers(dataset):
    edit_column(dataset, "frame_index", lambda cells: cells.__iadd__(1))
    assert codes(dataset) == ["row-numbers"]


def test_values_that_are_not_finite(dataset):
    edit_column(dataset, "observation.arm_joint", lambda cells: cells.__setitem__((4, 2), np.nan))
    assert codes(dataset) == ["not-finite", "stats"]


def test_quaternions(dataset):
    edit_column(dataset, "action.arm_eef", lambda cells: cells[10:, 3:].__imul__(-1))
    assert codes(dataset) == ["quaternion-sign", "stats"]
    edit_column(dataset, "action.arm_eef", lambda cells: cells[20:, 3:].__imul__(0.5))
    assert codes(dataset) == ["quaternion-norm", "quaternion-sign", "stats"]


def test_statistics_of_other_rows(dataset):
    edit_json(
        dataset / "meta/stats.json", lambda stats: stats["observation.gripper"]["mean"].__setitem__(0, 0.06)
    )
    assert codes(dataset) == ["stats"]
    edit_json(dataset / "meta/stats.json", lambda stats: stats.pop("observation.gripper"))
    assert codes(dataset) == ["stats"]


def test_rows_and_frames_that_tell_another_time(dataset):
    edit_column(dataset, "timestamp", lambda cells: cells.__imul__(3))
    assert codes(dataset) == ["stats", "time-span"]


def test_a_save_that_was_interrupted(dataset):
    (dataset / ".staging").mkdir()
    assert codes(dataset) == ["interrupted-save"]
