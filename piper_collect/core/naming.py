"""Names of sessions and episodes."""

import re
import unicodedata
from datetime import datetime

SLUG_LENGTH = 48


def task_slug(task: str) -> str:
    """A folder name for a task: lower-case letters and digits of any script, ``_`` between, at most 48."""
    words = re.findall(r"\w+", unicodedata.normalize("NFKC", task).lower())
    slug = re.sub(r"_+", "_", "_".join(words))[:SLUG_LENGTH].strip("_")
    return slug or "untitled"


def session_name(task: str, when: datetime) -> str:
    """``<task slug>_<YYYYMMDD_HHMMSS>``."""
    return f"{task_slug(task)}_{when:%Y%m%d_%H%M%S}"


def episode_name(index: int) -> str:
    """``episode_000003``."""
    return f"episode_{index:06d}"
