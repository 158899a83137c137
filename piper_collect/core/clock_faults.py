"""What is wrong with the clocks that stamp the topics of a recording, in words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from piper_collect.core.pacing import AHEAD_MS, pacing
from piper_collect.core.source_clock import ClockFit, common_offset_ns, fit_clock
from piper_collect.core.types import StampArray

ClockPolicy = Literal["refuse", "flag", "correct"]

BEHIND_NS = 200_000_000
"""Exposure, compression and transport of a picture together take less; it is six rows at 30 Hz."""

UNSTEADY_NS = 200_000_000
"""Stamps that offset, drift and steps explain no better than to this follow no clock."""

_NS_PER_MS = 1e6
_DAY_NS = 86_400 * 10**9
_TOGETHER_NS = 20_000_000
"""Clocks that are kept in step over a network differ by less."""

_MOST_TOLD = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockFault:
    """One thing that is wrong with a source's stamps.

    Attributes:
        kind: What it is.
        text: The same for people, with its size.
    """

    kind: Literal["unset", "equal", "backwards", "ahead", "behind", "epoch", "drift", "step"]
    text: str

    @property
    def correctable(self) -> bool:
        """Whether a shift of the stamps mends it."""
        return self.kind in ("ahead", "behind", "epoch", "drift", "step")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamped:
    """The messages of one topic in the order received.

    Attributes:
        receive_ns: int64 [N] of the messages that have a stamp.
        stamp_ns: int64 [N].
        unset: How many others have no stamp, in words; empty for none.
        any_order: Whether messages that overtake each other are put in order, as a camera's are.
    """

    receive_ns: StampArray
    stamp_ns: StampArray
    unset: str = ""
    any_order: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockJudgement:
    """A topic's clock.

    Attributes:
        faults: What is wrong with it.
        fit: How it stands to the recorder's; None where no message has a stamp.
        reference_ns: What stamps of the clock that all share lie before the recorder's time.
    """

    faults: tuple[ClockFault, ...]
    fit: ClockFit | None = None
    reference_ns: int = 0

    @property
    def correctable(self) -> bool:
        """Whether a shift of the stamps would mend something."""
        return any(fault.correctable for fault in self.faults)


def judge_clocks(topics: Mapping[str, Stamped], *, absolute: bool) -> dict[str, ClockJudgement]:
    """Judge the clocks that stamp the topics of one recording.

    Args:
        topics: By name.
        absolute: Whether the recorder's clock is the one that the stamps must agree with, as it is where the
            recorder said when the episode began; else it is the one that most topics share.
    """
    fits = {
        name: fit_clock(one.receive_ns, one.stamp_ns) for name, one in topics.items() if len(one.stamp_ns)
    }
    offsets = [_least_ns(topics[name]) for name in fits]
    reference_ns = 0 if absolute else common_offset_ns(offsets, _TOGETHER_NS)
    if abs(reference_ns) <= BEHIND_NS:
        reference_ns = 0  # transport, and no other clock
    return {
        name: ClockJudgement(
            faults=tuple(_faults(one, fits.get(name), reference_ns)),
            fit=fits.get(name),
            reference_ns=reference_ns,
        )
        for name, one in topics.items()
    }


def _least_ns(one: Stamped) -> int:
    return int((one.receive_ns - one.stamp_ns).min())


def _faults(one: Stamped, fit: ClockFit | None, reference_ns: int) -> list[ClockFault]:
    faults = [ClockFault(kind="unset", text=one.unset)] if one.unset else []
    if fit is None:
        return faults
    steps = pacing(one.stamp_ns)
    if steps.equal:
        faults.append(ClockFault(kind="equal", text=f"{steps.equal} stamps equal the one before"))
    if steps.backwards and not one.any_order:
        text = f"{steps.backwards} stamps lie before one received earlier"
        faults.append(ClockFault(kind="backwards", text=text))
    return faults + _offset_faults(one, fit, reference_ns) + _rate_faults(one, fit)


def _offset_faults(one: Stamped, fit: ClockFit, reference_ns: int) -> list[ClockFault]:
    late_ns = one.receive_ns - one.stamp_ns - reference_ns
    least_ns, middle_ns = int(late_ns.min()), float(np.median(late_ns))
    against = "the clock of most topics" if reference_ns else "their receipt"
    if abs(middle_ns) > _DAY_NS:
        text = f"stamps lie {abs(middle_ns) / _DAY_NS:.0f} days from the recorder's time: another epoch"
        return [ClockFault(kind="epoch", text=text)]
    if least_ns < -AHEAD_MS * _NS_PER_MS:
        text = f"stamps lie up to {-least_ns / _NS_PER_MS:.1f} ms after {against}: the clock runs ahead"
        return [ClockFault(kind="ahead", text=text)]
    behind_ns = max(piece.offset_ns for piece in fit.pieces) - reference_ns
    if behind_ns > BEHIND_NS:
        told_ms = f"at least {behind_ns / _NS_PER_MS:.0f} ms before {against}"
        return [ClockFault(kind="behind", text=f"stamps lie {told_ms}: a clock behind, or held up")]
    return []


def _rate_faults(one: Stamped, fit: ClockFit) -> list[ClockFault]:
    faults = []
    drifts = [piece.drift_ppb for piece in fit.pieces if piece.drift_ppb]
    if drifts:
        worst = max(drifts, key=abs)
        way = "slower" if worst > 0 else "faster"
        text = f"the clock runs {abs(worst) / 1e3:.0f} ppm {way} than the recorder's"
        faults.append(ClockFault(kind="drift", text=text))
    if fit.steps_ns:
        text = f"the clock {told_set(fit.steps_ns)} while it was recorded"
        faults.append(ClockFault(kind="step", text=text))
    return faults


def told_set(steps_ns: Sequence[int]) -> str:
    """Steps of a clock in words."""
    sizes = ", ".join(f"{step / _NS_PER_MS:+.0f} ms" for step in steps_ns[:_MOST_TOLD])
    more = f" and {len(steps_ns) - _MOST_TOLD} times more" if len(steps_ns) > _MOST_TOLD else ""
    return f"was set {sizes}{more}"


def told(faults: Sequence[ClockFault]) -> str:
    """The faults in one line."""
    return "; ".join(fault.text for fault in faults)
