"""imaging.yuv420: every pixel counts in its chroma, and no level is off by more than rounding."""

import numpy as np
import pytest

from piper_collect.core.types import CameraFrame
from piper_collect.imaging.frames import to_video_frame
from piper_collect.imaging.yuv420 import Yuv420Converter

ORDER = {"rgb8": (0, 1, 2), "bgr8": (2, 1, 0), "rgba8": (0, 1, 2, 3), "bgra8": (2, 1, 0, 3)}

# ITU-R BT.601: luma weights, and 219 and 224 levels of 256 (8 bits, from 16 and around 128)
KR, KG, KB = 0.299, 0.587, 0.114


def exact(rgb):
    """Y [H, W], Cb and Cr [H/2, W/2] as real numbers."""
    red, green, blue = np.moveaxis(rgb / 255.0, -1, 0)
    luma = KR * red + KG * green + KB * blue
    height, width = luma.shape

    def halved(plane):
        return plane.reshape(height // 2, 2, width // 2, 2).mean(axis=(1, 3))

    cb, cr = (blue - luma) / (2 * (1 - KB)), (red - luma) / (2 * (1 - KR))
    return 16 + 219 * luma, 128 + 224 * halved(cb), 128 + 224 * halved(cr)


def image(rgb, encoding, padding=0):
    order = ORDER[encoding]
    pixels = np.dstack([rgb, np.full(rgb.shape[:2], 77, np.uint8)])[..., order]
    height, width = rgb.shape[:2]
    rows = np.pad(pixels.reshape(height, -1), ((0, 0), (0, padding)), constant_values=200)
    return CameraFrame(
        stamp_ns=1, encoding=encoding, height=height, width=width, step=rows.shape[1], payload=rows.tobytes()
    )


def planes(yuv):
    found = yuv.to_ndarray()
    height, width = yuv.height, yuv.width
    chroma = found[height:].reshape(2, height // 2, width // 2)
    return found[:height], chroma[0], chroma[1]


@pytest.mark.parametrize("encoding", ORDER)
@pytest.mark.parametrize("padding", [0, 13])
@pytest.mark.parametrize("size", [(48, 64), (480, 640), (6, 10)])
def test_noise_is_off_by_less_than_a_level(encoding, padding, size):
    rgb = np.random.default_rng(5).integers(0, 256, (*size, 3), dtype=np.uint8)
    yuv = Yuv420Converter().convert(to_video_frame(image(rgb, encoding, padding)))
    assert yuv.format.name == "yuv420p"
    for found, wanted in zip(planes(yuv), exact(rgb), strict=True):
        assert np.abs(found - wanted).max() < 1.0


def test_pictures_of_several_kinds_one_after_the_other():
    converter = Yuv420Converter()
    random = np.random.default_rng(6)
    for encoding in ("rgb8", "bgr8", "rgb8", "bgra8", "rgba8", "bgr8"):
        rgb = random.integers(0, 256, (32, 48, 3), dtype=np.uint8)
        frames = planes(converter.convert(to_video_frame(image(rgb, encoding))))
        for found, wanted in zip(frames, exact(rgb), strict=True):
            assert np.abs(found - wanted).max() < 1.0


def test_a_picture_stays_what_it_was_when_the_memory_of_its_message_is_used_again():
    rgb = np.random.default_rng(7).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    memory = bytearray(rgb.tobytes())
    frame = CameraFrame(
        stamp_ns=1, encoding="rgb8", height=16, width=16, step=48, payload=memoryview(memory).toreadonly()
    )
    yuv = Yuv420Converter().convert(to_video_frame(frame))
    memory[:] = bytes(len(memory))
    assert np.abs(planes(yuv)[0] - exact(rgb)[0]).max() < 1.0
