"""Steps of this machine's clock: noticed against a clock that nobody sets, and taken back.

Receive times, the stamps of nodes on this machine, and the times of the start and the stop all come from one
clock. When it is set (by NTP, by a person) they jump together, so that nothing in a bag shows it.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from piper_collect.core.clock_faults import ClockPolicy
from piper_collect.core.types import BoolArray, StampArray

LEAST_STEP_NS = 5_000_000
"""A smaller difference is no step that a row would show."""

_SLEW = 1e-3
"""A clock that is slewed runs at most 500 ppm off its rate (adjtimex)."""

_MOST_BRACKET_NS = 1_000_000
_READINGS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class HostStep:
    """The clock was set once, between two looks at it.

    Attributes:
        old_until_ns: The latest that it can have shown before.
        new_from_ns: The earliest that it can have shown after.
        step_ns: By how much it was set; negative backwards.
    """

    old_until_ns: int
    new_from_ns: int
    step_ns: int

    def to_json(self) -> dict[str, int]:
        """As ``episode.json`` has it."""
        return asdict(self)


class HostClock:
    """Notices steps of the wall clock between one look and the next.

    Attributes:
        steps: Those since ``begin``.

    Args:
        wall_ns: Reads the clock that may be set.
        steady_ns: Reads one that is not.
    """

    def __init__(self, wall_ns: Callable[[], int], steady_ns: Callable[[], int]) -> None:
        self._wall_ns = wall_ns
        self._steady_ns = steady_ns
        self.steps: list[HostStep] = []
        self._last = self._read()
        self._read_last = self._last is not None

    def begin(self) -> None:
        """Forget the steps so far."""
        self.look()
        self.steps = []

    def look(self) -> HostStep | None:
        """The step since the last look, if there was one."""
        now, last = self._read(), self._last
        self._read_last = now is not None
        if now is None:
            return None
        self._last = now
        if last is None:
            return None
        elapsed_ns = now[1] - last[1]
        step_ns = now[0] - last[0] - elapsed_ns
        if abs(step_ns) < LEAST_STEP_NS + _SLEW * elapsed_ns:
            return None
        step = HostStep(old_until_ns=last[0] + elapsed_ns, new_from_ns=last[0] + step_ns, step_ns=step_ns)
        self.steps.append(step)
        return step

    @property
    def reading(self) -> tuple[int, int]:
        """What the clock showed at the last look, and the one that nobody sets at that moment."""
        known = self._last if self._read_last else None
        return known or (self._wall_ns(), self._steady_ns())

    def flaws(self, policy: ClockPolicy) -> list[str]:
        """Why what was recorded since ``begin``, up to now, is not whole."""
        self.look()
        return [told_steps(self.steps)] if self.steps and policy == "refuse" else []

    def _read(self) -> tuple[int, int] | None:
        """Both clocks at one moment; None where the process did not run on between them."""
        for _ in range(_READINGS):
            before_ns = self._steady_ns()
            wall_ns = self._wall_ns()
            after_ns = self._steady_ns()
            if after_ns - before_ns <= _MOST_BRACKET_NS:
                return wall_ns, before_ns
        return None


def steady(times_ns: StampArray, steps: Sequence[HostStep]) -> tuple[StampArray, BoolArray]:
    """Times of the clock as it would have shown them had nobody set it after the first of them.

    Args:
        times_ns: int64 [N] that the clock showed, in any order.
        steps: In order.

    Returns:
        The times, and bool [N], True where a time is sure: what a clock that was set back shows twice is not.
    """
    lows = [None, *(step.new_from_ns for step in steps)]
    highs = [*(step.old_until_ns for step in steps), None]
    sums = np.cumsum([0, *(step.step_ns for step in steps)], dtype=np.int64)
    inside = np.stack(
        [
            (np.ones(len(times_ns), np.bool_) if low is None else times_ns >= low)
            & (True if high is None else times_ns <= high)
            for low, high in zip(lows, highs, strict=True)
        ]
    )
    return times_ns - sums[np.argmax(inside, axis=0)], inside.sum(axis=0) == 1


def follows_host(receive_ns: StampArray, stamp_ns: StampArray, steps: Sequence[HostStep]) -> bool:
    """Whether the stamps come from the clock that was set: they kept their distance to the times of receipt.

    Args:
        receive_ns: int64 [N].
        stamp_ns: int64 [N] of the same messages.
        steps: In order.
    """
    late_ns = receive_ns - stamp_ns
    votes = 0
    for step in steps:
        old = late_ns[receive_ns < min(step.new_from_ns, step.old_until_ns)]
        new = late_ns[receive_ns > max(step.new_from_ns, step.old_until_ns)]
        if len(old) and len(new):
            moved_ns = abs(int(new.min()) - int(old.min()))
            votes += 1 if moved_ns < abs(step.step_ns) / 2 else -1
    return votes >= 0


def told_steps(steps: Sequence[HostStep]) -> str:
    """The steps in one line."""
    sizes = ", ".join(f"{step.step_ns / 1e9:+.3f} s" for step in steps)
    return f"this machine's clock was set ({sizes})"
