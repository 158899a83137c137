"""What one asks first about a dataset or a recording: facts, what is in the way, and what comes next."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["dataset", "bag", "session", "bags"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """A look at one folder.

    Attributes:
        subject: Its path.
        kind: ``dataset``; ``bag``, one recording; ``session``, the folder of a recording session; ``bags``,
            any other folder with recordings below it.
        facts: What is there (JSON values); ``docs/managing.md`` names the keys.
        problems: What is in the way or unfinished, one sentence each.
        next_steps: Commands that come next, each with what it is for.
    """

    subject: str
    kind: Kind
    facts: Mapping[str, Any]
    problems: tuple[str, ...] = ()
    next_steps: tuple[tuple[str, str], ...] = ()

    def to_json(self) -> dict[str, object]:
        """JSON values of all of it."""
        return {
            "subject": self.subject,
            "kind": self.kind,
            **self.facts,
            "problems": list(self.problems),
            "next_steps": [{"command": command, "for": purpose} for command, purpose in self.next_steps],
        }


NO_EPISODE = "it holds no episode: export recordings into it, or remove the folder"
"""What is said of a dataset that every episode left, or that none came into."""


def counted(values: Iterable[str]) -> dict[str, int]:
    """How often each text comes, the most frequent first, else in order of appearance."""
    found: dict[str, int] = {}
    for value in values:
        found[value] = found.get(value, 0) + 1
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def summed(counts: Iterable[Mapping[str, object]]) -> dict[str, int]:
    """The whole numbers of several maps added up by key; what is no number, and sums of 0, are left out."""
    total: dict[str, int] = {}
    for by_name in counts:
        for name, count in by_name.items():
            if isinstance(count, int) and not isinstance(count, bool) and count:
                total[name] = total.get(name, 0) + count
    return total


def session_facts(record: Mapping[str, Any]) -> dict[str, Any]:
    """Who and what recorded a session, out of its provenance record; None where that is not known."""
    arm = record.get("arm")
    known = arm if isinstance(arm, Mapping) else {}
    cameras = record.get("cameras")
    serials = cameras if isinstance(cameras, Mapping) else {}
    return {
        "session": record.get("session"),
        "started_ns": record.get("started_ns"),
        "input_device": record.get("input_device"),
        "arm": {str(key): value for key, value in known.items()},
        "camera_serials": {
            str(name): camera.get("serial") if isinstance(camera, Mapping) else None
            for name, camera in serials.items()
        },
    }


def spread(numbers: Iterable[int], most: int) -> list[int]:
    """At most ``most`` of the numbers, the first and the last among them, the others evenly between."""
    known = list(numbers)
    if len(known) <= most:
        return known
    return sorted({known[round(k * (len(known) - 1) / (most - 1))] for k in range(most)})
