"""imaging.x264: the same frames become the same bytes, whatever lay in the encoder's memory before."""

import io
import subprocess
import sys
from fractions import Fraction

import av
import numpy as np
from av.video.frame import PictureType

from piper_collect.imaging.x264 import steady_options

TIMES = 600
"""Without the options some ten of so many differ, on a processor with AVX-512."""


def pictures():
    random = np.random.default_rng(0)
    for number in range(20):
        blocks = np.kron(random.integers(0, 256, (6, 8, 3), dtype=np.uint8), np.ones((8, 8, 1), np.uint8))
        rgb = np.roll(blocks, number, 1)
        yield av.VideoFrame.from_ndarray(rgb, format="rgb24").reformat(format="yuv420p")


def encoded(frames):
    file = io.BytesIO()
    with av.open(file, "w", format="h264") as container:
        stream = container.add_stream("libx264", rate=30)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        stream.codec_context.thread_count, stream.codec_context.max_b_frames = 1, 0
        stream.codec_context.gop_size = 30
        stream.options = {"crf": "23", "preset": "veryfast", **steady_options()}
        for number, frame in enumerate(frames):
            frame.pts, frame.time_base, frame.pict_type = number, Fraction(1, 30), PictureType.NONE
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return file.getvalue()


def test_the_same_frames_give_the_same_bytes_each_time():
    alone = subprocess.run([sys.executable, __file__], capture_output=True, text=True, check=True)
    assert alone.stdout == "1\n"


if __name__ == "__main__":  # where nothing else has used the memory, the fault shows in each run
    frames = list(pictures())
    print(len({encoded(frames) for _ in range(TIMES)}))
