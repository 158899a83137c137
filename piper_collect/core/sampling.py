"""Sampling one stream at many ticks, and which ticks it has a fresh value for."""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from piper_collect.core.se3 import continuous_sign, quat_normalize_wxyz, slerp
from piper_collect.core.types import AlignPolicy, BoolArray, FloatArray, StampArray, Stream
from piper_collect.errors import AlignmentError

_Cell = TypeVar("_Cell", bound=np.generic)

_NS_PER_S = 1_000_000_000
_NORM_TOLERANCE = 1e-2
ROTATION_WIDTHS = (4, 7)
"""Elements of what has a rotation as its last four: a quaternion wxyz alone, or a pose7."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """One stream at T ticks.

    Attributes:
        before: int64 [T], index of the sample (``hold``, ``nearest``) or of the older of two (``linear``).
        after: int64 [T], index of the newer of two; equal to ``before`` where one sample is enough.
        age_ns: int64 [T], distance from the tick to the furthest sample used; meaningless where not fresh.
        fresh: bool [T], whether the tick has a value under the policy.
    """

    before: NDArray[np.int64]
    after: NDArray[np.int64]
    age_ns: StampArray
    fresh: BoolArray


def tick_offsets(fps: float, count: int) -> StampArray:
    """``round(k * 1e9 / fps)`` for k = 0 … count-1, in exact integer arithmetic.

    ``fps`` is taken as the decimal number it is written as, so that 29.97 is 2997/100.

    Returns:
        int64 [count] nanoseconds, strictly increasing.

    Raises:
        AlignmentError: ``fps`` is no positive finite number, or above 1e9.
    """
    if not np.isfinite(fps) or not 0 < fps <= _NS_PER_S:
        raise AlignmentError(
            "rows a second cannot be this", where="fps", expected="a number above 0", got=fps
        )
    rate = Fraction(repr(float(fps)))
    top, bottom = 2 * _NS_PER_S * rate.denominator, 2 * rate.numerator
    return np.array([(k * top + rate.numerator) // bottom for k in range(count)], dtype=np.int64)


def grid_timestamps(fps: float, count: int) -> NDArray[np.float32]:
    """The smallest float32 not below k / fps, for k = 0 … count-1.

    A trainer that asks for the frame shown at such a time never gets the one before it, as it would with
    the nearest float32 where that is a little early.
    """
    rate = Fraction(repr(float(fps)))
    exact = [k * rate.denominator for k in range(count)]
    near = np.array([float(Fraction(k, rate.numerator)) for k in exact]).astype(np.float32)
    # A float32 times a whole number below 2**29 is exact in float64, and so is the comparison.
    below = near.astype(np.float64) * rate.numerator < np.array(exact, dtype=np.float64)
    return np.where(below, np.nextafter(near, np.float32(np.inf)), near).astype(np.float32)


def kept(values: NDArray[_Cell], keep: BoolArray) -> NDArray[_Cell]:
    """The rows of ``values`` that are to be kept: no copy where that is all of them, as it mostly is."""
    return values if keep.all() else values[keep]


def select(stamp_ns: StampArray, tick_ns: StampArray, policy: AlignPolicy) -> Samples:
    """Choose the samples that each tick uses.

    Args:
        stamp_ns: int64 [N], increasing.
        tick_ns: int64 [T].
        policy: Sampling and the greatest distance allowed.
    """
    last = len(stamp_ns) - 1
    if last < 0:
        none = np.zeros(len(tick_ns), dtype=np.int64)
        return Samples(before=none, after=none, age_ns=none, fresh=np.zeros(len(tick_ns), dtype=np.bool_))
    held = np.searchsorted(stamp_ns, tick_ns, side="right") - 1
    older, newer = np.clip(held, 0, last), np.clip(held + 1, 0, last)
    has_older, has_newer = held >= 0, held < last
    back, ahead = tick_ns - stamp_ns[older], stamp_ns[newer] - tick_ns
    if policy.sampling == "hold":
        before, after, age, found = older, older, back, has_older
    elif policy.sampling == "nearest":
        take_newer = has_newer & (~has_older | (ahead < back))
        before = np.where(take_newer, newer, older)
        after, age, found = before, np.where(take_newer, ahead, back), has_older | has_newer
    else:
        exact = has_older & (back == 0)
        before, after = older, np.where(exact, older, newer)
        age, found = np.where(exact, 0, np.maximum(back, ahead)), has_older & (has_newer | exact)
    return Samples(before=before, after=after, age_ns=age, fresh=found & (age <= policy.max_age_ns))


def held_where_stale(stamp_ns: StampArray, tick_ns: StampArray, chosen: Samples) -> Samples:
    """``chosen``, with the newest sample not after the tick, however old, where nothing is fresh.

    ``fresh`` stays as it was. A tick before the first sample gets that one.
    """
    newest = np.maximum(np.searchsorted(stamp_ns, tick_ns, side="right") - 1, 0)
    return Samples(
        before=np.where(chosen.fresh, chosen.before, newest),
        after=np.where(chosen.fresh, chosen.after, newest),
        age_ns=np.where(chosen.fresh, chosen.age_ns, tick_ns - stamp_ns[newest]),
        fresh=chosen.fresh,
    )


def take(stream: Stream, tick_ns: StampArray, chosen: Samples, policy: AlignPolicy) -> FloatArray:
    """Values [T, D] of ``stream`` at ticks that are all fresh or held.

    Rotations, the last four elements, are interpolated by slerp and come out unit, continuous in sign, the
    first with w >= 0.
    """
    first, second = stream.values[chosen.before], stream.values[chosen.after]
    span = stream.stamp_ns[chosen.after] - stream.stamp_ns[chosen.before]
    part = (tick_ns - stream.stamp_ns[chosen.before]) / np.maximum(span, 1) * (span > 0)
    values: FloatArray = first + part[:, None] * (second - first)
    if policy.rotation == "quat_wxyz":
        before, after = first[:, -4:], second[:, -4:]
        values[:, -4:] = continuous_sign(slerp(before, after, part) if np.any(span > 0) else before)
    return values


def prepare(stream: Stream, policy: AlignPolicy) -> Stream:
    """``stream`` with its values checked and its quaternions made unit.

    Raises:
        AlignmentError: A value is not finite, stamps do not increase, a rotation has neither the seven
            elements of a pose nor the four of a quaternion, or is none; names the source and the stamp.
    """
    where = f"source {stream.key}" + (f" (topic {stream.topic})" if stream.topic else "")
    values, stamps = stream.values, stream.stamp_ns
    if values.ndim != 2 or len(values) != len(stamps):
        raise AlignmentError(
            "values and stamps differ in number", where=where, expected=len(stamps), got=values.shape
        )
    step = np.flatnonzero(np.diff(stamps) <= 0)
    if step.size:
        raise AlignmentError("stamps do not increase", where=where, got=f"stamp {stamps[step[0] + 1]} ns")
    bad = np.argwhere(~np.isfinite(values))
    if bad.size:
        row, element = (int(i) for i in bad[0])
        raise AlignmentError(
            f"a value is not finite: element {element} at stamp {stamps[row]} ns",
            where=where,
            got=values[row, element],
        )
    if policy.rotation == "none" or not len(values):
        return stream
    return replace(stream, values=_unit_rotations(values, stamps, where))


def _unit_rotations(values: FloatArray, stamps: StampArray, where: str) -> FloatArray:
    if values.shape[1] not in ROTATION_WIDTHS:
        raise AlignmentError(
            "not a pose",
            where=where,
            expected="x y z qw qx qy qz, or qw qx qy qz alone",
            got=f"{values.shape[1]} values",
        )
    norm = np.sqrt(np.sum(values[:, -4:] ** 2, axis=1))
    off = np.flatnonzero(np.abs(norm - 1.0) > _NORM_TOLERANCE)
    if off.size:
        raise AlignmentError(
            f"no rotation at stamp {stamps[off[0]]} ns ({off.size} of {len(norm)} quaternions)",
            where=where,
            expected=f"norm 1 within {_NORM_TOLERANCE:g}",
            got=f"norm {norm[off[0]]:.6g}",
            hint="is the field a pose, and has it been set?",
        )
    return np.concatenate((values[:, :-4], quat_normalize_wxyz(values[:, -4:])), axis=1)
