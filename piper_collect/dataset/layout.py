"""Where the files of a LeRobot v2 dataset lie under its root."""

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
