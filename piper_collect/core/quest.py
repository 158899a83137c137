"""The raw sample of a WebXR headset, field for field as the QuestInput message carries it.

WebXR axes: right-handed, x right, y up, z towards the wearer, metres, origin of the ``local-floor``
space. Button and axis numbers: profile ``meta-quest-touch-plus`` of immersive-web/webxr-input-profiles.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from piper_collect.core.se3 import quat_normalize_wxyz
from piper_collect.core.types import FloatArray

Hand: TypeAlias = Literal["left", "right"]
Vector3: TypeAlias = tuple[float, float, float]
Quaternion: TypeAlias = tuple[float, float, float, float]

TRIGGER = 0
SQUEEZE = 1
THUMBSTICK = 3
PRIMARY = 4
"""A on the right controller, X on the left."""
SECONDARY = 5
"""B on the right controller, Y on the left."""
THUMBSTICK_AXES = (2, 3)
BUTTON_COUNT = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class XrPose:
    """A pose in the ``local-floor`` space, WebXR axes.

    Attributes:
        position_m: x right, y up, z back.
        orientation_xyzw: Unit quaternion.
    """

    position_m: Vector3 = (0.0, 0.0, 0.0)
    orientation_xyzw: Quaternion = (0.0, 0.0, 0.0, 1.0)

    def flu(self) -> FloatArray:
        """The same pose as ``webxr_to_flu_pose`` gives it."""
        return webxr_to_flu_pose(self.position_m, self.orientation_xyzw)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestController:
    """One controller as WebXR reports it.

    Attributes:
        connected: The session lists an input source for this hand.
        pose_valid: The grip pose could be had.
        pose_emulated: The headset guesses the position (WebXR ``emulatedPosition``).
        grip_pose: Pose of the grip space; meaningless unless ``pose_valid``.
        aim_valid: The target ray pose could be had.
        aim_pose: Pose of the target ray space; meaningless unless ``aim_valid``.
        profiles: Input profile names, most specific first.
        button_values: 0 to 1 each.
        button_pressed: As the gamepad says it, one for each value.
        button_touched: As the gamepad says it, one for each value.
        axes: -1 to 1 each.
    """

    connected: bool = False
    pose_valid: bool = False
    pose_emulated: bool = False
    grip_pose: XrPose = XrPose()
    aim_valid: bool = False
    aim_pose: XrPose = XrPose()
    profiles: tuple[str, ...] = ()
    button_values: tuple[float, ...] = ()
    button_pressed: tuple[bool, ...] = ()
    button_touched: tuple[bool, ...] = ()
    axes: tuple[float, ...] = ()

    @property
    def trigger(self) -> float:
        """Index finger, 0 (open) to 1; 0 where there is no such button."""
        return self._value(TRIGGER)

    @property
    def squeeze(self) -> float:
        """Grip, 0 (open) to 1; 0 where there is no such button."""
        return self._value(SQUEEZE)

    @property
    def primary(self) -> bool:
        """A (right) or X (left) is pressed."""
        return self._pressed(PRIMARY)

    @property
    def secondary(self) -> bool:
        """B (right) or Y (left) is pressed."""
        return self._pressed(SECONDARY)

    @property
    def thumbstick_pressed(self) -> bool:
        """The thumbstick is pushed in."""
        return self._pressed(THUMBSTICK)

    @property
    def thumbstick(self) -> tuple[float, float]:
        """Thumbstick x (right) and y (towards the wearer), -1 to 1; zeros where there is none."""
        x, y = THUMBSTICK_AXES
        return (self.axes[x], self.axes[y]) if len(self.axes) > y else (0.0, 0.0)

    def _value(self, index: int) -> float:
        return self.button_values[index] if len(self.button_values) > index else 0.0

    def _pressed(self, index: int) -> bool:
        return len(self.button_pressed) > index and self.button_pressed[index]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestSample:
    """Headset and both controllers at one frame of the headset.

    Attributes:
        stamp_ns: Arrival on the host, ns since the epoch.
        headset_time_ms: Time of the frame on the headset's own clock.
        sequence: Counts up by one a sample; starts again when the page is loaded again.
        visibility: WebXR session state: ``visible``, ``visible-blurred`` or ``hidden``.
        head_valid: The viewer pose could be had.
        head_pose: Pose of the viewer; meaningless unless ``head_valid``.
        left: Left controller.
        right: Right controller.
    """

    stamp_ns: int
    headset_time_ms: float
    sequence: int
    visibility: str
    head_valid: bool = False
    head_pose: XrPose = XrPose()
    left: QuestController = QuestController()
    right: QuestController = QuestController()

    def controller(self, hand: Hand) -> QuestController:
        """The controller of one hand."""
        return self.left if hand == "left" else self.right


def webxr_to_flu_pose(position_m: Vector3, orientation_xyzw: Quaternion) -> FloatArray:
    """Pose [7] in ROS axes (x forward, y left, z up) of a pose in WebXR axes; same origin.

    Both the frame and the body axes are renamed, so an untouched controller stays at identity.

    Raises:
        KinematicsError: The quaternion is zero or not finite.
    """
    x, y, z = position_m
    qx, qy, qz, qw = orientation_xyzw
    quat = quat_normalize_wxyz((qw, -qz, -qx, qy))
    return np.concatenate((np.array((-z, -x, y), dtype=np.float64), quat))
