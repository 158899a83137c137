"""Looks at a camera's messages as they arrive, at little cost."""

import numpy as np

from piper_collect.bag.definitions import Codec
from piper_collect.bag.pictures import camera_frame
from piper_collect.core.picture_watch import PictureWatch
from piper_collect.core.types import CameraFrame
from piper_collect.errors import BagError, ImageError
from piper_collect.imaging.frames import H264, frame_size, to_video_frame

_STAMP_END = 12
"""Bytes of a serialized message up to the end of its stamp: what differs in a picture that is sent again."""

_FIRST_BYTES = 4096


class LivePictures:
    """Feeds what arrives on one image topic to a watch; a message that is no image is passed over.

    Args:
        topic: Its name, for messages.
        watch: What is told.
    """

    def __init__(self, topic: str, watch: PictureWatch) -> None:
        self._topic = topic
        self._watch = watch
        self._before = b""

    def take(self, codec: Codec, payload: bytes, receive_ns: int) -> None:
        """Look at one serialized Image or CompressedImage.

        Args:
            codec: Of its type.
            payload: The message.
            receive_ns: When it arrived, by the clock of the watch.
        """
        try:
            frame = camera_frame(self._topic, codec.decode(payload), 0)
            if frame.encoding == H264:
                return  # its packets are no pictures
            height, width = frame_size(frame)
            same = _same(payload, self._before)
            self._before = payload
            self._watch.take(receive_ns, form=f"{width}x{height} {frame.encoding}", same=same)
            if self._watch.look_due(receive_ns):
                luma, contrast = _light(frame)
                self._watch.look(receive_ns, luma=luma, contrast=contrast)
        except (BagError, ImageError):
            return  # an export says what cannot become video; the watch is of what can


def _same(one: bytes, other: bytes) -> bool:
    """Whether two serialized images differ in their stamp at most."""
    if len(one) != len(other) or one[_STAMP_END:_FIRST_BYTES] != other[_STAMP_END:_FIRST_BYTES]:
        return False
    pixels, before = (np.frombuffer(payload, np.uint8)[_STAMP_END:] for payload in (one, other))
    return bool(np.array_equal(pixels, before))


def _light(frame: CameraFrame) -> tuple[float, float]:
    """Mean and standard deviation of the luma."""
    grey = to_video_frame(frame).reformat(format="gray").to_ndarray()
    return float(grey.mean()), float(grey.std())
