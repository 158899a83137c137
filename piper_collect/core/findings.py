"""What a check found: findings, and the report that holds them."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal

Level = Literal["error", "warning"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is not as it should be.

    Attributes:
        level: ``error`` when a trainer would be misled or stopped, ``warning`` when it is worth a look.
        code: Short name of the kind, for filters.
        where: File, episode or column.
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
    """The findings on one dataset.

    Attributes:
        subject: What was looked at.
        findings: In the order found.
        facts: What the check counted (JSON values).
    """

    subject: str
    findings: tuple[Finding, ...]
    facts: Mapping[str, object]

    @property
    def ok(self) -> bool:
        """Whether there is no error."""
        return not any(f.level == "error" for f in self.findings)

    def to_json(self) -> dict[str, object]:
        """JSON values of the whole report."""
        return {
            "subject": self.subject,
            "ok": self.ok,
            "facts": dict(self.facts),
            "findings": [asdict(f) for f in self.findings],
        }
