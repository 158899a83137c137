"""Counts and measures of a bag as JSON values."""

from datetime import UTC, datetime
from typing import Any

from piper_collect.bag.reader import BagReader
from piper_collect.bag.survey import TopicSurvey
from piper_collect.pipelines.bag_findings import Timing


def storage_facts(bag: BagReader) -> dict[str, Any]:
    """Files, messages and the time they span."""
    span_ns = bag.end_ns - bag.start_ns if bag.start_ns is not None and bag.end_ns is not None else 0
    return {
        "storage": bag.storage_id,
        "files": len(bag.storage_paths),
        "bytes": sum(file.stat().st_size for file in bag.storage_paths),
        "messages": sum(info.message_count for info in bag.topics.values()),
        "seconds": round(span_ns / 1e9, 3),
        "start": _utc(bag.start_ns),
        "whole": not bag.incomplete,
    }


def topic_facts(survey: TopicSurvey, timing: Timing | None) -> dict[str, Any]:
    """Type, messages, rate and clock of a topic."""
    facts: dict[str, Any] = {"type": survey.type, "messages": survey.count}
    if timing is None:
        return facts
    stamps, offset = timing.stamps, timing.offset
    return facts | {
        "clock": survey.clock.source,
        "rate_hz": _rounded(stamps.rate_hz, 2),
        "jitter_ms": _rounded(stamps.jitter_ms, 3),
        "missing_by_stamps": timing.missing,
        "longest_gap_ms": _rounded(stamps.longest_ms, 3),
        "offset_ms": _rounded(offset.median_ms if offset else None, 3),
        "drift_ppm": _rounded(offset.drift_ppm if offset else None, 1),
    }


def image_facts(survey: TopicSurvey) -> dict[str, Any]:
    """Encodings and sizes of an image topic; empty for others."""
    images = survey.images
    if images is None:
        return {}
    return {
        "encodings": ", ".join(images.encodings),
        "sizes": ", ".join(f"{w}×{h}" for h, w in images.sizes),
        "unusable": images.unusable.count,
        "decoded": len(images.samples) or images.depths,
    }


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


def _utc(stamp_ns: int | None) -> str | None:
    if stamp_ns is None:
        return None
    try:
        return datetime.fromtimestamp(stamp_ns // 10**9, UTC).isoformat()
    except (OverflowError, ValueError, OSError):
        return f"{stamp_ns} ns"
