"""LeRobot v3.0: what is written, appended, replaced, and how it ends when it is stopped."""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dataset_cases import add, episode, open_writer, tree

from piper_collect.config.profile import Profile, load_profile, with_dialect
from piper_collect.dataset.edit import delete_episodes
from piper_collect.dataset.parquet import column_values, table_bytes
from piper_collect.dataset.probe import probe_video
from piper_collect.dataset.stage import EpisodeIdentity
from piper_collect.dataset.v3 import shards
from piper_collect.dataset.v3.layout import Place
from piper_collect.dataset.v3.reader import open_v3
from piper_collect.dataset.v3.tables import read_tasks
from piper_collect.dataset.writer import DatasetWriter
from piper_collect.errors import ConfigError, DatasetError

pytestmark = pytest.mark.usefixtures("no_sync")

CAMERA = "cam_front"
KEY = "observation.images.cam_front"
LENGTHS = (3, 5, 2, 4)


def made_of(**changes: Any) -> Profile:
    return replace(with_dialect(load_profile("train"), "lerobot-v3.0"), **changes)


def begin(root: Path, **changes: Any) -> DatasetWriter:
    return open_writer(root, profile=made_of(**changes), cameras={CAMERA: (16, 24)})


def small(number: int, rows: int, task: str | None = None) -> Any:
    return episode(
        f"pick/episode_{number:06d}",
        task=task or f"task {number % 2}",
        start=float(number),
        ticks_ms=[k * 100 / 3 for k in range(rows)],
        frames_ms=[k * 100 / 3 - 1e-3 * (k > 0) for k in range(rows)],
        cameras=(CAMERA,),
    )


def fill(root: Path, lengths: Sequence[int] = LENGTHS, *, reopen: bool = False) -> DatasetWriter:
    writer = begin(root)
    for number, rows in enumerate(lengths):
        if reopen:
            writer = begin(root)
        add(writer, small(number, rows), bag=f"b{number}")
    return writer


def test_the_table_of_episodes_says_where_each_lies(tmp_path: Path) -> None:
    fill(tmp_path)
    table = pq.ParquetFile(tmp_path / "meta/episodes/chunk-000/file-000.parquet").read()
    assert table["episode_index"].to_pylist() == [0, 1, 2, 3]
    assert table["length"].to_pylist() == list(LENGTHS)
    assert table["tasks"].to_pylist() == [["task 0"], ["task 1"], ["task 0"], ["task 1"]]
    assert table["dataset_from_index"].to_pylist() == [0, 3, 8, 10]
    assert table["dataset_to_index"].to_pylist() == [3, 8, 10, 14]
    assert table[f"videos/{KEY}/from_timestamp"].to_pylist() == pytest.approx([0, 3 / 30, 8 / 30, 10 / 30])
    assert table[f"videos/{KEY}/to_timestamp"].to_pylist() == pytest.approx(
        [3 / 30, 8 / 30, 10 / 30, 14 / 30]
    )
    for column in (
        "data/chunk_index",
        "data/file_index",
        "meta/episodes/file_index",
        f"videos/{KEY}/file_index",
    ):
        assert table[column].to_pylist() == [0, 0, 0, 0]
    rows = pq.ParquetFile(tmp_path / "data/chunk-000/file-000.parquet")
    assert rows.metadata.num_row_groups == 1
    assert rows.read()["index"].to_pylist() == list(range(14))
    video = probe_video(tmp_path / f"videos/{KEY}/chunk-000/file-000.mp4")
    np.testing.assert_allclose(video.pts_s, np.arange(14) / 30, atol=1e-12)
    assert (video.rate_hz, video.average_fps, video.header_frames, video.reordered) == (30.0, 30.0, 14, False)


def test_the_files_of_meta_are_as_lerobot_has_them(tmp_path: Path) -> None:
    fill(tmp_path)
    info = json.loads((tmp_path / "meta/info.json").read_text())
    assert {k: v for k, v in info.items() if k != "features"} == {
        "codebase_version": "v3.0",
        "robot_type": "piper",
        "total_episodes": 4,
        "total_frames": 14,
        "total_tasks": 3,
        "chunks_size": 1000,
        "data_files_size_in_mb": 16,
        "video_files_size_in_mb": 32,
        "fps": 30,
        "splits": {"train": "0:4"},
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4",
    }
    rows = pq.ParquetFile(tmp_path / "data/chunk-000/file-000.parquet").schema_arrow
    assert set(rows.names) == {k for k, f in info["features"].items() if f["dtype"] != "video"}
    assert rows.field("observation.gripper").type == pa.float32()
    assert info["features"][KEY]["info"]["video.codec"] == "h264"
    assert read_tasks(tmp_path) == {0: "task 0", 1: "valid", 2: "task 1"}
    described = json.loads(pq.ParquetFile(tmp_path / "meta/tasks.parquet").schema_arrow.metadata[b"pandas"])
    assert described["index_columns"] == ["__index_level_0__"]


