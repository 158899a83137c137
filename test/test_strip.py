"""The test strip: what is written is read back, also after JPEG and x264."""

import io

import av
import numpy as np
import simplejpeg
from hypothesis import given, settings
from hypothesis import strategies as st

from piper_collect.imaging.strip import STAMP_MODULO_MS, StripReading, read_strip, strip_error_ms, write_strip

rng = np.random.default_rng(3)


def noise(height: int = 480, width: int = 640) -> np.ndarray:
    return rng.integers(0, 256, (height, width, 3), dtype=np.uint8)


@settings(deadline=None, max_examples=50)
@given(
    stamp_ns=st.integers(0, 2**62), camera=st.integers(0, 40), frame=st.integers(0, 10**6),
    width=st.sampled_from([40, 64, 320, 641]),
)  # fmt: skip
def test_what_is_written_is_read(stamp_ns: int, camera: int, frame: int, width: int) -> None:
    picture = noise(60, width)
    write_strip(picture, stamp_ns=stamp_ns, camera=camera, frame=frame)
    expected = StripReading(
        stamp_ms=stamp_ns // 10**6 % STAMP_MODULO_MS, camera=camera % 16, frame=frame % 16
    )
    assert read_strip(picture) == expected


def test_the_layout_is_the_published_one() -> None:
    picture = np.zeros((480, 640, 3), np.uint8)
    write_strip(picture, stamp_ns=0xA5A5A5 * 10**6, camera=0b0011, frame=0b1100)
    cells = picture[16, 8::16, 0] > 127
    bits = "".join("1" if cell else "0" for cell in cells)
    # D4 is the CRC-8 (polynomial 0x07, no reflection) of A5 A5 A5 3C
    assert bits == "101001011010010110100101" + "0011" + "1100" + "11010100"
    assert not picture[32:].any()


def test_a_picture_without_a_strip_reads_as_none() -> None:
    assert read_strip(np.zeros((480, 640, 3), np.uint8) + 255) is None
    assert read_strip(np.zeros((10, 20, 3), np.uint8)) is None


def test_the_strip_survives_jpeg_and_x264() -> None:
    stamps = [1_790_000_000_123_000_000 + k * 33_000_000 for k in range(12)]
    target = io.BytesIO()
    with av.open(target, "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=30, options={"crf": "23", "preset": "veryfast"})
        stream.width, stream.height, stream.pix_fmt = 640, 480, "yuv420p"
        for k, stamp_ns in enumerate(stamps):
            picture = noise() // 2 + 60
            write_strip(picture, stamp_ns=stamp_ns, camera=2, frame=k)
            shown = simplejpeg.decode_jpeg(simplejpeg.encode_jpeg(picture, quality=80))
            for packet in stream.encode(av.VideoFrame.from_ndarray(shown, format="rgb24")):
                container.mux(packet)
        for packet in stream.encode():
            container.mux(packet)
    target.seek(0)
    with av.open(target) as container:
        readings = [read_strip(f.to_ndarray(format="rgb24")) for f in container.decode(video=0)]
    assert [r and (r.stamp_ms, r.camera, r.frame) for r in readings] == [
        (stamp_ns // 10**6 % STAMP_MODULO_MS, 2, k % 16) for k, stamp_ns in enumerate(stamps)
    ]


def test_the_error_is_signed_and_crosses_the_wrap() -> None:
    def reading(ms: int) -> StripReading:
        return StripReading(stamp_ms=ms, camera=0, frame=0)

    assert strip_error_ms(reading(5), 3_000_000) == 2.0
    assert strip_error_ms(reading(3), 5_500_000) == -2.5
    assert strip_error_ms(reading(1), (STAMP_MODULO_MS - 1) * 10**6) == 2.0
