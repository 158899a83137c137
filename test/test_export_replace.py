"""export --replace: an episode made anew in its place equals a fresh export of everything."""

import json
import shutil

import pytest
from export_cases import files, lines, mp4, run, small_bag, sources, varied_bags
from sample_bags import MS, START, quest_input
from test_edit import STATE, assert_same, profile_of

from piper_collect.dataset.edit import delete_episodes
from piper_collect.pipelines.finalize import finalize
from piper_collect.pipelines.validate import validate_dataset

pytestmark = pytest.mark.usefixtures("no_sync")

COUNT = 3
OPTIONS = {"allow_incomplete": True, "save_raw_quest": True}


@pytest.fixture
def bags(tmp_path):
    return varied_bags(tmp_path / "recordings", COUNT)


@pytest.fixture(params=["train-v2.0", "piper"])
def profile(request):
    return profile_of(request.param)


def tell(bag, **known):
    """What lies beside a bag wins over what is in it, and its hash stays."""
    (bag / "episode.json").write_text(json.dumps(known))


def end_at(bag, ms):
    number = int(bag.name[-1])
    tell(bag, episode_end_ns=START + number * 10**10 + ms * MS)


def fresh(bags, root, profile, **options):
    run(bags, root, profile, **{**OPTIONS, **options})
    return root


@pytest.mark.parametrize("change", ["shorter", "longer", "another task", "now whole"])
def test_replaced_equals_fresh(bags, profile, tmp_path, change):
    changed = bags[2] if change == "now whole" else bags[1]
    if change == "longer":
        end_at(changed, 90)
    root = fresh(bags, tmp_path / "ds", profile)
    before = [mp4(root, "cam", i, i // 2).read_bytes() for i in range(COUNT)]
    lengths = [e["length"] for e in lines(root / "meta/episodes.jsonl")]
    if change == "shorter":
        end_at(changed, 70)
    elif change == "longer":
        (changed / "episode.json").unlink()
    elif change == "another task":
        # "valid" was both a task and a validity, and stays a validity
        tell(changed, task="fold the towel")
    else:
        tell(changed, outcome="success")
    summary = run(changed, root, profile, replace=True, **OPTIONS)
    index = bags.index(changed)
    assert [(b.status, b.episodes) for b in summary.bags] == [("replaced", (index,))]
    assert_same(root, fresh(bags, tmp_path / "fresh", profile))
    rows = [e["length"] for e in lines(root / "meta/episodes.jsonl")]
    step = {"shorter": -1, "longer": 1}.get(change, 0)
    assert [(a > b) - (a < b) for a, b in zip(rows, lengths, strict=True)] == [
        step * (i == index) for i in range(COUNT)
    ]
    after = [mp4(root, "cam", i, i // 2).read_bytes() for i in range(COUNT)]
    assert [a for i, a in enumerate(after) if i != index] == [b for i, b in enumerate(before) if i != index]
    assert validate_dataset(root).report.ok
    again = files(root)
    run(changed, root, profile, replace=True, **OPTIONS)
    assert files(root) == again


def test_all_at_once_with_another_task_and_without_the_headset(bags, profile, tmp_path):
    root = fresh(bags, tmp_path / "ds", profile)
    summary = run(bags, root, profile, replace=True, task="fold the towel", allow_incomplete=True)
    assert {b.status for b in summary.bags} == {"replaced"}
    assert not list((root / "extras").glob("*.quest.jsonl"))
    assert_same(root, fresh(bags, tmp_path / "fresh", profile, task="fold the towel", save_raw_quest=False))


def test_the_headset_input_may_come_later(bags, profile, tmp_path):
    root = fresh(bags, tmp_path / "ds", profile, save_raw_quest=False)
    run(bags, root, profile, replace=True, **OPTIONS)
    assert_same(root, fresh(bags, tmp_path / "fresh", profile))


def test_headset_input_that_is_no_longer_inside_goes(profile, tmp_path):
    late = [("/quest/input", START + t * MS, quest_input(START + t * MS, t)) for t in (90, 100)]
    bag = small_bag(tmp_path / "episode_000000", rows=4, cameras=("cam", "wrist"), more=late)
    root = fresh([bag], tmp_path / "ds", profile)
    assert (root / "extras/episode_000000.quest.jsonl").exists()
    end_at(bag, 80)
    run(bag, root, profile, replace=True, **OPTIONS)
    assert not (root / "extras/episode_000000.quest.jsonl").exists()
    assert_same(root, fresh([bag], tmp_path / "fresh", profile))


def test_finalized_statistics_go_and_it_is_said(bags, tmp_path):
    root = fresh(bags, tmp_path / "ds", "train")
    finalize(root, horizon=2)
    summary = run(bags[0], root, replace=True, **OPTIONS)
    assert any("run finalize again" in note for note in summary.notes)
    assert_same(root, fresh(bags, tmp_path / "fresh", "train"))


def test_a_bag_that_is_not_there_yet_is_added(bags, profile, tmp_path):
    root = fresh(bags[:2], tmp_path / "ds", profile)
    summary = run(bags, root, profile, replace=True, **OPTIONS)
    assert [b.status for b in summary.bags] == ["replaced", "replaced", "exported"]
    assert_same(root, fresh(bags, tmp_path / "fresh", profile))


def test_one_that_fails_leaves_the_dataset_as_it_was(bags, profile, tmp_path):
    root = fresh(bags, tmp_path / "ds", profile)
    before = files(root)
    end_at(bags[1], 1)
    summary = run(bags[1], root, profile, replace=True, **OPTIONS)
    assert (summary.bags[0].status, summary.exit_code) == ("failed", 1)
    assert files(root) == before


@pytest.fixture
def long_bag(tmp_path):
    return small_bag(tmp_path / "long/episode_000007", 7, rows=7, cameras=("cam", "wrist"))


def test_the_parts_of_a_split_recording(bags, long_bag, profile, tmp_path):
    order = [bags[0], long_bag]
    root = fresh(order, tmp_path / "ds", profile, split_s=0.1, task="one")
    assert [s["parts"] for s in sources(root)] == [2, 2, 3, 3, 3]
    summary = run(long_bag, root, profile, replace=True, split_s=0.1, task="two", **OPTIONS)
    assert summary.bags[0].status == "replaced"
    expected = fresh(bags[:1], tmp_path / "fresh", profile, split_s=0.1, task="one")
    assert_same(root, fresh([long_bag], expected, profile, split_s=0.1, task="two"))
    before = files(root)
    refused = run(long_bag, root, profile, replace=True, **OPTIONS)
    assert "holds this bag as 3 episodes, and it would now be 1" in refused.bags[0].reason
    assert files(root) == before
    delete_episodes(root, summary.bags[0].episodes)
    run(long_bag, root, profile, **OPTIONS)
    whole = fresh(bags[:1], tmp_path / "whole", profile, split_s=0.1, task="one")
    assert_same(root, fresh([long_bag], whole, profile))


def test_what_a_stopped_run_left_is_replaced_and_the_rest_added(long_bag, profile, tmp_path):
    root = fresh([long_bag], tmp_path / "ds", profile, split_s=0.1)
    expected = shutil.copytree(root, tmp_path / "whole")
    delete_episodes(root, [1, 2])
    summary = run(long_bag, root, profile, replace=True, split_s=0.1, **OPTIONS)
    assert (summary.bags[0].status, summary.bags[0].episodes) == ("replaced", (0, 1, 2))
    assert_same(root, expected)
    assert files(root, STATE) == files(expected, STATE)
    assert summary.bags[0].rows == 7
