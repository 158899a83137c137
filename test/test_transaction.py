"""A change to a dataset: what it costs to stage, beside what crashes show (test_dataset_crash.py)."""

from pathlib import Path

import pytest

from piper_collect.dataset.transaction import Transaction

pytestmark = pytest.mark.usefixtures("no_sync")


class CountedName(str):
    """A file's name that counts how often it is compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        CountedName.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_staging_a_file_does_not_look_at_all_others(fast_path: Path) -> None:
    (fast_path / "ds").mkdir()
    change = Transaction(fast_path / "ds")
    change.begin()
    CountedName.compared = 0
    names = [CountedName(f"data/chunk-000/episode_{k:06d}.parquet") for k in range(400)]
    for name in names:
        change.path(name).write_text(name)
    assert CountedName.compared < 10 * len(names), "400 names compared with each other are 80,000"
    change.commit()
    assert [p.read_text() for p in sorted((fast_path / "ds/data").rglob("*.parquet"))] == names


def test_a_file_that_is_staged_twice_is_put_into_place_once(fast_path: Path) -> None:
    change = Transaction(fast_path)
    change.begin()
    for text in ("old", "new"):
        change.path("meta/info.json").write_text(text)
    change.path("meta/never.json")
    change.commit()
    assert {p.name: p.read_text() for p in (fast_path / "meta").iterdir()} == {"info.json": "new"}
