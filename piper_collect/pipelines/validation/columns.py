"""What the numbers of an episode mean: rotations, joints, widths, poses, and whether they go together."""

from dataclasses import dataclass

import numpy as np

from piper_collect.core.findings import Findings
from piper_collect.core.kinematics import GRIPPER_WIDTH_M, JOINT_LIMITS_RAD, JOINT_NAMES
from piper_collect.core.lag import estimate_lag
from piper_collect.core.pose_checks import compare_kinematics, quat_angles_deg, unit
from piper_collect.core.survey import ColumnSurvey, KinematicsSurvey, LagSurvey
from piper_collect.core.types import FloatArray
from piper_collect.pipelines.validation.metadata import FeatureInfo, Metadata
from piper_collect.pipelines.validation.rows import EpisodeRows

JOINTS = "observation.arm_joint"
MEASURED = "observation.arm_eef"
COMMANDED = "action.arm_eef"
WIDTHS = ("observation.gripper", "action.gripper")

_QUAT = ("qw", "qx", "qy", "qz")
_NORM_TOLERANCE = 1e-3
_JOINT_SLACK_RAD = 0.3  # the mechanical stops lie up to 0.27 rad beyond the software limits
_WIDTH_SLACK_M = 0.005
_REACH_M = 1.0  # beyond the outstretched arm with any tool; piper_sdk calls farther poses outliers
_JUMP_M = 0.2
_JUMP_DEG = 60.0
_FK_MM = 5.0
_FK_DEG = 3.0
_OTHER_ORDER_DEG = (
    10.0  # the reading in the other order must fit this well, and the told one three times worse
)
_STILL = 1e-6
_MOVED_M = 0.02
_MOST_LAG_MS = 300.0
_LEAST_CORRELATION = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pose:
    """Where a pose lies in a column: elements of the position (may be none) and of the quaternion, wxyz."""

    position: tuple[int, ...]
    quaternion: tuple[int, ...]


def survey_columns(meta: Metadata, rows: EpisodeRows) -> dict[str, ColumnSurvey]:
    """The numeric feature columns of an episode."""
    columns = {}
    for key, cells in rows.cells.items():
        feature = meta.features.get(key)
        if feature is None or not (key.startswith(("observation.", "action"))) or not len(cells):
            continue
        if cells.dtype.kind not in "fiu" or not np.isfinite(cells.astype(np.float64)).all():
            continue
        width = cells.shape[1]
        names = feature.names if len(feature.names) == width else tuple(str(i) for i in range(width))
        columns[key] = ColumnSurvey(key=key, names=names, values=cells.astype(np.float64))
    return columns


def check_columns(
    meta: Metadata, rows: EpisodeRows, columns: dict[str, ColumnSurvey], findings: Findings
) -> None:
    """Rotations of every pose column; joints, widths and reach where the columns are the Piper's."""
    for key, column in columns.items():
        pose, where = _pose_of(meta.features[key], column), f"{rows.where}, column {key}"
        if pose is not None:
            _check_rotation(where, column.values[:, pose.quaternion], findings)
            if pose.position:
                _check_path(where, column.values[:, pose.position], findings)
    joints = columns.get(JOINTS)
    if joints is not None and joints.values.shape[1] == len(JOINT_LIMITS_RAD):
        _check_joints(f"{rows.where}, column {JOINTS}", joints.values, findings)
    for key in WIDTHS:
        if key in columns:
            _check_width(f"{rows.where}, column {key}", columns[key].values, findings)
    _check_still(rows, columns, findings)


def _pose_of(feature: FeatureInfo, column: ColumnSurvey) -> _Pose | None:
    """By the names of the elements, or by the key and size that the format gives them."""
    last = [name.replace("/", ".").rpartition(".")[2] for name in column.names]
    if all(last.count(name) == 1 for name in _QUAT):
        position = tuple(last.index(n) for n in "xyz") if all(last.count(n) == 1 for n in "xyz") else ()
        return _Pose(position=position, quaternion=tuple(last.index(n) for n in _QUAT))
    if feature.key in (MEASURED, COMMANDED) and column.values.shape[1] == 7 and not feature.names:
        return _Pose(position=(0, 1, 2), quaternion=(3, 4, 5, 6))
    return None


