"""Where a point went in the last seconds, for drawing: thinned out, and bounded in time and in number."""

from collections import deque
from typing import TypeAlias

Point: TypeAlias = tuple[float, float, float]


class Trail:
    """The newest places of a point.

    Args:
        seconds: Older places are forgotten.
        step_m: A place nearer than this to the one before is not kept.
        most: No more places than this are kept; the oldest go first.
    """

    def __init__(self, *, seconds: float, step_m: float, most: int) -> None:
        self._keep_ns = round(seconds * 1e9)
        self._step_m = step_m
        self._places: deque[tuple[int, Point]] = deque(maxlen=most)

    def add(self, stamp_ns: int, point: Point) -> None:
        """Take one place in; a time before the newest one begins the trail anew (a clock was set back)."""
        if self._places:
            newest_ns, newest = self._places[-1]
            if stamp_ns < newest_ns:
                self._places.clear()
            elif sum((a - b) ** 2 for a, b in zip(point, newest, strict=True)) < self._step_m**2:
                return
        self._places.append((stamp_ns, point))

    def points(self, now_ns: int) -> tuple[Point, ...]:
        """The places that are not too old at ``now_ns``, the oldest first."""
        while self._places and now_ns - self._places[0][0] > self._keep_ns:
            self._places.popleft()
        return tuple(point for _, point in self._places)
