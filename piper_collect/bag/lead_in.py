"""What an episode needs of a camera's video from before its start: the packets since the newest key frame."""

from collections.abc import Sequence
from dataclasses import dataclass

from piper_collect.bag.definitions import Codec
from piper_collect.bag.pictures import camera_frame
from piper_collect.errors import BagError, ImageError
from piper_collect.imaging.h264 import StreamParser

MOST_PACKETS = 1000
MOST_BYTES = 64_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyMessage:
    """A serialized message that came before the episode.

    Attributes:
        payload: Its bytes.
        receive_ns: When it arrived.
        publish_ns: When it was published; None where DDS does not say.
    """

    payload: bytes
    receive_ns: int
    publish_ns: int | None


class LeadIn:
    """Keeps the packets of one topic that a decoder needs for the next one; none where one is missing.

    Args:
        topic: Its name, for messages.
        most_packets: A longer lead-in is given up: the stream has too few key frames.
        most_bytes: The same of its size.
    """

    def __init__(self, topic: str, *, most_packets: int = MOST_PACKETS, most_bytes: int = MOST_BYTES) -> None:
        self._topic = topic
        self._most_packets, self._most_bytes = most_packets, most_bytes
        self._parser = StreamParser()
        self._messages: list[EarlyMessage] = []
        self._bytes = 0

    def take(self, codec: Codec, payload: bytes, receive_ns: int, publish_ns: int | None) -> None:
        """Take note of the next message; one that is no packet of a video ends what is kept."""
        message = EarlyMessage(payload=payload, receive_ns=receive_ns, publish_ns=publish_ns)
        try:
            stamp_ns = codec.header_stamp_ns(payload) or 0
            packet = camera_frame(self._topic, codec.decode(payload), stamp_ns)
            look = self._parser.add(packet.payload, stamp_ns=stamp_ns, count=packet.count)
        except (BagError, ImageError):
            self._keep([])
            return
        if look.is_key:
            self._keep([message])
        elif self._messages:
            self._bytes += len(payload)
            self._messages.append(message)
            within = len(self._messages) <= self._most_packets and self._bytes <= self._most_bytes
            if not (look.is_decodable and within):
                self._keep([])

    def messages(self, since_ns: int) -> Sequence[EarlyMessage]:
        """What is kept, in order; nothing where the newest of it came before ``since_ns``."""
        if not self._messages or self._messages[-1].receive_ns < since_ns:
            return ()
        return tuple(self._messages)

    def _keep(self, messages: list[EarlyMessage]) -> None:
        self._messages, self._bytes = messages, sum(len(message.payload) for message in messages)
