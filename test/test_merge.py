"""Several datasets as one: what an export of all their bags would have made, or nothing."""

import dataclasses
import json
import os
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
from crash_cases import failing
from dataset_cases import tree
from dataset_edits import edit_info, edit_json, edit_line, edit_lines, rows_path, video_path
from export_cases import files, run, small_bag, sources, varied_bags, video_times
from test_edit_foreign import plain

from piper_collect.cli.main import main
from piper_collect.config.profile import load_profile, with_dialect
from piper_collect.core.stats_codec import from_bytes
from piper_collect.dataset.edit import delete_episodes
from piper_collect.dataset.guard import locked
from piper_collect.dataset.merge import merge_datasets
from piper_collect.dataset.readers import open_any
from piper_collect.errors import DatasetError
from piper_collect.pipelines.validate import validate_dataset

pytestmark = pytest.mark.usefixtures("no_sync")

STATE, QUANTILES = "extras/stats_state.bin", "extras/quantiles_state.bin"
PARTS = ((0, 1), (2, 3, 4))


def profile_of(name):
    name, _, version = name.partition("-")
    profile = dataclasses.replace(load_profile(name), chunks_size=2)
    return with_dialect(profile, f"lerobot-{version}") if version else profile


@pytest.fixture(scope="module")
def bags(tmp_path_factory):
    return varied_bags(tmp_path_factory.mktemp("recordings"), 5, sessions=2)


class Case:
    """Recordings in two datasets, and all of them in one."""

    def __init__(self, folder, bags, name):
        self.folder, self.bags, self.profile = folder, bags, profile_of(name)
        self.parts = [self.fresh(kept) for kept in PARTS]
        self.whole = self.fresh(range(5))

    def fresh(self, kept):
        root = self.folder / ("fresh_" + "_".join(map(str, kept)))
        chosen = [self.bags[k] for k in kept]
        run(chosen, root, self.profile, allow_incomplete=True, save_raw_quest=True)
        return root

    def copies(self, folder):
        return [shutil.copytree(part, folder / part.name) for part in self.parts]


@pytest.fixture(scope="module", params=["train", "train-v2.0", "piper", "train-v3.0"])
def case(request, tmp_path_factory, bags):
    return Case(tmp_path_factory.mktemp(request.param), bags, request.param)


@pytest.fixture(scope="module")
def train(tmp_path_factory, bags):
    return Case(tmp_path_factory.mktemp("one"), bags, "train")


@pytest.fixture
def pair(tmp_path, train):
    return train.copies(tmp_path)


def test_it_is_what_one_export_of_all_bags_makes(tmp_path, case):
    before = [tree(part) for part in case.parts]
    told = []
    merged = merge_datasets(case.parts, tmp_path / "out", on_progress=lambda *of: told.append(of))
    assert files(tmp_path / "out", STATE, QUANTILES) == files(case.whole, STATE, QUANTILES)
    found, wanted = (
        from_bytes((root / STATE).read_bytes()[32:]).result() for root in (tmp_path / "out", case.whole)
    )
    for key, column in wanted.items():
        for name in ("mean", "std", "min", "max", "q01", "q99"):
            assert np.array_equal(getattr(found[key], name), getattr(column, name)), (key, name)
    assert [tree(part) for part in case.parts] == before
    assert (list(merged.episodes.values()), merged.rows) == (
        [2, 3],
        sum(line.length for line in open_any(case.whole).lines.values()),
    )
    assert told == [(n, 5) for n in range(6)]
    assert merged.notes == ()


def test_it_passes_validate_and_can_be_exported_into(tmp_path, train, bags):
    out = tmp_path / "out"
    merge_datasets(train.parts, out)
    report = validate_dataset(out).report
    assert report.ok, [str(f) for f in report.findings if f.level == "error"]
    assert {b.status for b in run(bags, out, train.profile, allow_incomplete=True).bags} == {"held"}
    more = small_bag(tmp_path / "more" / "episode_000000", 7, cameras=("cam", "wrist"))
    run(more, out, train.profile)
    run(more, shutil.copytree(train.whole, tmp_path / "whole"), train.profile)
    assert files(out, STATE) == files(tmp_path / "whole", STATE)


def test_the_order_is_that_of_the_datasets_and_pts_stay(tmp_path, train):
    out = tmp_path / "out"
    merge_datasets(train.parts[::-1], out)
    assert [s["bag"] for s in sources(out)] == [f"episode_{k:06d}" for k in (2, 3, 4, 0, 1)]
    assert [s["episode_index"] for s in sources(out)] == list(range(5))
    for new, old in enumerate((2, 3, 4, 0, 1)):
        at = [video_path_of(root, number) for root, number in ((out, new), (train.whole, old))]
        assert video_times(at[0]) == video_times(at[1])
        assert at[0].read_bytes() == at[1].read_bytes()
    assert validate_dataset(out, decode=False).report.ok


