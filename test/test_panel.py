"""Pictures for the headset: small JPEG passed on, everything else made small."""

import numpy as np
import pytest
import simplejpeg

from piper_collect.core.types import CameraFrame
from piper_collect.errors import ImageError
from piper_collect.imaging.panel import panel_jpeg

PICTURE = np.zeros((48, 64, 3), np.uint8)
PICTURE[:, :32] = (200, 40, 40)
PICTURE[:, 32:] = (40, 40, 200)


def frame(encoding: str, payload: bytes, *, step: int = 0) -> CameraFrame:
    size = (48, 64) if step else (0, 0)
    return CameraFrame(
        stamp_ns=1, encoding=encoding, height=size[0], width=size[1], step=step, payload=payload
    )


def jpeg() -> bytes:
    return bytes(simplejpeg.encode_jpeg(PICTURE, quality=95))


def test_a_jpeg_that_is_small_enough_is_passed_on_untouched() -> None:
    assert panel_jpeg(frame("jpeg", jpeg()), width=64, quality=50) == jpeg()


@pytest.mark.parametrize("encoding", ["jpeg", "rgb8", "mono8"])
def test_a_wide_picture_is_scaled_in_proportion(encoding: str) -> None:
    pixels = {"jpeg": jpeg(), "rgb8": PICTURE.tobytes(), "mono8": PICTURE[:, :, 0].tobytes()}[encoding]
    step = {"jpeg": 0, "rgb8": 192, "mono8": 64}[encoding]
    small = simplejpeg.decode_jpeg(panel_jpeg(frame(encoding, pixels, step=step), width=32, quality=95))
    assert small.shape == (24, 32, 3)
    assert small[12, 8, 0] == pytest.approx(200, abs=8)
    assert small[12, 24, 0] == pytest.approx(40, abs=8)


def test_a_raw_picture_that_is_small_enough_keeps_its_size() -> None:
    made = panel_jpeg(frame("rgb8", PICTURE.tobytes(), step=192), width=640, quality=95)
    assert simplejpeg.decode_jpeg_header(made)[:2] == (48, 64)


@pytest.mark.parametrize("payload", [b"", b"nothing", jpeg()[:-200]])
def test_what_is_no_picture_is_an_error(payload: bytes) -> None:
    with pytest.raises(ImageError):
        panel_jpeg(frame("jpeg", payload), width=64, quality=50)
