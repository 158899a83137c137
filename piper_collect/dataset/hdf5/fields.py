"""What the fields of an episode's file hold, out of its rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from piper_collect.core.types import BoolArray
from piper_collect.dataset.parquet import column_values
from piper_collect.errors import DatasetError

JOINTS, GRIPPER, POSE = "observation.arm_joint", "observation.gripper", "observation.arm_eef"
POSE_SOURCE_STATE = "source_state.arm_eef"
BASE_FRAME = "arm base"
GRID_TOLERANCE_S = 1e-3
_STALE = 2
_ORDERS: dict[tuple[str, ...], str] = {("qw", "qx", "qy", "qz"): "wxyz", ("qx", "qy", "qz", "qw"): "xyzw"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PoseField:
    """The end effector's pose.

    Attributes:
        values: float32 [T, 7], xyz in metres and a unit quaternion.
        names: Of its columns.
        valid: bool [T], whether it was fresh at the row; None where that is not known.
        frame: What it is expressed in.
    """

    values: NDArray[np.float32]
    names: tuple[str, ...]
    valid: BoolArray | None
    frame: str

    @property
    def quaternion_order(self) -> str:
        """``wxyz`` or ``xyzw``; empty where the names do not tell."""
        return _ORDERS.get(self.names[3:], "")


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseFields:
    """The fields that are made of an episode's rows.

    Attributes:
        joint_positions: float32 [T, J], measured joints in rad, then the gripper's width in m.
        names: Of its columns.
        arm_joints: How many of them are joints of the arm.
        pose: The end effector's pose; None where the rows have none.
    """

    joint_positions: NDArray[np.float32]
    names: tuple[str, ...]
    arm_joints: int
    pose: PoseField | None

    @property
    def actions(self) -> NDArray[np.float32]:
        """float32 [T, J], the joint state of the next row; in the last row its own."""
        return np.concatenate((self.joint_positions[1:], self.joint_positions[-1:]))


def case_fields(
    table: pa.Table,
    features: Mapping[str, Mapping[str, Any]],
    *,
    pose_valid: BoolArray | None = None,
    pose_frame: str = BASE_FRAME,
) -> CaseFields:
    """The fields of an episode.

    Args:
        table: Its rows.
        features: As info.json describes the columns.
        pose_valid: bool [T], whether the measured pose was fresh; taken from the rows where they tell it.
        pose_frame: What the pose is expressed in.

    Raises:
        DatasetError: There are no joints among the columns.
    """
    check_features(features)
    keys = [key for key in (JOINTS, GRIPPER) if key in features]
    cells = [column_values(table, key).astype(np.float32) for key in keys]
    if pose_valid is None and POSE_SOURCE_STATE in table.column_names:
        pose_valid = column_values(table, POSE_SOURCE_STATE)[:, 0] != _STALE
    pose = None
    if POSE in features:
        values = column_values(table, POSE).astype(np.float32)
        pose = PoseField(values=values, names=_names(features, POSE), valid=pose_valid, frame=pose_frame)
    return CaseFields(
        joint_positions=np.concatenate(cells, axis=1),
        names=tuple(f"{key.rpartition('.')[2]}.{n}" for key in keys for n in _names(features, key)),
        arm_joints=cells[0].shape[1],
        pose=pose,
    )


def check_features(features: Mapping[str, Mapping[str, Any]]) -> None:
    """Check that the columns hold what the format cannot be without.

    Raises:
        DatasetError: They do not.
    """
    if JOINTS not in features:
        raise DatasetError(
            "HDF5 cases are made of joint states, and there is no such column",
            expected=JOINTS,
            got=", ".join(features) or "none",
        )


def is_on_grid(times_s: NDArray[Any], fps: float) -> bool:
    """Whether times in seconds [N] are k/fps, to a millisecond: the only times that the format knows."""
    away = np.abs(times_s.astype(np.float64) - np.arange(len(times_s)) / fps)
    return bool((away <= GRID_TOLERANCE_S).all())


def _names(features: Mapping[str, Mapping[str, Any]], key: str) -> tuple[str, ...]:
    names: Sequence[str] | None = features[key].get("names")
    return tuple(names or (str(i) for i in range(int(features[key]["shape"][0]))))
