"""Recordings to HDF5 cases: the export as a whole, the same numbers as in LeRobot's formats."""

from pathlib import Path

import numpy as np
import pytest
from export_cases import files, run, small_bag, varied_bags

from piper_collect.config.profile import load_profile, with_dialect
from piper_collect.dataset.parquet import column_values
from piper_collect.dataset.readers import open_any
from piper_collect.pipelines.overview.dataset import dataset_overview
from piper_collect.pipelines.validators import validator_of

h5py = pytest.importorskip("h5py", reason="h5py is not installed (pip install 'piper_collect[hdf5]')")
pytestmark = pytest.mark.usefixtures("no_sync")
DIALECTS = ("lerobot-v2.0", "lerobot-v2.1", "lerobot-v3.0", "hdf5-cases")


def test_one_set_of_recordings_is_the_same_in_every_dialect(tmp_path: Path) -> None:
    bags = varied_bags(tmp_path / "bags")
    made = {d: with_dialect(load_profile("train"), d) for d in DIALECTS}
    for dialect, profile in made.items():
        run(bags, tmp_path / dialect, profile)
    first, *others = (open_any(tmp_path / dialect) for dialect in DIALECTS)
    for other in others:
        assert other.video_keys == first.video_keys
        assert set(other.lines) == set(first.lines)
        for index, line in first.lines.items():
            assert other.lines[index] == line
            a, b = first.rows(index), other.rows(index)
            assert a.column_names == b.column_names
            for key in a.column_names:
                np.testing.assert_array_equal(column_values(a, key), column_values(b, key))
            for key in first.video_keys:
                pairs = zip(first.frames(index, key), other.frames(index, key), strict=True)
                for (t, picture), (u, same) in pairs:
                    assert t == pytest.approx(u, abs=1e-9)
                    np.testing.assert_array_equal(picture, same)
    root = tmp_path / "hdf5-cases"
    assert [f for f in validator_of(root)(root).report.findings if f.level == "error"] == []
    disk = dict(dataset_overview(root).facts["disk_bytes"])
    beside = sum(p.stat().st_size for p in root.iterdir() if p.is_file())
    assert {"piper", "meta"} <= set(disk)
    assert disk.pop("total") == sum(disk.values()) + beside


def test_an_export_that_is_run_again_adds_what_is_new_only(tmp_path: Path) -> None:
    made_of = with_dialect(load_profile("train"), "hdf5-cases")
    bags = [small_bag(tmp_path / f"bags/episode_{n:06d}", n) for n in range(3)]
    run(bags[:2], tmp_path / "ds", made_of)
    run(bags, tmp_path / "ds", made_of)
    run(bags, tmp_path / "once", made_of)
    assert files(tmp_path / "ds") == files(tmp_path / "once")
    assert len(open_any(tmp_path / "ds").lines) == 3
