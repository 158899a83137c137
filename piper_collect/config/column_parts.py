"""Columns that are made from others: in other units, another order, or another frame."""

from dataclasses import dataclass
from typing import Literal

Form = Literal["as_is", "deg", "mm", "pose_xyzw", "pose_rot6d", "zeros"]

POSE_FORMS: dict[str, int] = {"pose_xyzw": 7, "pose_rot6d": 9}
"""Elements that a pose (xyz, quaternion wxyz) has in each form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnPart:
    """A column of the profile, in the form that it has in another one.

    Attributes:
        column: Key of a column with a source; empty for ``zeros``.
        form: ``as_is``; ``deg`` of radians; ``mm`` of metres; ``pose_xyzw``: xyz and the quaternion xyzw;
            ``pose_rot6d``: xyz and the first two columns of the rotation matrix, one after the other;
            ``zeros``: ``count`` zeros, where a layout wants numbers that the rig has not. They are nothing
            measured: info.json names them as ``zero_filled``.
        tool: Of a pose: that of the profile's tool frame instead of the flange.
        local: Of a pose: as seen from that of the episode's first row.
        next_row: The value of the row after; in the last row its own.
        count: How many zeros.
    """

    column: str = ""
    form: Form = "as_is"
    tool: bool = False
    local: bool = False
    next_row: bool = False
    count: int = 0

    def __post_init__(self) -> None:
        if self.form == "zeros":
            if self.column or self.tool or self.local or self.next_row or self.count < 1:
                raise ValueError(f"the form zeros needs a count, and nothing else (got count {self.count})")
            return
        if not self.column or self.count:
            raise ValueError(f"the form {self.form} needs a column, and no count")
        for flag in ("tool", "local"):
            if getattr(self, flag) and self.form not in POSE_FORMS:
                raise ValueError(
                    f"the {flag} frame of {self.column} needs the form of a pose, not {self.form}"
                )

    def width(self, elements: int) -> int:
        """Elements of this form of a column of ``elements``."""
        return self.count or POSE_FORMS.get(self.form, elements)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFrame:
    """A frame that is fixed to the flange.

    Attributes:
        translation_m: Its origin in the flange frame.
        yaw_deg: Its rotation about the flange's z axis.
    """

    translation_m: tuple[float, float, float] = (0.0, 0.0, 0.0)
    yaw_deg: float = 0.0
