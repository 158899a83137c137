"""A converter as one is written in an afternoon: everything decoded into lists, then written; one process."""

import io
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from PIL import Image
from rosbags.highlevel import AnyReader

from piper_collect.config.profile import VideoSpec

_Pictures = list[NDArray[np.uint8]]
_RAW_TYPE = "sensor_msgs/msg/Image"
_IMAGE_TYPES = ("sensor_msgs/msg/CompressedImage", _RAW_TYPE)


def convert(bag: Path, out: Path, spec: VideoSpec, fps: int) -> None:
    """Make parquet, mp4 and statistics of a recording of ``bench/recordings.py``, nearest sample a row."""
    times, values = _read(bag)
    cameras = [topic for topic in times if "image_raw" in topic]
    stamps = {topic: np.array(t) for topic, t in times.items()}
    start_ns = max(int(t[0]) for t in stamps.values())
    end_ns = min(int(t[-1]) for t in stamps.values())
    rows = np.arange(start_ns, end_ns, 1e9 / fps)
    chosen = {topic: [int(np.argmin(np.abs(t - row))) for row in rows] for topic, t in stamps.items()}
    columns = {
        topic: np.array([values[topic][k] for k in chosen[topic]], dtype=np.float32)
        for topic in times
        if topic not in cameras
    }
    out.mkdir(parents=True)
    cells = {topic: pa.array(list(column)) for topic, column in columns.items()}
    cells["timestamp"] = pa.array((rows - start_ns) / 1e9, pa.float32())
    pq.write_table(pa.table(cells), out / "episode.parquet")
    statistics = {topic: _statistics(column) for topic, column in columns.items()}
    for topic in cameras:
        pictures = [values[topic][k] for k in chosen[topic]]
        some = np.stack([picture[::4, ::4] for picture in pictures[:: max(1, len(pictures) // 100)]])
        statistics[topic] = _statistics(some.reshape(-1, 3) / 255)
        _encode(pictures, out / f"{topic.strip('/').partition('/')[0]}.mp4", spec, fps)
    (out / "stats.json").write_text(json.dumps(statistics))


def _read(bag: Path) -> tuple[dict[str, list[int]], dict[str, list[Any]]]:
    times: dict[str, list[int]] = {}
    values: dict[str, list[Any]] = {}
    with AnyReader([bag]) as reader:
        for connection, _, raw in reader.messages():
            message: Any = reader.deserialize(raw, connection.msgtype)
            stamp = message.header.stamp
            times.setdefault(connection.topic, []).append(stamp.sec * 10**9 + stamp.nanosec)
            values.setdefault(connection.topic, []).append(_value(connection.msgtype, message))
    return times, values


def _value(kind: str, message: Any) -> Any:
    if kind == _RAW_TYPE:
        return message.data.reshape(message.height, message.width, 3)
    if kind in _IMAGE_TYPES:
        return np.array(Image.open(io.BytesIO(message.data.tobytes())))
    if kind.endswith("JointState"):
        return message.position
    pose = message.pose if kind.endswith("PoseStamped") else message.flange_pose
    place, turn = pose.position, pose.orientation
    return np.array([place.x, place.y, place.z, turn.w, turn.x, turn.y, turn.z])


def _statistics(cells: NDArray[Any]) -> dict[str, list[float]]:
    return {
        "mean": cells.mean(0).tolist(),
        "std": cells.std(0).tolist(),
        "min": cells.min(0).tolist(),
        "max": cells.max(0).tolist(),
        "q01": np.quantile(cells, 0.01, axis=0).tolist(),
        "q99": np.quantile(cells, 0.99, axis=0).tolist(),
    }


def _encode(pictures: _Pictures, path: Path, spec: VideoSpec, fps: int) -> None:
    height, width, _ = pictures[0].shape
    with av.open(str(path), "w") as container:
        stream = container.add_stream(spec.codec, rate=fps)
        stream.height, stream.width, stream.pix_fmt = height, width, spec.pix_fmt
        stream.options = {"crf": str(spec.crf), "preset": spec.preset}
        stream.codec_context.max_b_frames = spec.b_frames
        stream.codec_context.gop_size = spec.gop
        stream.codec_context.time_base = Fraction(1, fps)
        for k, rgb in enumerate(pictures):
            frame = av.VideoFrame.from_ndarray(rgb, format="rgb24")
            frame.pts, frame.time_base = k, Fraction(1, fps)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
