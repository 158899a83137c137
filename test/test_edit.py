"""Episodes taken out of a dataset leave it as an export of the remaining recordings makes it."""

import dataclasses
import json
import shutil

import pytest
from export_cases import files, lines, mp4, run, varied_bags
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from piper_collect.cli.main import main
from piper_collect.config.profile import load_profile, with_dialect
from piper_collect.core.running_stats import RunningStats
from piper_collect.core.stats_codec import from_bytes
from piper_collect.dataset.edit import delete_episodes, delete_last, keep_episodes
from piper_collect.dataset.guard import locked
from piper_collect.dataset.reader import open_dataset
from piper_collect.errors import DatasetError
from piper_collect.pipelines.finalize import finalize
from piper_collect.pipelines.validate import validate_dataset

pytestmark = pytest.mark.usefixtures("no_sync")

COUNT = 5
SESSIONS = ("meta/collection_sessions.jsonl", "meta/collection_meta.json")
STATE = "extras/stats_state.bin"
"""Means the same, and may hold more of the outermost values than it has to."""


def profile_of(name):
    name, _, version = name.partition("-")
    profile = dataclasses.replace(load_profile(name), chunks_size=2)
    return with_dialect(profile, f"lerobot-{version}") if version else profile


class Case:
    """All recordings in one dataset, and some of them in fresh ones."""

    def __init__(self, folder, bags, name):
        self.folder, self.bags, self.profile = folder, bags, profile_of(name)
        self.whole = folder / "whole"
        self.fresh(range(COUNT), self.whole)

    def fresh(self, kept, root=None):
        root = root or self.folder / ("fresh_" + "_".join(map(str, kept)))
        if not root.exists():
            bags = [self.bags[k] for k in kept]
            summary = run(bags, root, self.profile, allow_incomplete=True, save_raw_quest=True)
            assert {b.status for b in summary.bags} == {"exported"}
        return root

    def copy(self):
        root = self.folder / "edited"
        shutil.rmtree(root, ignore_errors=True)
        return shutil.copytree(self.whole, root)


@pytest.fixture(scope="module")
def bags(tmp_path_factory):
    return varied_bags(tmp_path_factory.mktemp("recordings"), COUNT, sessions=2)


@pytest.fixture(scope="module", params=["train", "train-v2.0", "piper"])
def case(request, tmp_path_factory, bags):
    return Case(tmp_path_factory.mktemp(request.param), bags, request.param)


def statistics(root) -> RunningStats:
    return from_bytes((root / STATE).read_bytes()[32:]).result()


def assert_same(edited, fresh):
    assert files(edited, *SESSIONS, STATE) == files(fresh, *SESSIONS, STATE)
    found, wanted = statistics(edited), statistics(fresh)
    assert found.keys() == wanted.keys()
    for key, column in wanted.items():
        assert found[key].count == column.count
        assert all(
            getattr(found[key], n).tolist() == getattr(column, n).tolist()
            for n in ("mean", "std", "q01", "q99")
        )


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(gone=st.sets(st.integers(0, COUNT - 1), min_size=1, max_size=COUNT - 1))
def test_what_is_left_equals_a_fresh_export(case, gone):
    kept = [k for k in range(COUNT) if k not in gone]
    by_deleting = case.copy()
    edited = delete_episodes(by_deleting, gone)
    assert (edited.deleted, edited.episodes) == (tuple(sorted(gone)), len(kept))
    assert_same(by_deleting, case.fresh(kept))
    for name in SESSIONS:
        assert (by_deleting / name).read_bytes() == (case.whole / name).read_bytes()
    deleted = files(by_deleting)
    assert keep_episodes(by_keeping := case.copy(), kept).episodes == len(kept)
    assert files(by_keeping) == deleted


