"""What the files under ``meta/`` hold, key by key."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from piper_collect.config.column_spec import ROW_VALUE_DTYPES, ColumnSpec, zero_filled
from piper_collect.config.profile import Profile
from piper_collect.core.stats import ColumnStats
from piper_collect.core.types import Feature
from piper_collect.dataset.columns import SOURCE_STATE, SOURCE_TIMESTAMP
from piper_collect.dataset.depth import depth_key
from piper_collect.dataset.layout import DATA_PATH, VIDEO_PATH, video_key
from piper_collect.dataset.parquet import BOOKKEEPING, PICTURES, TIMESTAMP
from piper_collect.errors import DatasetError

VIDEO_CODECS = {"libx264": "h264", "libx265": "hevc", "libsvtav1": "av1"}
"""By encoder."""

CODEBASE_VERSIONS = {"lerobot-v2.0": "v2.0", "lerobot-v2.1": "v2.1"}
"""By dialect."""


ZERO_FILLED = "zero_filled"
"""In the ``info`` of a feature: names of elements that are zeros by the layout, and nothing measured."""
NESTED_DIALECTS = ("lerobot-v3.0",)
"""Those in which a cell may be an array of several axes; in others it is a list, row by row."""


def dataset_features(
    profile: Profile,
    cameras: Mapping[str, tuple[int, int]],
    depths: Mapping[str, tuple[int, int]] | None = None,
) -> tuple[Feature, ...]:
    """The columns of the rows, depth images last, then one video a camera; bookkeeping columns left out.

    Args:
        profile: Columns in their order.
        cameras: (height, width) of the encoded video by camera name.
        depths: (height, width) of depth images, by ``depth_name`` of their cameras.

    Raises:
        DatasetError: a name would make stock LeRobot take numbers for pictures.
    """
    columns = [_column_feature(profile, column) for column in profile.stored]
    if profile.row_samples == "columns":
        for name in (*profile.sources, *cameras, *(depths or {})):
            _refuse_picture_name(name)
            columns += [
                Feature(key=SOURCE_TIMESTAMP + name, dtype="float64", shape=(1,), unit="s since T0"),
                Feature(key=SOURCE_STATE + name, dtype="int64", shape=(1,)),
            ]
    columns += [
        Feature(
            key=depth_key(name),
            dtype="image",
            shape=(*size, 1),
            names=("height", "width", "channel"),
            unit="mm",
            source=name,
        )
        for name, size in (depths or {}).items()
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


def format_notes(profile: Profile) -> Iterator[str]:
    """What the format of ``profile`` holds otherwise than its columns say, for people."""
    for column in profile.stored if profile.dialect not in NESTED_DIALECTS else ():
        if column.shape:
            extents = " x ".join(map(str, column.shape))
            yield (
                f"{column.key}: its arrays of {extents} are stored as lists, row by row: "
                f"{profile.dialect} has no arrays"
            )

    for column in profile.stored:
        zeros = zero_filled(column, profile.columns)
        if zeros:
            text = (
                f"{len(zeros)} numbers of {column.key} are zeros, as the layout wants: nothing measured them"
            )
            yield f"{text} (zero_filled in info.json)"


def _refuse_picture_name(name: str) -> None:
    if "image" in name:
        raise DatasetError(
            'stock LeRobot takes every feature with "image" in its name for pictures',
            where=f"column {SOURCE_TIMESTAMP}{name}",
            expected='a camera or source without "image" in its name',
            got=name,
            hint="rename it in the configuration (--config), or use another profile",
        )


def _column_feature(profile: Profile, column: ColumnSpec) -> Feature:
    if column.value:
        return Feature(key=column.key, dtype=ROW_VALUE_DTYPES[column.value], shape=(1,))
    names = profile.names_of(column)
    shape: tuple[int, ...] = (len(names),)
    if column.shape:
        is_nested = profile.dialect in NESTED_DIALECTS
        shape, names = (column.shape, names) if is_nested else ((column.width,), ())
    return Feature(
        key=column.key,
        dtype="float32",
        shape=shape,
        names=names,
        unit=column.unit,
        frame=column.frame,
        source=column.source,
        zero_filled=zero_filled(column, profile.columns),
    )


def features_json(features: Sequence[Feature], profile: Profile, fps: float) -> dict[str, dict[str, Any]]:
    """The ``features`` map of info.json, bookkeeping columns included."""
    described: dict[str, dict[str, Any]] = {}
    for f in features:
        described[f.key] = {"dtype": f.dtype, "shape": list(f.shape), "names": list(f.names) or None}
        if f.dtype == "video" and profile.stock_info:
            described[f.key]["info"] = _video_info(f, profile, fps)
        if f.zero_filled:
            described[f.key]["info"] = {ZERO_FILLED: list(f.zero_filled)}
    for key, dtype in BOOKKEEPING.items():
        described[key] = {"dtype": dtype, "shape": [1], "names": None}
    return described


def _video_info(feature: Feature, profile: Profile, fps: float) -> dict[str, Any]:
    height, width, channels = feature.shape
    return {
        "video.height": height,
        "video.width": width,
        "video.channels": channels,
        "video.codec": VIDEO_CODECS[profile.video.codec],
        "video.pix_fmt": profile.video.pix_fmt,
        "video.is_depth_map": False,
        "video.fps": whole(fps),
        "has_audio": False,
    }


def info_json(
    profile: Profile,
    features: Sequence[Feature],
    *,
    robot_type: str,
    fps: float,
    episodes: int,
    frames: int,
    tasks: int,
) -> dict[str, Any]:
    """The dataset header."""
    header = {
        "codebase_version": CODEBASE_VERSIONS[profile.dialect],
        "robot_type": robot_type,
        "fps": whole(fps),
        "data_path": DATA_PATH,
        "video_path": VIDEO_PATH,
        "chunks_size": profile.chunks_size,
    }
    totals: dict[str, Any] = {"total_episodes": episodes, "total_frames": frames, "total_tasks": tasks}
    if profile.stock_info:
        totals |= stock_totals(episodes, sum(f.dtype == "video" for f in features), profile.chunks_size)
    return {
        **header,
        **totals,
        "splits": {"train": f"0:{episodes}"},
        "features": features_json(features, profile, fps),
    }


def stock_totals(episodes: int, cameras: int, chunks_size: int) -> dict[str, int]:
    """What stock LeRobot counts besides."""
    return {"total_videos": episodes * cameras, "total_chunks": -(-episodes // chunks_size)}


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
    for column in profile.stored:
        for part in column.modality:
            entry: dict[str, Any] = {"start": part.start, "end": part.end, "original_key": column.key}
            if part.rotation_type:
                entry["rotation_type"] = part.rotation_type
            groups[part.group][part.name] = {**entry, "dtype": "float32", "absolute": part.absolute}
    return {
        **groups,
        "video": {camera: {"original_key": video_key(camera)} for camera in cameras},
        "annotation": {
            a.name: {"original_key": a.original_key} if a.original_key else {} for a in profile.annotations
        },
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


def stats_columns(profile: Profile, cameras: Sequence[str], depths: Sequence[str] = ()) -> tuple[str, ...]:
    """The columns that stats.json covers, pictures apart."""
    if profile.statistics == "features":
        return (*(c.key for c in profile.stored if not c.value), TIMESTAMP)
    features = dataset_features(profile, dict.fromkeys(cameras, (2, 2)), dict.fromkeys(depths, (2, 2)))
    return (*(f.key for f in features if f.dtype not in PICTURES), *BOOKKEEPING)
