"""Raw encodings against known pictures: odd sizes, padding, both byte orders, Bayer by a formula."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_frames import mosaic, raw

from piper_collect.core.types import CameraFrame
from piper_collect.errors import ImageError
from piper_collect.imaging.bayer import demosaic
from piper_collect.imaging.encodings import DEPTH_ENCODINGS, RAW_ENCODINGS
from piper_collect.imaging.frames import check_frame, to_rgb, to_video_frame

PATTERNS = ("rggb", "bggr", "gbrg", "grbg")
SIXTEEN = [name for name, encoding in RAW_ENCODINGS.items() if encoding.sixteen_bit]
YUV = [name for name, encoding in RAW_ENCODINGS.items() if encoding.even_width]

pictures = st.builds(
    lambda seed, height, width: np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8),
    st.integers(0, 2**32 - 1),
    st.integers(2, 9),
    st.integers(2, 9),
)


def by_formula(mosaic: np.ndarray, pattern: str) -> np.ndarray:
    """Bilinear demosaicing, pixel by pixel: the mean of the 3 x 3 neighbours that have the colour."""
    height, width = mosaic.shape
    out = np.zeros((height, width, 3), np.int64)

    def inside(k: int, count: int) -> int:
        return -k if k < 0 else 2 * (count - 1) - k if k >= count else k

    for y in range(height):
        for x in range(width):
            here = pattern[2 * (y % 2) + x % 2]
            for channel, letter in enumerate("rgb"):
                if letter == here:
                    out[y, x, channel] = mosaic[y, x]
                    continue
                near = [
                    int(mosaic[inside(y + dy, height), inside(x + dx, width)])
                    for dy in (-1, 0, 1)
                    for dx in (-1, 0, 1)
                    if pattern[2 * ((y + dy) % 2) + (x + dx) % 2] == letter
                    # green lies beside a pixel of another colour; the corners are further away
                    and (letter != "g" or abs(dy) + abs(dx) == 1)
                ]
                out[y, x, channel] = (sum(near) + len(near) // 2) // len(near)
    return out


def test_a_literal_mosaic() -> None:
    seen = np.array([[10, 20, 30], [40, 50, 60], [70, 80, 90]], np.uint8)
    assert demosaic(seen, "rggb").tolist() == [
        [[10, 30, 50], [20, 20, 50], [30, 40, 50]],
        [[40, 40, 50], [50, 50, 50], [60, 60, 50]],
        [[70, 60, 50], [80, 80, 50], [90, 70, 50]],
    ]
    assert demosaic(seen, "bggr")[..., ::-1].tolist() == demosaic(seen, "rggb").tolist()


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("size", [(2, 2), (2, 3), (3, 2), (5, 7), (6, 8), (2, 9)])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_bayer_is_bilinear_also_at_the_border_and_for_odd_sizes(pattern: str, size: tuple, dtype) -> None:
    seen = np.random.default_rng(7).integers(0, np.iinfo(dtype).max + 1, size).astype(dtype)
    got = demosaic(seen, pattern)
    assert got.dtype == dtype
    assert np.array_equal(got, by_formula(seen, pattern))


@pytest.mark.parametrize("depth", ["8", "16"])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_ramp_comes_back_from_its_mosaic(pattern: str, depth: str) -> None:
    """Bilinear interpolation is exact for what is linear, away from the borders."""
    rows, columns = np.indices((9, 11))
    rgb = np.stack([10 + 4 * rows, 200 - 6 * columns, 30 + 2 * rows + 8 * columns], axis=2).astype(np.uint8)
    got = to_rgb(mosaic(f"bayer_{pattern}{depth}", rgb, padding=3))
    assert np.array_equal(got[1:-1, 1:-1], rgb[1:-1, 1:-1])
    assert np.abs(got.astype(int) - rgb).max() <= 10  # a step of the ramp in each direction


@settings(deadline=None, max_examples=40)
@given(rgb=pictures, padding=st.integers(0, 5))
def test_packed_rgb_survives_in_any_order(rgb: np.ndarray, padding: int) -> None:
    alpha = np.random.default_rng(0).integers(0, 256, (*rgb.shape[:2], 1), np.uint8)
    layouts = {
        "rgb8": rgb,
        "bgr8": rgb[..., ::-1],
        "rgba8": np.concatenate([rgb, alpha], axis=2),
        "bgra8": np.concatenate([rgb[..., ::-1], alpha], axis=2),
    }
    for encoding, pixels in layouts.items():
        assert np.array_equal(to_rgb(raw(encoding, pixels, padding)), rgb), encoding


@settings(deadline=None, max_examples=40)
@given(rgb=pictures, padding=st.integers(0, 5), big_endian=st.booleans())
def test_grey_of_8_and_16_bits_survives(rgb: np.ndarray, padding: int, big_endian: bool) -> None:
    grey = rgb[..., 0]
    assert np.array_equal(to_rgb(raw("mono8", grey, padding, big_endian=big_endian))[..., 1], grey)
    wide = (grey.astype(np.uint16) * 257).astype(">u2" if big_endian else "<u2")
    frame = raw("mono16", wide.view(np.uint8), padding, big_endian=big_endian)
    assert np.array_equal(to_rgb(frame), np.repeat(grey[..., None], 3, axis=2))


def test_sixteen_bits_are_rounded_over_their_whole_range() -> None:
    wide = np.array([[0, 128, 129, 32768, 65406, 65407, 65535]], "<u2")
    assert to_rgb(raw("mono16", wide.view(np.uint8)))[0, :, 0].tolist() == [0, 0, 1, 128, 254, 255, 255]


@pytest.mark.parametrize("encoding", SIXTEEN)
def test_both_byte_orders_give_one_picture(encoding: str) -> None:
    wide = np.random.default_rng(1).integers(0, 65536, (5, 7)).astype("<u2")
    little = raw(encoding, wide.view(np.uint8).reshape(5, 7, 2))
    big = raw(encoding, wide.astype(">u2").view(np.uint8).reshape(5, 7, 2), padding=4, big_endian=True)
    assert np.array_equal(to_rgb(little), to_rgb(big))
    mixed_up = raw(encoding, wide.view(np.uint8).reshape(5, 7, 2), big_endian=True)
    assert not np.array_equal(to_rgb(little), to_rgb(mixed_up))


def bt601(y: np.ndarray, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """ITU-R BT.601, video range, to full-range RGB."""
    y, u, v = 255 / 219 * (y - 16.0), u - 128.0, v - 128.0
    k = 255 / 224
    rgb = [y + 1.402 * k * v, y - k * (0.344136 * u + 0.714136 * v), y + 1.772 * k * u]
    return np.clip(np.round(np.stack(rgb, axis=-1)), 0, 255)


@pytest.mark.parametrize("encoding", YUV)
@pytest.mark.parametrize("height", [4, 5])
def test_yuv_pairs_of_both_orders(encoding: str, height: int) -> None:
    """Pairs of pixels of one luma, whose chroma may not bleed into others: each pair one colour."""
    random = np.random.default_rng(3)
    y = random.integers(60, 200, (height, 1)).repeat(4, axis=1)
    u, v = (random.integers(100, 156, (height, 1)).repeat(4, axis=1) for _ in range(2))
    pixels = np.stack([u, y, v, y] if encoding in ("yuv422", "uyvy") else [y, u, y, v], axis=2)
    frame = raw(encoding, pixels.astype(np.uint8).reshape(height, 8, 2), padding=6)
    got = to_rgb(frame).astype(int)
    assert got.shape == (height, 8, 3)
    assert np.abs(got - bt601(y, u, v).repeat(2, axis=1)).max() <= 3


@pytest.mark.parametrize("encoding", DEPTH_ENCODINGS)
def test_depth_is_refused_and_told_where_it_can_go(encoding: str) -> None:
    frame = CameraFrame(stamp_ns=1, encoding=encoding, height=2, width=2, step=16, payload=bytes(32))
    for refuses in (to_video_frame, check_frame):
        with pytest.raises(ImageError, match=rf"depth images.*got {encoding}.*recorder\.extra_topics"):
            refuses(frame)


@pytest.mark.parametrize("encoding", ["8UC3", "rgb16", "nv21", "bayer_rgbg8", "RGB8", ""])
def test_any_other_encoding_is_refused(encoding: str) -> None:
    frame = CameraFrame(stamp_ns=1, encoding=encoding, height=2, width=2, step=16, payload=bytes(32))
    with pytest.raises(ImageError, match="images of this encoding do not become video"):
        to_video_frame(frame)


def test_a_mosaic_without_all_its_colours_is_refused() -> None:
    with pytest.raises(ImageError, match="at least 2x2"):
        to_video_frame(raw("bayer_rggb8", np.zeros((1, 4), np.uint8)))


@pytest.mark.parametrize("encoding", ["mono16", "bayer_grbg16"])
def test_sixteen_bit_rows_that_are_too_short_are_refused(encoding: str) -> None:
    frame = CameraFrame(stamp_ns=1, encoding=encoding, height=2, width=4, step=7, payload=bytes(14))
    with pytest.raises(ImageError, match="step >= 8"):
        to_video_frame(frame)
