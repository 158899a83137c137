"""What each real consumer would do with the dataset, said by its name."""

from collections.abc import Mapping

from piper_collect.core.consumers import (
    CONSUMERS,
    GROOT_N15,
    GROOT_N15_DECORD,
    GROOT_N16,
    GROOT_N17,
    LEROBOT_PYAV,
    LEROBOT_TORCHCODEC,
    LEROBOT_V3,
    TimingTally,
)
from piper_collect.core.findings import Findings, Level
from piper_collect.core.survey import ConsumerOutlook
from piper_collect.pipelines.validation.json_values import as_object, original_key
from piper_collect.pipelines.validation.metadata import Metadata

GROOT = (GROOT_N15, GROOT_N15_DECORD, GROOT_N16, GROOT_N17)
_TOLERANT = (LEROBOT_PYAV, LEROBOT_TORCHCODEC)


def openers(meta: Metadata, key: str) -> tuple[str, ...]:
    """The consumers that open the videos of ``key``: GR00T only those that modality.json names."""
    entries = as_object(as_object(meta.modality).get("video"))
    named = {original_key(e, f"observation.images.{n}") for n, e in entries.items()}
    return tuple(name for name in CONSUMERS if name not in GROOT or key in named)


def predict(
    meta: Metadata,
    tally: TimingTally,
    demands: Mapping[str, tuple[str, ...]],
    notes: Mapping[str, str],
    findings: Findings,
) -> tuple[ConsumerOutlook, ...]:
    """The outlook of every consumer, each as a finding.

    A refusal is a warning where the dataset could please that consumer: its rows lie at k/fps. One with
    true capture times pleases few by its nature, so there it is information, and so is what follows from
    the version or from a missing modality.json. It is an error when nobody at all can load the dataset.
    """
    outlooks = []
    for name in CONSUMERS:
        outlook = tally.outlook(name, demands, _note(name, tally, demands, notes))
        outlooks.append(outlook)
        findings.add(_level(meta, tally, outlook), "consumer", name, _text(outlook))
    loads = any(outlook.loads for outlook in outlooks)
    tolerable = any(needed_tolerance_s(name, tally, demands) is not None for name in _TOLERANT)
    if meta.episodes.offsets and not loads and not tolerable:
        text = "no consumer can load the dataset, at any tolerance"
        findings.add("error", "no-consumer", "all consumers", text)
    return tuple(outlooks)


def _note(
    name: str, tally: TimingTally, demands: Mapping[str, tuple[str, ...]], notes: Mapping[str, str]
) -> str:
    """What it needs and what it does besides; of a GR00T that refuses there is nothing to say."""
    refuses = bool(demands.get(name) or tally.reasons(name))
    besides = "" if refuses and name in GROOT else notes.get(name, "")
    return "; ".join(text for text in (_tolerance(name, tally, demands), besides) if text)


def needed_tolerance_s(name: str, tally: TimingTally, demands: Mapping[str, tuple[str, ...]]) -> float | None:
    """The ``tolerance_s`` above which LeRobot 0.3.x would load; None where none helps."""
    return None if demands.get(name) else tally.needed_tolerance_s(name)


def _tolerance(name: str, tally: TimingTally, demands: Mapping[str, tuple[str, ...]]) -> str:
    if name not in _TOLERANT or not tally.reasons(name):
        return ""
    needed = needed_tolerance_s(name, tally, demands)
    return f"it would load with tolerance_s above {needed:.6f}" if needed is not None else ""


def _level(meta: Metadata, tally: TimingTally, outlook: ConsumerOutlook) -> Level:
    if outlook.loads and not outlook.wrong_rows:
        return "info"
    by_nature = (
        tally.late_steps > 0
        or (outlook.consumer == LEROBOT_V3 and meta.version != "v2.1")
        or (outlook.consumer in GROOT and meta.modality is None)
    )
    return "info" if by_nature else "warning"


def _text(outlook: ConsumerOutlook) -> str:
    note = f" ({outlook.note})" if outlook.note else ""
    if not outlook.loads:
        return f"refuses it: {outlook.reason}{note}"
    text = "loads it"
    if outlook.worst_ms:
        text += f"; a row and its frame are at most {outlook.worst_ms:.2f} ms apart"
    if outlook.wrong_rows:
        text += f"; {outlook.wrong_rows} rows get another frame than the newest one not after them, silently"
    return text + note
