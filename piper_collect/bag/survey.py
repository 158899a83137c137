"""One pass over a bag: the stamps of every topic, what its images are, and what cannot be decoded."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np

from piper_collect.bag.clocks import TopicClock
from piper_collect.bag.pictures import camera_frame, is_video
from piper_collect.bag.reader import BagMessage, BagReader
from piper_collect.core.types import CameraFrame
from piper_collect.errors import BagError, ImageError, PiperCollectError
from piper_collect.imaging.depth import depth_of_png, is_depth, to_millimetres
from piper_collect.imaging.frames import H264, check_frame, to_video_frame
from piper_collect.imaging.h264 import StreamParser
from piper_collect.imaging.h264_decoder import H264Decoder

_IMAGE_TYPES = ("Image", "CompressedImage")
SAMPLES = 8
"""Frames a camera that are decoded whole."""


@dataclass(slots=True, kw_only=True)
class Faults:
    """Messages that are not what they should be: how many, and what the first of them is."""

    count: int = 0
    first: str = ""

    def add(self, err: PiperCollectError) -> None:
        """Count one."""
        self.count += 1
        if not self.first:
            # where it is is known; an image's stamp is not
            where = err.where if isinstance(err, ImageError) else None
            self.first = str(
                PiperCollectError(
                    err.what, where=where, expected=err.expected, got=err.got, hint=err.hint, valid=err.valid
                )
            )


@dataclass(slots=True, kw_only=True)
class ImageSurvey:
    """The images of one topic.

    Attributes:
        encodings: Messages by encoding (``jpeg`` and ``png`` for compressed ones).
        sizes: Messages by (height, width).
        unusable: Those that do not become video.
        depths: How many of them are depth images, all pixels of which were looked at.
        is_depth: Whether they are to be depth images; None where nothing says what they are.
        samples: Whole frames in colour, evenly over the recording, encoded as they were; of a video decoded.
    """

    encodings: Counter[str] = field(default_factory=Counter)
    sizes: Counter[tuple[int, int]] = field(default_factory=Counter)
    unusable: Faults = field(default_factory=Faults)
    depths: int = 0
    is_depth: bool | None = None
    samples: list[CameraFrame] = field(default_factory=list)
    _video: StreamParser = field(default_factory=StreamParser)
    _decoder: H264Decoder | None = None
    _wanted: int = 0

    def add(self, topic: str, message: object, stamp_ns: int, *, keep: bool) -> None:
        """Look at one image; of those to keep every pixel is decoded."""
        try:
            frame = camera_frame(topic, message, stamp_ns)
            self.encodings[frame.encoding] += 1
            if frame.encoding == H264:
                self._add_packet(frame, keep=keep)
                return
            if self.is_depth or (self.is_depth is None and is_depth(frame)):
                self.depths += 1
                self.sizes[self._depth_size(frame)] += 1
                return
            self.sizes[check_frame(frame)] += 1
            if keep:
                to_video_frame(frame)
                self.samples.append(frame)
        except (ImageError, BagError) as err:
            self.unusable.add(err)

    def _depth_size(self, frame: CameraFrame) -> tuple[int, int]:
        """(height, width) of a depth image; a PNG is none that an export takes."""
        is_png = self.is_depth is None and frame.encoding == "png"
        depth = depth_of_png(bytes(frame.payload)) if is_png else to_millimetres(frame)
        return int(depth.shape[0]), int(depth.shape[1])

    def _add_packet(self, packet: CameraFrame, *, keep: bool) -> None:
        """Decode all that can be; a picture is kept in place of one that cannot."""
        self._wanted += keep
        look = self._video.add(packet.payload, stamp_ns=packet.stamp_ns, count=packet.count)
        if self._video.sequence is not None:
            self.sizes[self._video.sequence.height, self._video.sequence.width] += 1
        if not look.is_decodable:
            return
        self._decoder = self._decoder or H264Decoder()
        for picture in self._decoder.decode(packet):
            if self._wanted:
                self._wanted -= 1
                self.samples.append(picture)


@dataclass(slots=True, kw_only=True)
class TopicSurvey:
    """One topic.

    Attributes:
        name: Topic.
        type: Message type.
        clock: The stamps of all its messages.
        undecodable: Messages whose bytes do not fit their type; of topics other than images only the
            first is decoded whole.
        images: Of image topics.
    """

    name: str
    type: str
    clock: TopicClock = field(default_factory=TopicClock)
    count: int = 0
    undecodable: Faults = field(default_factory=Faults)
    images: ImageSurvey | None = None
    _keep: frozenset[int] = frozenset()

    def add(self, bag: BagReader, message: BagMessage) -> None:
        """Take note of one message."""
        number = self.count
        self.count += 1
        stamp_ns = None
        try:
            stamp_ns = bag.header_stamp_ns(self.name, message.payload)
            if self.images is not None:
                content = bag.decode(self.name, message.payload)
                when = stamp_ns or message.receive_ns
                self.images.add(self.name, content, when, keep=number in self._keep)
            elif number == 0:
                bag.decode(self.name, message.payload)
        except BagError as err:
            self.undecodable.add(err)
        self.clock.add(message.receive_ns, stamp_ns)


def survey_topics(
    bag: BagReader, cameras: Collection[str] = (), depths: Collection[str] = ()
) -> dict[str, TopicSurvey]:
    """Look at every message of a bag once.

    Held are the stamps (16 bytes a message) and a few frames of each image topic.

    Args:
        bag: The opened bag.
        cameras: Topics to be taken for images in colour whatever their type.
        depths: Topics to be taken for depth images whatever their type.

    Returns:
        A survey of each topic, those without messages included.

    Raises:
        BagError: The storage is damaged.
    """
    surveys = {}
    for name, info in bag.topics.items():
        is_image = (
            name in cameras
            or name in depths
            or is_video(info.type)
            or (info.type.startswith("sensor_msgs/") and info.type.rpartition("/")[2] in _IMAGE_TYPES)
        )
        picked = np.linspace(0, max(info.message_count - 1, 0), SAMPLES).astype(int)
        surveys[name] = TopicSurvey(
            name=name,
            type=info.type,
            images=ImageSurvey(is_depth=_told(name, cameras, depths)) if is_image else None,
            _keep=frozenset(int(k) for k in picked),
        )
    for message in bag.messages():
        surveys[message.topic].add(bag, message)
    return surveys


def _told(name: str, cameras: Collection[str], depths: Collection[str]) -> bool | None:
    """Whether a topic is to be depth; None where it is no camera's."""
    return True if name in depths else False if name in cameras else None
