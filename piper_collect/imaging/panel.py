"""A camera's picture for a person to look at: JPEG, no wider than asked."""

import numpy as np
import simplejpeg
from av.video.reformatter import ColorRange

from piper_collect.core.types import CameraFrame
from piper_collect.imaging.frames import check_frame, color_range_of, to_video_frame


def panel_jpeg(frame: CameraFrame, *, width: int, quality: int) -> bytes:
    """The frame as JPEG, its sides in proportion; a JPEG that is small enough is passed on untouched.

    Args:
        frame: In any encoding that becomes video.
        width: Most columns, in px.
        quality: Of the JPEG, 1 to 100, where it is made anew.

    Raises:
        ImageError: The bytes are not the image they claim to be.
    """
    rows, columns = check_frame(frame)
    if frame.encoding == "jpeg" and columns <= width:
        return bytes(frame.payload)
    picture = to_video_frame(frame)
    columns, rows = min(columns, width), max(2, round(rows * min(1.0, width / columns)))
    rgb = picture.reformat(
        width=columns,
        height=rows,
        format="rgb24",
        src_color_range=color_range_of(picture),
        dst_color_range=ColorRange.JPEG,
        threads=1,
    ).to_ndarray()
    jpeg = simplejpeg.encode_jpeg(np.ascontiguousarray(rgb), quality=quality, colorspace="RGB", fastdct=True)
    return bytes(jpeg)
