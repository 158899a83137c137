"""Where the files of a LeRobot v2 dataset lie under its root."""

import re
from pathlib import PurePosixPath
from string import Formatter

from piper_collect.errors import DatasetError

DATA_PATH = "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet"
VIDEO_PATH = "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4"

META = "meta"
INFO = "info.json"
MODALITY = "modality.json"
EPISODES = "episodes.jsonl"
TASKS = "tasks.jsonl"
STATS = "stats.json"
SOURCES = "episode_sources.jsonl"
SESSIONS = "collection_sessions.jsonl"
LATEST_SESSION = "collection_meta.json"

EPISODES_STATS = "episodes_stats.jsonl"
RELATIVE_STATS = "relative_stats.json"
DELTA_STATS = "delta_stats.json"

EXTRAS = "extras"
CAMERAS = f"{EXTRAS}/cameras.json"
STATS_STATE = f"{EXTRAS}/stats_state.bin"

STAGING = ".staging"

VIDEO_KEY_PREFIX = "observation.images."


def video_key(camera: str) -> str:
    """Feature key of a camera."""
    return VIDEO_KEY_PREFIX + camera


def data_path(episode_index: int, chunks_size: int, template: str = DATA_PATH) -> str:
    """Path of an episode's parquet file below the root."""
    return template.format(episode_chunk=episode_index // chunks_size, episode_index=episode_index)


def video_path(episode_index: int, chunks_size: int, key: str, template: str = VIDEO_PATH) -> str:
    """Path of an episode's mp4 of the video feature ``key`` below the root."""
    return template.format(
        episode_chunk=episode_index // chunks_size, episode_index=episode_index, video_key=key
    )


def samples_path(episode_index: int) -> str:
    """Path of the stamps of the samples that an episode's rows show, below the root."""
    return f"{EXTRAS}/episode_{episode_index:06d}.samples.parquet"


def quest_path(episode_index: int) -> str:
    """Path of an episode's raw headset input below the root."""
    return f"{EXTRAS}/episode_{episode_index:06d}.quest.jsonl"


def check_template(template: object, fields: tuple[str, ...]) -> str:
    """``template`` as text, when filling it can only give a path below the root.

    Raises:
        DatasetError: It is no text, names something else than ``fields``, asks for more than a few digits,
            or leads out of the root.
    """
    if not isinstance(template, str) or not template:
        raise DatasetError("a path template is no text", got=repr(template)[:80])
    try:
        parts = list(Formatter().parse(template))
    except ValueError as err:
        raise DatasetError(f"a path template cannot be parsed: {err}", got=template[:200]) from err
    for _, name, spec, conversion in parts:
        if name is None:
            continue
        if name not in fields:
            raise DatasetError(
                "a path template names something unknown", got=repr(f"{{{name[:80]}}}"), valid=fields
            )
        if conversion or not re.fullmatch(r"(0?[0-9]{1,2})?d?", spec or ""):
            raise DatasetError("a path template has a strange format", got=template[:200])
    check_below_root("".join(literal + ("x" if name else "") for literal, name, _, _ in parts))
    return template


def check_below_root(path: str) -> None:
    """Refuse a relative path that leads out of the folder it is relative to.

    Raises:
        DatasetError: naming it.
    """
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or "\0" in path:
        raise DatasetError("a path leads out of the dataset", got=path[:200])
