"""The picture of a simulated camera: a table, a few things on it, and the arm as a pinhole sees them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from piper_collect.core.types import FloatArray

_NEAR_M = 0.02
_SKY = (196, 206, 214)
_TABLE = (224, 214, 196)
_GRID = (196, 184, 162)
_LINKS = ((70, 74, 82), (96, 102, 112), (70, 74, 82), (96, 102, 112), (70, 74, 82), (236, 120, 40))
_LINK_RADIUS_M = (0.045, 0.035, 0.032, 0.03, 0.028, 0.018)
_FINGER = (30, 30, 34)
_HAND_M = 0.08
_FINGERS_FROM_TO_M = (0.07, 0.135)
_CUBE = (200, 40, 48)
_BOWL = (40, 90, 180)
_CUBE_AT_M = (0.34, 0.08, 0.02)
_BOWL_AT_M = (0.32, -0.14, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A pinhole camera.

    Attributes:
        rotation: [3, 3], base axes to optical axes (x right, y down, z forward).
        position_m: Where the camera is, base frame.
        focal_px: Focal length.
        width: Columns.
        height: Rows.
    """

    rotation: FloatArray
    position_m: FloatArray
    focal_px: float
    width: int
    height: int


def look_at(
    position_m: tuple[float, float, float], target_m: tuple[float, float, float], width: int, height: int
) -> View:
    """A fixed camera at ``position_m`` looking at ``target_m``, upright, 65 degrees wide."""
    forward = np.subtract(target_m, position_m)
    forward = forward / np.linalg.norm(forward)
    right = np.cross(forward, (0.0, 0.0, 1.0))
    right = right / np.linalg.norm(right)
    rotation = np.stack([right, np.cross(forward, right), forward])
    return View(
        rotation=rotation,
        position_m=np.asarray(position_m, np.float64),
        focal_px=_focal_px(width, 65.0),
        width=width,
        height=height,
    )


def wrist_view(flange: FloatArray, width: int, height: int) -> View:
    """A camera on the flange, 6 cm above its axis, looking along it, 80 degrees wide.

    Args:
        flange: [4, 4] pose of the flange in the base frame.
        width: Columns.
        height: Rows.
    """
    x_axis, z_axis = flange[:3, 0], flange[:3, 2]
    # the flange's x axis points down in the working pose, so it is the picture's y axis
    rotation = np.stack([np.cross(x_axis, z_axis), x_axis, z_axis])
    return View(
        rotation=rotation,
        position_m=flange[:3, 3] - 0.06 * x_axis,
        focal_px=_focal_px(width, 80.0),
        width=width,
        height=height,
    )


def _focal_px(width: int, degrees: float) -> float:
    return width / (2.0 * float(np.tan(np.radians(degrees) / 2.0)))


def draw_scene(
    view: View, link_points_m: FloatArray, flange: FloatArray, gripper_width_m: float
) -> NDArray[np.uint8]:
    """Draw the scene.

    Args:
        view: The camera.
        link_points_m: [7, 3] points along the arm from base to tool tip, base frame.
        flange: [4, 4] pose of the flange in the base frame.
        gripper_width_m: Full opening.

    Returns:
        uint8 [height, width, 3] RGB; writable.
    """
    image = Image.new("RGB", (view.width, view.height), _SKY)
    draw = ImageDraw.Draw(image)
    _polygon(draw, view, _TABLE_CORNERS, _TABLE)
    _lines(draw, view, _GRID_LINES, _GRID, 0.002)
    _polygon(draw, view, _BOWL_RIM, _BOWL)
    for face, shade in zip(_CUBE_FACES, (0.7, 0.8, 0.9, 1.0), strict=True):
        _polygon(draw, view, face, tuple(int(c * shade) for c in _CUBE))
    points = link_points_m.copy()
    points[-1] = flange[:3, 3] + _HAND_M * flange[:3, 2]
    for start, end, colour, radius in zip(points[:-1], points[1:], _LINKS, _LINK_RADIUS_M, strict=True):
        _lines(draw, view, np.stack([start, end])[None], colour, 2.0 * radius, round_ends=True)
    _lines(draw, view, _finger_lines(flange, gripper_width_m), _FINGER, 0.014)
    return np.array(image)


