"""A committed recording gives, by each profile, exactly the dataset that is committed beside it.

Where a change is meant: ``python test/golden/make.py --write``, and look at the diff.
"""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from golden.describe import described, parquet_text, running_stats, split_pictures
from golden.make import BAG, EXPECTED, HERE, PROFILES, config, export_as, record

from piper_collect.bag.pictures import camera_frame
from piper_collect.bag.reader import open_bag
from piper_collect.config.load import session_from_text
from piper_collect.dataset.metadata import stats_json
from piper_collect.imaging.frames import to_rgb
from piper_collect.pipelines.validators import validator_of

pytestmark = pytest.mark.usefixtures("no_sync")

MEAN_TOLERANCE = 2.0
"""In levels of 255: another machine may encode a little differently."""
MOST_BYTES = 450_000


def expected(name: str) -> dict[str, str]:
    folder = EXPECTED / name
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    return {p.relative_to(folder).as_posix(): p.read_bytes().decode("utf-8") for p in files}


@pytest.mark.parametrize("name", PROFILES)
def test_the_whole_tree(tmp_path: Path, name: str) -> None:
    root = tmp_path / "dataset"
    summary = export_as(name, root)
    assert [bag.status for bag in summary.bags] == ["exported"]
    found, wanted = described(root), expected(name)
    assert list(found) == list(wanted)
    for file, text in wanted.items():
        if not file.endswith(".mp4.txt"):
            assert found[file] == text, file
            continue
        lines, means = split_pictures(text)
        found_lines, found_means = split_pictures(found[file])
        assert found_lines == lines, file
        np.testing.assert_allclose(found_means, means, atol=MEAN_TOLERANCE, rtol=0, err_msg=file)
    stats = json.loads((root / "meta/stats.json").read_bytes())
    carried = stats_json(running_stats(root / "extras/stats_state.bin").result())
    known = {key: {name: stats[key][name] for name in entry} for key, entry in carried.items()}
    assert carried == known
    report = validator_of(root)(root).report
    assert [str(f) for f in report.findings if f.level == "error"] == []


def test_the_recording_is_what_its_script_records(tmp_path: Path) -> None:
    with open_bag(BAG) as kept, open_bag(record(tmp_path / BAG.name)) as made:
        known, now = dict(kept.custom_data), dict(made.custom_data)
        # settings that came later have their defaults in an old recording
        assert session_from_text(known.pop("session_config"), "kept") == config()
        assert session_from_text(now.pop("session_config"), "made") == config()
        assert known == now
        assert list(kept.topics) == list(made.topics)
        pairs = zip(kept.messages(list(kept.topics)), made.messages(list(made.topics)), strict=True)
        for old, new in pairs:
            assert (old.topic, old.receive_ns) == (new.topic, new.receive_ns)
            if old.topic.endswith("/compressed"):
                a, b = (bag.decode(old.topic, m.payload) for bag, m in ((kept, old), (made, new)))
                assert (a.header, a.format) == (b.header, b.format)
                assert np.abs(pixels(a) - pixels(b)).max() <= 2
            else:
                assert bytes(old.payload) == bytes(new.payload), old.topic


def pixels(message: object) -> np.ndarray:
    return to_rgb(camera_frame("camera", message, 0)).astype(np.int16)


def test_the_text_tells_neighbouring_numbers_apart(tmp_path: Path) -> None:
    def text(*cells: pa.Array) -> str:
        pq.write_table(pa.table({str(i): c for i, c in enumerate(cells)}), tmp_path / "t.parquet")
        return parquet_text(tmp_path / "t.parquet")

    for kind in (np.float32, np.float64):
        one = np.array([0.1], kind)
        after = np.nextafter(one, kind(1))
        assert text(pa.array(one)) != text(pa.array(after))
        assert text(pa.FixedSizeListArray.from_arrays(one, 1)) != text(pa.array(one))
    assert text(pa.array([1, None])) != text(pa.array([1, -1]))


def test_the_golden_files_stay_small() -> None:
    files = [p for p in HERE.rglob("*") if p.is_file() and "__pycache__" not in p.parts]
    assert sum(p.stat().st_size for p in files) < MOST_BYTES
