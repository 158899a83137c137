"""What the files under ``meta/`` hold, key by key."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from piper_collect.config.profile import Profile
from piper_collect.core.stats import ColumnStats
from piper_collect.core.types import Feature
from piper_collect.dataset.layout import DATA_PATH, VIDEO_PATH, video_key
from piper_collect.dataset.parquet import BOOKKEEPING, TIMESTAMP
from piper_collect.errors import DatasetError

CODEBASE_VERSION = "v2.0"


def dataset_features(profile: Profile, cameras: Mapping[str, tuple[int, int]]) -> tuple[Feature, ...]:
    """The profile's columns, then one video a camera.

    Args:
        profile: Columns in their order.
        cameras: (height, width) of the encoded video by camera name.
    """
    columns = [
        Feature(
            key=c.key,
            dtype="float32",
            shape=(len(c.names),),
            names=c.names,
            unit=c.unit,
            frame=c.frame,
            source=c.source,
        )
        for c in profile.columns
    ]
    videos = [
        Feature(
            key=video_key(camera),
            dtype="video",
            shape=(*size, 3),
            names=("height", "width", "channel"),
            source=camera,
        )
        for camera, size in cameras.items()
    ]
    return (*columns, *videos)


def features_json(features: Sequence[Feature]) -> dict[str, dict[str, Any]]:
    """The ``features`` map of info.json, bookkeeping columns included."""
    described: dict[str, dict[str, Any]] = {
        f.key: {"dtype": f.dtype, "shape": list(f.shape), "names": list(f.names)} for f in features
    }
    for key, dtype in BOOKKEEPING.items():
        described[key] = {"dtype": dtype, "shape": [1], "names": None}
    return described


def info_json(
    features: Sequence[Feature],
    *,
    robot_type: str,
    fps: float,
    chunks_size: int,
    episodes: int,
    frames: int,
    tasks: int,
) -> dict[str, Any]:
    """The dataset header."""
    return {
        "codebase_version": CODEBASE_VERSION,
        "robot_type": robot_type,
        "fps": whole(fps),
        "data_path": DATA_PATH,
        "video_path": VIDEO_PATH,
        "chunks_size": chunks_size,
        "total_episodes": episodes,
        "total_frames": frames,
        "total_tasks": tasks,
        "splits": {"train": f"0:{episodes}"},
        "features": features_json(features),
    }


def whole(fps: float) -> int | float:
    """``fps`` as an int where it is one.

    Raises:
        DatasetError: when it is no rate.
    """
    if not (math.isfinite(fps) and fps > 0):
        raise DatasetError("the frame rate must be a positive number", got=fps)
    return int(fps) if float(fps).is_integer() else float(fps)


def modality_json(profile: Profile, cameras: Sequence[str]) -> dict[str, Any]:
    """The GR00T-style modality map."""
    groups: dict[str, dict[str, Any]] = {"state": {}, "action": {}}
    for column in profile.columns:
        for part in column.modality:
            entry: dict[str, Any] = {"start": part.start, "end": part.end, "original_key": column.key}
            if part.rotation_type:
                entry["rotation_type"] = part.rotation_type
            groups[part.group][part.name] = {**entry, "dtype": "float32", "absolute": part.absolute}
    return {
        **groups,
        "video": {camera: {"original_key": video_key(camera)} for camera in cameras},
        "annotation": {"task_index": {"original_key": "task_index"}},
    }


def episode_line(
    episode_index: int, length: int, task: str, task_index: int, video_frames: Mapping[str, int]
) -> dict[str, Any]:
    """A line of episodes.jsonl; ``video_frames`` counts encoded frames by camera name."""
    line: dict[str, Any] = {
        "episode_index": episode_index,
        "length": length,
        "tasks": [task],
        "task_index": task_index,
    }
    if video_frames:
        line["video_frame_length"] = min(video_frames.values())
        line["video_frame_lengths"] = {video_key(camera): n for camera, n in video_frames.items()}
    return line


def task_lines(tasks: Sequence[str]) -> list[dict[str, Any]]:
    """The lines of tasks.jsonl."""
    return [{"task_index": i, "task": task} for i, task in enumerate(tasks)]


def stats_json(stats: Mapping[str, ColumnStats]) -> dict[str, dict[str, list[float]]]:
    """The content of stats.json: six statistics a column."""
    return {
        key: {
            "mean": s.mean.tolist(),
            "std": s.std.tolist(),
            "min": s.min.tolist(),
            "max": s.max.tolist(),
            "q01": s.q01.tolist(),
            "q99": s.q99.tolist(),
        }
        for key, s in stats.items()
    }


def stats_columns(profile: Profile) -> tuple[str, ...]:
    """The columns that stats.json covers: every feature column, and ``timestamp``."""
    return (*(c.key for c in profile.columns), TIMESTAMP)
