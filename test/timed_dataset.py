"""Small datasets whose rows and frames lie exactly where a test wants them, written without the project."""

import json
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

FPS = 30
HEIGHT, WIDTH = 48, 64
CAMERAS = ("cam_front", "cam_wrist")
TASK = "pick the cube"
WIDTHS = {
    "observation.arm_joint": 6,
    "observation.arm_eef": 7,
    "observation.gripper": 1,
    "action.arm_eef": 7,
    "action.gripper": 1,
}
POSE = ["x", "y", "z", "qw", "qx", "qy", "qz"]
NAMES = {
    "observation.arm_joint": [f"joint{i}" for i in range(1, 7)],
    "observation.arm_eef": POSE,
    "action.arm_eef": POSE,
    "observation.gripper": ["width"],
    "action.gripper": ["width"],
}


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Where rows and frames lie.

    ``jitter``: rows and frames have capture times, not k/30. ``own_frames``: the cameras have a phase of
    their own and one of them loses a frame in the middle; otherwise there is a frame at each row.
    ``ticks``: of the PTS, a second. ``rounding``: of the PTS. ``up``: timestamps not below their time.
    """

    jitter: bool = False
    own_frames: bool = False
    ticks: int = 1000
    rounding: str = "nearest"
    b_frames: bool = False
    up: bool = False
    rows: int = 42
    episodes: int = 1


@dataclass(frozen=True, kw_only=True)
class Metadata:
    """How the metadata is written: ``verbatim`` by the format, or in the shape all loaders take."""

    verbatim: bool = False
    version: str = "v2.0"
    scalars: bool = False


def write(root: Path, timing: Timing, metadata: Metadata = Metadata()) -> Path:
    """Write the dataset."""
    rng = np.random.default_rng(3)
    (root / "meta").mkdir(parents=True)
    episodes, per_episode, parts, first = [], [], {}, 0
    for index in range(timing.episodes):
        row_s, frame_s = _times(timing, rng)
        counts = {key: _video(root, index, key, times, timing) for key, times in frame_s.items()}
        columns = _columns(row_s)
        stored = _stored(row_s, timing.up)
        numbers = {
            "timestamp": stored,
            "frame_index": np.arange(len(row_s)),
            "episode_index": np.full(len(row_s), index),
            "index": np.arange(first, first + len(row_s)),
            "task_index": np.zeros(len(row_s), np.int64),
        }
        first += len(row_s)
        _parquet(root, index, columns, numbers, metadata.scalars)
        episodes.append(
            {
                "episode_index": index,
                "length": len(row_s),
                "tasks": [TASK],
                "task_index": 0,
                "video_frame_length": min(counts.values()),
                "video_frame_lengths": counts,
            }
        )
        cells = {**columns, **{key: value[:, None] for key, value in numbers.items()}}
        for key, value in cells.items():
            parts.setdefault(key, []).append(value)
        stats = {key: {**_stats(value), "count": [len(row_s)]} for key, value in cells.items()}
        stats |= {key: {**_picture_stats(), "count": [n]} for key, n in counts.items()}
        per_episode.append({"episode_index": index, "stats": stats})
    _meta(root, metadata, episodes, per_episode, parts)
    return root


def _times(timing: Timing, rng: np.random.Generator) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    grid = np.arange(timing.rows) / FPS
    wobble = lambda most: rng.uniform(-most, most, timing.rows) if timing.jitter else 0  # noqa: E731
    row_s = grid + (0.004 if timing.jitter else 0) + wobble(0.003)
    if not timing.own_frames:
        return row_s, {f"observation.images.{c}": row_s for c in CAMERAS}
    front, wrist = grid + 0.009 + wobble(0.002), grid + 0.021 + wobble(0.002)
    return row_s, {
        "observation.images.cam_front": front,
        "observation.images.cam_wrist": np.delete(wrist, [20, 31]),
    }


def _stored(row_s: np.ndarray, up: bool) -> np.ndarray:
    stored = row_s.astype(np.float32)
    above = np.nextafter(stored, np.float32(np.inf))
    return np.where(stored.astype(np.float64) < row_s, above, stored) if up else stored


def _columns(row_s: np.ndarray) -> dict[str, np.ndarray]:
    wave = np.sin(row_s)[:, None]
    turn = np.stack([np.cos(row_s / 2), np.sin(row_s / 2), 0 * row_s, 0 * row_s], axis=1)
    made = {
        "observation.arm_joint": 0.1 * wave + np.array([0.0, 1.2, -1.0, 0.0, 0.5, 0.0]),
        "observation.arm_eef": np.hstack([0.3 + 0.1 * wave, 0.1 * wave, 0.2 + 0 * wave, turn]),
        "observation.gripper": 0.03 + 0.01 * wave,
    }
    made |= {f"action.{k}": made[f"observation.{k}"] for k in ("arm_eef", "gripper")}
    return {key: made[key].astype(np.float32) for key in WIDTHS}


def _video(root: Path, index: int, key: str, times: np.ndarray, timing: Timing) -> int:
    path = root / f"videos/chunk-000/{key}/episode_{index:06d}.mp4"
    path.parent.mkdir(parents=True, exist_ok=True)
    base = Fraction(1, timing.ticks)
    across, down = np.arange(WIDTH)[None, :, None], np.arange(HEIGHT)[:, None, None]
    options = {} if timing.ticks == FPS else {"video_track_timescale": str(timing.ticks)}
    with av.open(str(path), "w", options=options) as container:
        stream = container.add_stream("libx264", rate=FPS)
        stream.width, stream.height, stream.pix_fmt, stream.time_base = WIDTH, HEIGHT, "yuv420p", base
        stream.codec_context.time_base = base
        stream.options = {"preset": "veryfast", **({} if timing.b_frames else {"bf": "0"})}
        for number, time in enumerate(times):
            wave = np.sin((across + number) / 9) * np.cos(down / 7 + np.arange(3))
            frame = av.VideoFrame.from_ndarray((128 + 80 * wave).astype(np.uint8), format="rgb24")
            ticks = float(np.float32(time)) * timing.ticks
            frame.pts = int(np.floor(ticks + 1e-6)) if timing.rounding == "floor" else round(ticks)
            frame.time_base = base
            container.mux(_lasting(stream.encode(frame), timing))
        container.mux(_lasting(stream.encode(), timing))
    return len(times)


def _lasting(packets: list[av.Packet], timing: Timing) -> list[av.Packet]:
    for packet in packets:
        packet.duration = round(Fraction(1, FPS) / packet.time_base)
    return packets


def _parquet(root: Path, index: int, columns: dict, numbers: dict, scalars: bool) -> None:
    path = root / f"data/chunk-000/episode_{index:06d}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = {}
    for key, value in columns.items():
        flat = pa.array(value.reshape(-1))
        arrays[key] = flat if scalars and value.shape[1] == 1 else _fixed(flat, value.shape[1])
    arrays |= {key: pa.array(value) for key, value in numbers.items()}
    pq.write_table(pa.table(arrays), path)


def _fixed(flat: pa.Array, width: int) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(flat, width)


def _stats(value: np.ndarray) -> dict[str, list[float]]:
    x = value.astype(np.float64)
    return {
        "mean": x.mean(0).tolist(),
        "std": x.std(0).tolist(),
        "min": x.min(0).tolist(),
        "max": x.max(0).tolist(),
        "q01": np.quantile(x, 0.01, axis=0).tolist(),
        "q99": np.quantile(x, 0.99, axis=0).tolist(),
    }


def _picture_stats() -> dict[str, list]:
    names = ("mean", "std", "min", "max", "q01", "q99")
    return {name: [[[0.5]]] * 3 if name == "mean" else [[[0.2]]] * 3 for name in names}


def _meta(root: Path, metadata: Metadata, episodes: list, per_episode: list, parts: dict) -> None:
    videos = [f"observation.images.{c}" for c in CAMERAS]
    rows = sum(e["length"] for e in episodes)
    info = {
        "codebase_version": metadata.version,
        "robot_type": "piper",
        "fps": FPS,
        "data_path": "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
        "video_path": "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4",
        "chunks_size": 1000,
        "total_episodes": len(episodes),
        "total_frames": rows,
        "total_tasks": 1,
        "splits": {"train": f"0:{len(episodes)}"},
        "features": _features(metadata, videos),
    }
    stats = {key: _stats(np.concatenate(part)) for key, part in parts.items()}
    if not metadata.verbatim:
        info |= {"total_videos": len(episodes) * len(videos), "total_chunks": 1}
        stats |= {key: _picture_stats() for key in videos}
    _json(root, "info.json", info)
    _json(root, "stats.json", stats)
    _json(root, "modality.json", _modality(metadata))
    _lines(root, "episodes.jsonl", episodes)
    _lines(root, "tasks.jsonl", [{"task_index": 0, "task": TASK}])
    if metadata.version == "v2.1":
        _lines(root, "episodes_stats.jsonl", per_episode)


def _features(metadata: Metadata, videos: list[str]) -> dict:
    features = {key: {"dtype": "float32", "shape": [width]} for key, width in WIDTHS.items()}
    features |= {key: {"dtype": "video", "shape": [HEIGHT, WIDTH, 3]} for key in videos}
    for key in ("timestamp", "frame_index", "episode_index", "index", "task_index"):
        features[key] = {"dtype": "float32" if key == "timestamp" else "int64", "shape": [1]}
    if metadata.verbatim:
        return features
    for key, feature in features.items():
        feature["names"] = NAMES.get(key)
        if key in videos:
            feature["names"] = ["height", "width", "channels"]
            feature["info"] = {"video.fps": FPS, "video.channels": 3, "video.codec": "h264"}
    return features


def _modality(metadata: Metadata) -> dict:
    word = "quat_wxyz" if metadata.verbatim else "quaternion"

    def part(key: str, start: int, end: int, **more: str) -> dict:
        return {"start": start, "end": end, "original_key": key, **more, "dtype": "float32", "absolute": True}

    def pose(group: str) -> dict:
        return {
            "eef_pos": part(f"{group}.arm_eef", 0, 3),
            "eef_rot": part(f"{group}.arm_eef", 3, 7, rotation_type=word),
            "gripper": part(f"{group}.gripper", 0, 1),
        }

    spoken = {"task_index": {}} if metadata.verbatim else {"human.task": {"original_key": "task_index"}}
    return {
        "state": {"arm_joint": part("observation.arm_joint", 0, 6), **pose("observation")},
        "action": pose("action"),
        "video": {c: {"original_key": f"observation.images.{c}"} for c in CAMERAS},
        "annotation": spoken,
    }


def _json(root: Path, name: str, value: object) -> None:
    (root / "meta" / name).write_text(json.dumps(value))


def _lines(root: Path, name: str, values: list) -> None:
    (root / "meta" / name).write_text("".join(json.dumps(v) + "\n" for v in values))
