"""What is wrong with the pictures of a camera: another size, black, without content, frozen."""

from collections.abc import Iterator

import numpy as np

from piper_collect.core.checkup import Check
from piper_collect.core.luma import BLACK_LUMA, flat
from piper_collect.core.topic_look import PictureLook, TopicWish, topic_check

LEAST_PICTURES = 4
"""From fewer nobody can tell whether a picture is frozen."""


def picture_checks(wish: TopicWish, pictures: PictureLook) -> Iterator[Check]:
    """Judge some pictures of a camera."""
    sizes = " and ".join(f"{width}x{height}" for width, height in pictures.sizes)
    encodings = " and ".join(pictures.encodings)
    if len(pictures.sizes) > 1 or len(pictures.encodings) > 1:
        found = f"{sizes} px, {encodings}: they change while it runs"
        yield topic_check(wish, "FAIL", "pictures", found, expected="one size and encoding", hint=_ONE)
    elif wish.camera_size is not None and pictures.sizes != (wish.camera_size,):
        expected = f"{wish.camera_size[0]}x{wish.camera_size[1]} px, as {', '.join(wish.feeds)} says"
        hint = "set the driver to that size, or `width` and `height` to this one"
        yield topic_check(wish, "warn", "picture size", f"{sizes} px", expected=expected, hint=hint)
    else:
        yield topic_check(wish, "ok", "pictures", f"{sizes} px, {encodings}")
    dark = list(_dark_checks(wish, pictures))
    yield from dark
    if not dark and len(pictures.luma) >= LEAST_PICTURES and pictures.distinct == 1:
        found = f"frozen: {len(pictures.luma)} pictures are the same in every byte"
        hint = "start the camera's driver again; unplug the camera and plug it in"
        yield topic_check(wish, "FAIL", "picture", found, expected="no two alike", hint=hint)


_ONE = "see that one camera alone publishes it"


def _dark_checks(wish: TopicWish, pictures: PictureLook) -> Iterator[Check]:
    empty = flat(pictures.contrast)
    black = empty & (pictures.luma < BLACK_LUMA)
    if black.all():
        found = f"black (brightness {float(np.mean(pictures.luma)):.0f} of 255)"
        hint = "take the cap off, switch the light on, look at the exposure"
        yield topic_check(wish, "FAIL", "picture", found, hint=hint)
    elif empty.all():
        found = f"shows nothing (brightness {float(np.mean(pictures.luma)):.0f} of 255, all alike)"
        hint = "see that nothing covers the lens, and look at the exposure"
        yield topic_check(wish, "warn", "picture", found, hint=hint)
