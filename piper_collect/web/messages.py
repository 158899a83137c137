"""What a page may say, checked to the last key: JSON text in, values of ours out.

Poses are lists of seven numbers, x y z in m and the quaternion x y z w, as WebXR has them; None where the
frame had no pose.
"""

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NoReturn, TypeAlias

from piper_collect.core.quest import QuestController, QuestSample, XrPose
from piper_collect.errors import LinkError

MOST_BYTES = 8192
"""No message of the page is longer."""

MOST_BUTTONS = 16
MOST_AXES = 8
MOST_PROFILES = 8
FURTHEST_M = 100.0
GREATEST_SEQUENCE = 2**53
VISIBILITIES = ("visible", "visible-blurred", "hidden")

_PROFILE = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_SLACK = 1e-6  # values that went through float32
_UNIT_TOLERANCE = 1e-2


@dataclass(frozen=True, slots=True, kw_only=True)
class PairMessage:
    """The operator typed the code of the terminal."""

    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeMessage:
    """A page that was paired comes back; ``token`` is the pass it was given."""

    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeMessage:
    """The terminal shall show a new code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveMessage:
    """The operator gives his place to another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputMessage:
    """One frame of the headset; the stamp is not set yet."""

    sample: QuestSample

    def stamped(self, stamp_ns: int) -> QuestSample:
        """The sample, which arrived at ``stamp_ns``."""
        return replace(self.sample, stamp_ns=stamp_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchMessage:
    """A page wants the cameras' pictures; ``token`` is its pass, empty for none."""

    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownMessage:
    """The picture of a camera (by its place in the list) was drawn: the next one may come."""

    camera: int


ClientMessage: TypeAlias = (
    PairMessage | ResumeMessage | CodeMessage | LeaveMessage | InputMessage | WatchMessage | ShownMessage
)


def parse_message(text: str) -> ClientMessage:
    """Check one message of a page.

    Raises:
        LinkError: Anything about it is not as it must be.
    """
    if len(text) > MOST_BYTES:
        _refuse("message", f"at most {MOST_BYTES} characters", len(text))
    try:
        content = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as err:
        raise LinkError("the message is not JSON", where="message") from err
    if not isinstance(content, dict):
        _refuse("message", "an object", type(content).__name__)
    kind = content.get("type")
    parser = _PARSERS.get(kind) if isinstance(kind, str) else None
    if parser is None:
        _refuse("type", f"one of {', '.join(_PARSERS)}", _shown(kind))
    return parser(content)


def _pair(content: dict[str, Any]) -> PairMessage:
    _keys(content, "pair", "type", "code")
    return PairMessage(code=_text(content["code"], "code", 16))


def _resume(content: dict[str, Any]) -> ResumeMessage:
    _keys(content, "resume", "type", "token")
    return ResumeMessage(token=_text(content["token"], "token", 128))


def _code(content: dict[str, Any]) -> CodeMessage:
    _keys(content, "code", "type")
    return CodeMessage()


def _leave(content: dict[str, Any]) -> LeaveMessage:
    _keys(content, "leave", "type")
    return LeaveMessage()


def _watch(content: dict[str, Any]) -> WatchMessage:
    _keys(content, "watch", "type", "token")
    return WatchMessage(token=_text(content["token"], "token", 128))


def _shown_frame(content: dict[str, Any]) -> ShownMessage:
    _keys(content, "shown", "type", "camera")
    return ShownMessage(camera=_whole(content["camera"], "camera", 255))


def _input(content: dict[str, Any]) -> InputMessage:
    _keys(content, "input", "type", "sequence", "time_ms", "visibility", "head", "left", "right")
    visibility = content["visibility"]
    if visibility not in VISIBILITIES:
        _refuse("visibility", f"one of {', '.join(VISIBILITIES)}", _shown(visibility))
    head = _pose(content["head"], "head")
    sample = QuestSample(
        stamp_ns=0,
        headset_time_ms=_number(content["time_ms"], "time_ms", 0.0, float(GREATEST_SEQUENCE)),
        sequence=_whole(content["sequence"], "sequence", GREATEST_SEQUENCE),
        visibility=visibility,
        head_valid=head is not None,
        head_pose=head or XrPose(),
        left=_controller(content["left"], "left"),
        right=_controller(content["right"], "right"),
    )
    return InputMessage(sample=sample)


def _controller(content: Any, where: str) -> QuestController:
    if content is None:
        return QuestController()
    _keys(content, where, "profiles", "grip", "emulated", "aim", "buttons", "axes")
    profiles = _list(content["profiles"], f"{where}.profiles", MOST_PROFILES)
    for profile in profiles:
        if not isinstance(profile, str) or not _PROFILE.fullmatch(profile):
            _refuse(f"{where}.profiles", "names of input profiles", _shown(profile))
    emulated = content["emulated"]
    if not isinstance(emulated, bool):
        _refuse(f"{where}.emulated", "true or false", _shown(emulated))
    grip, aim = _pose(content["grip"], f"{where}.grip"), _pose(content["aim"], f"{where}.aim")
    values, pressed, touched = _buttons(content["buttons"], f"{where}.buttons")
    axes = _list(content["axes"], f"{where}.axes", MOST_AXES)
    return QuestController(
        connected=True,
        profiles=tuple(profiles),
        pose_valid=grip is not None,
        pose_emulated=emulated,
        grip_pose=grip or XrPose(),
        aim_valid=aim is not None,
        aim_pose=aim or XrPose(),
        button_values=values,
        button_pressed=pressed,
        button_touched=touched,
        axes=tuple(_number(value, f"{where}.axes", -1.0 - _SLACK, 1.0 + _SLACK) for value in axes),
    )


def _buttons(content: Any, where: str) -> tuple[tuple[float, ...], tuple[bool, ...], tuple[bool, ...]]:
    values, pressed, touched = [], [], []
    for button in _list(content, where, MOST_BUTTONS):
        if not isinstance(button, list) or len(button) != 3:
            _refuse(where, "[value, pressed, touched] each", _shown(button))
        if not isinstance(button[1], bool) or not isinstance(button[2], bool):
            _refuse(where, "pressed and touched true or false", _shown(button))
        values.append(_number(button[0], where, 0.0, 1.0 + _SLACK))
        pressed.append(button[1])
        touched.append(button[2])
    return tuple(values), tuple(pressed), tuple(touched)


def _pose(content: Any, where: str) -> XrPose | None:
    if content is None:
        return None
    if not isinstance(content, list) or len(content) != 7:
        _refuse(where, "seven numbers or null", _shown(content))
    x, y, z, qx, qy, qz, qw = (_number(value, where, -FURTHEST_M, FURTHEST_M) for value in content)
    if abs(math.hypot(qx, qy, qz, qw) - 1.0) > _UNIT_TOLERANCE:
        _refuse(where, "a unit quaternion", f"norm {math.hypot(qx, qy, qz, qw):.3f}")
    return XrPose(position_m=(x, y, z), orientation_xyzw=(qx, qy, qz, qw))


def _number(value: Any, where: str, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        _refuse(where, f"a number from {low:g} to {high:g}", _shown(value))
    return float(value)


def _whole(value: Any, where: str, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= high:
        _refuse(where, f"a whole number from 0 to {high}", _shown(value))
    return int(value)


def _text(value: Any, where: str, longest: int) -> str:
    if not isinstance(value, str) or len(value) > longest or not value.isascii():
        raise LinkError("not as it must be", where=where, expected=f"at most {longest} plain characters")
    return value


def _list(value: Any, where: str, longest: int) -> list[Any]:
    if not isinstance(value, list) or len(value) > longest:
        _refuse(where, f"a list of at most {longest}", _shown(value))
    return value


def _keys(content: Any, where: str, *names: str) -> None:
    if not isinstance(content, dict):
        _refuse(where, "an object", _shown(content))
    if content.keys() != set(names):
        _refuse(where, f"the keys {', '.join(names)}", _shown(sorted(content)))


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        raise ValueError("a key is given twice")
    return content


def _no_constant(_text: str) -> NoReturn:
    raise ValueError("NaN and Infinity are no JSON")


def _shown(value: Any) -> str:
    """What was there, short enough to be told."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _refuse(where: str, expected: str, got: object) -> NoReturn:
    raise LinkError("not as it must be", where=where, expected=expected, got=got)


_PARSERS: dict[str, Callable[[dict[str, Any]], ClientMessage]] = {
    "pair": _pair,
    "resume": _resume,
    "code": _code,
    "leave": _leave,
    "input": _input,
    "watch": _watch,
    "shown": _shown_frame,
}
