"""Taking episodes out of datasets of other tools: numbers follow, what is not ours is left or refused."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dataset_cases import tree
from export_cases import lines, mp4, rows, run, small_bag
from plain_dataset import feature, random_episode, write_plain_dataset

from piper_collect.cli.main import main
from piper_collect.config.profile import load_profile, with_dialect
from piper_collect.dataset.edit import delete_episodes, delete_last
from piper_collect.errors import DatasetError

pytestmark = pytest.mark.usefixtures("no_sync")

LENGTHS = (3, 4, 2)


def episode(index: int, length: int, **more: object) -> dict[str, object]:
    first = sum(LENGTHS[:index])
    return {
        **random_episode(np.random.default_rng(index), length),
        "timestamp": np.arange(length) / 30,
        "frame_index": pa.array(np.arange(length)),
        "episode_index": pa.array(np.full(length, index)),
        "index": pa.array(np.arange(first, first + length)),
        "task_index": pa.array(np.zeros(length, np.int64)),
        **more,
    }


def plain(root: Path, **more: object) -> Path:
    write_plain_dataset(
        root, [episode(i, n, **{k: v(n) for k, v in more.items()}) for i, n in enumerate(LENGTHS)]
    )
    return root


def test_numbers_follow_and_nothing_is_added(tmp_path: Path) -> None:
    root = plain(tmp_path / "ds")
    before = [rows(root, i) for i in range(3)]
    kept = set(tree(root)) - {"data/chunk-000/episode_000002.parquet"}
    assert delete_episodes(root, [1]).episodes == 2
    assert set(tree(root)) == kept
    after = [rows(root, i) for i in range(2)]
    assert after[0].equals(before[0])
    assert after[1]["index"].to_pylist() == [3, 4]
    assert after[1]["episode_index"].to_pylist() == [1, 1]
    same = [c for c in before[2].column_names if c not in ("index", "episode_index")]
    assert after[1].select(same).equals(before[2].select(same))
    info = json.loads((root / "meta/info.json").read_bytes())
    assert (info["total_episodes"], info["total_frames"]) == (2, 5)
    assert [e["length"] for e in lines(root / "meta/episodes.jsonl")] == [3, 2]


def test_annotations_that_are_no_task_lines_stay_as_they_are(tmp_path: Path) -> None:
    words = {"annotation.said": lambda n: pa.array(["left", "right", "up", "down"][:n])}
    marks = {"annotation.quality": lambda n: np.arange(n) / 3}
    root = plain(tmp_path / "ds", **words, **marks)
    delete_episodes(root, [0])
    assert rows(root, 0)["annotation.said"].to_pylist() == ["left", "right", "up", "down"]
    assert rows(root, 1)["annotation.quality"].to_pylist() == [0, float(np.float32(1 / 3))]


def test_annotations_follow_the_lines_of_tasks(tmp_path: Path) -> None:
    root = tmp_path / "ds"
    notes = [
        {"task_index": pa.array([t] * n), "annotation.human.validity": pa.array([3] * n)}
        for t, n in zip((0, 1, 2), LENGTHS, strict=True)
    ]
    write_plain_dataset(root, [episode(i, n, **notes[i]) for i, n in enumerate(LENGTHS)])
    tasks = ["pick", "place", "stack", "valid"]
    text = "".join(json.dumps({"task_index": i, "task": t}) + "\n" for i, t in enumerate(tasks))
    (root / "meta/tasks.jsonl").write_text(text)
    delete_episodes(root, [1])
    assert [line["task"] for line in lines(root / "meta/tasks.jsonl")] == ["pick", "valid", "stack"]
    assert [rows(root, i)["task_index"][0].as_py() for i in range(2)] == [0, 2]
    assert [rows(root, i)["annotation.human.validity"][0].as_py() for i in range(2)] == [1, 1]


def odd_layout(root: Path) -> None:
    info = json.loads((root / "meta/info.json").read_text())
    info["data_path"] = "rows/episode_{episode_index:06d}.parquet"
    (root / "meta/info.json").write_text(json.dumps(info))
    (root / "data/chunk-000").rename(root / "rows")


def number_missing(root: Path) -> None:
    first, _, last = (root / "meta/episodes.jsonl").read_text().splitlines(keepends=True)
    (root / "meta/episodes.jsonl").write_text(first + last)


def unknown_task(root: Path) -> None:
    (root / "meta/tasks.jsonl").write_text('{"task_index": 7, "task": "pick"}\n')


def lost_rows(root: Path) -> None:
    (root / "data/chunk-000/episode_000002.parquet").unlink()


def no_modern_version(root: Path) -> None:
    info = json.loads((root / "meta/info.json").read_text())
    (root / "meta/info.json").write_text(json.dumps({**info, "codebase_version": "v9.0"}))


REFUSED = {
    odd_layout: "a file lies where none is changed (expected below data, videos, meta, extras)",
    number_missing: "the episodes are not numbered from 0 without a gap",
    unknown_task: "rows point at a line that tasks.jsonl does not have",
    lost_rows: "not a readable parquet file",
    no_modern_version: "a dataset of this version cannot be read",
}


@pytest.mark.parametrize("spoil", REFUSED, ids=lambda f: f.__name__)
def test_refused_in_one_line_and_left_as_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], spoil
) -> None:
    root = plain(tmp_path / "ds")
    spoil(root)
    before = tree(root)
    assert main(["edit", str(root), "--delete", "0"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert REFUSED[spoil] in line
    assert tree(root) == before


def test_what_is_no_dataset_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "none", tmp_path / "folder"):
        assert main(["edit", str(path), "--keep", "0"]) == 1
        assert "is no dataset" in capsys.readouterr().err


def test_the_session_of_a_foreign_episode_is_not_known(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"the last episode, 2, .*got no known session"):
        delete_last(plain(tmp_path / "ds"), "pick")


@pytest.fixture
def stock(tmp_path: Path) -> Path:
    """As LeRobot writes v2.0: statistics of pictures in stats.json, and nothing of ours."""
    bags = [small_bag(tmp_path / f"b{k}", k) for k in range(3)]
    root = tmp_path / "ds"
    run(bags, root, with_dialect(load_profile("train"), "lerobot-v2.0"))
    for name in (
        "episode_sources.jsonl",
        "episodes_stats.jsonl",
        "collection_meta.json",
        "collection_sessions.jsonl",
    ):
        (root / "meta" / name).unlink()
    shutil.rmtree(root / "extras")
    return root


def test_statistics_of_pictures_that_nobody_can_tell_go_and_it_is_said(stock: Path) -> None:
    key = "observation.images.cam"
    before = json.loads((stock / "meta/stats.json").read_bytes())
    videos = [mp4(stock, index=i).read_bytes() for i in range(3)]
    edited = delete_episodes(stock, [0])
    (note,) = edited.notes
    assert f"stats.json no longer has {key}: no episodes_stats.jsonl tells" in note
    after = json.loads((stock / "meta/stats.json").read_bytes())
    assert set(before) - set(after) == {key}
    joints = np.concatenate([np.array(rows(stock, i)["observation.arm_joint"].to_pylist()) for i in range(2)])
    np.testing.assert_array_equal(after["observation.arm_joint"]["max"], joints.max(axis=0))
    assert [mp4(stock, index=i).read_bytes() for i in range(2)] == videos[1:]
    assert {p.name for p in (stock / "meta").iterdir()} == {
        *("info.json", "modality.json", "episodes.jsonl", "tasks.jsonl", "stats.json")
    }


def test_pictures_in_the_rows_are_taken_along(tmp_path: Path) -> None:
    pictures = pa.array([{"bytes": b"png", "path": "a.png"}] * 4)
    root = plain(tmp_path / "ds", **{"observation.image": lambda n: pictures[:n]})
    info = json.loads((root / "meta/info.json").read_text())
    info["features"]["observation.image"] = feature(3, dtype="image")
    (root / "meta/info.json").write_text(json.dumps(info))
    entry = {"mean": [0.5], "std": [0.1], "min": [0.0], "max": [1.0], "count": [3]}
    text = [json.dumps({"episode_index": i, "stats": {"observation.image": entry}}) + "\n" for i in range(3)]
    (root / "meta/episodes_stats.jsonl").write_text("".join(text))
    delete_episodes(root, [0])
    assert pq.read_table(root / "data/chunk-000/episode_000001.parquet")["observation.image"][0].as_py() == {
        "bytes": b"png",
        "path": "a.png",
    }
    assert lines(root / "meta/episodes_stats.jsonl") == [
        {"episode_index": i, "stats": {"observation.image": entry}} for i in range(2)
    ]
