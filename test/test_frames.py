"""imaging.frames: recorded bytes to pixels of the right colour, or a clear refusal."""

import io

import numpy as np
import pytest
import simplejpeg
from PIL import Image

from piper_collect.core.types import CameraFrame
from piper_collect.errors import ImageError
from piper_collect.imaging.encodings import RAW_ENCODINGS
from piper_collect.imaging.frames import (
    ENCODINGS,
    check_frame,
    frame_size,
    parse_compressed_format,
    to_rgb,
    to_video_frame,
)

PURE = {"red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255), "grey": (128, 128, 128)}
YUV = {"red": (82, 90, 240), "green": (145, 54, 34), "blue": (41, 240, 110), "grey": (126, 128, 128)}


def raw(encoding: str, pixels: np.ndarray, padding: int = 0, *, big_endian: bool = False) -> CameraFrame:
    """A frame of ``pixels``, uint8 [H, W] or [H, W, bytes], each row followed by ``padding`` bytes."""
    height, width = (
        pixels.shape[0],
        pixels.shape[1] // (2 if encoding == "mono16" and pixels.ndim == 2 else 1),
    )
    rows = pixels.reshape(height, -1)
    rows = np.pad(rows, ((0, 0), (0, padding)), constant_values=77)
    return CameraFrame(
        stamp_ns=5,
        encoding=encoding,
        height=height,
        width=width,
        step=rows.shape[1],
        payload=rows.tobytes(),
        big_endian=big_endian,
    )


def mosaic(encoding: str, rgb: np.ndarray, padding: int = 0, *, big_endian: bool = False) -> CameraFrame:
    """What a sensor behind a Bayer filter sees of ``rgb``."""
    height, width = rgb.shape[:2]
    pattern = encoding.removeprefix("bayer_")[:4]
    channel = np.array(["rgb".index(letter) for letter in pattern]).reshape(2, 2)
    rows, columns = np.indices((height, width))
    seen = np.take_along_axis(rgb, channel[rows % 2, columns % 2][..., None], axis=2)[..., 0]
    if encoding.endswith("16"):
        seen = (seen.astype(">u2" if big_endian else "<u2") * 257).astype(">u2" if big_endian else "<u2")
    return raw(encoding, seen.view(np.uint8).reshape(height, width, -1), padding, big_endian=big_endian)


def compressed(encoding: str, payload: bytes) -> CameraFrame:
    return CameraFrame(stamp_ns=5, encoding=encoding, height=0, width=0, step=0, payload=payload)


def png(pixels: np.ndarray, mode: str | None = None) -> bytes:
    buffer = io.BytesIO()
    image = Image.fromarray(pixels)
    (image.convert(mode) if mode else image).save(buffer, "PNG")
    return buffer.getvalue()


def painted(encoding: str, colour: str, height: int = 48, width: int = 64, padding: int = 0) -> CameraFrame:
    """A frame of one pure colour, in any encoding."""
    rgb = np.full((height, width, 3), PURE[colour], np.uint8)
    alpha = np.full((height, width, 1), 255, np.uint8)
    if encoding == "jpeg":
        return compressed("jpeg", simplejpeg.encode_jpeg(rgb, quality=95, colorsubsampling="420"))
    if encoding == "png":
        return compressed("png", png(rgb))
    if encoding in ("yuv422", "uyvy", "yuv422_yuy2", "yuyv"):
        y, u, v = YUV[colour]
        pair = (u, y, v, y) if RAW_ENCODINGS[encoding].pix_fmt == "uyvy422" else (y, u, y, v)
        pixels = np.tile(np.array(pair, np.uint8), (height, width // 2)).reshape(height, width, 2)
        return raw(encoding, pixels, padding)
    if encoding.startswith("bayer"):
        return mosaic(encoding, rgb, padding)
    layouts = {
        "rgb8": rgb,
        "bgr8": rgb[..., ::-1],
        "rgba8": np.concatenate([rgb, alpha], axis=2),
        "bgra8": np.concatenate([rgb[..., ::-1], alpha], axis=2),
        "mono8": rgb[..., 0],
        "mono16": (rgb[..., 0].astype("<u2") * 257).view(np.uint8),
    }
    return raw(encoding, layouts[encoding], padding)


@pytest.mark.parametrize("colour", PURE)
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_pure_colours_survive(encoding: str, colour: str) -> None:
    if encoding.startswith("mono") and colour != "grey":
        return  # has no colours
    got = to_rgb(painted(encoding, colour))
    assert got.shape == (48, 64, 3)
    assert np.abs(got.astype(int) - np.array(PURE[colour])).max() <= 3


@pytest.mark.parametrize("encoding", RAW_ENCODINGS)
def test_row_padding_is_left_out(encoding: str) -> None:
    width = 8 if RAW_ENCODINGS[encoding].even_width else 7
    got = to_rgb(painted(encoding, "grey", 5, width, padding=13))
    assert got.shape == (5, width, 3)
    assert np.abs(got.astype(int) - 128).max() <= (3 if RAW_ENCODINGS[encoding].even_width else 0)


def test_every_pixel_of_a_raw_image_is_in_its_place() -> None:
    pixels = np.arange(5 * 7 * 3, dtype=np.uint8).reshape(5, 7, 3)
    assert np.array_equal(to_rgb(raw("rgb8", pixels, padding=2)), pixels)
    assert np.array_equal(to_rgb(raw("bgr8", pixels, padding=2)), pixels[..., ::-1])


def test_jpeg_takes_no_trip_through_rgb() -> None:
    assert to_video_frame(painted("jpeg", "red")).format.name == "yuvj420p"


@pytest.mark.parametrize("subsampling", ["444", "422", "440", "411", "420"])
def test_jpeg_of_every_subsampling(subsampling: str) -> None:
    rgb = np.full((48, 64, 3), PURE["red"], np.uint8)
    got = to_rgb(compressed("jpeg", simplejpeg.encode_jpeg(rgb, 95, colorsubsampling=subsampling)))
    assert np.abs(got.astype(int) - np.array(PURE["red"])).max() <= 3


@pytest.mark.parametrize("mode", ["L", "RGBA", "P"])
def test_png_of_every_kind(mode: str) -> None:
    got = to_rgb(compressed("png", png(np.full((6, 8, 3), 153, np.uint8), mode)))
    assert np.array_equal(got, np.full((6, 8, 3), 153))  # 153 is in the palette of mode P


def test_mono8_spans_the_full_range() -> None:
    ramp = np.arange(256, dtype=np.uint8).reshape(16, 16)
    assert np.array_equal(to_rgb(raw("mono8", ramp))[..., 1], ramp)


def test_size_without_decoding() -> None:
    assert frame_size(painted("jpeg", "red", 46, 62)) == (46, 62)
    assert frame_size(painted("png", "red", 46, 62)) == (46, 62)
    assert frame_size(painted("bgr8", "red", 46, 62)) == (46, 62)


def test_size_of_rubbish_is_refused() -> None:
    for encoding in ("jpeg", "png"):
        with pytest.raises(ImageError, match="3 bytes beginning 00 01 02"):
            frame_size(compressed(encoding, b"\x00\x01\x02"))
    with pytest.raises(ImageError, match="16UC1"):
        frame_size(CameraFrame(stamp_ns=1, encoding="16UC1", height=2, width=2, step=4, payload=bytes(8)))


def test_missing_bytes_name_expected_and_got() -> None:
    frame = CameraFrame(stamp_ns=5, encoding="rgb8", height=480, width=640, step=1920, payload=bytes(30))
    with pytest.raises(ImageError, match=r"expected 921600 bytes.*got 30 bytes"):
        to_video_frame(frame)


def test_short_step_is_refused() -> None:
    frame = CameraFrame(stamp_ns=5, encoding="rgb8", height=2, width=4, step=8, payload=bytes(16))
    with pytest.raises(ImageError, match="step >= 12"):
        to_video_frame(frame)


def test_no_pixels_and_odd_yuv_width_are_refused() -> None:
    with pytest.raises(ImageError, match="no pixels"):
        to_video_frame(CameraFrame(stamp_ns=5, encoding="rgb8", height=0, width=4, step=12, payload=b""))
    with pytest.raises(ImageError, match="even width"):
        to_video_frame(CameraFrame(stamp_ns=5, encoding="yuyv", height=1, width=3, step=6, payload=bytes(6)))


@pytest.mark.parametrize("kept", [10, 300, 1500, -2, -10])
@pytest.mark.parametrize("encoding", ["jpeg", "png"])
def test_cut_images_are_refused(encoding: str, kept: int) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (48, 64, 3), dtype=np.uint8)
    whole = simplejpeg.encode_jpeg(noise, 95) if encoding == "jpeg" else png(noise)
    assert to_rgb(compressed(encoding, whole)).shape == (48, 64, 3)
    if encoding == "png" and kept < 0:
        kept -= 12  # the last 12 bytes of a PNG are its IEND chunk, which holds nothing
    with pytest.raises(ImageError, match=f"{len(whole[:kept])} bytes"):
        to_video_frame(compressed(encoding, whole[:kept]))


def test_size_against_the_message_is_checked() -> None:
    payload = bytes(painted("jpeg", "red").payload)
    frame = CameraFrame(stamp_ns=5, encoding="jpeg", height=480, width=640, step=0, payload=payload)
    with pytest.raises(ImageError, match=r"expected 480x640.*got 48x64"):
        to_video_frame(frame)


def test_sixteen_bit_png_is_never_flattened() -> None:
    frame = compressed("png", png(np.full((6, 8), 2500, np.uint16)))
    for refuses in (to_video_frame, check_frame):
        with pytest.raises(ImageError, match=r"16 bits do not become video: most are depth.*extra_topics"):
            refuses(frame)


def test_unknown_encoding_lists_the_known_ones() -> None:
    frame = CameraFrame(stamp_ns=5, encoding="bgr16", height=1, width=1, step=6, payload=bytes(6))
    with pytest.raises(ImageError, match=r"did you mean 'bgr8'.*jpeg, png, rgb8"):
        to_video_frame(frame)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("jpeg", "jpeg"),
        ("JPG", "jpeg"),
        ("png", "png"),
        ("rgb8; jpeg compressed bgr8", "jpeg"),
        ("bgr8;jpeg compressed bgr8", "jpeg"),
        ("rgb8; png compressed bgr8", "png"),
        ("16UC1; png compressed ", "png"),
    ],
)
def test_compressed_formats(text: str, want: str) -> None:
    assert parse_compressed_format(text) == want


def test_empty_format_is_sniffed() -> None:
    assert parse_compressed_format("", painted("jpeg", "red").payload) == "jpeg"
    assert parse_compressed_format(" ", memoryview(bytes(painted("png", "red").payload))) == "png"
    with pytest.raises(ImageError, match="no JPEG or PNG"):
        parse_compressed_format("", b"\x00\x01\x02")


@pytest.mark.parametrize(
    "text", ["16UC1; compressedDepth", "16UC1; compressedDepth png", "compressedDepth rvl"]
)
def test_compressed_depth_is_refused(text: str) -> None:
    with pytest.raises(ImageError, match="compressedDepth"):
        parse_compressed_format(text)


def test_other_compressions_are_refused() -> None:
    with pytest.raises(ImageError, match="Valid: jpeg, png"):
        parse_compressed_format("rgb8; tiff compressed bgr8")