def video_path_of(root, number):
    return root / f"videos/chunk-{number // 2:03d}/observation.images.cam/episode_{number:06d}.mp4"


def test_videos_are_linked_and_copied_where_they_cannot_be(tmp_path, pair, monkeypatch):
    merge_datasets(pair, tmp_path / "linked")
    assert os.path.samefile(video_path_of(pair[0], 1), video_path_of(tmp_path / "linked", 1))

    def refuse(*_):
        raise OSError("another disk")

    monkeypatch.setattr(os, "link", refuse)
    merge_datasets(pair, tmp_path / "copied")
    assert not os.path.samefile(video_path_of(pair[0], 1), video_path_of(tmp_path / "copied", 1))
    assert files(tmp_path / "copied") == files(tmp_path / "linked")


def test_a_recording_that_comes_twice_is_refused_or_taken_once(tmp_path, train, pair):
    again = shutil.copytree(pair[0], tmp_path / "again")
    delete_episodes(again, [0])
    with pytest.raises(DatasetError, match=r"episode 0 is a recording that .* has as episode 1.*--skip-dup"):
        merge_datasets([*pair, again], tmp_path / "out")
    assert not (tmp_path / "out").exists()
    merged = merge_datasets([*pair, again], tmp_path / "out", skip_duplicates=True)
    assert merged.skipped == (f"{again}, episode 0: {pair[0]} has it as episode 1",)
    assert merged.episodes == {pair[0]: 2, pair[1]: 3, again: 0}
    assert files(tmp_path / "out", STATE) == files(train.whole, STATE)


def test_parts_of_one_recording_are_no_duplicates(tmp_path):
    bag = small_bag(tmp_path / "s" / "episode_000000", rows=12)
    run(bag, tmp_path / "a", split_s=0.2)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    delete_episodes(tmp_path / "a", [1, 2])
    delete_episodes(tmp_path / "b", [0])
    merge_datasets([tmp_path / "a", tmp_path / "b"], tmp_path / "out")
    assert [s["part"] for s in sources(tmp_path / "out")] == [0, 1, 2]
    run(bag, tmp_path / "whole")
    with pytest.raises(DatasetError, match="is a recording that"):
        merge_datasets([tmp_path / "a", tmp_path / "whole"], tmp_path / "other")


def kp(value):
    return lambda record: record["control"]["impedance"].update(kp=value)


def other_control(first, second):
    edit_line(first, "collection_sessions.jsonl", 1, kp([10.0] * 6))
    edit_line(second, "collection_sessions.jsonl", 0, kp([20.0] * 6))


