"""convert: the same numbers, frames and provenance in another format, and back."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from dataset_cases import add, episode, open_writer, profile, tree
from test_v3_writer import KEY, LENGTHS, begin, fill, small

from piper_collect.cli.main import main
from piper_collect.config.profile import Profile, load_profile, with_dialect
from piper_collect.dataset.parquet import column_values
from piper_collect.dataset.readers import open_any
from piper_collect.dataset.remux import clip_facts
from piper_collect.pipelines.validators import validator_of

pytestmark = pytest.mark.usefixtures("no_sync")

CAMERA = "cam_front"


def v21() -> Profile:
    return with_dialect(load_profile("train"), "lerobot-v2.1")


@pytest.fixture(scope="module")
def train(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("train") / "ds"
    writer = open_writer(root, profile=v21(), cameras={CAMERA: (16, 24)})
    for number, rows in enumerate(LENGTHS):
        add(writer, small(number, rows), bag=f"b{number}")
    return root


def convert(root: Path, dialect: str, out: Path) -> Path:
    assert main(["convert", str(root), "--to", dialect, "-o", str(out), "--quiet"]) == 0
    return out


def errors(root: Path) -> list[str]:
    """But for t0: the episodes of these cases all start at the same moment."""
    found = validator_of(root)(root).report.findings
    return [str(f) for f in found if f.level == "error" and f.code != "t0"]


def test_a_converted_dataset_is_the_one_that_an_export_makes(train: Path, tmp_path: Path) -> None:
    fill(tmp_path / "native")
    native, made = tree(tmp_path / "native"), tree(convert(train, "lerobot-v3.0", tmp_path / "made"))
    assert list(made) == list(native)
    # flat grey is the same after encoding, so that even the pictures' middle quantiles, counted then, are
    assert [f for f in native if native[f] != made[f]] == []
    assert errors(tmp_path / "made") == []
    add(begin(tmp_path / "made"), small(4, 3), bag="b4")
    assert open_any(tmp_path / "made").lines[4].length == 3


def test_there_and_back_is_what_it_was(train: Path, tmp_path: Path) -> None:
    back = convert(convert(train, "lerobot-v3.0", tmp_path / "v3"), "lerobot-v2.1", tmp_path / "back")
    before, after = tree(train), tree(back)
    assert set(before) == set(after)
    same = [f for f in after if not f.endswith(".mp4")]
    assert [f for f in same if before[f] != after[f]] == []
    one, other = open_any(train), open_any(back)
    for index in one.lines:
        assert one.frame_times(index, KEY).tolist() == other.frame_times(index, KEY).tolist()
        facts = [clip_facts(r.clip(index, KEY)) for r in (one, other)]
        assert facts[0] == facts[1]
        pairs = zip(one.frames(index, KEY), other.frames(index, KEY), strict=True)
        assert all(t == u and np.array_equal(a, b) for (t, a), (u, b) in pairs)
    assert errors(back) == []


def test_between_v2_0_and_v2_1(train: Path, tmp_path: Path) -> None:
    there = convert(train, "lerobot-v2.0", tmp_path / "v20")
    lines = "meta/episodes_stats.jsonl"
    assert (there / lines).read_bytes() == (train / lines).read_bytes()
    assert KEY in json.loads((there / "meta/stats.json").read_text())
    back = convert(there, "lerobot-v2.1", tmp_path / "v21")
    for index in range(len(LENGTHS)):
        file = f"data/chunk-000/episode_{index:06d}.parquet"
        assert (train / file).read_bytes() == (back / file).read_bytes()
    assert errors(there) == errors(back) == []


@pytest.mark.parametrize("via", ["lerobot-v2.1", "hdf5-cases"])
def test_a_converted_dataset_of_v2_0_can_be_added_to_with_or_without_statistics_of_its_episodes(
    train: Path, tmp_path: Path, via: str
) -> None:
    """What v2.1 tells of each episode is kept; HDF5 cases tell nothing, and then no new line stands alone."""
    if via == "hdf5-cases":
        pytest.importorskip("h5py", reason="h5py is not installed")
    source = train if via == "lerobot-v2.1" else convert(train, via, tmp_path / "there")
    root = convert(source, "lerobot-v2.0", tmp_path / "v20")
    for number in (4, 5):  # each by a writer that reads what the one before left
        writer = open_writer(
            root, profile=with_dialect(load_profile("train"), "lerobot-v2.0"), cameras={CAMERA: (16, 24)}
        )
        add(writer, small(number, 3), bag=f"b{number}")
    assert len(open_any(root).lines) == 6
    lines = root / "meta/episodes_stats.jsonl"
    assert lines.exists() == (via == "lerobot-v2.1")
    assert not lines.exists() or len(lines.read_text().splitlines()) == 6
    assert json.loads((root / "meta/stats.json").read_text())[KEY]["count"] == [sum(LENGTHS) + 6]
    assert errors(root) == []


def test_true_capture_times_stay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    writer = open_writer(tmp_path / "ds", profile=profile(), cameras={CAMERA: (16, 24)})
    for number in range(2):
        add(writer, episode(cameras=(CAMERA,), start=float(number)), bag=f"b{number}")
    (tmp_path / "ds/meta/relative_stats.json").write_text("{}\n")
    (tmp_path / "ds/README.md").write_text("mine\n")
    code = main(["convert", str(tmp_path / "ds"), "--to", "lerobot-v3.0", "-o", str(tmp_path / "v3")])
    said = capsys.readouterr().out
    assert code == 0
    for lost in (
        "relative_stats.json: run finalize",
        "README.md: beside",
        "cells of one element are numbers",
    ):
        assert lost in " ".join(said.split())
    convert(tmp_path / "v3", "lerobot-v2.0", tmp_path / "back")
    one, other = open_any(tmp_path / "ds"), open_any(tmp_path / "back")
    for index in one.lines:
        a, b = one.rows(index), other.rows(index)
        assert a.column_names == b.column_names
        for key in a.column_names:
            np.testing.assert_array_equal(column_values(a, key), column_values(b, key))
        assert one.frame_times(index, KEY).tolist() == other.frame_times(index, KEY).tolist()
        assert one.lines[index].source == other.lines[index].source
    for file in (
        "extras/episode_000001.samples.parquet",
        "meta/collection_sessions.jsonl",
        "meta/modality.json",
    ):
        assert (tmp_path / "ds" / file).read_bytes() == (tmp_path / "back" / file).read_bytes()


def test_what_cannot_be_converted_is_refused_and_nothing_is_left(
    train: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    full = tmp_path / "full"
    full.mkdir()
    (full / "x").write_text("x")
    other, case = tmp_path / "other", tmp_path / "case"
    for file in (other / "meta/info.json", case / "dataset/meta/episode.jsonl"):
        file.parent.mkdir(parents=True)
        file.write_text("{}")
    watched = (full, other, case, train)
    before = [tree(folder) for folder in watched]
    for to, out, said in (
        ("lerobot-v2.1", tmp_path / "new", "has this format already"),
        ("lerobot-v3.0", full, "is not a dataset"),
        ("lerobot-v3.0", train, "OUT is ROOT"),
        ("lerobot-v3.0", train / "sub", "one dataset would lie in the other"),
        ("lerobot-v3.0", train.parent, "one dataset would lie in the other"),
        ("lerobot-v3.0", other, "the folder is a dataset already"),
        (
            "lerobot-v3.0",
            other / "meta/zz",
            f"lies in a dataset (expected a folder outside, got {other} has",
        ),
        ("lerobot-v3.0", case, "the folder is a case folder of hdf5-cases already"),
        ("lerobot-v3.0", full / "x", "is a file"),
    ):
        assert main(["convert", str(train), "--to", to, "-o", str(out)]) == 1
        assert said in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
    assert [tree(folder) for folder in watched] == before


def test_a_damaged_episode_stops_it_and_nothing_is_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(tmp_path / "ds")
    path = tmp_path / "ds/data/chunk-000/file-000.parquet"
    table = pq.ParquetFile(path).read()
    pq.write_table(table.drop_columns(["action"]), path)
    assert main(["convert", str(tmp_path / "ds"), "--to", "lerobot-v2.1", "-o", str(tmp_path / "out")]) == 1
    assert "not those that info.json declares" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
