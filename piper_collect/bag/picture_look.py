"""Brightness, size and sameness of some pictures of a camera."""

from collections.abc import Sequence

import numpy as np

from piper_collect.bag.pictures import camera_frame, pictures_of
from piper_collect.core.topic_look import PictureLook
from piper_collect.core.types import CameraFrame
from piper_collect.errors import BagError, ImageError
from piper_collect.imaging.frames import H264, check_frame, to_video_frame


def look_at_pictures(topic: str, messages: Sequence[object]) -> PictureLook | None:
    """Look at decoded image messages; those that do not become video are left out.

    Of packets of a video those are looked at that have their key frame among the messages.

    Returns:
        None where none of them does.
    """
    frames: list[CameraFrame] = []
    sizes: dict[tuple[int, int], None] = {}
    luma: list[float] = []
    contrast: list[float] = []
    for frame in _pictures(topic, messages):
        try:
            height, width = check_frame(frame)
            grey = to_video_frame(frame).reformat(format="gray").to_ndarray()
        except ImageError:
            continue  # counted as unread by who asks
        frames.append(frame)
        sizes[(width, height)] = None
        luma.append(float(grey.mean()))
        contrast.append(float(grey.std()))
    if not frames:
        return None
    return PictureLook(
        encodings=tuple(dict.fromkeys(frame.encoding for frame in frames)),
        sizes=tuple(sizes),
        luma=np.array(luma),
        contrast=np.array(contrast),
        distinct=len({bytes(frame.payload) for frame in frames}),
    )


def _pictures(topic: str, messages: Sequence[object]) -> list[CameraFrame]:
    frames = []
    for message in messages:
        try:
            frames.append(camera_frame(topic, message, 0))
        except (ImageError, BagError):
            continue
    try:
        return list(pictures_of(frames))
    except ImageError:
        return [frame for frame in frames if frame.encoding != H264]
