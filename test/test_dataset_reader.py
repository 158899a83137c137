"""dataset.reader: our own datasets and other people's."""

import json
from pathlib import Path

import numpy as np
import pytest
from dataset_cases import add, episode, open_writer

from piper_collect.dataset.json_files import json_bytes, read_jsonl
from piper_collect.dataset.reader import open_dataset
from piper_collect.errors import DatasetError

CASES = Path(__file__).parents[2] / "shared/cases/lerobot"
GROOT = CASES / "v20_groot_robot_sim.PickNPlace"
TINY = CASES / "v21_tiny_fixtures"


def test_reads_back_what_was_written(tmp_path: Path) -> None:
    add(open_writer(tmp_path), episode())
    reader = open_dataset(tmp_path)
    assert reader.fps == 30.0
    assert reader.video_keys == ("observation.images.cam_front", "observation.images.cam_wrist")
    assert reader.episodes[0]["length"] == 4
    assert reader.rows(0).num_rows == 4
    assert [s["session"] for s in reader.sessions] == ["pick"]


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"meta/info\.json"):
        open_dataset(tmp_path)
    add(open_writer(tmp_path), episode())
    reader = open_dataset(tmp_path)
    with pytest.raises(DatasetError, match=r"episode_000009\.parquet"):
        reader.rows(9)
    with pytest.raises(DatasetError, match=r"episode_000009\.mp4"):
        reader.frame_times(9, reader.video_keys[0])
    with pytest.raises(DatasetError, match=r"did you mean 'observation\.images\.cam_front'"):
        reader.video_path(0, "observation.images.cam_fron")


def test_cut_files_are_refused(tmp_path: Path) -> None:
    add(open_writer(tmp_path), episode())
    reader = open_dataset(tmp_path)
    key = reader.video_keys[0]
    for path in (reader.data_path(0), reader.video_path(0, key)):
        path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(DatasetError, match="parquet"):
        reader.rows(0)
    with pytest.raises(DatasetError, match="video"):
        reader.frame_times(0, key)
    with pytest.raises(DatasetError, match="video"):
        next(reader.frames(0, key))


def test_blank_lines_are_skipped_and_wrong_ones_named(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_bytes(b'{"a": 1}\n\n \n' + json_bytes({"a": "\u2028"}, "x", indent=None))
    assert read_jsonl(path) == [{"a": 1}, {"a": "\u2028"}]
    for line, words in ((b"{]", "not valid JSON"), (b"[1]", "not a JSON object"), (b"\xff", "UTF-8")):
        path.write_bytes(b'{"a": 1}\n' + line)
        with pytest.raises(DatasetError, match=words):
            read_jsonl(path)


@pytest.mark.skipif(not GROOT.exists(), reason="the sample datasets are not here")
def test_a_public_v20_dataset() -> None:
    reader = open_dataset(GROOT)
    lengths = [e["length"] for e in reader.episodes.values()]
    assert lengths == [416, 470, 470, 412, 328]
    assert [reader.rows(i).num_rows for i in range(5)] == lengths
    times = reader.frame_times(4, "observation.images.ego_view")
    assert len(times) == 328
    np.testing.assert_allclose(np.diff(times), 0.05, atol=1e-6)
    assert next(reader.frames(4, "observation.images.ego_view"))[1].shape == (256, 256, 3)
    with pytest.raises(DatasetError, match="egoview"):
        reader.frame_times(0, "observation.images.egoview")


@pytest.mark.skipif(not TINY.exists(), reason="the sample datasets are not here")
def test_public_v21_datasets() -> None:
    for name in ("lerobotv2", "lerobotv2-image"):
        reader = open_dataset(TINY / name)
        assert [reader.rows(i).num_rows for i in reader.episodes] == [3, 3]
    with pytest.raises(DatasetError, match="v3"):
        open_dataset(TINY / "lerobotv3")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"features": [1]}, "no map of columns"),
        ({"features": {"a": 3}}, "feature a is not described"),
        ({"fps": 0}, "fps is no rate"),
        ({"fps": "30"}, "fps is no rate"),
        ({"chunks_size": 0}, "chunks_size is no number"),
    ],
)
def test_an_info_that_nobody_can_work_with_is_one_error(tmp_path: Path, change: dict, words: str) -> None:
    add(open_writer(tmp_path), episode())
    path = tmp_path / "meta/info.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(DatasetError, match=words):
        open_dataset(tmp_path)


def test_a_path_that_leads_out_is_refused(tmp_path: Path) -> None:
    add(open_writer(tmp_path), episode())
    path = tmp_path / "meta/info.json"
    info = json.loads(path.read_text()) | {"data_path": "../{episode_index}"}
    path.write_text(json.dumps(info))
    with pytest.raises(DatasetError, match="leads out of the dataset"):
        open_dataset(tmp_path).rows(0)


@pytest.mark.parametrize("length", [None, "4", True, -1])
def test_an_episode_without_a_length_is_named_and_not_guessed(tmp_path: Path, length: object) -> None:
    writer = open_writer(tmp_path)
    for number in range(2):
        add(writer, episode(), bag=f"b{number}")
    path = tmp_path / "meta/episodes.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[1]["length"] = length
    if length is None:
        del lines[1]["length"]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    reader = open_dataset(tmp_path)
    with pytest.raises(DatasetError, match=r"episodes\.jsonl: episode 1 has no length"):
        print(reader.lines)
    assert reader.rows(1).num_rows == 4
