"""Every format that is listed keeps the same promises."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from dataset_cases import add, episode, open_writer, profile

from piper_collect.config.profile import Dialect, load_profile, with_codec, with_dialect
from piper_collect.dataset.dialects import DIALECTS
from piper_collect.dataset.readers import READERS, open_any
from piper_collect.errors import ConfigError, DatasetError

pytestmark = pytest.mark.usefixtures("no_sync")
NEEDS = {"hdf5-cases": "h5py"}
ON_GRID = [k * 100 / 3 for k in range(3)]


def test_every_dialect_of_profiles_is_there() -> None:
    assert set(DIALECTS) == set(get_args(Dialect))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_is_read_back_with_the_same_numbers_times_and_provenance(
    tmp_path: Path, dialect: str
) -> None:
    if dialect in NEEDS:
        pytest.importorskip(NEEDS[dialect], reason=f"{NEEDS[dialect]} is not installed")
    made_of = with_dialect(load_profile("train"), dialect)
    made_of = replace(made_of, video=replace(made_of.video, crf=0))
    writer = open_writer(tmp_path / "ds", profile=made_of)
    for number in range(3):
        what = episode(ticks_ms=ON_GRID, frames_ms=(0, 30, 60), start=float(number), task=f"task {number}")
        add(writer, what, bag=f"b{number}")
    reader = open_any(tmp_path / "ds")
    assert reader.fps == 30.0
    assert set(reader.lines) == {0, 1, 2}
    for number, line in reader.lines.items():
        assert (line.length, line.tasks) == (3, (f"task {number}",))
        assert line.source["bag"] == f"b{number}"
        rows = reader.rows(number)
        joints = rows["observation.arm_joint"].to_pylist()
        assert [round(row[0], 6) for row in joints] == [number, number + 1, number + 2]
        assert rows["frame_index"].to_pylist() == [0, 1, 2]
        assert rows["index"].to_pylist() == [3 * number + k for k in range(3)]
        for key in reader.video_keys:
            assert reader.frame_times(number, key).tolist() == pytest.approx([0, 1 / 30, 2 / 30], abs=1e-9)
            shown = list(reader.frames(number, key))
            assert [t for t, _ in shown] == pytest.approx([0, 1 / 30, 2 / 30], abs=1e-9)
            # the pictures are grey, 10 levels brighter each
            assert [int(picture.mean()) for _, picture in shown] == pytest.approx([40, 50, 60], abs=2)


def test_a_root_of_another_dialect_is_refused(tmp_path: Path) -> None:
    first, *others = DIALECTS
    made_of = load_profile("train")
    add(
        open_writer(tmp_path / "ds", profile=with_dialect(made_of, first)),
        episode(ticks_ms=ON_GRID, frames_ms=(0, 30, 60)),
    )
    for other in others:
        with pytest.raises(DatasetError, match="codebase_version"):
            open_writer(tmp_path / "ds", profile=with_dialect(made_of, other))


def test_what_is_of_no_known_version_names_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="is no dataset"):
        open_any(tmp_path)
    add(open_writer(tmp_path / "ds", profile=profile()), episode())
    info = tmp_path / "ds/meta/info.json"
    info.write_text(info.read_text().replace('"v2.0"', '"v9.9"'))
    with pytest.raises(DatasetError, match=r"expected v2\.0.*got v9\.9"):
        open_any(tmp_path / "ds")
    assert "v2.0" in READERS


def test_a_dialect_whose_library_is_missing_names_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(DatasetError, match=r"h5py is not installed.*piper_collect\[hdf5\]"):
        open_writer(tmp_path / "ds", profile=with_dialect(load_profile("train"), "hdf5-cases"))
    assert not (tmp_path / "ds").exists()


def test_codecs_come_with_their_own_quality() -> None:
    made_of = load_profile("train")
    av1 = with_codec(made_of, "libsvtav1")
    assert (av1.video.codec, av1.video.crf, av1.video.preset) == ("libsvtav1", 30, "8")
    assert with_codec(av1, "libx264") == made_of
    with pytest.raises(ConfigError, match="no such encoder"):
        with_codec(made_of, "libvpx")
    with pytest.raises(ValueError, match="libsvtav1 has no preset 'veryfast'"):
        replace(made_of.video, codec="libsvtav1")
