"""What a session wants of a topic, and what was seen of it while somebody published it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from piper_collect.core.checkup import Check, CheckLevel
from piper_collect.core.pacing import ClockOffset, clock_offset
from piper_collect.core.qos_match import Qos
from piper_collect.core.types import FloatArray, StampArray

TOPICS = "topics"
"""Heading of what is found of topics."""

Origin = Literal["simulated", "session", "driver", "elsewhere"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicWish:
    """What a session wants of one topic.

    Attributes:
        topic: Absolute name.
        feeds: Settings that name it, e.g. ``sources.arm_joint``.
        required: Whether the session cannot do without it.
        origin: Who publishes it: a simulated device, another node of the session, a vendor's driver that
            must run beside it, or somebody else.
        publisher: The node, for people; empty where it is not known.
        start: Command that starts the driver; empty where it is not known.
        starts_with_launch: Whether the launch file starts the driver.
        readers: Nodes of the session that subscribe with a QoS of their own, and what they ask for. (The
            recorder asks for what is offered.)
        repeats: Whether a stamp that comes twice is as it should be.
        bare: Whether it has no stamps, and needs none.
        max_age_ms: Greatest age of a sample in a row; None where it feeds none.
        rows_hz: Rows a second that it feeds; None where it feeds none.
        camera_hz: Nominal rate of a camera.
        camera_size: (width, height) as configured.
    """

    topic: str
    feeds: tuple[str, ...]
    required: bool
    origin: Origin = "elsewhere"
    publisher: str = ""
    start: str = ""
    starts_with_launch: bool = False
    readers: Mapping[str, Qos] = field(default_factory=dict)
    repeats: bool = False
    bare: bool = False
    max_age_ms: float | None = None
    rows_hz: float | None = None
    camera_hz: float | None = None
    camera_size: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Publisher:
    """One publisher of a topic.

    Attributes:
        node: Its node's full name.
        type: Message type.
        qos: What it offers.
    """

    node: str
    type: str
    qos: Qos


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PictureLook:
    """Some of the pictures of a camera, evenly over the time that was looked.

    Attributes:
        encodings: As they came, e.g. ``rgb8`` or ``jpeg``.
        sizes: (width, height) as they came.
        luma: float64 [F] mean brightness of each, 0 to 255.
        contrast: float64 [F] standard deviation of the brightness.
        distinct: How many differ, byte by byte.
    """

    encodings: tuple[str, ...]
    sizes: tuple[tuple[int, int], ...]
    luma: FloatArray
    contrast: FloatArray
    distinct: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TopicLook:
    """What was seen of one topic.

    Attributes:
        publishers: Who publishes it.
        refusal: Why the recorder would start no episode for it, in the recorder's words; empty when it would.
        receive_ns: int64 [N] times of receipt.
        stamp_ns: int64 [N] header stamps, 0 where unset; None where the type has no header.
        lost: Messages that were published and did not arrive.
        read: Messages that were read as the session reads them.
        unread: Of those, how many could not be.
        unread_first: Why the first could not.
        pictures: Of a camera's topic whose pictures could be read.
        near_names: Topics that somebody publishes and that are called much the same.
    """

    publishers: tuple[Publisher, ...] = ()
    refusal: str = ""
    receive_ns: StampArray = field(default_factory=lambda: np.empty(0, np.int64))
    stamp_ns: StampArray | None = field(default_factory=lambda: np.empty(0, np.int64))
    lost: int = 0
    read: int = 0
    unread: int = 0
    unread_first: str = ""
    pictures: PictureLook | None = None
    near_names: tuple[str, ...] = ()

    @property
    def set_stamps(self) -> StampArray:
        """int64 stamps of the messages that have one, in the order received."""
        return np.empty(0, np.int64) if self.stamp_ns is None else self.stamp_ns[self.stamp_ns > 0]

    @property
    def offset(self) -> ClockOffset | None:
        """How the stamps stand to the times of receipt; None where none is set."""
        if self.stamp_ns is None or not (self.stamp_ns > 0).any():
            return None
        return clock_offset(self.receive_ns[self.stamp_ns > 0], self.set_stamps)


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainLook:
    """What was seen on the ROS domain.

    Attributes:
        topics: By absolute name.
        session: Nodes that publish a recorder's status: another session runs.
        clocks: Nodes that publish simulation time.
    """

    topics: Mapping[str, TopicLook]
    session: tuple[str, ...] = ()
    clocks: tuple[str, ...] = ()


def topic_check(wish: TopicWish, level: CheckLevel, what: str, found: str, **more: str) -> Check:
    """A check of a topic; ``more`` may hold ``expected`` and ``hint``."""
    return Check(level=level, group=TOPICS, where=wish.topic, what=what, found=found, **more)