def _finger_lines(flange: FloatArray, width_m: float) -> FloatArray:
    side = 0.5 * width_m + 0.006
    corners = [[(y, z) for z in _FINGERS_FROM_TO_M] for y in (-side, side)]
    return np.array([[flange[:3, 3] + y * flange[:3, 1] + z * flange[:3, 2] for y, z in c] for c in corners])


def _lines(
    draw: ImageDraw.ImageDraw,
    view: View,
    segments_m: FloatArray,
    colour: tuple[int, ...],
    thickness_m: float,
    *,
    round_ends: bool = False,
) -> None:
    """Segments [N, 2, 3] as lines as thick as they look from here; what is behind is cut off."""
    optical = (segments_m - view.position_m) @ view.rotation.T
    for start, end in optical:
        if start[2] < _NEAR_M and end[2] < _NEAR_M:
            continue
        if start[2] < _NEAR_M or end[2] < _NEAR_M:
            cut = start + (end - start) * (_NEAR_M - start[2]) / (end[2] - start[2])
            start, end = (cut, end) if start[2] < _NEAR_M else (start, cut)
        ends = [_pixel(view, start), _pixel(view, end)]
        thickness = max(1, round(view.focal_px * thickness_m / max(0.5 * (start[2] + end[2]), _NEAR_M)))
        thickness = min(thickness, view.height)
        draw.line(ends, fill=colour, width=thickness)
        if round_ends:
            half = thickness / 2.0
            for x, y in ends:
                draw.ellipse((x - half, y - half, x + half, y + half), fill=colour)


def _pixel(view: View, optical: FloatArray) -> tuple[float, float]:
    x = view.width / 2.0 + view.focal_px * optical[0] / optical[2]
    y = view.height / 2.0 + view.focal_px * optical[1] / optical[2]
    bound = 8.0 * view.width
    return float(np.clip(x, -bound, bound)), float(np.clip(y, -bound, bound))


def _polygon(draw: ImageDraw.ImageDraw, view: View, corners_m: FloatArray, colour: tuple[int, ...]) -> None:
    """A flat polygon [N, 3], cut at the near plane."""
    optical = (corners_m - view.position_m) @ view.rotation.T
    kept = []
    for here, after in zip(optical, np.roll(optical, -1, axis=0), strict=True):
        if here[2] >= _NEAR_M:
            kept.append(here)
        if (here[2] < _NEAR_M) != (after[2] < _NEAR_M):
            kept.append(here + (after - here) * (_NEAR_M - here[2]) / (after[2] - here[2]))
    if len(kept) >= 3:
        draw.polygon([_pixel(view, point) for point in kept], fill=colour)


def _grid_lines() -> FloatArray:
    across = [[(x, -0.5, 0.0), (x, 0.5, 0.0)] for x in np.arange(-0.2, 0.81, 0.1)]
    along = [[(-0.2, y, 0.0), (0.8, y, 0.0)] for y in np.arange(-0.5, 0.51, 0.1)]
    return np.array(across + along)


def _cube_faces() -> FloatArray:
    """Four faces far to near as the front camera sees them; top last."""
    h = 0.02
    square = np.array([(-h, -h), (h, -h), (h, h), (-h, h)])
    faces = [[(x, s * h, z) for x, z in square] for s in (-1.0, 1.0)]
    faces += [[(h, y, z) for y, z in square], [(x, y, h) for x, y in square]]
    return np.array(faces) + _CUBE_AT_M


def _bowl_rim() -> FloatArray:
    turn = np.linspace(0.0, 2.0 * np.pi, 24, endpoint=False)
    return np.stack([0.06 * np.cos(turn), 0.06 * np.sin(turn), np.full(24, 0.03)], axis=1) + _BOWL_AT_M


_TABLE_CORNERS = np.array([(-0.2, -0.5, 0.0), (0.8, -0.5, 0.0), (0.8, 0.5, 0.0), (-0.2, 0.5, 0.0)])
_GRID_LINES = _grid_lines()
_CUBE_FACES = _cube_faces()
_BOWL_RIM = _bowl_rim()
