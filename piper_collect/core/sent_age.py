"""How long ago something was stamped on this machine, whose clock may be set meanwhile.

Who sends and who receives stamp by one clock, that of the machine. When it is set, what is under way bears
a stamp of the clock as it was: it would look old, or seem to come from the future. Such a stamp is read by
the clock that it can have come from; after its receipt a command ages by a clock that nobody sets.
"""

from collections.abc import Callable, Sequence

from piper_collect.core.host_clock import HostClock, HostStep

TOO_OLD = "it was stamped too long ago"
AHEAD = "it was stamped ahead of this machine's clock: nobody can tell how old it is"

_KEPT = 4
"""Steps that are remembered at most."""

_UNDER_WAY_NS = 10_000_000_000
"""What was stamped before a step has come, or is too old for anything, when that lies so far back."""


class SentAge:
    """Reads the stamps of commands, and of other samples of now, as they arrive.

    Args:
        wall_ns: Reads the clock that stamps them.
        steady_ns: Reads one that nobody sets.
    """

    def __init__(self, wall_ns: Callable[[], int], steady_ns: Callable[[], int]) -> None:
        self._host = HostClock(wall_ns, steady_ns)
        self._stepped_ns = 0

    def look(self) -> HostStep | None:
        """See whether the clock was set since the last look; to be called at least once a control period."""
        step, steps = self._host.look(), self._host.steps
        now_ns = self._host.reading[1]
        if step is not None:
            self._stepped_ns = now_ns
        elif steps and now_ns - self._stepped_ns > _UNDER_WAY_NS:
            steps.clear()
        del steps[:-_KEPT]
        return step

    def age_ns(self, stamp_ns: int, now_ns: int) -> int:
        """Age of a command that has just arrived; negative where it was stamped ahead, 0 where not at all."""
        self.look()
        return sent_age_ns(stamp_ns, now_ns, self._host.steps) if stamp_ns else 0

    def steady_ns(self, stamp_ns: int) -> int:
        """When something that has just arrived was stamped, by the clock that nobody sets; 0 stays 0."""
        self.look()
        wall_ns, steady_ns = self._host.reading
        return steady_ns - sent_age_ns(stamp_ns, wall_ns, self._host.steps) if stamp_ns else 0


def sent_age_ns(stamp_ns: int, now_ns: int, steps: Sequence[HostStep]) -> int:
    """Time since a stamp was taken from a clock that was set in between; negative where it lies ahead.

    A stamp that the clock can have shown since it was last set is taken for that; else it is one of before.

    Args:
        stamp_ns: The stamp.
        now_ns: What the clock shows now.
        steps: How it was set, in order.
    """
    shift_ns, until_ns = 0, now_ns
    for step in reversed(steps):
        if step.new_from_ns <= stamp_ns <= until_ns:
            break
        shift_ns, until_ns = shift_ns + step.step_ns, step.old_until_ns
    return now_ns - stamp_ns - (shift_ns if stamp_ns <= until_ns else 0)


def age_refusal(age_ns: int, watchdog_s: float) -> str:
    """Why a command of that age is not followed; empty where it is."""
    if age_ns > watchdog_s * 1e9:
        return TOO_OLD
    return AHEAD if age_ns < -watchdog_s * 1e9 else ""