REFUSED = {
    "rate": (
        lambda a, b: edit_info(b, lambda i: i.update(fps=15)),
        "fps of info.json differs .*expected 30, got 15",
    ),
    "robot": (
        lambda a, b: edit_info(b, lambda i: i.update(robot_type="ur5")),
        "robot_type of info.json .*got ur5",
    ),
    "feature": (
        lambda a, b: edit_info(b, lambda i: i["features"]["action"].update(shape=[9])),
        r"feature action differs .*'shape': \[8\].*'shape': \[9\]",
    ),
    "feature more": (
        lambda a, b: edit_info(b, lambda i: i["features"].update(x={"dtype": "float32", "shape": [1]})),
        "feature x differs .*no such feature",
    ),
    "modality": (
        lambda a, b: edit_json(
            b / "meta/modality.json", lambda m: m["state"].pop("arm_joint", None) or m.update(x=1)
        ),
        "meta/modality.json differs",
    ),
    "no stats lines": (
        lambda a, b: (b / "meta/episodes_stats.jsonl").unlink(),
        "expected there, got missing",
    ),
    "no sources": (lambda a, b: (b / "meta/episode_sources.jsonl").unlink(), "expected there, got missing"),
    "row clock": (
        lambda a, b: edit_line(
            b, "episode_sources.jsonl", 1, lambda s: s["profile"].update(row_clock="action")
        ),
        "row_clock of the profile differs .*expected grid, got action",
    ),
    "control": (
        other_control,
        r"session pick_20260101.*control.impedance.kp differs.*expected \[10.0.*pick_20260102.*got \[20.0",
    ),
    "rows missing": (lambda a, b: rows_path(b, 1).unlink(), "not a readable parquet file"),
    "rows fewer": (
        lambda a, b: edit_line(b, "episodes.jsonl", 0, lambda e: e.update(length=9)),
        "episode 0 has other rows than",
    ),
    "video missing": (
        lambda a, b: video_path(b, "observation.images.cam").unlink(),
        "a file of an episode is missing",
    ),
    "stats line missing": (
        lambda a, b: edit_lines(b, "episodes_stats.jsonl", lambda lines: lines[1:]),
        "has no line of episode 0",
    ),
    "stats line damaged": (
        lambda a, b: edit_lines(b, "episodes_stats.jsonl", lambda lines: [lines[0][:-5], *lines[1:]]),
        "a line is not one of an episode",
    ),
    "interrupted": (lambda a, b: (b / ".staging").mkdir(), "holds an interrupted save"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_name_and_nothing_is_left(tmp_path, pair, name):
    spoil, why = REFUSED[name]
    spoil(*pair)
    before = tree(tmp_path)
    with pytest.raises(DatasetError, match=why):
        merge_datasets(pair, tmp_path / "out")
    assert tree(tmp_path) == before


def test_what_one_session_does_not_know_is_said(tmp_path, pair):
    edit_line(pair[0], "collection_sessions.jsonl", 0, kp([10.0] * 6))
    edit_line(pair[1], "collection_sessions.jsonl", 0, lambda r: r.update(input_device="glove"))
    merged = merge_datasets(pair, tmp_path / "out")
    assert any("does not know its control.impedance.kp" in note for note in merged.notes)
    assert any("has another input_device, control than" in note for note in merged.notes)


def test_places_and_writers(tmp_path, pair, capsys):
    other = plain(tmp_path / "other")
    before = tree(other)
    for roots, out, why in (
        (pair[:1], "out", "nothing to merge"),
        ([pair[0], pair[0]], "out", "named twice"),
        (pair, pair[0] / "out", "would lie in the other"),
        (pair, tmp_path, "would lie in the other"),
        (pair, pair[1], "OUT is ROOT"),
        (pair, other / "meta" / "zz", "the folder lies in a dataset"),
        (pair, other, "is a dataset already.*name another folder"),
        (pair, tmp_path / "full" / "mine", "full/mine: is a file"),
        ([*pair, tmp_path / "none"], "out", "is no dataset"),
        (pair, pair[0].parent / "full", "the folder is not a dataset"),
    ):
        (tmp_path / "full").mkdir(exist_ok=True)
        (tmp_path / "full" / "mine").write_text("x")
        with pytest.raises(DatasetError, match=why):
            merge_datasets(roots, tmp_path / out)
    with locked(pair[1]), pytest.raises(DatasetError, match="another process is writing"):
        merge_datasets(pair, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert tree(other) == before
    words = ["merge", *map(str, pair), "-o", str(tmp_path / "out")]
    assert main(words) == 0
    assert "5 episodes" in capsys.readouterr().out
    assert main(words) == 1
    assert "the folder is a dataset already" in capsys.readouterr().err


def test_statistics_of_actions_are_to_be_made_anew(tmp_path, pair):
    assert main(["finalize", str(pair[0]), "--quiet"]) == 0
    (pair[1] / "meta" / "mine.json").write_text("{}")
    merged = merge_datasets(pair, tmp_path / "out")
    assert merged.notes == (
        f"delta_stats.json and relative_stats.json of {pair[0]} are not taken along: run finalize",
        f"not taken along: {pair[1] / 'meta' / 'mine.json'}",
    )
    assert not (tmp_path / "out" / "meta" / "relative_stats.json").exists()


def test_an_error_at_any_step_leaves_nothing_or_all(tmp_path):
    parts = [tmp_path / "a", tmp_path / "b"]
    for number, part in enumerate(parts):
        run(small_bag(tmp_path / f"bag_{number}", number, rows=3), part, profile_of("train"))
    before = [tree(part) for part in parts]
    out = tmp_path / "out"
    with failing(0, disk_error) as calls:
        merge_datasets(parts, out)
    whole = files(out)
    shutil.rmtree(out)
    assert calls[0] > 20
    left = 0
    for at in range(1, calls[0] + 1):
        with failing(at, disk_error, for_good=True) as _:
            try:
                merge_datasets(parts, out)
            except (DatasetError, OSError):
                left += 1
        if (out / ".staging" / "journal.json").exists():
            with pytest.raises(DatasetError, match="the folder is a dataset already"):
                merge_datasets(parts, out)  # which completes it
        elif not (out / "meta" / "info.json").exists():
            merge_datasets(parts, out)
        assert files(out) == whole, at
        shutil.rmtree(out)
        assert [tree(part) for part in parts] == before
    assert left > 10


def disk_error():
    raise OSError("the disk is full")


def test_datasets_of_other_tools_without_provenance(tmp_path):
    plain(tmp_path / "a")
    plain(tmp_path / "b")
    merged = merge_datasets([tmp_path / "a", tmp_path / "b"], tmp_path / "out")
    assert (merged.rows, merged.episodes[tmp_path / "b"]) == (18, 3)
    info = json.loads((tmp_path / "out/meta/info.json").read_text())
    assert (info["total_episodes"], info["total_frames"]) == (6, 18)
    assert not (tmp_path / "out/meta/episode_sources.jsonl").exists()
    assert not (tmp_path / "out/meta/collection_sessions.jsonl").exists()
    read = pq.ParquetFile(rows_path(tmp_path / "out", 4)).read()
    assert read["index"].to_pylist() == [12, 13, 14, 15]
    assert set(read["episode_index"].to_pylist()) == {4}
