"""How the clock that stamps a topic stands to the clock of its recorder: offset, drift, and steps.

A message is received after it was stamped, and whatever holds it up on its way only adds to the difference.
So the least differences, the lower envelope, show the clocks; the rest is transport.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from piper_collect.core.types import FloatArray, StampArray

STEP_NS = 100_000_000
"""A clock that jumps by this much was set: ntpd slews what is below 128 ms (ntpd(8)), chronyd nearly all.

A network or an encoder that holds messages up for seconds may well add some tens of ms to all of them.
"""

WINDOW_NS = 500_000_000
"""A queue runs empty at least once in such a stretch, so that its least difference is the clocks'."""

LEAST_DRIFT_PPM = 100.0
"""Free crystals stay within it."""

MOST_DRIFT_PPM = 1e6
"""Simulation time at half the wall's; what differs more is no clock."""

LEAST_DRIFT_NS = 5_000_000
"""Less than this over a whole recording is no drift that matters."""

_SETTLED = 3
"""Windows on either side that must agree on a step; fewer may be a burst of messages that were held up."""

_MOST_STEPS = 100
_SLOPE_POINTS = 60
_LEAST_SLOPE_POINTS = 8
_LEAST_SLOPE_SPAN_NS = 5 * 10**9
_SHORT_SPAN_NS = 8 * 10**9
_SURE_DRIFT_NS = 200_000_000
"""Exposure, compression and transport together add less, so that a short recording can show it."""

_PARTS = 6
_UNEVEN = 0.5
"""Of what a drift adds from part to part; the least difference of a part may lie off by as much."""

_PPB = 10**9
_NS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockPiece:
    """A stretch in which a clock ran evenly.

    Attributes:
        first_receive_ns: Receipt of its first message; it lasts until the next piece begins.
        origin_ns: Stamp of that message.
        offset_ns: What is added to a stamp at ``origin_ns`` to get the recorder's time.
        drift_ppb: By how many ns a second the stamps fall behind (negative where they run ahead); 0 where
            that does not matter or cannot be told.
    """

    first_receive_ns: int
    origin_ns: int
    offset_ns: int
    drift_ppb: int

    def shift_ns(self, stamp_ns: StampArray) -> StampArray:
        """int64 [N], what is to be added to each stamp."""
        if not self.drift_ppb:
            return np.full(len(stamp_ns), self.offset_ns, dtype=np.int64)
        # in two parts, so that the products stay in int64
        elapsed_ms: StampArray = (stamp_ns - self.origin_ns) // _NS_PER_MS
        rest_ns: StampArray = (stamp_ns - self.origin_ns) % _NS_PER_MS
        drifted_ns = elapsed_ms * self.drift_ppb // (_PPB // _NS_PER_MS) + rest_ns * self.drift_ppb // _PPB
        return self.offset_ns + drifted_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockFit:
    """A source's clock against the recorder's.

    Attributes:
        pieces: In the order received; at least one.
        left_ns: What they leave of the differences: in 95 % of the stretches of half a second the least
            difference is no greater.
    """

    pieces: tuple[ClockPiece, ...]
    left_ns: int = 0

    @property
    def steps_ns(self) -> tuple[int, ...]:
        """By how much the source's clock was set, each time; positive where it was put forward."""
        steps = []
        for before, after in pairwise(self.pieces):
            at = np.array([after.origin_ns + after.offset_ns - before.offset_ns], np.int64)
            steps.append(int(before.shift_ns(at)[0]) - after.offset_ns)
        return tuple(steps)

    def corrected(self, stamp_ns: StampArray, receive_ns: StampArray, reference_ns: int = 0) -> StampArray:
        """The stamps as the recorder's clock would have them.

        Args:
            stamp_ns: int64 [N].
            receive_ns: int64 [N] of the same messages.
            reference_ns: What a stamp of the clock that is wanted lies before the recorder's time.
        """
        starts = np.array([p.first_receive_ns for p in self.pieces[1:]], np.int64)
        piece = np.searchsorted(starts, receive_ns, side="right")
        shift = np.empty(len(stamp_ns), np.int64)
        for number, one in enumerate(self.pieces):
            mine = piece == number
            shift[mine] = one.shift_ns(stamp_ns[mine])
        return stamp_ns + shift - reference_ns

    def records(self, reference_ns: int = 0) -> list[dict[str, int]]:
        """The pieces as JSON values, with what ``corrected`` adds to a stamp at the piece's origin."""
        return [
            {
                "from_receive_ns": p.first_receive_ns,
                "origin_stamp_ns": p.origin_ns,
                "offset_ns": p.offset_ns - reference_ns,
                "drift_ppb": p.drift_ppb,
            }
            for p in self.pieces
        ]


