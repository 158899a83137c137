"""From decoded messages to float64 vectors in SI units, as a source's settings say."""

import math
from array import array
from collections.abc import Callable, Sequence
from numbers import Real

import numpy as np

from piper_collect.bag.numbers import array_rows, array_shape, is_array, number_paths, unknown_field
from piper_collect.config.schema import ArmSettings, SourceSettings
from piper_collect.core.kinematics import PiperKinematics
from piper_collect.core.types import FloatArray
from piper_collect.errors import BagError, ConfigError

GRIPPER_RANGE_M = (0.0, 0.1)
"""Full opening of the widest Piper gripper."""
_GRIPPER_SLACK_M = 0.002
"""A calibrated gripper reads a little below zero when it is shut."""

_JOINT_FIELDS = ("position", "velocity", "effort")
_TO_SI = {"rad": 1.0, "m": 1.0, "none": 1.0, "deg": math.pi / 180.0, "mm": 1e-3, "um": 1e-6}
_LENGTHS = ("m", "mm", "um")


class FieldReader:
    """Takes one source's values out of the messages of its topic.

    The only place where ROS quaternions (xyzw) become wxyz.

    Args:
        key: Source key, for messages.
        topic: Resolved topic, for messages.
        settings: Field, selection, unit and conversion.
        arm: Base frame and DH variant.

    Raises:
        ConfigError: The unit does not fit the field.
    """

    def __init__(self, key: str, topic: str, settings: SourceSettings, arm: ArmSettings) -> None:
        self._where = f"source {key} (topic {topic})"
        self._settings = settings
        self._arm = arm
        self._cells = array("d")
        self._count = 0
        self._width: int | None = None
        # not bound to this reader: a circle of references would hold the values until Python looks for such
        self._take: Callable[[FieldReader, object], Sequence[float]] | None = None
        self._wanted: tuple[str, ...] = settings.select
        self._names: tuple[str, ...] = ()
        self._index: list[int] = []
        self._is_pose = False
        self._leaves: tuple[tuple[str, ...], ...] = ()
        self._shape: tuple[int, ...] | None = None
        self._is_width = (
            (settings.field == "position" and settings.select == ("gripper",))
            or settings.field.endswith("gripper_width")
            or ("gripper" in key and settings.unit in _LENGTHS)
        )
        if settings.convert == "forward_kinematics" and settings.unit in _LENGTHS:
            raise ConfigError(
                "forward kinematics needs angles", where=self._where, got=f"unit {settings.unit}"
            )

    @property
    def frame_id(self) -> str:
        """Frame of the values: the base frame for poses, empty otherwise."""
        fixed = self._is_pose or self._settings.convert == "forward_kinematics"
        return self._arm.base_frame if fixed else ""

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of an array as its messages tell them; empty where they tell none."""
        return self._shape or ()

    def add(self, message: object) -> None:
        """Take the values of one message.

        Raises:
            BagError: The field or a joint is not there, the number of values changes, a pose is in another
                frame than the arm's base, or the device says that it does not measure the field.
        """
        if self._take is None:
            self._take = self._choose(message)
        if self._is_pose:
            self._check_frame(message)
        row = self._take(self, message)
        if self._width is None:
            self._width = len(row)
        if len(row) != self._width:
            raise BagError(
                f"field {self._settings.field} changes its length",
                where=self._where,
                expected=self._width,
                got=len(row),
            )
        self._cells.extend(row)
        self._count += 1

    def values(self) -> FloatArray:
        """All rows as float64 [N, D] in SI units, pose7 for poses; no message is taken after that.

        Raises:
            BagError: A gripper width is out of range, or the joints are not six.
        """
        values: FloatArray = np.frombuffer(self._cells, np.float64).reshape(self._count, self._width or 0)
        scale = _TO_SI[self._settings.unit]
        if scale != 1.0:
            scales = np.full(values.shape[1], scale)
            scales[3:] = 1.0 if self._is_pose else scale
            values = values * scales
        if self._is_width:
            self._check_width(values)
        if self._settings.convert == "forward_kinematics" and len(values):
            return self._flange_poses(values)
        return values

    def _choose(self, message: object) -> "Callable[[FieldReader, object], Sequence[float]]":
        field, settings = self._settings.field, self._settings
        if field in _JOINT_FIELDS and hasattr(message, "name"):
            return FieldReader._take_joints
        found = self._follow(message)
        if settings.select:
            raise ConfigError(
                "select takes joints out of a JointState",
                where=self._where,
                got=f"field {field} of another message",
            )
        if hasattr(found, "position") and hasattr(found, "orientation"):
            if settings.unit not in (*_LENGTHS, "none"):
                raise ConfigError(
                    "unit does not fit a pose", where=self._where, got=settings.unit, valid=_LENGTHS
                )
            self._is_pose = True
            return FieldReader._take_pose
        if isinstance(found, Real):
            return FieldReader._take_number
        if is_array(self._parent(message)):
            return FieldReader._take_array
        if isinstance(found, np.ndarray) and found.dtype.kind in "iuf":
            return FieldReader._take_numbers
        self._leaves = number_paths(found)
        if self._leaves:
            return FieldReader._take_leaves
        raise BagError(
            "field is not made of numbers", where=self._where, got=f"{field}: {type(found).__name__}"
        )

    def _parent(self, message: object) -> object:
        """What has the field as its own."""
        path, _, _ = self._settings.field.rpartition(".")
        return self._follow(message, path) if path else message

    def _follow(self, message: object, path: str = "") -> object:
        found = message
        for part in (path or self._settings.field).split("."):
            if not hasattr(found, part):
                fields = [a for a in getattr(found, "__dataclass_fields__", {}) if not a.startswith("_")]
                raise BagError(
                    f"the message has no field {self._settings.field}",
                    where=self._where,
                    got=part,
                    valid=fields,
                )
            found = getattr(found, part)
        return found

    def _take_pose(self, message: object) -> Sequence[float]:
        pose = self._follow(message)
        p, q = pose.position, pose.orientation  # type: ignore[attr-defined]
        return p.x, p.y, p.z, q.w, q.x, q.y, q.z

    def _take_number(self, message: object) -> Sequence[float]:
        return (float(self._follow(message)),)  # type: ignore[arg-type]

    def _take_numbers(self, message: object) -> Sequence[float]:
        return np.asarray(self._follow(message), dtype=np.float64).ravel().tolist()

    def _take_leaves(self, message: object) -> Sequence[float]:
        found, last = self._follow(message), self._settings.field.rpartition(".")[2]
        why = unknown_field(self._parent(message), last)
        if why:
            raise BagError(why, where=self._where, got=self._settings.field)
        values = []
        for path in self._leaves:
            value = found
            for part in path:
                value = getattr(value, part)
            values.append(float(value))  # type: ignore[arg-type]
        return values

    def _take_array(self, message: object) -> Sequence[float]:
        parent = self._parent(message)
        try:
            shape, row = array_shape(parent), array_rows(parent)
        except ValueError as err:
            raise BagError(f"the array cannot be read: {err}", where=self._where) from err
        if self._shape not in (None, shape):
            raise BagError(
                "the array changes its shape", where=self._where, expected=self._shape, got=list(shape)
            )
        self._shape = shape
        return row

    def _take_joints(self, message: object) -> Sequence[float]:
        names = tuple(message.name)  # type: ignore[attr-defined]
        cells = getattr(message, self._settings.field)
        if names != self._names or not self._index:
            self._index = self._joint_index(names)
            self._names = names
        if max(self._index, default=-1) >= len(cells):
            raise BagError(
                f"{self._settings.field} has no value for every joint",
                where=self._where,
                expected=f"{len(names)} for {', '.join(names)}",
                got=len(cells),
            )
        return [cells[i] for i in self._index]

    def _joint_index(self, names: tuple[str, ...]) -> list[int]:
        self._wanted = wanted = self._wanted or names
        missing = [n for n in wanted if n not in names]
        if missing or not names:
            raise BagError(
                "the message does not name the joint",
                where=self._where,
                expected=", ".join(missing or wanted) or "named joints",
                got=", ".join(names) or "no names",
                hint="set `select` of the source to the names that the message has",
            )
        return [names.index(n) for n in wanted]

    def _check_frame(self, message: object) -> None:
        header = getattr(message, "header", None)
        frame = str(header.frame_id).lstrip("/") if header is not None else ""
        if frame == self._arm.base_frame or (not frame and self._arm.allow_empty_frame):
            return
        raise BagError(
            "the pose is in another frame than the arm's base",
            where=self._where,
            expected=self._arm.base_frame,
            got=frame or "an empty frame_id",
            hint="set arm.allow_empty_frame if it is the base frame all the same"
            if not frame
            else "set arm.base_frame, or record the pose in the base frame",
        )

    def _check_width(self, values: FloatArray) -> None:
        low, high = GRIPPER_RANGE_M[0] - _GRIPPER_SLACK_M, GRIPPER_RANGE_M[1] + _GRIPPER_SLACK_M
        off = values[(values < low) | (values > high)]
        if not off.size:
            return
        unit, worst = self._settings.unit, float(off[np.argmax(np.abs(off))])
        as_read = worst / _TO_SI[unit]
        fitting = [u for u in _LENGTHS if u != unit and low <= as_read * _TO_SI[u] <= high]
        raise BagError(
            "a gripper width is out of range",
            where=self._where,
            expected=f"{GRIPPER_RANGE_M[0]:g} to {GRIPPER_RANGE_M[1]:g} m",
            got=f"{worst:g} m ({as_read:g} read as {unit})",
            hint=f"is the topic in {fitting[0]}? set `unit: {fitting[0]}`" if fitting else "look at its zero",
        )

    def _flange_poses(self, joints: FloatArray) -> FloatArray:
        if joints.shape[1] != 6:
            raise BagError(
                "forward kinematics needs six joints",
                where=self._where,
                expected=6,
                got=joints.shape[1],
                hint="set `select` to the six arm joints",
            )
        finite = np.isfinite(joints).all(axis=1)
        poses = np.full((len(joints), 7), np.nan)
        poses[finite] = PiperKinematics(self._arm.dh_offset).forward(joints[finite])
        return poses
