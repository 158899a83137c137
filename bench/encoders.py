"""Nothing but encoding: frames that lie in memory to mp4, by a bare PyAV loop and by the ffmpeg command."""

import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import TypeAlias

import av
import numpy as np
from av.video.frame import PictureType
from av.video.reformatter import ColorRange, Colorspace, Interpolation

from bench.recordings import FPS, Transport
from piper_collect.bag.episode import read_episode
from piper_collect.bag.reader import open_bag
from piper_collect.bag.sidecar import choose_config, read_record
from piper_collect.config.profile import VideoSpec
from piper_collect.core.types import CameraFrame
from piper_collect.imaging.yuv420 import Yuv420Converter

Frames: TypeAlias = dict[str, list[CameraFrame]]

_SPEC = VideoSpec()
_MS = Fraction(1, 1000)


def frames_of(path: Path) -> Frames:
    """All frames of a bag, as recorded, by camera."""
    with open_bag(path) as bag:
        record = read_record(bag)
        episode = read_episode(bag, choose_config(bag, record)[0], record)
    return {
        name: list(camera.frames(int(camera.stamp_ns[0]), int(camera.stamp_ns[-1])))
        for name, camera in episode.cameras.items()
    }


def encode_by_pyav(
    frames: Frames, size: tuple[int, int], folder: Path, *, converter: type[Yuv420Converter] | None = None
) -> None:
    """One thread a camera: decode where it must be, change the colour space, encode.

    Args:
        frames: By camera.
        size: (height, width).
        folder: Where to.
        converter: What changes the colour space; by default one call of ``reformat``.
    """
    with ThreadPoolExecutor(len(frames)) as pool:
        convert = [converter().convert if converter else _reformatted for _ in frames]
        list(pool.map(lambda c, f: _pyav(frames[c], size, folder / f"{c}.mp4", f), frames, convert))


def encode_by_ffmpeg(frames: Frames, size: tuple[int, int], transport: Transport, folder: Path) -> None:
    """One ``ffmpeg`` a camera, fed through a pipe."""
    with ThreadPoolExecutor(len(frames)) as pool:
        list(pool.map(lambda c: _ffmpeg(frames[c], size, transport, folder / f"{c}.mp4"), frames))


def _reformatted(picture: av.VideoFrame) -> av.VideoFrame:
    is_rgb = picture.format.name == "rgb24"
    return picture.reformat(
        format=_SPEC.pix_fmt,
        src_color_range=ColorRange.JPEG,
        dst_color_range=ColorRange.MPEG,
        dst_colorspace=Colorspace.ITU601,
        interpolation=Interpolation.BILINEAR | (Interpolation.ACCURATE_RND if is_rgb else 0),
        threads=1,
    )


def _pyav(
    frames: Sequence[CameraFrame],
    size: tuple[int, int],
    path: Path,
    convert: Callable[[av.VideoFrame], av.VideoFrame],
) -> None:
    height, width = size
    decoder = av.CodecContext.create("mjpeg", "r")
    decoder.thread_count = 1
    with av.open(str(path), "w", options={"video_track_timescale": "1000"}) as container:
        stream = container.add_stream(_SPEC.codec, rate=round(FPS))
        stream.height, stream.width, stream.pix_fmt = height, width, _SPEC.pix_fmt
        stream.time_base = stream.codec_context.time_base = _MS
        stream.options = {"crf": str(_SPEC.crf), "preset": _SPEC.preset}
        stream.codec_context.thread_count = 1
        stream.codec_context.max_b_frames = _SPEC.b_frames
        stream.codec_context.gop_size = _SPEC.gop
        for frame in frames:
            if frame.encoding == "jpeg":
                (picture,) = decoder.decode(av.Packet(bytes(frame.payload)))
            else:
                rgb = np.frombuffer(frame.payload, np.uint8).reshape(height, width, 3)
                picture = av.VideoFrame.from_ndarray(rgb, format="rgb24")
            yuv = convert(picture)
            yuv.pict_type = PictureType.NONE
            yuv.pts, yuv.time_base = (frame.stamp_ns - frames[0].stamp_ns) // 1_000_000, _MS
            container.mux(stream.encode(yuv))
        container.mux(stream.encode(None))


def _ffmpeg(frames: Sequence[CameraFrame], size: tuple[int, int], transport: Transport, path: Path) -> None:
    height, width = size
    raw = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-video_size", f"{width}x{height}"]
    source = raw if transport == "raw" else ["-f", "mjpeg"]
    accurate = "+accurate_rnd" if transport == "raw" else ""
    command = [
        *["ffmpeg", "-v", "error", "-y", "-threads", "1", *source, "-r", f"{FPS:g}", "-i", "-"],
        *["-vf", f"scale=out_color_matrix=bt601:out_range=tv:flags=bilinear{accurate}"],
        *["-c:v", _SPEC.codec, "-crf", str(_SPEC.crf), "-preset", _SPEC.preset, "-threads", "1"],
        *["-bf", str(_SPEC.b_frames), "-g", str(_SPEC.gop), "-pix_fmt", _SPEC.pix_fmt, str(path)],
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        for frame in frames:
            process.stdin.write(frame.payload)
        process.stdin.close()
        if process.wait():
            raise RuntimeError(f"ffmpeg ended with {process.returncode}")
