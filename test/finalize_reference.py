"""The statistics of finalize, plain and slow: one window, one step, one transform at a time."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

Array = NDArray[np.float64]
Windows = dict[str, list[list[Array]]]
Stats = dict[str, dict[str, Array]]


def pose_change(start: Array, end: Array) -> Array:
    """T_start^-1 @ T_end by 4 x 4 matrices, as xyz and wxyz with w >= 0."""
    motion = np.linalg.inv(matrix(start)) @ matrix(end)
    quat_xyzw = Rotation.from_matrix(motion[:3, :3]).as_quat(canonical=True)
    return np.array([*motion[:3, 3], quat_xyzw[3], *quat_xyzw[:3]])


def rot6d_change(start: Array, end: Array) -> Array:
    motion = np.linalg.inv(matrix(start)) @ matrix(end)
    return np.array([*motion[:3, 3], *motion[:3, 0], *motion[:3, 1]])


def difference(start: Array, end: Array) -> Array:
    return np.array([b - a for a, b in zip(start, end, strict=True)])


def matrix(pose7: Array) -> Array:
    x, y, z, qw, qx, qy, qz = pose7
    transform = np.eye(4)
    transform[:3, :3] = Rotation.from_quat([qx, qy, qz, qw]).as_matrix()
    transform[:3, 3] = x, y, z
    return transform


def windows(
    states: Sequence[Array], actions: Sequence[Array], horizon: int, change: Callable[[Array, Array], Array]
) -> Windows:
    """The windows [N][H] of both kinds, from the states and actions [T, D] of each episode."""
    found: Windows = {"relative": [], "delta": []}
    for state, action in zip(states, actions, strict=True):
        for i in range(len(state)):
            future = [action[i + k] if i + k < len(action) else action[-1] for k in range(horizon)]
            found["relative"].append([change(state[i], a) for a in future])
            before = [state[i], *future[:-1]]
            found["delta"].append([change(a, b) for a, b in zip(before, future, strict=True)])
    return found


def stats(
    states: Sequence[Array], actions: Sequence[Array], horizon: int, change: Callable[[Array, Array], Array]
) -> Stats:
    """Six statistics [H, E] of both kinds, over all windows."""
    found = windows(states, actions, horizon, change)
    return {kind: six(np.array(stacked)) for kind, stacked in found.items()}


def six(values: Array) -> dict[str, Array]:
    return {
        "mean": np.mean(values, axis=0),
        "std": np.std(values, axis=0),
        "min": np.min(values, axis=0),
        "max": np.max(values, axis=0),
        "q01": np.quantile(values, 0.01, axis=0),
        "q99": np.quantile(values, 0.99, axis=0),
    }
