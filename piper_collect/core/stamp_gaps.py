"""Samples that are missing from a stream, told by the stream itself: by its stamps, or by numbers in it.

DDS counts what was published and did not arrive. What was lost before that (a frame that the camera dropped,
a sample that never reached the host) or was never taken shows only here. Both counts stand beside each
other, and neither is part of the other.

A step from one stamp to the next counts as missing samples only where all of this holds:

- the steps around it (up to 20 on each side, 10 at least) are regular: two of three lie within a quarter of
  their median, and so of the period; of a camera the period is never taken for less than its nominal one;
- it is at least 1.75 periods long, and 1 s at most: what is longer is silence, which is told as such;
- what came late is not made up for, neither by the next five samples nor by all that are around it;
- no message near it has no stamp of its own (none, or one that came before): what has a wrong stamp is there;
- no clock was set in it: neither this machine's, nor, as the times of receipt show, that of the source.

So jitter, bursts, a rate that changes and a stream that has no rate count as nothing. All that can be wrong
about the count is that it is too small.
"""

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from piper_collect.core.host_clock import HostStep
from piper_collect.core.types import BoolArray, FloatArray, StampArray

_AROUND = 20
_LEAST_AROUND = 10
_NEAR = 0.25
_REGULAR_SHARE = 2 / 3
_LEAST_PERIODS = 1.75
_ROUNDED_UP = 0.25
_AT_ONCE = 5
_SILENCE_NS = 1_000_000_000
_FOLD = 256
"""Stamps that are looked at in one go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GapCount:
    """Of some steps between stamps: how many, how many of them are alike, and samples missing."""

    steps: int = 0
    regular: int = 0
    gaps: int = 0

    def __add__(self, other: "GapCount") -> "GapCount":
        """Both together."""
        return GapCount(
            steps=self.steps + other.steps,
            regular=self.regular + other.regular,
            gaps=self.gaps + other.gaps,
        )

    @property
    def missing(self) -> int | None:
        """Samples missing; None where most steps are not alike, or there are too few."""
        return self.gaps if self.steps >= _LEAST_AROUND and 2 * self.regular > self.steps else None


@dataclass(slots=True, kw_only=True)
class StampGaps:
    """Counts missing samples of one topic while its messages arrive; memory does not grow with the episode.

    Attributes:
        nominal_ns: Least period; 0 where no rate is configured.
    """

    nominal_ns: int = 0
    _stamps: "array[int]" = field(default_factory=lambda: array("q"))
    _receipts: "array[int]" = field(default_factory=lambda: array("q"))
    _spares: "array[int]" = field(default_factory=lambda: array("q"))
    _steps: list[HostStep] = field(default_factory=list)
    _judged: int = 0
    _sum: GapCount = GapCount()

    def begin_episode(self) -> None:
        """Count from zero."""
        del self._stamps[:], self._receipts[:], self._spares[:]
        self._steps.clear()
        self._judged, self._sum = 0, GapCount()

    def add(self, receive_ns: int, stamp_ns: int) -> None:
        """Take note of a message; ``stamp_ns`` is 0 where it is unset."""
        if stamp_ns and self._stamps and self._stamps[-1] - stamp_ns > _SILENCE_NS:
            self._cut()  # its clock was set back
        at = len(self._stamps)
        if at and stamp_ns <= self._stamps[-1]:
            at = bisect_left(self._stamps, stamp_ns)
            if at <= self._judged or self._stamps[at] == stamp_ns:
                self._spares[-1] += 1
                return
        elif not stamp_ns:
            return
        self._stamps.insert(at, stamp_ns)
        self._receipts.insert(at, receive_ns)
        self._spares.insert(at, 0)
        if len(self._stamps) >= _FOLD + 3 * _AROUND:
            self._fold()

    def note_step(self, step: HostStep) -> None:
        """This machine's clock was set: what lies over it is no gap."""
        self._steps.append(step)

    @property
    def missing(self) -> int | None:
        """Samples missing in the episode so far; None where the stream has no rate, or is too short."""
        return (self._sum + self._count(self._judged, len(self._stamps) - 1)).missing

    def _fold(self) -> None:
        """Judge what has all of its neighbours, and forget what is no neighbour of what comes."""
        upto = len(self._stamps) - 1 - _AROUND
        self._sum += self._count(self._judged, upto)
        drop = upto - _AROUND
        del self._stamps[:drop], self._receipts[:drop], self._spares[:drop]
        self._judged = upto - drop

    def _cut(self) -> None:
        self._sum += self._count(self._judged, len(self._stamps) - 1)
        del self._stamps[:], self._receipts[:], self._spares[:]
        self._judged = 0

    def _count(self, first: int, last: int) -> GapCount:
        stamps, receipts = (np.array(times, np.int64) for times in (self._stamps, self._receipts))
        steps = np.diff(stamps).astype(np.float64)
        mine = steps[first:last]
        if not len(mine):
            return GapCount()
        regular = int(np.count_nonzero(_near(mine, float(np.median(steps)))))
        low = max(float(np.quantile(steps, 0.25)), self.nominal_ns)
        long = first + np.flatnonzero((mine >= _LEAST_PERIODS * (1 - _NEAR) * low) & (mine <= _SILENCE_NS))
        stream = _Stream(steps, receipts - stamps, np.array(self._spares, np.int64), self.nominal_ns)
        gaps = sum(
            stream.missing_in(int(at))
            for at in long
            if not any(_was_set(step, int(stamps[at]), int(stamps[at + 1])) for step in self._steps)
        )
        return GapCount(steps=len(mine), regular=regular, gaps=gaps)


