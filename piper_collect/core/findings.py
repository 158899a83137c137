"""What a look at a dataset or a bag found: findings, and the report that holds them."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal

Level = Literal["error", "warning", "info"]

LEVELS: tuple[Level, ...] = ("error", "warning", "info")
"""Worst first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is not as it should be, or that is worth knowing.

    Attributes:
        level: ``error`` when it is wrong or a trainer would be misled; ``warning`` when it is worth a
            look; ``info`` when it is only to be known.
        code: Short name of the kind, for filters.
        where: File, episode, column or consumer.
        text: What is wrong, with the numbers.
    """

    level: Level
    code: str
    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.level}: {self.where}: {self.text} [{self.code}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The findings on one dataset or bag.

    Attributes:
        subject: What was looked at.
        findings: In the order found.
        facts: What was counted and measured (JSON values).
        unlisted: By code, findings of which there were too many to list.
    """

    subject: str
    findings: tuple[Finding, ...]
    facts: Mapping[str, object]
    unlisted: Mapping[str, int] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether there is no error."""
        return not self.reaches("error")

    def reaches(self, level: Level) -> bool:
        """Whether a finding is as bad as ``level`` or worse."""
        return any(LEVELS.index(f.level) <= LEVELS.index(level) for f in self.findings)

    def count(self, level: Level) -> int:
        """How many findings are listed of a level."""
        return Counter(f.level for f in self.findings)[level]

    def to_json(self) -> dict[str, object]:
        """JSON values of the whole report."""
        return {
            "subject": self.subject,
            "ok": self.ok,
            "facts": dict(self.facts),
            "findings": [asdict(f) for f in self.findings],
            "unlisted": dict(self.unlisted),
        }


MOST_LISTED = 20
"""Findings listed of one code and level; of a thousand alike the first are enough, and the number."""


class Findings:
    """Takes findings as they come; of one kind only the first ``MOST_LISTED`` are kept, the rest counted."""

    def __init__(self) -> None:
        self._listed: list[Finding] = []
        self._seen: Counter[tuple[str, str]] = Counter()

    def add(self, level: Level, code: str, where: str, text: str) -> None:
        """Take one finding; white space in its text is made single."""
        kind = (level, code)
        self._seen[kind] += 1
        if self._seen[kind] <= MOST_LISTED:
            line = " ".join(text.split())
            self._listed.append(Finding(level=level, code=code, where=where, text=line))

    def extend(self, findings: Iterable[Finding]) -> None:
        """Take several."""
        for finding in findings:
            self.add(finding.level, finding.code, finding.where, finding.text)

    @property
    def listed(self) -> tuple[Finding, ...]:
        """Those kept, in the order they came."""
        return tuple(self._listed)

    @property
    def unlisted(self) -> dict[str, int]:
        """By code, how many were counted and not kept."""
        rest: Counter[str] = Counter()
        for (_, code), seen in self._seen.items():
            rest[code] += max(0, seen - MOST_LISTED)
        return {code: count for code, count in rest.items() if count}

    def since(self, start: int) -> tuple[Finding, ...]:
        """Those kept after the first ``start``."""
        return tuple(self._listed[start:])

    def __len__(self) -> int:
        return len(self._listed)
