"""Columns that are made from others: in other units, another order, or another frame."""

from dataclasses import dataclass
from typing import Literal

Form = Literal["as_is", "deg", "mm", "pose_xyzw", "pose_rot6d"]

POSE_FORMS: dict[str, int] = {"pose_xyzw": 7, "pose_rot6d": 9}
"""Elements that a pose (xyz, quaternion wxyz) has in each form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnPart:
    """A column of the profile, in the form that it has in another one.

    Attributes:
        column: Key of a column with a source.
        form: ``as_is``; ``deg`` of radians; ``mm`` of metres; ``pose_xyzw``: xyz and the quaternion xyzw;
            ``pose_rot6d``: xyz and the first two columns of the rotation matrix, one after the other.
        tool: Of a pose: that of the profile's tool frame instead of the flange.
    """

    column: str
    form: Form = "as_is"
    tool: bool = False

    def __post_init__(self) -> None:
        if self.tool and self.form not in POSE_FORMS:
            raise ValueError(f"the tool frame of {self.column} needs the form of a pose, not {self.form}")

    def width(self, elements: int) -> int:
        """Elements of this form of a column of ``elements``."""
        return POSE_FORMS.get(self.form, elements)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFrame:
    """A frame that is fixed to the flange.

    Attributes:
        translation_m: Its origin in the flange frame.
        yaw_deg: Its rotation about the flange's z axis.
    """

    translation_m: tuple[float, float, float] = (0.0, 0.0, 0.0)
    yaw_deg: float = 0.0