def test_statistics_are_those_of_all_rows_and_of_each_episode(tmp_path: Path) -> None:
    fill(tmp_path)
    reader = open_v3(tmp_path)
    stats = reader.stats or {}
    all_rows = pa.concat_tables([reader.rows(i) for i in range(4)])
    table = pq.ParquetFile(tmp_path / "meta/episodes/chunk-000/file-000.parquet").read()
    for key in ("observation.state", "action", "timestamp", "index", "next.done", "source_timestamp.arm_eef"):
        for values, entry in (
            (column_values(all_rows, key), stats[key]),
            (
                column_values(reader.rows(2), key),
                {n: table[f"stats/{key}/{n}"][2].as_py() for n in stats[key]},
            ),
        ):
            cells = values.astype(np.float64)
            for name, q in (("q01", 0.01), ("q10", 0.1), ("q50", 0.5), ("q90", 0.9), ("q99", 0.99)):
                np.testing.assert_allclose(entry[name], np.quantile(cells, q, axis=0), rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(entry["mean"], cells.mean(axis=0), rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(entry["std"], cells.std(axis=0), rtol=1e-9, atol=1e-12)
            assert entry["min"] == cells.min(axis=0).tolist()
            assert entry["max"] == cells.max(axis=0).tolist()
            assert entry["count"] == [len(cells)]
    assert stats[KEY]["count"] == [14]
    # grey pictures: 40 and 10 levels more with each
    assert np.array(stats[KEY]["max"]).shape == (3, 1, 1)
    assert stats[KEY]["min"][0][0][0] * 255 == pytest.approx(40, abs=2)
    assert stats[KEY]["max"][0][0][0] * 255 == pytest.approx(80, abs=2)
    assert stats[KEY]["q01"][0][0][0] < stats[KEY]["q50"][0][0][0] < stats[KEY]["q99"][0][0][0]


@pytest.fixture
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two episodes a file of the table, and videos of 0.27 s at most."""
    monkeypatch.setattr(shards, "MOST_EPISODE_LINES", 2)
    monkeypatch.setattr(shards, "MOST_VIDEO_S", 0.27)


def test_a_full_file_is_left_alone_and_the_next_one_begun(tmp_path: Path, small_files: None) -> None:
    writer = fill(tmp_path)
    before = tree(tmp_path)
    add(writer, small(4, 6), bag="b4")
    after = tree(tmp_path)
    lines = [open_v3(tmp_path).episodes[i] for i in range(5)]
    assert [k[f"videos/{KEY}/file_index"] for k in lines] == [0, 0, 1, 1, 2]
    assert [k["meta/episodes/file_index"] for k in lines] == [0, 0, 1, 1, 2]
    assert [k[f"videos/{KEY}/from_timestamp"] for k in lines] == pytest.approx([0, 0.1, 0, 2 / 30, 0])
    for file in (f"videos/{KEY}/chunk-000/file-001.mp4", "meta/episodes/chunk-000/file-001.parquet"):
        assert before[file] == after[file]
    reader = open_v3(tmp_path)
    for number, rows in enumerate((*LENGTHS, 6)):
        np.testing.assert_allclose(reader.frame_times(number, KEY), np.arange(rows) / 30, atol=1e-9)
        shown = [int(picture.mean()) for _, picture in reader.frames(number, KEY)]
        assert shown == pytest.approx([40 + 10 * k for k in range(rows)], abs=2)


def test_rows_begin_a_new_file_when_one_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row_bytes = table_bytes(open_v3_rows(tmp_path / "one")) // 3
    monkeypatch.setattr(shards, "_MB", row_bytes // 2)  # 16 of these hold 8 rows
    fill(tmp_path / "ds")
    reader = open_v3(tmp_path / "ds")
    assert [reader.episodes[i]["data/file_index"] for i in range(4)] == [0, 0, 1, 1]
    for number, rows in enumerate(LENGTHS):
        assert reader.rows(number)["frame_index"].to_pylist() == list(range(rows))
        assert reader.rows(number)["episode_index"].to_pylist() == [number] * rows


def open_v3_rows(root: Path) -> pa.Table:
    fill(root, (3,))
    return open_v3(root).rows(0)


def test_places_go_on_in_the_next_folder() -> None:
    assert Place(0, 1).next(3) == Place(0, 2)
    assert Place(0, 2).next(3) == Place(1, 0)


def test_one_run_and_many_come_to_the_same_bytes(tmp_path: Path, small_files: None) -> None:
    fill(tmp_path / "one")
    fill(tmp_path / "many", reopen=True)
    assert tree(tmp_path / "one") == tree(tmp_path / "many")


@pytest.mark.parametrize("index", [0, 1, 3])
def test_a_replaced_episode_equals_one_made_so_from_the_start(
    tmp_path: Path, small_files: None, index: int
) -> None:
    writer = fill(tmp_path / "ds")
    writer.replace_episode(
        index,
        small(index, 6),
        identity=EpisodeIdentity(session="pick", bag=f"b{index}", content_hash=f"hash of b{index}"),
        session_record={"session": "pick", "arm": {"firmware": None}},
    )
    lengths = [6 if i == index else n for i, n in enumerate(LENGTHS)]
    fill(tmp_path / "fresh", lengths)
    assert tree(tmp_path / "ds") == tree(tmp_path / "fresh")


@pytest.mark.parametrize("gone", [[0], [1, 3], [3], [0, 1, 2, 3]])
def test_episodes_are_taken_out_as_if_they_had_never_been_in(
    tmp_path: Path, small_files: None, gone: list[int]
) -> None:
    fill(tmp_path / "ds")
    delete_episodes(tmp_path / "ds", gone)
    writer = begin(tmp_path / "never")
    for number, rows in enumerate(LENGTHS):
        if number not in gone:
            add(writer, small(number, rows), bag=f"b{number}")
    if len(gone) < len(LENGTHS):
        assert tree(tmp_path / "ds") == tree(tmp_path / "never")
    assert len(open_v3(tmp_path / "ds").episodes) == len(LENGTHS) - len(gone)
    add(begin(tmp_path / "ds"), small(7, 3), bag="b7")
    assert len(open_v3(tmp_path / "ds").episodes) == len(LENGTHS) - len(gone) + 1


def test_statistics_are_counted_again_where_what_they_go_on_from_is_lost(tmp_path: Path) -> None:
    for name, damage in (("whole", None), ("gone", "unlink"), ("damaged", "write")):
        fill(tmp_path / name)
        path = tmp_path / name / "extras/quantiles_state.bin"
        if damage == "unlink":
            path.unlink()
        elif damage == "write":
            path.write_bytes(path.read_bytes()[:-1] + b"x")
        add(begin(tmp_path / name), small(4, 3), bag="b4")
    assert tree(tmp_path / "gone") == tree(tmp_path / "whole") == tree(tmp_path / "damaged")


@pytest.mark.parametrize("what", ["a video", "rows", "the table"])
def test_a_damaged_dataset_is_not_continued(tmp_path: Path, what: str) -> None:
    fill(tmp_path)
    files = {
        "a video": f"videos/{KEY}/chunk-000/file-000.mp4",
        "rows": "data/chunk-000/file-000.parquet",
        "the table": "meta/episodes/chunk-000/file-000.parquet",
    }
    (tmp_path / files[what]).unlink()
    with pytest.raises(DatasetError):
        begin(tmp_path)


def test_a_dataset_with_other_limits_is_not_continued(tmp_path: Path) -> None:
    fill(tmp_path)
    with pytest.raises(DatasetError, match="another video_files_size_in_mb"):
        begin(tmp_path, video_file_mb=8)


def test_profiles_that_lerobot_could_not_load_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"needs cells: scalar.*--profile train"):
        with_dialect(load_profile("piper"), "lerobot-v3.0")


def test_av1(tmp_path: Path) -> None:
    video = replace(made_of().video, codec="libsvtav1", crf=30, preset="10")
    size = (64, 64)
    writer = open_writer(tmp_path, profile=made_of(video=video), cameras={CAMERA: size})
    for number in range(2):
        what = episode(ticks_ms=[0, 100 / 3], frames_ms=(0, 33), cameras=(CAMERA,), size=size)
        add(writer, what, bag=f"b{number}")
    probe = probe_video(tmp_path / f"videos/{KEY}/chunk-000/file-000.mp4")
    assert probe.codec in ("av1", "libdav1d")
    np.testing.assert_allclose(probe.pts_s, np.arange(4) / 30, atol=1e-12)
    info = json.loads((tmp_path / "meta/info.json").read_text())
    assert info["features"][KEY]["info"]["video.codec"] == "av1"
    shown = [int(p.mean()) for _, p in open_v3(tmp_path).frames(1, KEY)]
    assert shown == pytest.approx([40, 50], abs=4)


def test_av1_says_nothing_on_the_terminal(tmp_path: Path) -> None:
    code = f"import sys; sys.path[:0] = {sys.path!r}\nfrom pathlib import Path\n"
    code += f"import test_v3_writer as t\nt.test_av1(Path({str(tmp_path)!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
