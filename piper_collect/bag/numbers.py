"""Messages of sensors as rows of numbers: vectors and quaternions, and arrays that tell their own shape."""

import dataclasses
import math
from collections.abc import Sequence
from numbers import Real

import numpy as np

_WXYZ = ("w", "x", "y", "z")
_COVARIANCE = "_covariance"
_UNKNOWN = -1.0


def number_paths(message: object) -> tuple[tuple[str, ...], ...]:
    """Where the numbers of a message lie that holds nothing else, field by field.

    So of a Vector3, a Wrench, a Twist; a quaternion comes as wxyz.

    Returns:
        The names to follow to each of them; none where the message holds anything but numbers.
    """
    if not dataclasses.is_dataclass(message):
        return ()
    names = [f.name for f in dataclasses.fields(message) if not f.name.startswith("_")]
    if set(names) == set(_WXYZ):
        names = list(_WXYZ)
    paths: list[tuple[str, ...]] = []
    for name in names:
        value = getattr(message, name)
        below = ((),) if _is_number(value) else number_paths(value)
        if not below:
            return ()
        paths += [(name, *path) for path in below]
    return tuple(paths)


def unknown_field(message: object, field: str) -> str:
    """Why a field's values mean nothing; empty where they do.

    A sensor_msgs/Imu without an estimate says so by -1 as the first element of the field's covariance.
    """
    covariance = getattr(message, field + _COVARIANCE, None)
    if covariance is None or not len(covariance) or float(covariance[0]) != _UNKNOWN:
        return ""
    return f"the device does not measure {field}: {field}{_COVARIANCE}[0] is -1"


def is_array(message: object) -> bool:
    """Whether it is one of std_msgs' MultiArrays."""
    return hasattr(message, "layout") and hasattr(message, "data") and hasattr(message.layout, "dim")


def array_shape(message: object) -> tuple[int, ...]:
    """The extents that a MultiArray's layout tells, outermost first; empty where it tells none.

    Raises:
        ValueError: Its rows do not lie one after the other.
    """
    sizes = tuple(int(d.size) for d in message.layout.dim)  # type: ignore[attr-defined]
    for at, dim in enumerate(message.layout.dim):  # type: ignore[attr-defined]
        dense = math.prod(sizes[at:])
        if dim.stride not in (0, dense):  # 0: the publisher did not fill it in
            raise ValueError(f"stride {dim.stride} of dimension {at} leaves gaps (expected {dense})")
    return sizes


def array_rows(message: object) -> Sequence[float]:
    """The numbers of a MultiArray, without those before its ``data_offset``.

    Raises:
        ValueError: They are not as many as its layout says.
    """
    offset, cells = int(message.layout.data_offset), np.asarray(message.data)  # type: ignore[attr-defined]
    values = cells[offset:]
    sizes = array_shape(message)
    if sizes and math.prod(sizes) != len(values):
        raise ValueError(f"{len(values)} numbers, and a layout of {' x '.join(map(str, sizes))}")
    row: Sequence[float] = values.astype(np.float64).tolist()
    return row


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
