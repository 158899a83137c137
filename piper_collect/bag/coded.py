"""A camera's messages in a bag: pictures as they are, and the packets of videos, which need each other."""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from piper_collect.bag.pictures import camera_frame, no_key_frame
from piper_collect.bag.reader import BagMessage, BagReader, open_bag
from piper_collect.bag.timeline import Timeline
from piper_collect.core.types import BoolArray, CameraFrame, CodedVideo, StampArray
from piper_collect.errors import ImageError
from piper_collect.imaging.h264 import SequenceParameters, StreamParser
from piper_collect.imaging.h264_decoder import H264Decoder

_KEY, _DECODABLE, _AFTER_LOSS = 1, 2, 4
_UNSET = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFrames:
    """Yields a camera's messages, as recorded, out of the bag, which each call opens again.

    Its checksums are not looked at a second time: the pass that gave the stamps has read these chunks.
    """

    path: Path
    topic: str
    line: Timeline

    def __call__(self, first_ns: int, last_ns: int) -> Iterator[CameraFrame]:
        with open_bag(self.path, verify=False) as bag:
            for message in bag.messages([self.topic]):
                stamp_ns = self._stamp_ns(bag, message)
                if stamp_ns != _UNSET and first_ns <= stamp_ns <= last_ns:
                    yield camera_frame(self.topic, bag.decode(self.topic, message.payload), stamp_ns)

    def numbered(self, first: int, last: int) -> Iterator[tuple[int, CameraFrame]]:
        """The messages from number ``first`` to ``last``; one without a stamp has a negative one."""
        with open_bag(self.path, verify=False) as bag:
            for number, message in enumerate(bag.messages([self.topic])):
                if number > last:
                    return
                if number >= first:
                    stamp_ns = self._stamp_ns(bag, message)
                    yield number, camera_frame(self.topic, bag.decode(self.topic, message.payload), stamp_ns)

    def _stamp_ns(self, bag: BagReader, message: BagMessage) -> int:
        is_header = self.line.source == "header"
        stamp_ns = bag.header_stamp_ns(self.topic, message.payload) if is_header else None
        time_ns = self.line.time_ns(stamp_ns, message.receive_ns)
        return _UNSET if time_ns is None else time_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoFrames:
    """The frames of a camera that sends a video.

    Attributes:
        recorded: Its packets.
        stamp_ns: int64 [N], of those that have a time and can be decoded.
        number: int64 [N], their place among all packets.
        decodable: bool [M], of all packets.
        key_number: int64 [K], places of the key frames.
    """

    recorded: TopicFrames
    stamp_ns: StampArray
    number: StampArray
    decodable: BoolArray
    key_number: StampArray

    def pictures(self, first_ns: int, last_ns: int) -> Iterator[CameraFrame]:
        """The pictures with a stamp in the closed interval; decoding begins at the key frame before them."""
        numbers = self.number[self._between(first_ns, last_ns)]
        if not len(numbers):
            return
        begin = int(self.key_number[np.searchsorted(self.key_number, numbers.min(), side="right") - 1])
        decoder = H264Decoder()
        for number, packet in self.recorded.numbered(begin, int(numbers.max())):
            if self.decodable[number]:
                yield from _inside(decoder.decode(packet), first_ns, last_ns)
        yield from _inside(decoder.rest(), first_ns, last_ns)

    def packets(self, first_ns: int, last_ns: int) -> Iterator[CameraFrame]:
        """The packets of these pictures, as recorded."""
        numbers = self.number[self._between(first_ns, last_ns)]
        if len(numbers):
            wanted = frozenset(numbers.tolist())
            for number, packet in self.recorded.numbered(int(numbers.min()), int(numbers.max())):
                if number in wanted:
                    yield packet

    def _between(self, first_ns: int, last_ns: int) -> BoolArray:
        inside: BoolArray = (self.stamp_ns >= first_ns) & (self.stamp_ns <= last_ns)
        return inside


class PacketLog:
    """What the packets of one topic say, in the order recorded."""

    def __init__(self) -> None:
        self._parser = StreamParser()
        self._flags = array("b")
        self._first: SequenceParameters | None = None
        self._has_b = False

    def add(self, packet: CameraFrame) -> None:
        """Look at the next packet.

        Raises:
            ImageError: It is none, or pictures of another size begin with it.
        """
        look = self._parser.add(packet.payload, stamp_ns=packet.stamp_ns, count=packet.count)
        self._flags.append(
            _KEY * look.is_key | _DECODABLE * look.is_decodable | _AFTER_LOSS * look.is_after_loss
        )
        self._has_b = self._has_b or look.has_b
        now = self._parser.sequence
        self._first = first = self._first or now
        if first is not None and now is not None and (first.height, first.width) != (now.height, now.width):
            raise ImageError(
                "the size of the video's pictures changes",
                where=f"image stamped {packet.stamp_ns} ns",
                expected=f"{first.height}x{first.width} (height x width)",
                got=f"{now.height}x{now.width}",
            )

    def decodable(self) -> BoolArray:
        """bool [M], which packets can be decoded."""
        return self._of(_DECODABLE)

    def notes(self, camera: str) -> Iterator[str]:
        """What cannot be decoded, and why."""
        after_loss = int(np.count_nonzero(self._of(_AFTER_LOSS)))
        before_key = int(np.count_nonzero(~self.decodable())) - after_loss
        if before_key:
            yield f"{camera}: {before_key} frames before the first key frame cannot be decoded: left out"
        if after_loss:
            yield (
                f"{camera}: packets of the video were lost: {after_loss} frames, from there to the next key "
                "frame, cannot be decoded: left out"
            )

    def coded(self, frames: VideoFrames, topic: str) -> CodedVideo:
        """All of it.

        Raises:
            ImageError: There is no key frame to begin with.
        """
        sequence = self._parser.sequence
        if sequence is None or not len(frames.key_number):
            raise no_key_frame(topic, len(self._flags))
        return CodedVideo(
            number=frames.number,
            is_key=np.isin(frames.number, frames.key_number),
            has_b=self._has_b,
            changes=self._parser.changes,
            unlike=_unlike(sequence),
            parameter_sets=self._parser.parameter_sets,
            size=(sequence.height, sequence.width),
            packets=frames.packets,
        )

    def frames(self, recorded: TopicFrames, stamp_ns: StampArray, used: BoolArray) -> VideoFrames:
        """The frames that can be decoded, of which ``stamp_ns`` has those ``used`` (bool [M])."""
        decodable = self.decodable()
        return VideoFrames(
            recorded=recorded,
            stamp_ns=stamp_ns[decodable[used]],
            number=np.flatnonzero(used & decodable),
            decodable=decodable,
            key_number=np.flatnonzero(self._of(_KEY)),
        )

    def _of(self, flag: int) -> BoolArray:
        found: BoolArray = (np.frombuffer(self._flags, dtype=np.int8) & flag) != 0
        return found


def _inside(frames: Iterator[CameraFrame], first_ns: int, last_ns: int) -> Iterator[CameraFrame]:
    return (frame for frame in frames if first_ns <= frame.stamp_ns <= last_ns)


def _unlike(sequence: SequenceParameters) -> str:
    """What keeps the video from being taken over into one of 4:2:0 of 8 bits and limited range."""
    if not sequence.is_420:
        return "it is not 4:2:0 of 8 bits"
    if sequence.full_range:
        return "its values span the full range"
    return "it holds fields, not frames" if sequence.is_interlaced else ""
