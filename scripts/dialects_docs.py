#!/usr/bin/env python3
"""Write docs/dialects.md: one recording in every dialect, read back and converted there and back.

usage: python scripts/dialects_docs.py              with the recording that the golden files are made of
       python scripts/dialects_docs.py --bag BAG    with another one; the page is printed, not written

Exit code 1 where anything that must be equal is not.
"""

import argparse
import math
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dialect_checks import Agreement, Made, against_episode, make_all
from dialect_trips import TRIPS, Trip, there_and_back

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "dialects.md"
BAG = ROOT / "test" / "golden" / "stack_the_cups_20260102_030405" / "episode_000004"

HEAD = """\
# Dialects

One recording, exported to every dialect and layout, read back, and held against the aligned episode that it
was made of; then converted to another format and back. What the columns and files of each are,
[dataset.md](dataset.md) says; what the commands do with a dataset of each, [managing.md](managing.md).

This page is made by `scripts/dialects_docs.py` (`--bag BAG` does the same with a recording of yours, and
prints it). A test does it again, and compares the page.
"""

EQUAL = """\
## The same numbers and frames

All numbers are compared exactly: those of the aligned episode, in the type that `info.json` declares (float32
for what a source measured), with those that the reader of the format gives. All frames are compared pixel by
pixel with the episode's pictures encoded once more and decoded, and must lie within 1 µs of their times: the
capture time in ms with `piper`, k/fps with the others. *Recorded ones*: how many of the recorded pictures
they show. *Furthest*: how far the worst frame is from the picture recorded at its time (mean over its
pixels, of 255 levels); to no other recorded picture is it nearer. Depth images are not compared, and this
recording has none, so that `train_depth` is as `train`.
"""

BACK = """\
## There and back

The new dataset is compared with what it was before both conversions: all numbers, times and pixels of all
frames, lengths, tasks and sources of the episodes. These are equal. Of the files under `meta/` and `extras/`
those are named that are not the same bytes.
"""

LOST = """\
## What each cannot hold

What `convert` said of these datasets, by the format that it converted to. No dialect holds what only the bag
has: topics at their full rate, other topics, and the pictures as they were recorded. Of the layouts,
[dataset.md](dataset.md) says what they ask for that this recording has not.
"""

TITLES = {
    "lerobot-v2.0": "LeRobot v2.0",
    "lerobot-v2.1": "LeRobot v2.1",
    "lerobot-v3.0": "LeRobot v3.0",
    "hdf5-cases": "HDF5 cases",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """What the page tells.

    Attributes:
        agreements: Each dataset, and what comparing it with its episode gave.
        trips: Each conversion there and back.
    """

    agreements: Sequence[tuple[Made, Agreement]]
    trips: Sequence[Trip]

    @property
    def faults(self) -> list[str]:
        """What must be equal and is not."""
        found = [f"{m.profile}, {m.dialect}: {fault}" for m, a in self.agreements for fault in a.faults]
        return found + [
            f"{t.profile}, {t.dialect}, by {t.via}: {fault}" for t in self.trips for fault in t.faults
        ]


def results(bag: Path, folder: Path) -> Results:
    """Make, read back and convert everything below ``folder``, which exists."""
    made = make_all(bag, folder / "made")
    agreements = []
    for dataset in made:
        scratch = folder / "again" / dataset.root.name
        scratch.mkdir(parents=True)
        agreements.append((dataset, against_episode(dataset, scratch)))
    roots = {(m.profile, m.dialect): m.root for m in made}
    trips = []
    for profile, dialect, via in TRIPS:
        place = folder / "trips" / f"{profile}-{dialect}-{via}"
        place.mkdir(parents=True)
        trips.append(there_and_back(roots[profile, dialect], profile, dialect, via, place))
    return Results(agreements=agreements, trips=trips)


def page(found: Results) -> str:
    """The whole page."""
    return "\n".join([HEAD, EQUAL, *_equal(found), "", BACK, *_back(found), "", LOST, *_lost(found)]) + "\n"


def _equal(found: Results) -> Iterator[str]:
    yield "| profile | format | rows | columns | numbers equal | frames equal | recorded ones | furthest |"
    yield "|---|---|---|---|---|---|---|---|"
    for made, a in found.agreements:
        yield (
            f"| `{made.profile}` | {TITLES[made.dialect]} | {a.rows} | {a.columns} | {a.numbers:,} "
            f"| {a.frames} | {a.shown} of {a.recorded} | at most {math.ceil(a.distance)} |"
        )


def _back(found: Results) -> Iterator[str]:
    yield "| profile | from | by | numbers equal | frames equal | other files equal | not as it was |"
    yield "|---|---|---|---|---|---|---|"
    for trip in found.trips:
        start = f"| `{trip.profile}` | {TITLES[trip.dialect]} | {TITLES[trip.via]} |"
        if trip.refused:
            yield f"{start} | | | refused: {trip.refused} |"
            continue
        changed = "<br>".join(trip.changed) or "nothing"
        yield f"{start} {trip.numbers:,} | {trip.frames} | {trip.files} | {changed} |"


def _lost(found: Results) -> Iterator[str]:
    for dialect, title in TITLES.items():
        told: dict[str, dict[str, None]] = {}
        for trip in found.trips:
            for line in trip.lost.get(dialect, ()):
                told.setdefault(line, {})[trip.profile] = None
            if trip.refused and trip.via == dialect:
                told.setdefault(f"all of it: {trip.refused}", {})[trip.profile] = None
        yield f"**{title}**\n"
        for line, profiles in told.items():
            yield f"- {line} (of `{'`, `'.join(profiles)}`)"
        yield "" if told else "- (nothing was told)\n"


def main() -> None:
    """Make the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--bag", type=Path, metavar="BAG", help="a recording of yours")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = results(args.bag or BAG, Path(folder))
    if found.faults:
        sys.exit("\n".join(f"error: {fault}" for fault in found.faults))
    if args.bag is not None:
        print(page(found), end="")
    else:
        PAGE.write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    main()
