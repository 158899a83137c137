"""Whether the stamps that arrive now fit the clock of the machine that they arrive at."""

from dataclasses import dataclass

from piper_collect.core.clock_faults import ClockPolicy

AHEAD_NS = 20_000_000
"""Clocks that are kept in step over a network differ by less."""

BEHIND_NS = 500_000_000
"""No camera's exposure, compression and transport take so long."""

UNSET = "not stamped (header.stamp is zero)"

_WINDOW_NS = 1_000_000_000
_LEAST_MESSAGES = 10
_NS_PER_MS = 1e6


@dataclass(slots=True, kw_only=True)
class LiveClock:
    """The clock that stamps one topic, by the least differences of the last one or two seconds.

    Whatever holds messages up only adds to the difference of receipt and stamp, so that neither a queue nor a
    process that stands still is taken for a clock.

    Attributes:
        policy: ``refuse`` where nothing may be recorded by a wrong clock.
    """

    policy: ClockPolicy = "flag"
    _window: int = -1
    _least_ns: int = 0
    _count: int = 0
    _before_ns: int | None = None
    _before_count: int = 0
    _unset: bool = False
    _flaws: dict[str, str] | None = None

    def begin_episode(self) -> None:
        """Start to note what is wrong during an episode."""
        self._flaws = {}

    def add(self, receive_ns: int, stamp_ns: int) -> None:
        """Take note of a message; ``stamp_ns`` is 0 where it is unset."""
        self._unset = stamp_ns == 0
        if self._unset:
            if self._flaws is not None:
                self._flaws["unset"] = UNSET
            return
        late_ns, window = receive_ns - stamp_ns, receive_ns // _WINDOW_NS
        if window != self._window:
            follows = window == self._window + 1
            self._before_ns = self._least_ns if follows else None
            self._before_count = self._count if follows else 0
            self._window, self._least_ns, self._count = window, late_ns, 0
        self._least_ns = min(self._least_ns, late_ns)
        self._count += 1
        if late_ns < -AHEAD_NS and self._flaws is not None:
            self._flaws["ahead"] = self._ahead_text(min(late_ns, self._least_ns))

    def _ahead_text(self, late_ns: int) -> str:
        return f"stamped {-late_ns / _NS_PER_MS:.0f} ms after its receipt: its clock runs ahead"

    @property
    def reason(self) -> str:
        """What is wrong now; empty where nothing is, or too little came to tell."""
        if self._unset:
            return UNSET
        least_ns = self._least_ns if self._before_ns is None else min(self._least_ns, self._before_ns)
        if self._count + self._before_count < _LEAST_MESSAGES:
            return ""
        if least_ns < -AHEAD_NS:
            return self._ahead_text(least_ns)
        if least_ns > BEHIND_NS:
            text = f"stamped {least_ns / _NS_PER_MS:.0f} ms before its receipt: a clock behind, or held up"
            if self._flaws is not None:
                self._flaws["behind"] = text
            return text
        return ""

    @property
    def refusal(self) -> str:
        """``reason`` where it keeps an episode from starting."""
        return self.reason if self.policy == "refuse" else ""

    @property
    def flaws(self) -> list[str]:
        """What was wrong in the running episode, where that makes it incomplete."""
        return list((self._flaws or {}).values()) if self.policy == "refuse" else []
