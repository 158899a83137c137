"""What a bag holds beside rows and pictures: the raw headset stream, and the cameras' intrinsics."""

import dataclasses
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from piper_collect.bag.definitions import full_type_name
from piper_collect.bag.reader import BagReader
from piper_collect.bag.sidecar import read_record
from piper_collect.config.names import camera_info_topic, resolve_topic
from piper_collect.config.schema import SessionConfig
from piper_collect.errors import BagError
from piper_collect.files import replacing

QUEST_INPUT = "piper_collect/msg/QuestInput"
CAMERA_INFO = "sensor_msgs/msg/CameraInfo"
_TIME = "builtin_interfaces/msg/Time"
_STAMP_END = 12
"""Encapsulation (4 bytes) and the leading header's stamp (8): what follows is equal while nothing changes."""


def message_values(message: object) -> dict[str, object]:
    """A decoded message as values that strict JSON can hold, with nothing lost.

    Field by field, nested messages as objects, arrays as lists. A time becomes int64 nanoseconds and its
    name gets ``_ns`` (``header.stamp`` is ``header.stamp_ns``). A number that is not finite is one of the
    strings ``NaN``, ``Infinity`` and ``-Infinity``, which Python's ``float`` reads back; finite ones are
    written so that they come back to the bit.
    """
    values: dict[str, object] = {}
    for item in dataclasses.fields(message):  # type: ignore[arg-type]
        if item.name.startswith("_"):  # the type's name, no field of the message
            continue
        value = getattr(message, item.name)
        if getattr(value, "__msgtype__", "") == _TIME:
            values[f"{item.name}_ns"] = value.sec * 1_000_000_000 + value.nanosec
        else:
            values[item.name] = _plain(value)
    return values


def quest_lines(bag: BagReader, topic: str, start_ns: int, end_ns: int) -> Iterator[dict[str, object]]:
    """The QuestInput messages of an episode, in the order recorded, one JSON-ready object each.

    Args:
        bag: The opened bag.
        topic: Resolved topic name; one that the bag does not have yields nothing.
        start_ns: First stamp of the episode.
        end_ns: Last stamp of the episode. A message whose stamp is unset counts by its receive time.

    Yields:
        ``receive_ns``, then every field as ``message_values`` has it.

    Raises:
        BagError: The topic is of another type, or a message cannot be decoded.
    """
    if topic not in bag.topics:
        return
    _check_type(bag, topic, QUEST_INPUT)
    for message in bag.messages([topic]):
        stamp_ns = bag.header_stamp_ns(topic, message.payload) or message.receive_ns
        if start_ns <= stamp_ns <= end_ns:
            yield {
                "receive_ns": message.receive_ns,
                **message_values(bag.decode(topic, message.payload)),
            }


def write_quest_jsonl(bag: BagReader, topic: str, start_ns: int, end_ns: int, path: Path) -> int:
    """Write ``quest_lines`` to ``path``, one JSON object a line, ASCII only; the file is whole or not there.

    Returns:
        Lines written; with none there is no file.

    Raises:
        BagError: As ``quest_lines``.
        OSError: The file cannot be written.
    """
    lines = quest_lines(bag, topic, start_ns, end_ns)
    first = next(lines, None)
    if first is None:
        return 0
    count = 1
    with replacing(path) as file:
        file.write(_json_line(first))
        for line in lines:
            file.write(_json_line(line))
            count += 1
    return count


@dataclass(frozen=True, slots=True, kw_only=True)
class CameraInfos:
    """The intrinsics of a bag's cameras.

    Attributes:
        by_camera: JSON-ready values by camera name; a camera without a CameraInfo message is not there.
        notes: What is missing or changed, in plain sentences.
    """

    by_camera: Mapping[str, dict[str, object]]
    notes: tuple[str, ...] = ()