@dataclass(slots=True, kw_only=True)
class NumberGaps:
    """Counts what is missing by numbers in the messages, which go up by one from sample to sample."""

    lost: int | None = None
    _newest: int = -1

    def begin_episode(self) -> None:
        """Count from zero."""
        self.lost, self._newest = None, -1

    def add(self, number: int) -> None:
        """Take note of a message; a number that is not higher begins a new count."""
        if self._newest >= 0:
            self.lost = (self.lost or 0) + max(0, number - self._newest - 1)
        self._newest = number


def missing_by_stamps(
    stamp_ns: StampArray, receive_ns: StampArray, *, nominal_ns: int = 0, steps: Sequence[HostStep] = ()
) -> int | None:
    """Samples missing from a recorded stream; the same as ``StampGaps`` of its messages one by one.

    Args:
        stamp_ns: int64 [N] in the order received, 0 where unset.
        receive_ns: int64 [N] times of receipt.
        nominal_ns: Least period; 0 where no rate is configured.
        steps: How the clock of the times of receipt was set meanwhile.

    Returns:
        How many; None where the stream has no rate, or is too short to tell.
    """
    gaps = StampGaps(nominal_ns=nominal_ns)
    for step in steps:
        gaps.note_step(step)
    for received, stamp in zip(receive_ns.tolist(), stamp_ns.tolist(), strict=True):
        gaps.add(received, stamp)
    return gaps.missing


@dataclass(frozen=True, slots=True)
class _Stream:
    """Some messages in order of their stamps.

    Attributes:
        steps: float64 [N] from each stamp to the next, ns.
        late_ns: int64 [N + 1] receipt minus stamp.
        spares: int64 [N + 1] messages without a stamp of their own that arrived after each.
        nominal_ns: Least period.
    """

    steps: FloatArray
    late_ns: StampArray
    spares: StampArray
    nominal_ns: int

    def missing_in(self, at: int) -> int:
        """Samples missing in one step."""
        begin, end = max(0, at - _AROUND), at + 1 + _AROUND
        around = np.concatenate([self.steps[begin:at], self.steps[at + 1 : end]])
        if len(around) < _LEAST_AROUND:
            return 0
        near = around[_near(around, float(np.median(around)))]
        if len(near) < _REGULAR_SHARE * len(around):
            return 0
        period = max(float(near.mean()), self.nominal_ns)
        if self.steps[at] < _LEAST_PERIODS * period:
            return 0
        before, after = self.late_ns[begin : at + 1], self.late_ns[at + 1 : end + 1]
        if int(after.min()) < int(before.min()) - period / 2:
            return 0  # the clock that stamps them was set
        left_over = _left_over(self.steps[begin:end] / period - 1.0, at - begin)
        usual = int(np.median(self.spares[begin:end]))
        spare = self.spares[max(0, at - _AT_ONCE) : at + 1 + _AT_ONCE] - usual
        return max(0, int(left_over + _ROUNDED_UP) - int(spare[spare > 0].sum()))


def _left_over(excess: FloatArray, at: int) -> float:
    """Periods by which one step is too long, of which nothing is made up for: not at once, not bit by bit.

    Args:
        excess: float64 [N] by how many periods each step is longer than one.
        at: Which.
    """
    before = np.cumsum(excess[max(0, at - _AT_ONCE) : at][::-1])
    after = np.cumsum(excess[at + 1 : at + 1 + _AT_ONCE])
    at_once = excess[at] + min(0.0, before.min(initial=0.0)) + min(0.0, after.min(initial=0.0))
    return float(min(at_once, excess.sum()))


def _near(steps: FloatArray, middle: float) -> BoolArray:
    near: BoolArray = np.abs(steps - middle) <= _NEAR * middle
    return near


def _was_set(step: HostStep, begin_ns: int, end_ns: int) -> bool:
    return step.step_ns > 0 and begin_ns <= step.old_until_ns and end_ns >= step.new_from_ns