def test_episodes_move_up_over_chunks_with_all_that_is_theirs(case):
    root = case.copy()
    before = {(c, i): mp4(root, c, i, i // 2).read_bytes() for c in ("cam", "wrist") for i in range(COUNT)}
    quest = {i: root / f"extras/episode_{i:06d}.quest.jsonl" for i in range(COUNT)}
    quest_bytes = {i: p.read_bytes() for i, p in quest.items() if p.exists()}
    assert sorted(quest_bytes) == [0, 2, 3, 4]
    delete_episodes(root, [0, 3])
    for new, old in enumerate([1, 2, 4]):
        for camera in ("cam", "wrist"):
            assert mp4(root, camera, new, new // 2).read_bytes() == before[camera, old]
        assert (quest[new].read_bytes() if quest[new].exists() else None) == quest_bytes.get(old)
    assert not (root / "data/chunk-002").exists()
    assert [s["bag"][-1] for s in lines(root / "meta/episode_sources.jsonl")] == ["1", "2", "4"]
    assert [e["tasks"] for e in lines(root / "meta/episodes.jsonl")] == [
        ["valid"],
        ["stack the cups"],
        ["pick the cube"],
    ]
    info = json.loads((root / "meta/info.json").read_bytes())
    assert (info["total_episodes"], info["splits"]) == (3, {"train": "0:3"})
    cameras = json.loads((root / "extras/cameras.json").read_bytes())
    # of the recordings 1, 2 and 4 the first and the last have the intrinsics of cam, as has the second
    assert [entry["from_episode"] for entry in cameras["cam"]] == [0]
    assert [entry["from_episode"] for entry in cameras["wrist"]] == [0, 1, 2]
    assert validate_dataset(root).report.ok


def test_nothing_to_take_out_changes_nothing(case):
    root = case.copy()
    before = files(root)
    assert keep_episodes(root, range(COUNT)).deleted == ()
    assert files(root) == before


def test_finalized_statistics_go_and_it_is_said(case):
    root = case.copy()
    finalize(root, horizon=2)
    edited = delete_episodes(root, [1])
    (note,) = edited.notes
    assert "relative_stats.json and delta_stats.json were of the dataset as it was, and are gone" in note
    assert_same(root, case.fresh([0, 2, 3, 4]))


def test_emptied_and_filled_again(case, tmp_path):
    root = case.copy()
    assert delete_episodes(root, range(COUNT)).episodes == 0
    left = {name for name in files(root) if not name.startswith("meta/")}
    assert left == set()
    assert open_dataset(root).episodes == {}
    summary = run(case.bags[1:3], root, case.profile, allow_incomplete=True, save_raw_quest=True)
    assert [b.episodes for b in summary.bags] == [(0,), (1,)]
    assert_same(root, case.fresh([1, 2]))
    assert validate_dataset(root).report.ok


def test_the_last_one_of_a_session(case):
    root = case.copy()
    before = files(root)
    with pytest.raises(DatasetError, match=r"the last episode, 4, is not of this session.*--delete 4"):
        delete_last(root, "pick_20260102_120000")
    assert files(root) == before
    assert delete_last(root, "pick_20260101_120000").deleted == (4,)
    assert_same(root, case.fresh([0, 1, 2, 3]))


def test_on_the_command_line(case, capsys):
    root = case.copy()
    before = files(root)
    with locked(root):
        assert main(["edit", str(root), "--delete", "1"]) == 1
    assert files(root) == before
    assert main(["edit", str(root), "--delete", "0,5-6"]) == 1
    assert files(root) == before
    refused = capsys.readouterr().err.splitlines()
    busy, unknown = (line.partition("edited: ")[2] for line in refused)
    assert busy.startswith("another process is writing this dataset")
    assert busy.endswith(" -> wait until it has ended, then run this again")
    assert unknown == "there is no such episode (expected numbers from 0 to 4, got 5, 6)"
    assert main(["edit", str(root), "--keep", "0-1, 4"]) == 0
    assert capsys.readouterr().out.splitlines() == [f"{root}: episodes taken out: 2, 3; 3 left"]
    assert_same(root, case.fresh([0, 1, 4]))
    assert main(["edit", str(root), "--delete-last", "pick_20260101_120000"]) == 0
    assert_same(root, case.fresh([0, 1]))
    with pytest.raises(SystemExit, match="2"):
        main(["edit", str(root), "--delete", "one"])
