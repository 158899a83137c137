"""What simulated devices published against what is in a bag: nothing may be missing that is not told."""

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench._soak_cell import CAMERAS, Life
from piper_collect.bag.reader import open_bag

ARM_TOPICS = ("/arm/joint_states", "/arm/flange_pose")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What became of one episode.

    Attributes:
        published: Messages that were published inside of it, of the topics whose truth is known.
        missing: Of these, how many are not in the bag.
        untold: Of these, how many the episode does not tell of.
        foreign: Messages in the bag that nobody published.
        marked: Whether it is marked incomplete.
        tail_s: Longest stretch that is missing at the end of a topic, of what its recorder had said it has.
    """

    published: int
    missing: int
    untold: int
    foreign: int
    marked: bool
    tail_s: float


def check(
    bag_path: Path,
    truth: "Truth",
    lives: Sequence[Life],
    *,
    end_ns: int | None = None,
    said_ns: Mapping[str, int] | None = None,
) -> Finding:
    """Hold a saved or recovered episode against the truth logs.

    Args:
        bag_path: The episode.
        truth: What was published.
        lives: All processes that were there.
        end_ns: When its recorder died; None takes the time of its stop.
        said_ns: Newest stamp by topic that its recorder had said it has before it was hurt.
    """
    record = json.loads((bag_path / "episode.json").read_text(encoding="utf-8"))
    start_ns = int(record["episode_start_ns"])
    stop_ns = int(record["episode_end_ns"] or end_ns or 0)
    recorded = _recorded(bag_path, start_ns, stop_ns)
    truth.read(lives, start_ns)
    topics = [
        _compare(
            topic, {stamp for stamp in stamps if stamp <= stop_ns}, recorded[topic], record, said_ns or {}
        )
        for topic, stamps in truth.stamps.items()
    ]
    return Finding(
        published=sum(topic.published for topic in topics),
        missing=sum(topic.missing for topic in topics),
        untold=sum(topic.untold for topic in topics),
        foreign=sum(topic.foreign for topic in topics),
        marked=not record["complete"],
        tail_s=max(topic.tail_s for topic in topics),
    )


def _recorded(bag_path: Path, start_ns: int, stop_ns: int) -> dict[str, set[int]]:
    """Stamps in the bag that lie in the episode, by topic."""
    recorded = {topic: set[int]() for topic in (*ARM_TOPICS, *map(_camera_topic, CAMERAS))}
    with open_bag(bag_path) as bag:
        for message in bag.messages([topic for topic in recorded if topic in bag.topics]):
            stamp_ns = bag.header_stamp_ns(message.topic, message.payload)
            if stamp_ns is not None and start_ns <= stamp_ns <= stop_ns:
                recorded[message.topic].add(stamp_ns)
    return recorded


def _compare(
    topic: str, inside: set[int], recorded: set[int], record: Mapping[str, Any], said_ns: Mapping[str, int]
) -> Finding:
    """One topic of an episode."""
    gone, tail_s = inside - recorded, 0.0
    lost = record["topics"].get(topic, {}).get("lost") or 0
    untold = gone
    if record["outcome"] == "interrupted":  # so that what was on its way at the end may be missing
        last_ns = max(recorded, default=int(record["episode_start_ns"]))
        tail_s = (said_ns.get(topic, last_ns) - last_ns) / 1e9
        untold = {stamp for stamp in gone if stamp < last_ns}
    told = len(untold) if _is_told(topic, record["incomplete_reasons"]) else int(lost)
    return Finding(
        published=len(inside),
        missing=len(gone),
        untold=max(0, len(untold) - told),
        foreign=len(recorded - inside),
        marked=not record["complete"],
        tail_s=tail_s,
    )


def _is_told(topic: str, reasons: Sequence[str]) -> bool:
    """Whether the reasons say of a topic that an unknown number is missing."""
    mine = [reason for reason in reasons if reason.startswith(f"{topic}: ")]
    return any(word in reason for reason in mine for word in ("restarted", "silent", "publishers send"))


def _camera_topic(camera: str) -> str:
    return f"/{camera}/image_raw/compressed"


class Truth:
    """Stamps of what the simulated devices published, read as their logs grow."""

    def __init__(self) -> None:
        self.stamps: dict[str, set[int]] = {
            topic: set() for topic in (*ARM_TOPICS, *map(_camera_topic, CAMERAS))
        }
        self._read: dict[Path, int] = {}

    def read(self, lives: Sequence[Life], since_ns: int) -> None:
        """Take up what is new, and forget what was published before."""
        for life in lives:
            if life.role == "arm":
                new = [int(row[0]) for row in self._rows(life.truth / "joints.csv")]
                for topic in ARM_TOPICS:
                    self.stamps[topic].update(new)
            elif life.role in CAMERAS:
                rows = self._rows(life.truth / f"frames_{life.role}.csv")
                self.stamps[_camera_topic(life.role)].update(int(row[1]) for row in rows if row[2] == "1")
        for topic, stamps in self.stamps.items():
            self.stamps[topic] = {stamp for stamp in stamps if stamp >= since_ns}

    def _rows(self, path: Path) -> list[list[str]]:
        """Whole rows that were not read before."""
        if not path.exists():
            return []
        with path.open("rb") as file:
            file.seek(self._read.get(path, 0))
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        first = path not in self._read
        self._read[path] = self._read.get(path, 0) + len(whole)
        rows = list(csv.reader(whole.decode("utf-8").splitlines()))
        return rows[1:] if first and rows else rows
