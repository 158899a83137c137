"""States of the session as the pages read them: JSON text."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from piper_collect.core.desk import DeskView, EpisodeRow
from piper_collect.core.session_status import SessionView


def state_text(kind: str, content: Mapping[str, object]) -> str:
    """A message to a page."""
    return json.dumps({"type": kind, **content}, separators=(",", ":"), allow_nan=False)


def session_content(view: SessionView, now_ns: int) -> dict[str, object]:
    """The state of the session, with the running episode's length so far; ``now_ns`` by its start's clock."""
    elapsed_ms = (now_ns - view.start_ns) / 1e6 if view.start_ns else 0.0
    return {
        "state": view.state,
        "episode": view.episode_index,
        "elapsed_ms": max(0.0, elapsed_ms),
        "saved": view.saved,
        "task": view.task,
        "text": view.text,
        "teleop": view.teleop,
        "faults": list(view.faults),
    }


def episodes_text(rows: Sequence[EpisodeRow]) -> str:
    """The saved episodes as a message."""
    return state_text("episodes", {"rows": [asdict(row) for row in rows]})


def desk_content(view: DeskView, now_ns: int) -> dict[str, object]:
    """What the person at the desk sees but for the episodes, which change seldom."""
    topics = None if view.topics is None else [asdict(row) for row in view.topics]
    return {
        **session_content(view.session, now_ns),
        "session": view.name,
        "topics": topics,
        "bytes_free": view.bytes_free,
        "bytes_a_second": view.bytes_a_second,
        "minutes_left": view.minutes_left,
    }
