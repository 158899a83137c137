"""Windows of future actions: what relative and delta statistics are taken over.

Row i of an episode has one window of H steps: the actions of rows i, i + 1, ..., i + H - 1 of the same
episode, its last action repeated where the episode is over. ``relative`` values are the change from
the state of row i to each action of the window; ``delta`` values are the change from that state to the
first action, then from each action of the window to the next.

Both come one step of all N windows at a time, so that statistics of each step can be exact without
all N x H values in memory: only the columns themselves and one step [N, E] of them are held.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from piper_collect.core import se3
from piper_collect.core.stats import ColumnStats, column_stats
from piper_collect.core.types import FloatArray

_BLOCK_ROWS = 1 << 14
"""Rows whose changes are computed at once: the intermediate arrays stay in the processor's cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """How the change between two values of a column is written.

    Attributes:
        between: Changes [N, E] that lead from values [N, D] to values [N, D].
        none: The E elements of no change.
    """

    between: Callable[[FloatArray, FloatArray], FloatArray]
    none: tuple[float, ...]


def _pose_change(start: FloatArray, end: FloatArray) -> FloatArray:
    pose = se3.pose_relative(start, end)
    pose[:, 3:] = se3.canonical_sign(pose[:, 3:])
    return pose


def _rot6d_change(start: FloatArray, end: FloatArray) -> FloatArray:
    pose = se3.pose_relative(start, end)
    return np.concatenate((pose[:, :3], se3.rot6d_from_quat(pose[:, 3:])), axis=1)


def _difference(start: FloatArray, end: FloatArray) -> FloatArray:
    return end - start


POSE_CHANGE = Change(between=_pose_change, none=se3.IDENTITY_POSE7)
"""From pose7 with unit quaternions to the pose7 ``T_start^-1 @ T_end``, its quaternion with w >= 0."""

ROT6D_CHANGE = Change(between=_rot6d_change, none=(0, 0, 0, 1, 0, 0, 0, 1, 0))
"""The same motion as x, y, z and the first two columns of its rotation matrix, 9 elements."""


def vector_change(width: int) -> Change:
    """Plain subtraction of vectors of ``width`` elements."""
    return Change(between=_difference, none=(0.0,) * width)


def relative_steps(
    state: FloatArray, action: FloatArray, lengths: Sequence[int], horizon: int, change: Change
) -> Iterator[FloatArray]:
    """The relative values of all windows, one step after the other.

    Args:
        state: float64 [N, D], the rows of all episodes one after the other.
        action: float64 [N, D], in the same rows.
        lengths: Rows of each episode; their sum is N.
        horizon: H, at least 1.
        change: How a change is written, in E elements.

    Yields:
        H times float64 [N, E], row i being the window of row i; laid out by columns.
    """
    last = _last_rows(lengths)
    for step in range(horizon):
        yield _changes(state, action, np.minimum(np.arange(len(last)) + step, last), change)


def delta_steps(
    state: FloatArray, action: FloatArray, lengths: Sequence[int], horizon: int, change: Change
) -> Iterator[FloatArray]:
    """The delta values of all windows, one step after the other.

    Arguments and what is yielded are those of ``relative_steps``. A window that has come to the last
    action of its episode goes on with exactly no change.
    """
    last = _last_rows(lengths)
    rows = np.arange(len(last))
    yield _changes(state, action, rows, change)
    # row j: from the action of row j to the next one, and no change after the last of an episode
    onward = _changes(action, action, np.minimum(rows + 1, last), change)
    onward[rows == last] = change.none
    for step in range(1, horizon):
        yield onward.T.take(np.minimum(rows + (step - 1), last), axis=1).T


def stats_of_steps(steps: Iterable[FloatArray]) -> ColumnStats:
    """Exact statistics of each step of the windows.

    Args:
        steps: H arrays [N, E].

    Returns:
        Statistics [H, E] over the N windows.
    """
    each = list(map(column_stats, steps))  # which holds no step while the next one is made
    return ColumnStats(
        mean=np.stack([s.mean for s in each]),
        std=np.stack([s.std for s in each]),
        min=np.stack([s.min for s in each]),
        max=np.stack([s.max for s in each]),
        q01=np.stack([s.q01 for s in each]),
        q99=np.stack([s.q99 for s in each]),
        count=each[0].count,
    )


def _last_rows(lengths: Sequence[int]) -> NDArray[np.int64]:
    """For each row the last row of its episode, int64 [N]."""
    counts = np.asarray(lengths, dtype=np.int64)
    return np.repeat(np.cumsum(counts) - 1, counts)


def _changes(start: FloatArray, action: FloatArray, rows: NDArray[np.int64], change: Change) -> FloatArray:
    """Changes [N, E] from ``start`` to the action of ``rows``."""
    by_column = np.empty((len(change.none), len(start)))
    for first in range(0, len(start), _BLOCK_ROWS):
        block = slice(first, first + _BLOCK_ROWS)
        by_column[:, block] = change.between(start[block], action[rows[block]]).T
    return by_column.T
