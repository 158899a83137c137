"""Bags with noise in them: ``recover`` takes what is right, or refuses in one line."""

import shutil

import pytest
from fuzz_support import fuzzed
from hypothesis import example, given
from hypothesis import strategies as st
from recover_cases import Studio, arm_rows

from piper_collect.bag.reader import open_bag
from piper_collect.pipelines.recover import recover

pytestmark = pytest.mark.usefixtures("no_sync")
COUNT = 10
ROWS = set(arm_rows(COUNT))


@pytest.fixture(scope="module", params=["mcap", "sqlite3"])
def left(request, tmp_path_factory):
    """An unfinished recording, and its files that hold messages."""
    return Studio(tmp_path_factory.mktemp(request.param) / "root", request.param).kill(COUNT, flush_each=5)


@fuzzed(25)
@given(
    which=st.integers(0, 10),
    where=st.integers(0, 10**6),
    noise=st.binary(min_size=1, max_size=200),
    share=st.floats(0.3, 1.0),
)
@example(which=0, where=0, noise=bytes(100), share=1.0)
def test_noise_is_left_out_or_refused(left, tmp_path_factory, tally, which, where, noise, share):
    tally("inputs tried")
    place = tmp_path_factory.mktemp("noise") / ".recording" / left.name
    shutil.copytree(left, place)
    files = sorted(place.iterdir())
    file = files[which % len(files)]
    content = file.read_bytes()
    offset = where % len(content)
    spoilt = content[:offset] + noise + content[offset + len(noise) :]
    file.write_bytes(
        spoilt[: max(1, int(len(spoilt) * share))] if offset + len(noise) > len(content) else spoilt
    )
    before = {path.name: path.read_bytes() for path in place.iterdir()}
    (result,) = recover([place])
    assert result.status in ("recovered", "empty", "failed")
    kept = result.original if result.status == "recovered" else place
    assert {path.name: path.read_bytes() for path in kept.iterdir()} == before
    if result.bag is None:
        assert result.status != "failed" or result.error
        return
    with open_bag(result.bag) as bag:
        found = [(m.topic, m.receive_ns, m.payload) for m in bag.messages()]
    assert found
    if file.suffix != ".db3":  # its pages have no checksums
        assert set(found) <= ROWS