def camera_infos(bag: BagReader, config: SessionConfig) -> CameraInfos:
    """What the first CameraInfo message of each camera says, with its topic and its serial number.

    The values have the names of the message: ``width``, ``height``, ``distortion_model``, ``d``, ``k``,
    ``r``, ``p``, ``binning_x``, ``binning_y``, ``roi``, and ``frame_id`` of its header. ``serial`` is that of
    the session's record, which the device itself may have said, else the configured one, else null. Messages
    are compared to the end of the bag, their stamps apart.

    Raises:
        BagError: A message cannot be decoded.
    """
    topics = {
        name: resolve_topic(camera_info_topic(name, camera), config.session.namespace)
        for name, camera in config.cameras.items()
    }
    serials = _recorded_serials(bag)
    seen = _compared(bag, {topic for topic in topics.values() if _is_camera_info(bag, topic)})
    infos, notes = {}, []
    for name, topic in topics.items():
        if topic not in seen:
            notes.append(f"camera {name}: {_why_missing(bag, topic)}, so its intrinsics are unknown")
            continue
        serial = serials.get(name) or config.cameras[name].serial or None
        infos[name] = {"topic": topic, "serial": serial, **seen[topic].values}
        notes += [f"camera {name}: {note}" for note in seen[topic].notes()]
    return CameraInfos(by_camera=infos, notes=tuple(notes))


def _recorded_serials(bag: BagReader) -> dict[str, str]:
    cameras = (read_record(bag).session_record or {}).get("cameras")
    found = cameras if isinstance(cameras, Mapping) else {}
    return {
        str(name): str(camera["serial"])
        for name, camera in found.items()
        if isinstance(camera, Mapping) and camera.get("serial")
    }


@dataclass(slots=True, kw_only=True)
class _InfoTopic:
    """The first message of a CameraInfo topic, and how many of the later ones differ from it."""

    values: dict[str, object]
    body: bytes
    messages: int = 1
    differing: int = 0
    fields: set[str] = dataclasses.field(default_factory=set)

    def notes(self) -> list[str]:
        if not self.differing:
            return []
        return [
            f"{self.differing} of {self.messages} CameraInfo messages differ from the first one, which is"
            f" kept, in {', '.join(sorted(self.fields))}"
        ]


def _compared(bag: BagReader, topics: set[str]) -> dict[str, _InfoTopic]:
    seen: dict[str, _InfoTopic] = {}
    for topic, _, payload, *_ in bag.messages(topics) if topics else ():
        body, first = payload[_STAMP_END:], seen.get(topic)
        if first is None:
            seen[topic] = _InfoTopic(values=_info_values(bag, topic, payload), body=body)
            continue
        first.messages += 1
        if body == first.body:
            continue
        values = _info_values(bag, topic, payload)
        fields = {key for key, value in values.items() if value != first.values[key]}
        first.differing += bool(fields)
        first.fields |= fields
    return seen


def _info_values(bag: BagReader, topic: str, payload: bytes) -> dict[str, object]:
    values = message_values(bag.decode(topic, payload))
    header = values.pop("header")
    frame_id = header["frame_id"] if isinstance(header, Mapping) else ""
    return {"frame_id": frame_id, **values}


def _is_camera_info(bag: BagReader, topic: str) -> bool:
    return topic in bag.topics and full_type_name(bag.topics[topic].type) == CAMERA_INFO


def _why_missing(bag: BagReader, topic: str) -> str:
    if topic in bag.topics and not _is_camera_info(bag, topic):
        return f"{topic} is no CameraInfo but {bag.topics[topic].type}"
    return f"no CameraInfo on {topic}"


def _check_type(bag: BagReader, topic: str, expected: str) -> None:
    got = bag.topics[topic].type
    if full_type_name(got) != expected:
        raise BagError("the topic has another type", where=f"{bag.path} {topic}", expected=expected, got=got)


def _plain(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else _not_finite(value)
    if isinstance(value, np.ndarray):
        return [_plain(element) for element in value.tolist()]
    if isinstance(value, list | tuple):
        return [_plain(element) for element in value]
    return message_values(value) if dataclasses.is_dataclass(value) else value


def _not_finite(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _json_line(values: Mapping[str, object]) -> bytes:
    return json.dumps(values, allow_nan=False).encode("ascii") + b"\n"
