"""What was looked at before a session, one check a line, and the verdict on all of it."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Literal

CheckLevel = Literal["ok", "warn", "FAIL", "not known"]

CHECK_LEVELS: tuple[CheckLevel, ...] = ("ok", "warn", "FAIL", "not known")


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at.

    Attributes:
        level: ``FAIL`` when no episode would start, it would not be exported, or it would be wrong;
            ``warn`` when it is worth a look; ``not known`` when it cannot be told from here.
        group: Heading that it stands under.
        where: Topic, file, interface or setting.
        what: What was looked at, in a word or two; empty where the place says it.
        found: How it is.
        expected: How it should be; empty where that goes without saying.
        hint: What to do; empty where there is nothing to do.
    """

    level: CheckLevel
    group: str
    where: str
    what: str
    found: str
    expected: str = ""
    hint: str = ""

    def line(self) -> str:
        """The check in one line, without its level."""
        told = ": ".join(part for part in (self.where, self.what, self.found) if part)
        told += f" (expected {self.expected})" if self.expected else ""
        told += f" -> {self.hint}" if self.hint else ""
        return " ".join(told.split())


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkup:
    """All checks before one session.

    Attributes:
        subject: The configuration.
        checks: In the order to show them; those of a group together.
    """

    subject: str
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing fails."""
        return not self.count("FAIL")

    def count(self, level: CheckLevel) -> int:
        """How many checks have a level."""
        return sum(check.level == level for check in self.checks)

    @property
    def verdict(self) -> str:
        """One line on the whole."""
        counts = [f"{self.count(level)} {level}" for level in ("FAIL", "warn", "not known")]
        told = ", ".join(text for text in counts if not text.startswith("0 "))
        if not self.ok:
            return f"not ready: {told}"
        return f"ready: {told}" if told else "ready"

    def to_json(self) -> dict[str, object]:
        """JSON values of all of it."""
        return {
            "subject": self.subject,
            "ok": self.ok,
            "verdict": self.verdict,
            "checks": [asdict(check) for check in self.checks],
        }


def grouped(checks: Sequence[Check]) -> Iterator[tuple[str, list[tuple[CheckLevel, str]]]]:
    """The lines of each group under its heading, with their levels.

    Checks in a row that are ok, of one place, share a line.
    """
    for group, members in groupby(checks, key=lambda check: check.group):
        lines: list[tuple[CheckLevel, str]] = []
        for (level, where), alike in groupby(members, key=lambda check: (check.level, check.where)):
            found = list(alike)
            if level == "ok" and len(found) > 1:
                lines.append((level, f"{where}: " + "; ".join(_brief(check) for check in found)))
            else:
                lines += [(level, check.line()) for check in found]
        yield group, lines


def _brief(check: Check) -> str:
    return f"{check.what} {check.found}".strip()
