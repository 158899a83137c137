"""dataset.video: PTS are capture times, colours come back, sizes are even, losses are counted."""

from pathlib import Path

import av
import numpy as np
import pytest
import simplejpeg
from hypothesis import given, settings
from hypothesis import strategies as st
from test_frames import PURE, compressed, painted, raw

from piper_collect.config.profile import VideoSpec
from piper_collect.core.types import CameraFrame
from piper_collect.dataset.video import VideoEncoder, encoded_size
from piper_collect.errors import DatasetError, ImageError
from piper_collect.imaging.frames import to_video_frame
from piper_collect.imaging.strip import StripReading, read_strip, write_strip

SPEC = VideoSpec()
T0 = 1_700_000_000_123_456_789


def at(frame: CameraFrame, offset_ns: int) -> CameraFrame:
    return CameraFrame(
        stamp_ns=T0 + offset_ns,
        encoding=frame.encoding,
        height=frame.height,
        width=frame.width,
        step=frame.step,
        payload=frame.payload,
    )


def encode(path: Path, frames: list[CameraFrame], size: tuple[int, int] = (48, 64)) -> VideoEncoder:
    with VideoEncoder(path, size, SPEC, t0_ns=T0) as encoder:
        for frame in frames:
            encoder.write(frame)
    return encoder


def decode(path: Path) -> tuple[list[int], list[np.ndarray], av.VideoCodecContext]:
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        assert stream.time_base.denominator == 1000
        frames = [(f.pts, f.to_ndarray(format="rgb24")) for f in container.decode(stream)]
        return [f[0] for f in frames], [f[1] for f in frames], stream.codec_context


def test_pts_are_capture_times_floored_to_ms(tmp_path: Path) -> None:
    offsets = [7_999_999, 40_000_000, 73_900_000, 74_000_000, 300_123_456, 3_000_000_000]
    encode(tmp_path / "a.mp4", [at(painted("rgb8", "grey"), ns) for ns in offsets])
    pts, _, context = decode(tmp_path / "a.mp4")
    assert pts == [7, 40, 73, 74, 300, 3000]
    assert not context.has_b_frames


def test_first_frame_at_zero(tmp_path: Path) -> None:
    encode(tmp_path / "a.mp4", [at(painted("rgb8", "grey"), ns) for ns in (0, 33_333_333)])
    assert decode(tmp_path / "a.mp4")[0] == [0, 33]


@settings(deadline=None, max_examples=15)
@given(st.lists(st.integers(0, 400_000_000), min_size=1, max_size=12))
def test_pts_strictly_increase_under_any_jitter(
    tmp_path_factory: pytest.TempPathFactory, offsets: list[int]
) -> None:
    path = tmp_path_factory.mktemp("jitter") / "a.mp4"
    encoder = encode(path, [at(painted("mono8", "grey", 16, 16), ns) for ns in offsets], (16, 16))
    kept: list[int] = []
    for ns in offsets:
        if not kept or ns // 1_000_000 > kept[-1]:
            kept.append(ns // 1_000_000)
    assert decode(path)[0] == kept
    assert (encoder.frames, encoder.dropped) == (len(kept), len(offsets) - len(kept))


@pytest.mark.parametrize(
    "encoding", ["jpeg", "png", "rgb8", "bgr8", "rgba8", "bgra8", "mono8", "yuv422", "yuyv"]
)
def test_colours_of_the_mp4(tmp_path: Path, encoding: str) -> None:
    for colour in ["grey"] if encoding == "mono8" else list(PURE):
        path = tmp_path / f"{colour}.mp4"
        encode(path, [at(painted(encoding, colour), k * 33_000_000) for k in range(3)])
        _, pictures, context = decode(path)
        assert (context.color_range, context.colorspace) == (1, 6)
        assert np.abs(pictures[1].astype(int) - np.array(PURE[colour])).max() <= 4


def test_black_and_white_keep_their_contrast(tmp_path: Path) -> None:
    halves = np.zeros((48, 64), np.uint8)
    halves[:, 32:] = 255
    encode(tmp_path / "a.mp4", [at(raw("mono8", halves), k * 33_000_000) for k in range(2)])
    picture = decode(tmp_path / "a.mp4")[1][0].astype(int)
    assert picture[:, :24].max() <= 3
    assert picture[:, 40:].min() >= 252


@pytest.mark.parametrize("encoding", ["rgb8", "jpeg"])
def test_odd_sizes_lose_their_last_row_and_column(tmp_path: Path, encoding: str) -> None:
    encoder = encode(tmp_path / "a.mp4", [at(painted(encoding, "red", 41, 61), 0)], (41, 61))
    assert encoder.encoded == encoded_size(41, 61) == (40, 60)
    picture = decode(tmp_path / "a.mp4")[1][0]
    assert picture.shape == (40, 60, 3)
    assert np.abs(picture.astype(int) - np.array(PURE["red"])).max() <= 4


def test_too_small_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="too small"):
        VideoEncoder(tmp_path / "a.mp4", (1, 64), SPEC, t0_ns=T0)


