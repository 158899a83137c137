"""Recordings whose file a power cut ends at any byte: all that lay there before is recovered, in order.

``PIPER_COLLECT_KILLS=50`` cuts as often; ten cuts of a sort are what a run of all tests has time for.
"""

import os
import random
import shutil
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path

import pytest
from mcap.reader import make_reader
from recover_cases import Studio, arm_rows, rows_of
from rosbags.highlevel import AnyReader

from piper_collect.bag.folder_writer import FLUSH_PERIOD_S, LONGEST_UNFLUSHED_S
from piper_collect.pipelines.recover import recover

KILLS = int(os.environ.get("PIPER_COLLECT_KILLS", "10"))
ROWS = arm_rows(500)
PERIOD_S = 0.005
PER_FLUSH = round(FLUSH_PERIOD_S / PERIOD_S) * 3


@dataclass(frozen=True)
class Cut:
    """A recording to cut.

    Attributes:
        place: Its folder.
        file: The file in it that is cut.
        flushed: Size of that file after each flush.
    """

    place: Path
    file: str
    flushed: list[int]


def recording(folder, storage, ending):
    """2.5 s of three topics at 200 Hz, flushed every half second; unfinished."""
    studio = Studio(folder / "root", storage)
    episode = studio.begin()
    file = f"{episode.path.name}_0{ending}"
    flushed = []
    for number, (topic, at, payload) in enumerate(ROWS):
        episode._writer.write(topic, payload, at)
        if number % PER_FLUSH == PER_FLUSH - 1:
            episode._writer.flush_due(float(number))
            flushed.append((episode.path / file).stat().st_size)
    aside = shutil.copytree(episode.path, folder / "aside")
    episode.abandon()
    return Cut(shutil.move(aside, studio.folder.recording_path(0)), file, flushed)


@pytest.fixture(scope="module", params=[("mcap", ".mcap"), ("sqlite3", ".db3-wal")], ids=lambda p: p[0])
def whole(request, tmp_path_factory):
    return recording(tmp_path_factory.mktemp("power"), *request.param)


def times_by_others(folder):
    """Receive times as rosbags has them, and how many messages the mcap library reads."""
    with AnyReader([folder]) as reader:
        times = sorted(time for _, time, _ in reader.messages())
    for file in folder.glob("*.mcap"):
        with file.open("rb") as stream:
            assert sum(1 for _ in make_reader(stream).iter_messages()) == len(times)
    return times


@pytest.mark.kills
@pytest.mark.parametrize("number", range(KILLS))
def test_what_lay_on_the_disk_is_recovered_to_within_a_second(whole, number, tmp_path, tally):
    left = tmp_path / whole.place.parents[1].name / ".recording" / whole.place.name
    shutil.copytree(whole.place, left)
    size = random.Random(f"power {number}").randrange((left / whole.file).stat().st_size + 1)
    os.truncate(left / whole.file, size)
    (result,) = recover([left])
    tally("cuts survived")
    flushes = bisect_right(whole.flushed, size)
    if result.status == "empty":
        assert flushes == 0
        return
    assert result.status == "recovered"
    found = rows_of(result.bag)
    assert found == ROWS[: len(found)]
    assert len(found) >= flushes * PER_FLUSH
    # no more than the next flush brought can have lain there
    on_disk = ROWS[: (flushes + 1) * PER_FLUSH]
    assert (on_disk[-1][1] - found[-1][1]) / 1e9 <= LONGEST_UNFLUSHED_S
    assert result.most_missing_s == LONGEST_UNFLUSHED_S
    assert times_by_others(result.bag) == sorted(at for _, at, _ in found)
    tally("messages checked", len(found))
