"""The page on dialects is what the command finds out now, and the command finds what is not equal."""

import importlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from piper_collect.dataset.dialects import DIALECTS

pytest.importorskip("h5py", reason="h5py is not installed (pip install 'piper_collect[hdf5]')")
pytestmark = pytest.mark.usefixtures("no_sync")
ROOT = Path(__file__).parents[1]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return importlib.import_module("dialects_docs")


def test_one_recording_is_the_same_in_every_dialect_and_the_page_says_so(
    command: ModuleType, tmp_path: Path
) -> None:
    found = command.results(command.BAG, tmp_path)
    assert found.faults == []
    made = {(m.profile, m.dialect) for m, _ in found.agreements}
    assert {dialect for _, dialect in made} == set(DIALECTS) == set(command.TITLES)
    assert {profile for profile, _ in made} == {p.stem for p in (ROOT / "config/profiles").glob("*.yaml")}
    for dataset, agreement in found.agreements:
        assert (agreement.rows, agreement.numbers > 500, agreement.frames > 30) == (20, True, True), (
            dataset.root
        )
    taken = {(t.dialect, t.via): t for t in found.trips if t.profile == "train"}
    for via in ("lerobot-v2.1", "lerobot-v3.0"):
        assert (taken["lerobot-v2.0", via].numbers, taken["lerobot-v2.0", via].changed) == (1340, ())
    assert taken["lerobot-v2.0", "hdf5-cases"].numbers == 1340
    page = command.PAGE.read_text(encoding="utf-8")
    assert page == command.page(found), "run python scripts/dialects_docs.py"
    assert all(f"**{title}**" in page for title in command.TITLES.values())


def test_what_is_not_equal_is_found(command: ModuleType, tmp_path: Path) -> None:
    checks = importlib.import_module("dialect_checks")
    (made,) = checks.make_all(command.BAG, tmp_path, [("train", "lerobot-v2.1")])

    def faults(name: str) -> str:
        scratch = tmp_path / name
        scratch.mkdir()
        return " ".join(checks.against_episode(made, scratch).faults)

    assert faults("whole") == ""
    rows = made.root / "data/chunk-000/episode_000000.parquet"
    table = pq.ParquetFile(rows).read()
    at = table.schema.get_field_index("observation.gripper")
    off_by_a_bit = np.nextafter(table["observation.gripper"].to_numpy(), np.float32(1))
    pq.write_table(table.set_column(at, table.schema.field(at), pa.array(off_by_a_bit)), rows)
    assert faults("number") == "observation.gripper: not the numbers of the episode"
    front, wrist = (
        made.root / f"videos/chunk-000/observation.images.{c}/episode_000000.mp4" for c in made.kind.cameras
    )
    front.write_bytes(wrist.read_bytes())
    said = faults("video")
    assert "cam_front: 20 frames have other pixels" in said
    assert "is nearer to another recorded picture" in said


def test_a_conversion_that_changes_something_is_found(command: ModuleType, tmp_path: Path) -> None:
    trips = importlib.import_module("dialect_trips")
    checks = importlib.import_module("dialect_checks")
    one, other = (
        checks.make_all(command.BAG, tmp_path / n, [("train", "lerobot-v2.1")])[0].root for n in "ab"
    )
    stats = other / "meta/stats.json"
    stats.write_text(stats.read_text().replace('"q99"', '"q95"', 1))
    (other / "meta/modality.json").unlink()
    assert trips.compare_files(one, other) == (
        9,
        (
            "`meta/modality.json` is gone",
            "`meta/stats.json`: gone: observation.state (q99); new: observation.state (q95)",
        ),
    )
