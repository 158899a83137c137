"""The first pictures of a dataset, which cameras are aligned to when a session goes on with it."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from piper_collect.core.types import ReferenceView
from piper_collect.dataset.dialect import EpisodeReader
from piper_collect.dataset.layout import VIDEO_KEY_PREFIX
from piper_collect.dataset.readers import open_any
from piper_collect.errors import DatasetError, PiperCollectError


def read_reference(root: Path, cameras: Sequence[str]) -> ReferenceView:
    """The first frame of the first episode, of each camera that both the dataset and the session have.

    What cannot be had is said in the notes: a session is not refused for it.

    Args:
        root: Dataset.
        cameras: Those of the session.
    """
    try:
        dataset = open_any(root)
        if not dataset.lines:
            return ReferenceView(dataset=str(root), notes=(f"{root} has no episode yet",))
    except PiperCollectError as err:
        return ReferenceView(dataset=str(root), notes=(str(err),))
    there = {key.removeprefix(VIDEO_KEY_PREFIX): key for key in dataset.video_keys}
    known = ", ".join(there) or "none"
    notes = [
        f"{camera} has no picture there: the dataset's cameras are {known}"
        for camera in cameras
        if camera not in there
    ]
    notes += [
        f"the dataset's {camera} is no camera of this session" for camera in there if camera not in cameras
    ]
    pictures = {}
    for camera in cameras:
        if camera in there:
            try:
                pictures[camera] = _first_frame(dataset, there[camera])
            except PiperCollectError as err:
                notes.append(f"{camera}: {err}")
    return ReferenceView(dataset=str(root), pictures=pictures, notes=tuple(notes))


def _first_frame(dataset: EpisodeReader, key: str) -> NDArray[np.uint8]:
    first = min(dataset.lines)
    for _time_s, pixels in dataset.frames(first, key):
        return pixels
    raise DatasetError("the video holds no frame", where=f"{dataset.root}, episode {first}, {key}")