def _check_rotation(where: str, quats: FloatArray, findings: Findings) -> None:
    norm = np.sqrt(np.sum(quats**2, axis=1))
    off = np.flatnonzero(np.abs(norm - 1.0) > _NORM_TOLERANCE)
    if off.size:
        text = f"{off.size} quaternions are not unit, first row {off[0]} with norm {norm[off[0]]:.6g}"
        findings.add("error", "quaternion-norm", where, text)
    flips = np.flatnonzero(np.sum(quats[1:] * quats[:-1], axis=1) < 0)
    if flips.size:
        text = f"the sign of the quaternion flips {flips.size} times, first at row {flips[0] + 1}"
        findings.add("error", "quaternion-sign", where, text)
    elif quats[0, 0] < 0:
        text = f"the first quaternion has w = {quats[0, 0]:.4f}; the format fixes its sign to w >= 0"
        findings.add("warning", "quaternion-first-sign", where, text)
    turned = quat_angles_deg(unit(quats[1:]), unit(quats[:-1]))
    fast = np.flatnonzero(turned > _JUMP_DEG)
    if fast.size:
        worst = int(np.argmax(turned))
        text = (
            f"the rotation jumps {fast.size} times, at worst {turned[worst]:.0f} degrees at row {worst + 1}"
        )
        findings.add("warning", "jump", where, text)


def _check_path(where: str, position_m: FloatArray, findings: Findings) -> None:
    distance = np.linalg.norm(position_m, axis=1)
    far = np.flatnonzero(distance > _REACH_M)
    if far.size:
        worst = int(np.argmax(distance))
        text = (
            f"{far.size} positions are out of the arm's reach, at worst {distance[worst]:.3g} m from "
            f"the base at row {worst}{' (millimetres?)' if distance[worst] > 50 else ''}"
        )
        findings.add("warning", "reach", where, text)
        return
    step = np.linalg.norm(np.diff(position_m, axis=0), axis=1)
    if len(step) and step.max() > _JUMP_M:
        worst = int(np.argmax(step))
        text = f"the position jumps {step[worst]:.3f} m from one row to the next at row {worst + 1}"
        findings.add("warning", "jump", where, text)


def _check_joints(where: str, joints_rad: FloatArray, findings: Findings) -> None:
    limits = np.array(JOINT_LIMITS_RAD)
    low, high = limits[:, 0] - _JOINT_SLACK_RAD, limits[:, 1] + _JOINT_SLACK_RAD
    beyond = np.maximum(low - joints_rad, joints_rad - high)
    if not np.any(beyond > 0):
        return
    row, joint = (int(i) for i in np.unravel_index(np.argmax(beyond), beyond.shape))
    text = (
        f"{np.count_nonzero((beyond > 0).any(axis=1))} rows are out of the joints' range, at worst "
        f"{JOINT_NAMES[joint]} with {joints_rad[row, joint]:.4g} rad at row {row} "
        f"(limits {limits[joint, 0]:g} to {limits[joint, 1]:g})"
    )
    degrees = np.abs(joints_rad).max() > 2 * np.pi
    findings.add("warning", "joint-range", where, text + ("; degrees?" if degrees else ""))


def _check_width(where: str, width_m: FloatArray, findings: Findings) -> None:
    low, high = GRIPPER_WIDTH_M[0] - _WIDTH_SLACK_M, GRIPPER_WIDTH_M[1] + _WIDTH_SLACK_M
    out = np.flatnonzero((width_m[:, 0] < low) | (width_m[:, 0] > high))
    if out.size:
        worst = int(np.argmax(np.abs(width_m[:, 0] - np.mean(GRIPPER_WIDTH_M))))
        text = (
            f"{out.size} widths are out of the gripper's range, at worst {width_m[worst, 0]:.4g} m at row "
            f"{worst} (range {GRIPPER_WIDTH_M[0]:g} to {GRIPPER_WIDTH_M[1]:g})"
        )
        findings.add("warning", "gripper-range", where, text)


def _check_still(rows: EpisodeRows, columns: dict[str, ColumnSurvey], findings: Findings) -> None:
    """A measurement that never changes while the arm is commanded to move is a dead one."""
    commanded = columns.get(COMMANDED)
    if commanded is None or commanded.values.shape[1] != 7 or len(commanded.values) < 2:
        return
    if np.ptp(commanded.values[:, :3], axis=0).max() < _MOVED_M:
        return
    for key in (JOINTS, MEASURED):
        if key in columns and np.ptp(columns[key].values, axis=0).max() < _STILL:
            text = "never changes, while the commanded position moves"
            findings.add("warning", "still", f"{rows.where}, column {key}", text)


