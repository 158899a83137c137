"""validate on v3.0 datasets: ours is good, and what is spoiled is named."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_v3_writer import KEY, fill

from piper_collect.cli.main import main
from piper_collect.pipelines.validate_v3 import CONSUMER, validate_v3

pytestmark = pytest.mark.usefixtures("no_sync")

DATA = "data/chunk-000/file-000.parquet"
TABLE = "meta/episodes/chunk-000/file-000.parquet"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("v3") / "ds"
    fill(root)
    return root


@pytest.fixture
def root(whole: Path, tmp_path: Path) -> Path:
    import shutil

    shutil.copytree(whole, tmp_path / "ds")
    return tmp_path / "ds"


def test_ours_has_nothing_wrong(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    taken = []
    outcome = validate_v3(whole, on_episode=lambda survey, findings: taken.append(survey))
    assert [str(f) for f in outcome.report.findings if f.level != "info"] == []
    assert outcome.report.facts["consumers"] == {CONSUMER: "loads"}
    assert [len(s.row_s) for s in taken] == [3, 5, 2, 4]
    assert [len(s.cameras[KEY].pts_s) for s in taken] == [3, 5, 2, 4]
    assert main(["validate", str(whole), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["facts"]["rows"] == 14


def change(root: Path, file: str, column: str, new: Callable[[list[Any]], list[Any]]) -> None:
    table = pq.ParquetFile(root / file).read()
    at = table.schema.get_field_index(column)
    values = pa.array(new(table[column].to_pylist()), table.schema.field(at).type)
    pq.write_table(table.set_column(at, table.schema.field(at), values), root / file)


def later(root: Path) -> None:
    change(root, TABLE, f"videos/{KEY}/from_timestamp", lambda v: [v[0], v[1] + 0.02, *v[2:]])


def other_range(root: Path) -> None:
    change(root, TABLE, "dataset_from_index", lambda v: [v[0], v[1] + 1, *v[2:]])


def other_stats(root: Path) -> None:
    change(root, TABLE, "stats/observation.state/q50", lambda v: [[x + 1 for x in v[0]], *v[1:]])


def brighter(root: Path) -> None:
    change(root, TABLE, f"stats/{KEY}/mean", lambda v: [[[[0.9]], [[0.9]], [[0.9]]], *v[1:]])


def nan(root: Path) -> None:
    change(root, DATA, "observation.gripper", lambda v: [float("nan"), *v[1:]])


def wrong_index(root: Path) -> None:
    change(root, DATA, "index", lambda v: [v[0] + 1, *v[1:]])


def lists_of_one(root: Path) -> None:
    table = pq.ParquetFile(root / DATA).read()
    at = table.schema.get_field_index("observation.gripper")
    cells = pa.FixedSizeListArray.from_arrays(table["observation.gripper"].combine_chunks(), 1)
    pq.write_table(table.set_column(at, "observation.gripper", cells), root / DATA)


def no_column(root: Path) -> None:
    table = pq.ParquetFile(root / DATA).read()
    pq.write_table(table.drop_columns(["observation.arm_eef"]), root / DATA)


def cut_video(root: Path) -> None:
    path = root / f"videos/{KEY}/chunk-000/file-000.mp4"
    path.write_bytes(path.read_bytes()[:-300])


def totals(root: Path) -> None:
    info = json.loads((root / "meta/info.json").read_text())
    (root / "meta/info.json").write_text(json.dumps({**info, "total_frames": 99}))


def dataset_stats(root: Path) -> None:
    stats = json.loads((root / "meta/stats.json").read_text())
    stats["action"]["mean"][0] += 0.5
    (root / "meta/stats.json").write_text(json.dumps(stats))


def no_stats(root: Path) -> None:
    (root / "meta/stats.json").unlink()


SPOILED = {
    later: {"consumer"},
    other_range: {"row-range"},
    other_stats: {"episode-stats"},
    brighter: {"episode-stats"},
    nan: {"not-finite"},
    wrong_index: {"index"},
    lists_of_one: {"cells", "consumer"},
    no_column: {"columns", "consumer"},
    cut_video: {"video", "consumer"},
    totals: {"totals"},
    dataset_stats: {"stats"},
    no_stats: {"stats"},
}


@pytest.mark.parametrize("spoil", SPOILED, ids=lambda f: f.__name__)
def test_what_is_spoiled_is_named(root: Path, spoil: Callable[[Path], None]) -> None:
    spoil(root)
    report = validate_v3(root).report
    assert SPOILED[spoil] <= {f.code for f in report.findings if f.level == "error"}


def test_what_was_lost_is_told_as_of_the_other_formats(root: Path) -> None:
    path = root / "meta/episode_sources.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[1] |= {"marked_rows": {"stale": {"cam_front": 2, "arm_joint": 1}}}
    lines[3]["counts"] = {**lines[3]["counts"], "slots": 9, "gaps": 3, "dropped": 2}
    lines[3]["recording"] = {"incomplete_reasons": ["the disk was full"]}
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = [(f.code, f.where, f.text) for f in validate_v3(root).report.findings if f.level == "warning"]
    assert found == [
        ("stale-rows", "episode 1", "2 of 5 rows show a sample of cam_front that is too old"),
        (
            "lost-rows",
            "episode 3",
            "5 of 9 slots have no row (3 gaps, 2 dropped for want of a fresh value)",
        ),
        ("incomplete", "episode 3", 'the recording is not whole: "the disk was full"'),
    ]


def test_quick_decodes_nothing(root: Path) -> None:
    brighter(root)
    report = validate_v3(root, decode=False).report
    assert [f.code for f in report.findings if f.level == "error"] == []
    assert report.facts["decoded"] is False
    assert np.isfinite(float(report.facts["fps"]))
