"""A change that fails or is killed at any step leaves the old state or the new one, never a third."""

import json
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import crash_cases
import pytest
from crash_cases import CHANGES, Change, begin, disk_error, failing, save
from dataset_cases import tree

from piper_collect.dataset.transaction import recover
from piper_collect.errors import DatasetError
from piper_collect.pipelines.validators import validator_of

pytestmark = pytest.mark.usefixtures("no_sync")

REPOSITORY = Path(__file__).parents[1]


@pytest.fixture(params=CHANGES)
def change(request: pytest.FixtureRequest) -> Change:
    return CHANGES[request.param]


def test_both_states_are_good_datasets(fast_path: Path, change: Change) -> None:
    old, new, steps = change.states(fast_path)
    assert steps > 30
    assert old != new
    change.prepare(fast_path / "old")
    for root in (fast_path / "old", fast_path / "reference"):
        if tree(root):
            errors = [f for f in validator_of(root)(root).report.findings if f.level == "error"]
            # all these episodes are told to have been recorded at the same time
            assert {f.code for f in errors} <= {"t0"}


@pytest.mark.parametrize("name", ["first", "append train", "delete", "replace"])
def test_one_error_at_any_step(fast_path: Path, name: str) -> None:
    change = CHANGES[name]
    old, new, steps = change.states(fast_path)
    outcomes = []
    for at in range(1, steps + 1, 2 if change.episodes > 1 else 1):
        root = fast_path / f"at{at}"
        change.prepare(root)
        try:
            with failing(at, disk_error):
                change.apply(root)
        except (OSError, DatasetError):
            assert tree(root) == old, at
            assert root.exists() == bool(old)
            outcomes.append("old")
        else:
            outcomes.append("new")
            assert tree(root) == new, at
        shutil.rmtree(root, ignore_errors=True)
    assert set(outcomes) == {"old", "new"}


LASTING = ["first", "append", "append v3.0", "replace v3.0", "delete", "replace"]


@pytest.mark.parametrize("name", [*LASTING, *(n for n in CHANGES if n.endswith("HDF5"))])
def test_a_disk_that_fails_for_good(fast_path: Path, name: str) -> None:
    change = CHANGES[name]
    old, new, steps = change.states(fast_path)
    outcomes = set()
    for at in range(1, steps + 1, 4):
        root = fast_path / f"at{at}"
        change.prepare(root)
        with failing(at, disk_error, for_good=True), suppress(OSError, DatasetError):
            change.apply(root)
        if root.exists():
            change.reopen(root)
        assert tree(root) in (old, new), at
        outcomes.add("old" if tree(root) == old else "new")
        shutil.rmtree(root, ignore_errors=True)
    assert outcomes == {"old", "new"}


@pytest.mark.parametrize("name", ["append train", "delete"])
def test_a_repair_that_is_interrupted_too(fast_path: Path, name: str) -> None:
    change = CHANGES[name]
    old, new, steps = change.states(fast_path)
    repairs, seen = 0, set()
    for at in range(1, steps + 1, 9):
        dirty = fast_path / f"dirty{at}"
        change.prepare(dirty)
        with failing(at, disk_error, for_good=True), suppress(OSError, DatasetError):
            change.apply(dirty)
        with failing(0, disk_error) as calls:
            change.reopen(shutil.copytree(dirty, fast_path / "counted"))
        whole = tree(fast_path / "counted")
        shutil.rmtree(fast_path / "counted")
        for stop in range(1, calls[0] + 1, 3):
            root = shutil.copytree(dirty, fast_path / "twice")
            with failing(stop, disk_error, for_good=True), suppress(OSError, DatasetError):
                change.reopen(root)
            change.reopen(root)
            assert tree(root) == whole, (at, stop)
            shutil.rmtree(root)
            repairs += 1
        assert whole in (old, new)
        seen.add("old" if whole == old else "new")
    assert repairs > 20
    assert seen == {"old", "new"}


@pytest.mark.parametrize("name", ["append", "delete"])
def test_an_interrupt_after_the_commit_completes_the_change(fast_path: Path, name: str) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    change = CHANGES[name]
    old, new, steps = change.states(fast_path)
    ends = []
    for at in range(1, steps + 1, 3):
        root = fast_path / f"at{at}"
        change.prepare(root)
        with failing(at, interrupt), pytest.raises(KeyboardInterrupt):
            change.apply(root)
        found = tree(root)
        assert found in (old, new), at
        ends.append(found == new)
        shutil.rmtree(root)
    assert ends == sorted(ends)
    assert set(ends) == {False, True}