def test_size_change_is_refused_and_leaves_no_file(tmp_path: Path) -> None:
    frames = [at(painted("rgb8", "red"), 0), at(painted("rgb8", "red", 24, 32), 33_000_000)]
    with pytest.raises(ImageError, match=r"expected 48x64.*got 24x32"):
        encode(tmp_path / "a.mp4", frames)
    assert list(tmp_path.iterdir()) == []


def test_a_frame_before_the_start_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="before the start"):
        encode(tmp_path / "a.mp4", [at(painted("rgb8", "red"), -1)])


def test_no_frames_leave_no_file(tmp_path: Path) -> None:
    assert encode(tmp_path / "a.mp4", []).frames == 0
    assert list(tmp_path.iterdir()) == []


def test_an_encoder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"a[.]mp4"):
        VideoEncoder(tmp_path / "a.mp4", (48, 64), VideoSpec(codec="nonesuch"), t0_ns=T0)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_equal_frames_give_equal_bytes(tmp_path: Path) -> None:
    frames = [at(painted("jpeg", c), k * 33_000_000) for k, c in enumerate(PURE)]
    encode(tmp_path / "a.mp4", frames)
    encode(tmp_path / "b.mp4", frames)
    assert (tmp_path / "a.mp4").read_bytes() == (tmp_path / "b.mp4").read_bytes()


def planes(frame: av.VideoFrame) -> list[np.ndarray]:
    """The Y, U and V of a planar picture."""
    rows = [np.frombuffer(p, np.uint8).reshape(-1, p.line_size)[:, : p.width] for p in frame.planes]
    return [r.astype(float) for r in rows]


def stored(path: Path, frame: CameraFrame, size: tuple[int, int]) -> list[np.ndarray]:
    """The Y, U and V that the encoder was given, by way of a video without loss."""
    with VideoEncoder(path, size, VideoSpec(crf=0), t0_ns=T0) as encoder:
        encoder.write(at(frame, 0))
    with av.open(str(path)) as container:
        (picture,) = container.decode(video=0)
        assert (picture.format.name, picture.color_range) == ("yuv420p", 1)
        return planes(picture)


def a_scene(height: int, width: int) -> np.ndarray:
    """Slopes of every colour, and a strip as the simulated camera has it."""
    y, x = np.indices((height, width)) / max(height, width)
    rgb = np.stack([60 + 140 * x, 200 - 150 * y, 90 + 120 * (1 - x) * y], axis=2).astype(np.uint8)
    write_strip(rgb, stamp_ns=T0, camera=3, frame=5)
    return rgb


@pytest.mark.parametrize("size", [(480, 640), (241, 321)])
def test_a_jpeg_changes_its_range_and_nothing_else(tmp_path: Path, size: tuple[int, int]) -> None:
    noise = np.random.default_rng(1).integers(0, 256, (*size, 3), dtype=np.uint8)
    frame = compressed("jpeg", simplejpeg.encode_jpeg(noise, 95, colorsubsampling="420"))
    luma, *chroma = planes(to_video_frame(frame))
    got_luma, *got_chroma = stored(tmp_path / "a.mp4", frame, size)
    height, width = encoded_size(*size)
    assert np.abs(got_luma - (16 + luma * 219 / 255)[:height, :width]).max() <= 1
    for got, full in zip(got_chroma, chroma, strict=True):
        assert np.abs(got - (128 + (full - 128) * 224 / 255)[: height // 2, : width // 2]).max() <= 1


def test_a_jpeg_gives_the_picture_that_its_rgb_gives(tmp_path: Path) -> None:
    jpeg = simplejpeg.encode_jpeg(a_scene(240, 320), 95, colorsubsampling="420")
    straight = stored(tmp_path / "a.mp4", compressed("jpeg", jpeg), (240, 320))
    by_rgb = stored(tmp_path / "b.mp4", raw("rgb8", simplejpeg.decode_jpeg(jpeg)), (240, 320))
    below = (slice(20, None), slice(10, None), slice(10, None))  # the strip's edges ring, and RGB clips that
    for one, other, rows in zip(straight, by_rgb, below, strict=True):
        assert np.abs(one - other)[rows].max() <= 2
    encode(tmp_path / "c.mp4", [at(compressed("jpeg", jpeg), k * 33_000_000) for k in range(3)], (240, 320))
    strip = StripReading(stamp_ms=T0 // 10**6 % 2**24, camera=3, frame=5)
    assert [read_strip(picture) for picture in decode(tmp_path / "c.mp4")[1]] == [strip] * 3


@pytest.mark.parametrize("encoding", ["jpeg", "png", "rgb8"])
def test_key_frames_come_as_the_profile_says_whatever_the_camera_sends(tmp_path: Path, encoding: str) -> None:
    frame = painted(encoding, "grey")
    with VideoEncoder(tmp_path / "a.mp4", (48, 64), VideoSpec(gop=10), t0_ns=T0) as encoder:
        for k in range(25):
            encoder.write(at(frame, k * 33_000_000))
    with av.open(str(tmp_path / "a.mp4")) as container:
        keys = [k for k, f in enumerate(container.decode(video=0)) if f.key_frame]
    assert keys == [0, 10, 20]
