"""How regular a topic's stamps are, and how they stand to the times of receipt."""

from dataclasses import dataclass

import numpy as np

from piper_collect.core.source_clock import drift_ppm
from piper_collect.core.types import StampArray

_NS_PER_MS = 1e6
_NS_PER_S = 1e9
_JITTER_QUANTILE = 0.95
_LONG_STEPS = 1.5

CAMERA_RATE_SHARE = 0.1
"""A camera may be this share faster or slower than it is configured."""

SLOW_RATE_SHARE = 0.9
"""Numbers that come at less than this share of the dataset's rows a second repeat themselves."""

AHEAD_MS = 1.0
"""A stamp this much after its receipt is no matter of a clock's resolution."""

ANOTHER_CLOCK_MS = 500.0
"""Stamps this far from their receipt are another clock's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pacing:
    """The stamps of one topic in the order received.

    Attributes:
        count: Messages.
        rate_hz: One over the median step between stamps in order of time; None below two stamps.
        jitter_ms: 95 % of the steps lie this near to the median; None as well.
        longest_ms: The longest step; None as well.
        longest_at_ns: Stamp that it begins with.
        long_steps: Steps above 1.5 times the median.
        equal: Stamps equal to the one before.
        backwards: Stamps before one received earlier.
    """

    count: int
    rate_hz: float | None = None
    jitter_ms: float | None = None
    longest_ms: float | None = None
    longest_at_ns: int | None = None
    long_steps: int = 0
    equal: int = 0
    backwards: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockOffset:
    """Times of receipt less stamps: transport and the difference of the two clocks.

    Attributes:
        median_ms: Median of the differences.
        least_ms: The least one: what holds a message up on its way only ever adds.
        spread_ms: 95 % of them lie this near to the median.
        drift_ppm: How fast the stamps fall behind the times of receipt, in millionths (negative where
            they run ahead), by the least differences of many stretches of time; None where
            these cannot tell it from a delay that grew.
        ahead: Stamps more than 1 ms after their receipt.
        most_ahead_ms: How far the furthest of them lies.
    """

    median_ms: float
    least_ms: float
    spread_ms: float
    drift_ppm: float | None
    ahead: int
    most_ahead_ms: float


def pacing(stamp_ns: StampArray) -> Pacing:
    """Measure the steps of a topic's stamps.

    Args:
        stamp_ns: int64 [N] in the order received.
    """
    steps = np.diff(stamp_ns)
    seen = np.maximum.accumulate(stamp_ns)
    equal, backwards = int(np.count_nonzero(steps == 0)), int(np.count_nonzero(stamp_ns[1:] < seen[:-1]))
    ordered = np.unique(stamp_ns)
    if len(ordered) < 2:
        return Pacing(count=len(stamp_ns), equal=equal, backwards=backwards)
    gaps = np.diff(ordered)
    middle = float(np.median(gaps))
    worst = int(np.argmax(gaps))
    return Pacing(
        count=len(stamp_ns),
        rate_hz=_NS_PER_S / middle,
        jitter_ms=float(np.quantile(np.abs(gaps - middle), _JITTER_QUANTILE)) / _NS_PER_MS,
        longest_ms=float(gaps[worst]) / _NS_PER_MS,
        longest_at_ns=int(ordered[worst]),
        long_steps=int(np.count_nonzero(gaps > _LONG_STEPS * middle)),
        equal=equal,
        backwards=backwards,
    )


def clock_offset(receive_ns: StampArray, stamp_ns: StampArray) -> ClockOffset:
    """Compare stamps with times of receipt.

    Args:
        receive_ns: int64 [N], N > 0.
        stamp_ns: int64 [N] of the same messages.
    """
    late_ns = receive_ns - stamp_ns
    middle = np.median(late_ns)
    ahead = -late_ns[late_ns < -AHEAD_MS * _NS_PER_MS]
    return ClockOffset(
        median_ms=float(middle) / _NS_PER_MS,
        least_ms=float(late_ns.min()) / _NS_PER_MS,
        spread_ms=float(np.quantile(np.abs(late_ns - middle), _JITTER_QUANTILE)) / _NS_PER_MS,
        drift_ppm=drift_ppm(receive_ns, receive_ns, late_ns),
        ahead=len(ahead),
        most_ahead_ms=float(ahead.max()) / _NS_PER_MS if len(ahead) else 0.0,
    )