def check_kinematics(
    rows: EpisodeRows, columns: dict[str, ColumnSurvey], findings: Findings
) -> KinematicsSurvey | None:
    """Measured poses against the forward kinematics of the joints; None where one of them is missing."""
    joints, measured = columns.get(JOINTS), columns.get(MEASURED)
    if joints is None or measured is None:
        return None
    if joints.values.shape[1] != 6 or measured.values.shape[1] != 7:
        return None
    fit = compare_kinematics(joints.values, measured.values)
    where = f"{rows.where}, column {MEASURED}"
    if fit.median_mm > _FK_MM:
        text = (
            f"the flange lies {fit.median_mm:.1f} mm (median) from the forward kinematics of the joints "
            f"with the DH variant that fits better ({fit.variant}), {fit.other_median_mm:.1f} mm with "
            "the other one"
        )
        findings.add("warning", "kinematics", where, text)
    elif fit.order == "xyzw" and _other_order(fit.order_median_deg, fit.median_deg):
        text = (
            f"the quaternions look like xyzw: read so they are {fit.order_median_deg:.1f} degrees (median) "
            f"from the forward kinematics of the joints, read as wxyz {fit.median_deg:.1f}"
        )
        findings.add("warning", "quaternion-order", where, text)
    elif fit.median_deg > _FK_DEG:
        text = (
            f"the rotation is {fit.median_deg:.1f} degrees (median) from the forward kinematics of the joints"
        )
        findings.add("warning", "kinematics", where, text)
    return fit


def _other_order(fits_deg: float, told_deg: float) -> bool:
    return fits_deg < _OTHER_ORDER_DEG and told_deg > 3 * fits_deg


def check_command(
    rows: EpisodeRows, columns: dict[str, ColumnSurvey], findings: Findings
) -> LagSurvey | None:
    """Commanded against measured poses: one order of the quaternion, and how late the arm follows."""
    commanded, measured = columns.get(COMMANDED), columns.get(MEASURED)
    if commanded is None or measured is None or rows.row_s is None:
        return None
    if commanded.values.shape[1] != 7 or measured.values.shape[1] != 7:
        return None
    _check_same_order(rows, commanded.values[:, 3:], measured.values[:, 3:], findings)
    lag = estimate_lag(rows.row_s, commanded.values[:, :3], measured.values[:, :3])
    if lag is None:
        return None
    where = f"{rows.where}, {COMMANDED} and {MEASURED}"
    if lag.correlation < _LEAST_CORRELATION:
        text = (
            f"the measured motion does not follow the commanded one: their speeds correlate by "
            f"{lag.correlation:.2f} at best"
        )
        findings.add("warning", "lag", where, text)
    elif lag.lag_ms > _MOST_LAG_MS:
        findings.add("warning", "lag", where, f"the arm follows {lag.lag_ms:.0f} ms after its command")
    elif lag.lag_ms < -1.5 * 1e3 * float(np.median(np.diff(rows.row_s))):
        text = f"the arm seems to move {-lag.lag_ms:.0f} ms before its command: are the two columns swapped?"
        findings.add("warning", "lag", where, text)
    return lag


def _check_same_order(
    rows: EpisodeRows, commanded: FloatArray, measured: FloatArray, findings: Findings
) -> None:
    told = float(np.median(quat_angles_deg(unit(commanded), unit(measured))))
    rolled = {
        "xyzw": float(np.median(quat_angles_deg(unit(np.roll(commanded, 1, axis=1)), unit(measured)))),
        "other": float(np.median(quat_angles_deg(unit(commanded), unit(np.roll(measured, 1, axis=1))))),
    }
    near = min(rolled.values())
    if _other_order(near, told):
        text = (
            f"the rotations of the two are {told:.1f} degrees apart (median), and {near:.1f} when one of "
            "them is read as xyzw"
        )
        findings.add("warning", "quaternion-order", f"{rows.where}, {COMMANDED} and {MEASURED}", text)
