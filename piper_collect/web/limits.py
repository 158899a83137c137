"""How often something may happen."""

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class Allowance:
    """A budget that refills: ``burst`` at once, ``rate_hz`` for ever.

    Attributes:
        rate_hz: How fast it refills.
        burst: How much it holds.
        clock: Seconds that only go forward.
    """

    rate_hz: float
    burst: float
    clock: Callable[[], float] = time.monotonic
    _left: float | None = None
    _seen_s: float = 0.0

    def take(self) -> bool:
        """Take one; False when there is none."""
        now_s = self.clock()
        before = self.burst if self._left is None else self._left
        self._left = min(self.burst, before + (now_s - self._seen_s) * self.rate_hz)
        self._seen_s = now_s
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True