def fit_clock(receive_ns: StampArray, stamp_ns: StampArray) -> ClockFit:
    """Measure a source's clock.

    Args:
        receive_ns: int64 [N] in the order received, N > 0.
        stamp_ns: int64 [N] header stamps of the same messages.
    """
    bounds = [0, *_steps(receive_ns, receive_ns - stamp_ns), len(stamp_ns)]
    pieces = [_piece(receive_ns[first:last], stamp_ns[first:last]) for first, last in pairwise(bounds)]
    fit = ClockFit(pieces=tuple(pieces))
    left_ns = receive_ns - fit.corrected(stamp_ns, receive_ns)
    least = _least_of_each((receive_ns - receive_ns.min()) // WINDOW_NS, left_ns)
    return ClockFit(pieces=fit.pieces, left_ns=int(np.quantile(left_ns[least], 0.95)))


def common_offset_ns(offsets_ns: Sequence[int], near_ns: int) -> int:
    """The middle of the offsets that most sources share (within ``near_ns``), or that nearest to zero."""
    if not offsets_ns:
        return 0
    groups = [[other for other in offsets_ns if abs(one - other) <= near_ns] for one in offsets_ns]
    most = max(len(group) for group in groups)
    middles = [sorted(group)[len(group) // 2] for group in groups if len(group) == most]
    return min(middles, key=lambda middle: (abs(middle), middle))


def drift_ppm(receive_ns: StampArray, base_ns: StampArray, late_ns: StampArray) -> float | None:
    """Slope (Theil-Sen) of the least difference of each stretch of time over ``base_ns``, in millionths.

    Args:
        receive_ns: int64 [N].
        base_ns: int64 [N], the clock that the slope is counted by: stamps or times of receipt.
        late_ns: int64 [N], times of receipt less stamps.

    Returns:
        None where the recording is too short to tell, the clock stands still, or the least differences grow
        as they would under load: in a short recording by what transport may add, or all at once.
    """
    first, last = int(receive_ns.min()), int(receive_ns.max())
    if last - first < _LEAST_SLOPE_SPAN_NS:
        return None
    least = _least_of_each((receive_ns - first) * _SLOPE_POINTS // (last - first + 1), late_ns)
    if len(least) < _LEAST_SLOPE_POINTS:
        return None
    late = late_ns[least] - late_ns[least].min()  # before floats, which cannot hold epoch nanoseconds
    base = base_ns[least] - base_ns[least].min()
    if not base.any():
        return None
    slope = _median_slope(base, late)
    grown_ns = abs(slope) * float(last - first)
    if grown_ns > LEAST_DRIFT_NS:
        if last - first < _SHORT_SPAN_NS and grown_ns < _SURE_DRIFT_NS:
            return None
        part = (receive_ns[least] - first) * _PARTS // (last - first + 1)
        if not _grows_evenly(part, late - slope * base, grown_ns):
            return None
    return slope * 1e6


def _median_slope(x: StampArray, y: StampArray) -> float:
    """Theil-Sen: the median of the slopes between all pairs of points, of which two differ in ``x``.

    ``scipy.stats`` has it too, and takes half a second to import, which each command and node would wait for.
    """
    first, second = np.nonzero(x[None, :] > x[:, None])
    return float(np.median((y[second] - y[first]) / (x[second] - x[first])))


def _grows_evenly(part: StampArray, rest_ns: FloatArray, grown_ns: float) -> bool:
    """Whether the least difference of each part lies on the line.

    A stall, a slow start or a slow end moves those of some parts and leaves the others.

    Args:
        part: int64 [N], which part of the recording.
        rest_ns: float64 [N], what the line leaves of the differences.
        grown_ns: By how much the line grows over the recording.
    """
    least = np.array([rest_ns[part == one].min() for one in np.unique(part)])
    return bool(np.all(np.abs(np.diff(least)) <= _UNEVEN * grown_ns / _PARTS))


def _least_of_each(window: StampArray, late_ns: StampArray) -> StampArray:
    """int64 indexes of the least difference in each window, in the order of the windows."""
    order = np.lexsort((late_ns, window))
    return order[np.unique(window[order], return_index=True)[1]]


def _piece(receive_ns: StampArray, stamp_ns: StampArray) -> ClockPiece:
    late_ns = receive_ns - stamp_ns
    first_receive_ns, origin_ns = int(receive_ns[0]), int(stamp_ns[0])
    ppm = drift_ppm(receive_ns, stamp_ns, late_ns) or 0.0
    span_ns = float(receive_ns.max() - receive_ns.min())
    is_clock = -MOST_DRIFT_PPM / 2 < ppm <= MOST_DRIFT_PPM * 1.001
    matters = is_clock and abs(ppm) > LEAST_DRIFT_PPM and abs(ppm) * 1e-6 * span_ns > LEAST_DRIFT_NS
    ppb = round(ppm * 1e3) if matters else 0
    even = ClockPiece(first_receive_ns=first_receive_ns, origin_ns=origin_ns, offset_ns=0, drift_ppb=ppb)
    offset_ns = int((late_ns - even.shift_ns(stamp_ns)).min())
    return ClockPiece(
        first_receive_ns=first_receive_ns, origin_ns=origin_ns, offset_ns=offset_ns, drift_ppb=ppb
    )


def _steps(receive_ns: StampArray, late_ns: StampArray) -> list[int]:
    """Indexes of the messages that are the first after a step, increasing."""
    window = (receive_ns - receive_ns.min()) // WINDOW_NS
    least = _least_of_each(window, late_ns)
    if len(least) < 2 * _SETTLED:
        return []
    times, envelope = window[least], late_ns[least] - late_ns[least].min()
    slope = float(np.median(np.diff(envelope) / np.diff(times)))
    even = envelope - np.rint(slope * (times - times[0])).astype(np.int64)
    runs = np.lib.stride_tricks.sliding_window_view(even, _SETTLED)
    middles = np.median(runs, axis=1)
    jumps = np.abs(middles[_SETTLED:] - middles[:-_SETTLED])
    edges: list[int] = []
    for place in np.argsort(-jumps, kind="stable"):
        edge = int(place) + _SETTLED
        if jumps[place] < STEP_NS or len(edges) == _MOST_STEPS:
            break
        if all(abs(edge - other) >= _SETTLED for other in edges):
            edges.append(edge)
    found = set()
    for edge in edges:
        near = times[max(edge - 2, 0) : edge + 2]
        begin = int(np.searchsorted(window, near[0]))
        end = int(np.searchsorted(window, near[-1], side="right"))
        found.add(begin + _split(late_ns[begin:end], middles[edge] - middles[edge - _SETTLED]))
    return sorted(found - {0})


def _split(late_ns: StampArray, jump_ns: float) -> int:
    """The first message after the one step in a stretch: the cut that leaves fewest on a wrong side."""
    if len(late_ns) < 2:
        return 0
    is_after = (late_ns - late_ns.min() > abs(jump_ns) / 2) == (jump_ns > 0)
    wrong = np.cumsum(is_after)[:-1] + np.cumsum(~is_after[::-1])[::-1][1:]
    return 1 + int(np.argmin(wrong))
