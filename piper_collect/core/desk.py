"""What the person at the desk sees of a session: topics judged, episodes, and how long the disk lasts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from piper_collect.core.session_status import SessionView

Verdict: TypeAlias = Literal["good", "idle", "warning", "bad"]

RATE_TOLERANCE = 0.1
"""How far from the expected rate, as a part of it, a topic may be."""

LATE_S = 1.0
AHEAD_S = 0.05
"""A stamp this much older or newer than its arrival comes from another clock, or from far behind."""

_LAST_EPISODES = 3
_LEAST_S = 3.0  # a shorter recording says little about how fast the disk fills


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicReport:
    """What the recorder said of a topic; fields as in the TopicStatus message."""

    name: str
    required: bool
    rate_hz: float
    age_s: float
    lost: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRow:
    """A topic as it is shown.

    Attributes:
        name: Of the topic.
        required: Whether an episode needs it.
        rate_hz: Messages a second over the last two seconds.
        expected_hz: What it should be; None where that is not known.
        age_s: Age of the newest message when the recorder said so; None for none.
        lost: Messages of the running episode that did not arrive.
        verdict: ``idle`` is silent and need not send.
        reason: Why it is not good; empty when it is.
    """

    name: str
    required: bool
    rate_hz: float
    expected_hz: float | None
    age_s: float | None
    lost: int
    verdict: Verdict
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeRow:
    """A saved episode as it is shown.

    Attributes:
        number: Its number in the session.
        seconds: From the start call to the stop call.
        outcome: ``success`` or ``interrupted``.
        lost: Messages lost, of all topics.
        flaws: Why it is not complete; empty when it is.
        size_bytes: On the disk.
    """

    number: int
    seconds: float
    outcome: str
    lost: int
    flaws: tuple[str, ...]
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeskView:
    """All that the page shows but for the pictures.

    Attributes:
        session: The state of the session, as in the headset.
        name: Name of the session's folder; empty before the first episode.
        topics: As the recorder has them; None while it is not heard.
        episodes: Saved ones, in order.
        bytes_free: Free disk where the session is written; None while the recorder is not heard.
        bytes_a_second: How fast the disk fills while an episode runs; None where nothing tells.
        minutes_left: How long one could record on; None where nothing tells.
    """

    session: SessionView
    name: str = ""
    topics: tuple[TopicRow, ...] | None = None
    episodes: tuple[EpisodeRow, ...] = ()
    bytes_free: int | None = None
    bytes_a_second: float | None = None
    minutes_left: float | None = None


def topic_row(report: TopicReport, expected_hz: float | None) -> TopicRow:
    """Judge a topic.

    Args:
        report: What the recorder says of it.
        expected_hz: At what rate it should come; None where that is not known.
    """
    reasons = [report.reason] if report.reason else []
    grave = bool(reasons) and report.required
    if report.lost:
        reasons.append(f"{report.lost} message{'s' if report.lost > 1 else ''} of this episode lost")
        grave = grave or report.required
    if report.rate_hz > 0 and not report.reason:
        reasons += _pace(report, expected_hz)
    silent = report.rate_hz <= 0 and not reasons
    verdict: Verdict = "bad" if grave else "warning" if reasons else "idle" if silent else "good"
    return TopicRow(
        name=report.name,
        required=report.required,
        rate_hz=report.rate_hz,
        expected_hz=expected_hz,
        age_s=None if report.age_s == -1.0 else report.age_s,
        lost=report.lost,
        verdict=verdict,
        reason="; ".join(reasons),
    )


def _pace(report: TopicReport, expected_hz: float | None) -> list[str]:
    found = []
    if expected_hz is not None and abs(report.rate_hz / expected_hz - 1.0) > RATE_TOLERANCE:
        found.append(f"{report.rate_hz:.1f} Hz where {expected_hz:g} are expected")
    if report.age_s > LATE_S:
        found.append(f"the newest is stamped {report.age_s:.1f} s ago")
    elif report.age_s < -AHEAD_S and report.age_s != -1.0:
        found.append(f"stamped {-report.age_s:.2f} s ahead of this computer's clock")
    return found


def fill_rate(saved: Sequence[EpisodeRow], running_s: float, running_bytes: int) -> float | None:
    """How many bytes a second an episode takes: by the last ones saved, else by the running one.

    Args:
        saved: In order.
        running_s: Length of the running episode so far; 0 between episodes.
        running_bytes: What it has on the disk.
    """
    known = [(row.seconds, row.size_bytes) for row in saved if row.seconds >= _LEAST_S][-_LAST_EPISODES:]
    if not known and running_s >= _LEAST_S:
        known = [(running_s, running_bytes)]
    seconds, size = sum(s for s, _ in known), sum(b for _, b in known)
    return size / seconds if seconds > 0 and size > 0 else None


def minutes_left(bytes_free: int, kept_free: float, bytes_a_second: float | None) -> float | None:
    """How long one can record until no episode may start any more.

    Args:
        bytes_free: Free disk.
        kept_free: Bytes below which no episode starts.
        bytes_a_second: As ``fill_rate`` gives it.
    """
    if bytes_a_second is None:
        return None
    return max(0.0, bytes_free - kept_free) / bytes_a_second / 60.0
