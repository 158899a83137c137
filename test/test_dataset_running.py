"""dataset.running: statistics carried from run to run, whatever became of the file that carries them."""

from itertools import pairwise
from pathlib import Path

import pytest
from dataset_cases import add, episode, open_writer

from piper_collect.dataset.layout import STATS_STATE, data_path
from piper_collect.dataset.running import state_is_due
from piper_collect.errors import DatasetError

STARTS = (0.0, -3.0, 5.0, 1.0)


def save(root: Path, *numbers: int) -> None:
    for number in numbers:
        ticks = tuple(34 * k for k in range(4 + number))
        add(open_writer(root), episode(start=STARTS[number], ticks_ms=ticks), bag=f"episode_{number:06d}")


def stats_of(root: Path) -> bytes:
    return (root / "meta/stats.json").read_bytes()


@pytest.fixture
def expected(tmp_path: Path) -> Path:
    """A dataset that nobody has touched."""
    root = tmp_path / "expected"
    save(root, 0, 1, 2, 3)
    return root


def test_an_older_state_is_caught_up_with(tmp_path: Path, expected: Path) -> None:
    root = tmp_path / "dataset"
    save(root, 0)
    old = (root / STATS_STATE).read_bytes()
    save(root, 1, 2)
    (root / STATS_STATE).write_bytes(old)
    save(root, 3)
    assert stats_of(root) == stats_of(expected)
    assert (root / STATS_STATE).read_bytes() == (expected / STATS_STATE).read_bytes()


@pytest.mark.parametrize("harm", ["missing", "empty", "cut", "bit", "text"])
def test_a_state_that_is_no_use_is_made_again(tmp_path: Path, expected: Path, harm: str) -> None:
    root = tmp_path / "dataset"
    save(root, 0, 1, 2)
    path = root / STATS_STATE
    content = path.read_bytes()
    harmed = {"empty": b"", "cut": content[:-9], "text": b"x" * 500, "bit": content[:-1] + b"\x7f"}
    if harm == "missing":
        path.unlink()
    else:
        path.write_bytes(harmed[harm])
    save(root, 3)
    assert stats_of(root) == stats_of(expected)
    assert path.exists()
    assert path.read_bytes() == (expected / STATS_STATE).read_bytes()


@pytest.mark.parametrize("others", [(1,), (3, 1), (0, 1, 2, 3)])
def test_the_state_of_other_episodes_is_not_taken(
    tmp_path: Path, expected: Path, others: tuple[int, ...]
) -> None:
    root, other = tmp_path / "dataset", tmp_path / "other"
    save(root, 0, 1, 2)
    save(other, *others)
    (root / STATS_STATE).write_bytes((other / STATS_STATE).read_bytes())
    save(root, 3)
    assert stats_of(root) == stats_of(expected)


def test_rows_that_were_counted_are_not_read_again(tmp_path: Path, expected: Path) -> None:
    root = tmp_path / "dataset"
    save(root, 0)
    old = (root / STATS_STATE).read_bytes()
    save(root, 1, 2)
    (root / data_path(0, 1000)).write_bytes(b"lost")
    (root / STATS_STATE).write_bytes(old)
    save(root, 3)
    assert stats_of(root) == stats_of(expected)
    (root / STATS_STATE).unlink()
    with pytest.raises(DatasetError, match="not a readable parquet file"):
        add(open_writer(root), episode(), bag="another")


def test_a_long_dataset_writes_the_state_seldom() -> None:
    due = [n for n in range(1, 4097) if state_is_due(n)]
    assert due[:255] == list(range(1, 256))
    assert due[255:258] == [256, 258, 260]
    assert [n for n in due if 2000 <= n <= 2024] == [2000, 2008, 2016, 2024]
    behind = [(late - early - 1) / early for early, late in pairwise(due)]
    assert max(behind) < 0.01
