"""What a recorder is fed: processes that publish messages made beforehand, and note what they sent.

``python -m bench.publishers LOAD PROCESS FILE`` is one of them; it publishes until SIGTERM, then writes the
stamps of all it sent to FILE, by topic. Only the stamp of a message is new each time; pictures take turns,
since a recorder may look whether a camera is frozen.
"""

import heapq
import importlib
import signal
import sys
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle
from pathlib import Path
from time import sleep, time, time_ns
from typing import Any

import numpy as np
import simplejpeg
from numpy.typing import NDArray

from bench.recordings import FPS, JPEG_QUALITY, SIZE, STATE_HZ, pictures

_STAMP_AT = 4
"""Bytes before the stamp in a message that begins with a header: the encapsulation."""


_TURNS = 4
_Fields = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """One topic of a load.

    Attributes:
        topic: Its absolute name.
        type: Of its messages, as ``pkg/msg/Name``.
        rate_hz: Messages a second.
        fields: Makes the fields of its messages, which take turns, but for the header.
    """

    topic: str
    type: str
    rate_hz: float
    fields: Callable[[], list[_Fields]] = field(repr=False)


def _image(encoding: str, rows: NDArray[Any]) -> _Fields:
    height, width = SIZE
    pixels = array("B", rows.tobytes())
    step = len(pixels) // height
    return {"height": height, "width": width, "encoding": encoding, "step": step, "data": pixels}


def _raw(seed: int) -> list[_Fields]:
    return [_image("rgb8", picture) for picture in pictures(seed, _TURNS)]


def _depth() -> list[_Fields]:
    rng = np.random.default_rng(0)
    return [_image("16UC1", rng.normal(700, 20, SIZE).astype(np.uint16)) for _ in range(_TURNS)]


def _jpeg(seed: int) -> list[_Fields]:
    encoded = [
        simplejpeg.encode_jpeg(picture, quality=JPEG_QUALITY, colorsubsampling="420")
        for picture in pictures(seed, _TURNS)
    ]
    return [{"format": "rgb8; jpeg compressed bgr8", "data": array("B", jpeg)} for jpeg in encoded]


def _joints() -> list[_Fields]:
    return [{"name": [*(f"joint{i}" for i in range(1, 7)), "gripper"], "position": [0.1] * 7}]


def _pose() -> list[_Fields]:
    return [{}]


def _cameras(number: int, make: Callable[[int], list[_Fields]]) -> list[tuple[Feed, ...]]:
    """A process a camera."""
    kind, suffix = ("Image", "") if make is _raw else ("CompressedImage", "/compressed")
    return [
        (
            Feed(
                topic=f"/cam_{k}/image_raw{suffix}",
                type=f"sensor_msgs/msg/{kind}",
                rate_hz=FPS,
                fields=partial(make, k),
            ),
        )
        for k in range(number)
    ]


_ARM = (
    Feed(topic="/arm/joint_states", type="sensor_msgs/msg/JointState", rate_hz=STATE_HZ, fields=_joints),
    Feed(topic="/arm/flange_pose", type="geometry_msgs/msg/PoseStamped", rate_hz=STATE_HZ, fields=_pose),
)
_DEPTH = (Feed(topic="/depth/image_raw", type="sensor_msgs/msg/Image", rate_hz=FPS, fields=_depth),)

LOADS: dict[str, list[tuple[Feed, ...]]] = {
    "raw3": [*_cameras(3, _raw), _DEPTH, _ARM],
    "raw6": [*_cameras(6, _raw), _DEPTH, _ARM],
    "raw9": [*_cameras(9, _raw), _DEPTH, _ARM],
    "jpeg3": [*_cameras(3, _jpeg), _ARM],
    "jpeg9": [*_cameras(9, _jpeg), _ARM],
}
"""By name: what each process of a load publishes."""


def feeds(load: str) -> list[Feed]:
    """All topics of a load."""
    return [feed for process in LOADS[load] for feed in process]


def main(load: str, process: str, file: str) -> None:
    """Publish until SIGTERM, and write what was sent."""
    import rclpy
    from rclpy.signals import SignalHandlerOptions

    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: asked.append(number))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    node = rclpy.create_node(f"bench_publisher_{process}")
    wanted = LOADS[load][int(process)]
    sent = _publish(node, wanted, int(process), asked)
    topics, stamps = [feed.topic for feed in wanted], [np.array(s, np.int64) for s in sent]
    with Path(file).open("xb") as out:
        np.savez(out, **dict(zip(topics, stamps, strict=True)))  # type: ignore[arg-type]
    rclpy.shutdown()


def _publish(node: Any, wanted: tuple[Feed, ...], process: int, asked: list[int]) -> list["array[int]"]:
    """The stamps that were sent, by feed; processes do not send all at the same moment."""
    messages = [cycle(_messages(feed)) for feed in wanted]
    publishers = [_publisher(node, feed) for feed in wanted]
    sent = [array("q") for _ in wanted]
    now_s = time()
    due = [(now_s + 0.007 * process + 0.002 * k, k) for k in range(len(wanted))]
    while not asked:
        due_s, k = heapq.heappop(due)
        if (left_s := due_s - time()) > 0.0:
            sleep(left_s)
        stamp_ns = time_ns()
        seconds, nanoseconds = divmod(stamp_ns, 10**9)
        stamp = seconds.to_bytes(4, "little") + nanoseconds.to_bytes(4, "little")
        message = next(messages[k])
        message[_STAMP_AT : _STAMP_AT + 8] = stamp
        publishers[k].publish(bytes(message))
        sent[k].append(stamp_ns)
        heapq.heappush(due, (due_s + 1.0 / wanted[k].rate_hz, k))
    return sent


def _message_class(feed: Feed) -> Any:
    package, kind, name = feed.type.split("/")
    return getattr(importlib.import_module(f"{package}.{kind}"), name)


def _messages(feed: Feed) -> list[bytearray]:
    from rclpy.serialization import serialize_message

    messages = [_message_class(feed)(**fields) for fields in feed.fields()]
    for message in messages:
        message.header.frame_id = "base_link"
    return [bytearray(serialize_message(message)) for message in messages]


def _publisher(node: Any, feed: Feed) -> Any:
    from piper_collect.nodes.qos import STREAM_QOS

    return node.create_publisher(_message_class(feed), feed.topic, STREAM_QOS)


if __name__ == "__main__":
    main(*sys.argv[1:])
