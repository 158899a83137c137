"""What is wrong with the stamps of a topic: unset, out of order, or of another clock than this machine's."""

from collections.abc import Iterator

import numpy as np

from piper_collect.core.checkup import Check, CheckLevel
from piper_collect.core.pacing import AHEAD_MS, ANOTHER_CLOCK_MS, ClockOffset, pacing
from piper_collect.core.topic_look import TopicLook, TopicWish, topic_check

FAR_AHEAD_MS = 20.0
"""No two clocks that are kept in step over a network differ so much."""

LATE_MS = 100.0
"""Exposure, transfer and transport of a picture together take less."""

DAY_MS = 86_400_000.0
_CLOCK_HINT = (
    "put the source's machine on the same clock (chrony or PTP); the driver must stamp with the system's time"
)


def stamp_checks(wish: TopicWish, look: TopicLook) -> Iterator[Check]:
    """Judge the stamps of a topic that had messages."""
    if look.stamp_ns is None:
        if not wish.bare:
            yield _none(wish)
        return
    unset = int(np.count_nonzero(look.stamp_ns <= 0))
    if unset:
        yield _unset(wish, unset, len(look.stamp_ns))
    offset = look.offset
    if offset is None:
        return
    flaws = [*_order_checks(wish, look), *_offset_checks(wish, offset), *_gap_checks(wish, look)]
    yield from flaws
    if not flaws and not unset:
        yield topic_check(wish, "ok", "stamps", f"{max(offset.least_ms, 0.0):.1f} ms old")


def _none(wish: TopicWish) -> Check:
    if wish.max_age_ms is None:
        return topic_check(wish, "ok", "stamps", "none, and none needed")
    return topic_check(
        wish,
        "warn",
        "stamps",
        "the type has none: it would be aligned by its time of receipt",
        expected="a message with a header",
        hint="take the driver's stamped topic where it has one",
    )


def _unset(wish: TopicWish, unset: int, count: int) -> Check:
    told = "would be aligned by their times of receipt" if unset == count else "would be left out"
    level: CheckLevel = "FAIL" if unset == count and wish.required else "warn"
    return topic_check(
        wish,
        level,
        "stamps",
        f"{unset} of {count} are zero: these messages {told}",
        expected="the time of capture",
        hint="have the driver fill header.stamp (piper_ros does so from the arm's first CAN frame on)",
    )


def _order_checks(wish: TopicWish, look: TopicLook) -> Iterator[Check]:
    stamps = look.set_stamps
    steps = pacing(stamps)
    if steps.backwards:
        found = f"{steps.backwards} of {len(stamps)} lie before one received earlier: these would be left out"
        hint = "see that one node alone publishes it, and that its clock is not set back"
        yield topic_check(
            wish, "warn", "order of stamps", found, expected="each after the one before", hint=hint
        )
    if steps.equal and not wish.repeats:
        found = f"{steps.equal} of {len(stamps)} equal the one before: of equal ones the first is kept"
        hint = (
            "the driver publishes faster than it measures: lower its rate, or leave it if the rest is enough"
        )
        yield topic_check(
            wish, "warn", "equal stamps", found, expected="each after the one before", hint=hint
        )


def _offset_checks(wish: TopicWish, offset: ClockOffset) -> Iterator[Check]:
    least_ms = offset.least_ms
    if abs(offset.median_ms) > DAY_MS:
        found = f"{abs(offset.median_ms) / DAY_MS:.0f} days from this machine's time: another epoch"
        hint = "no simulation time (use_sim_time, ros2 bag play --clock): have the driver stamp in wall time"
        yield topic_check(wish, "FAIL", "clock", found, expected="this machine's time", hint=hint)
    elif least_ms < -AHEAD_MS:
        level: CheckLevel = "FAIL" if least_ms < -FAR_AHEAD_MS else "warn"
        found = f"stamps lie up to {-least_ms:.0f} ms after their receipt: its clock runs ahead"
        yield topic_check(
            wish, level, "clock", found, expected="stamps before their receipt", hint=_CLOCK_HINT
        )
    elif least_ms > LATE_MS and wish.max_age_ms is not None:  # else it may be one old, latched message
        level = "FAIL" if least_ms > ANOTHER_CLOCK_MS else "warn"
        found = f"stamps lie at least {least_ms:.0f} ms before their receipt: a clock behind, or held up"
        yield topic_check(wish, level, "clock", found, expected=f"less than {LATE_MS:g} ms", hint=_CLOCK_HINT)


def _gap_checks(wish: TopicWish, look: TopicLook) -> Iterator[Check]:
    steps = pacing(look.set_stamps)
    if wish.max_age_ms is None or steps.longest_ms is None or steps.rate_hz is None:
        return
    # a source that is slow altogether is told by its rate
    if steps.longest_ms > wish.max_age_ms >= 1e3 / steps.rate_hz:
        found = f"up to {steps.longest_ms:.0f} ms from one stamp to the next: rows there would be dropped"
        hint = "see that nothing else loads the driver's machine or its USB port"
        yield topic_check(
            wish, "warn", "gap", found, expected=f"{wish.max_age_ms:g} ms at most (max_age_ms)", hint=hint
        )