def test_a_writer_knows_what_became_of_an_interrupted_save(fast_path: Path) -> None:
    change = CHANGES["append"]
    _, new, steps = change.states(fast_path)
    for at, episodes in ((steps // 3, 1), (steps - 2, 2)):
        root = fast_path / f"at{at}"
        change.prepare(root)
        writer = begin(root)
        with failing(at, disk_error, for_good=True), suppress(OSError, DatasetError):
            save(writer, 1)
        assert begin(root).episodes == episodes
        if episodes == 1:
            save(writer, 1)
            assert tree(root) == new


def test_a_full_disk_is_one_line_for_an_edit(fast_path: Path) -> None:
    change = CHANGES["delete"]
    for at in (3, change.states(fast_path)[2] - 5):
        root = fast_path / f"at{at}"
        change.prepare(root)
        with (
            failing(at, disk_error, for_good=True),
            pytest.raises(DatasetError, match=r"cannot be changed.*No space"),
        ):
            change.apply(root)


def test_killed_at_every_step(fast_path: Path) -> None:
    names = ["first", "append train", "delete", "replace"]
    run = subprocess.run(
        [sys.executable, crash_cases.__file__, str(fast_path), *names],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert list(found) == names
    for ends in found.values():
        assert len(ends) > 30
        assert ends == sorted(ends, reverse=True)
        assert set(ends) == {"old", "new"}


LINES = ("episodes.jsonl", "episode_sources.jsonl", "episodes_stats.jsonl", "collection_sessions.jsonl")


@pytest.fixture
def torn(
    fast_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Path, dict[str, int], dict[str, bytes | None]]:
    """A save that stopped after its lines were appended: the root, the lengths before, what it is to be."""
    change = CHANGES["append train"]
    old, new, _ = change.states(fast_path)
    root, move = fast_path / "torn", os.replace
    change.prepare(root)

    def only_the_journal(source: Path, target: Path) -> None:
        if ".staging" not in target.parts:
            disk_error()
        move(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", only_the_journal)
        with pytest.raises(DatasetError, match="is saved, but"):
            change.apply(root)
    assert all((root / "meta" / name).read_bytes() == new[f"meta/{name}"] for name in LINES)
    assert not (root / "data/chunk-000/episode_000001.parquet").exists()
    return root, {name: len(old[f"meta/{name}"] or b"") for name in LINES}, new


def test_a_torn_tail_is_made_whole(torn: tuple[Path, dict[str, int], dict[str, bytes | None]]) -> None:
    root, before, new = torn
    for name in LINES:
        size = (root / "meta" / name).stat().st_size
        assert size > before[name]
        # every byte near the ends, and some between
        cuts = {
            *range(before[name], before[name] + 9),
            *range(before[name], size, 61),
            *range(size - 9, size),
        }
        for cut in sorted(cuts):
            copy = shutil.copytree(root, root.with_name("copy"))
            os.truncate(copy / "meta" / name, cut)
            with (copy / "meta" / name).open("ab") as file:
                file.write(b"\0" * (cut % 3))
            note = recover(copy)
            assert note is not None
            assert "completed" in note
            assert tree(copy) == new, (name, cut)
            shutil.rmtree(copy)


def test_a_file_that_lost_more_is_refused_not_filled_up(
    torn: tuple[Path, dict[str, int], dict[str, bytes | None]],
) -> None:
    root, before, new = torn
    for name in LINES:
        for rest in (0, before[name] - 1):
            copy = shutil.copytree(root, root.with_name("copy"))
            os.truncate(copy / "meta" / name, rest)
            found = tree(copy)
            with pytest.raises(DatasetError, match=f"{name}: the file has lost what it held.*got {rest}"):
                recover(copy)
            assert tree(copy)[f"meta/{name}"] == found[f"meta/{name}"]
            (copy / "meta" / name).write_bytes((root / "meta" / name).read_bytes()[: before[name]])
            recover(copy)
            assert tree(copy) == new
            shutil.rmtree(copy)
