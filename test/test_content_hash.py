"""By which hash a dataset knows its recordings: datasets that were begun with SHA-256 go on with it."""

import json

import pytest
from export_cases import run, small_bag, sources

from piper_collect.bag.find import content_hash
from piper_collect.config.profile import load_profile
from piper_collect.core.content_hash import hash_kind
from piper_collect.dataset.merge import merge_datasets
from piper_collect.errors import DatasetError
from piper_collect.pipelines.bag_episodes import ExportOptions
from piper_collect.pipelines.export import export
from piper_collect.pipelines.prune import look_at


def test_one_episode_with_sha256_decides():
    new, old = {"content_hash": "blake3:" + "a" * 64}, {"content_hash": "0f" * 32}
    assert hash_kind([]) == hash_kind([new, {}, {"content_hash": None}]) == "blake3"
    assert hash_kind([old]) == hash_kind([new, old]) == "sha256"


def bags(folder):
    return [small_bag(folder / "pick" / f"episode_{n:06d}", n) for n in range(2)]


def as_begun_before(root, *paths):
    """Its episodes know their bags by SHA-256, as all did once."""
    by_hash = {content_hash(path): content_hash(path, "sha256") for path in paths}
    told = [{**line, "content_hash": by_hash[line["content_hash"]]} for line in sources(root)]
    text = "".join(json.dumps(line) + "\n" for line in told)
    (root / "meta" / "episode_sources.jsonl").write_text(text)


def test_an_older_dataset_knows_its_bags_and_stays_of_one_kind(tmp_path):
    first, second = bags(tmp_path)
    root = tmp_path / "dataset"
    run([first], root)
    assert sources(root)[0]["content_hash"] == content_hash(first)
    as_begun_before(root, first)
    outcome = run([first, second], root)
    assert [bag.status for bag in outcome.bags] == ["held", "exported"]
    assert [line["content_hash"] for line in sources(root)] == [
        content_hash(path, "sha256") for path in (first, second)
    ]
    first = first.rename(first.with_name("renamed"))
    assert [
        bag.status
        for bag in export([first, second], root, ExportOptions(profile=load_profile("train")), workers=2).bags
    ] == ["held", "held"]


def test_prune_asks_each_dataset_by_its_own_kind(tmp_path):
    first, second = bags(tmp_path)
    old, new = tmp_path / "old", tmp_path / "new"
    run([first], old)
    as_begun_before(old, first)
    run([second], new)
    items = look_at([tmp_path / "pick"], [old, new]).items
    assert [(item.bag, item.kept) for item in items] == [(first, ""), (second, "")]


def test_a_merge_of_both_kinds_goes_by_names_and_says_what_it_forgets(tmp_path):
    first, second = bags(tmp_path)
    old, same, other = tmp_path / "old", tmp_path / "same", tmp_path / "other"
    run([first], old)
    as_begun_before(old, first)
    run([first], same)
    run([second], other)
    with pytest.raises(DatasetError, match="is a recording that"):
        merge_datasets([old, same], tmp_path / "twice")
    summary = merge_datasets([old, other], tmp_path / "both")
    assert any("SHA-256" in note and "BLAKE3" in note for note in summary.notes)
    assert not any("SHA-256" in note for note in merge_datasets([same, other], tmp_path / "new").notes)
