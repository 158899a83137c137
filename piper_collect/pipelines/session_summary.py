"""What a session left on the disk: read from there, since only that counts."""

import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from piper_collect.bag.session_folder import (
    EPISODE_JSON,
    RECORDING,
    SESSION_YAML,
    lost_messages,
    recorded_seconds,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedEpisode:
    """One saved episode.

    Attributes:
        name: Its folder's.
        seconds: From the start call to the stop call.
        lost: Messages lost, of all topics.
        flaws: Why it is not whole; empty when it is.
    """

    name: str
    seconds: float
    lost: int
    flaws: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedSession:
    """A session's folder.

    Attributes:
        path: The folder.
        episodes: In order.
        unfinished: Recordings that were never finished, and are kept.
    """

    path: Path
    episodes: tuple[SavedEpisode, ...]
    unfinished: tuple[Path, ...] = ()


def sessions_in(root: Path) -> frozenset[str]:
    """Names of the sessions under a recording root."""
    return frozenset(path.parent.name for path in root.glob(f"*/{SESSION_YAML}"))


def saved_sessions(root: Path, before: Collection[str], session_yaml: str) -> tuple[SavedSession, ...]:
    """What a session has left, found by its configuration among those that are new.

    Args:
        root: Recording root.
        before: Sessions that were there before it.
        session_yaml: Its configuration.
    """
    found = []
    for name in sorted(sessions_in(root) - set(before)):
        folder = root / name
        if (folder / SESSION_YAML).read_text(encoding="utf-8") == session_yaml:
            records = sorted(folder.glob(f"episode_*/{EPISODE_JSON}"))
            unfinished = sorted(path for path in folder.glob(f"{RECORDING}/episode_*") if path.is_dir())
            found.append(
                SavedSession(
                    path=folder,
                    episodes=tuple(_episode(path) for path in records),
                    unfinished=tuple(unfinished),
                )
            )
    return tuple(found)


def told(sessions: Collection[SavedSession]) -> list[str]:
    """The same in lines for a person."""
    lines = []
    for session in sessions:
        seconds, lost = sum(e.seconds for e in session.episodes), sum(e.lost for e in session.episodes)
        count = f"{len(session.episodes)} episode{'' if len(session.episodes) == 1 else 's'}"
        lines.append(f"saved {count}, {seconds:.1f} s, {lost} messages lost: {session.path}")
        lines += [f"  {e.name} is INCOMPLETE: {'; '.join(e.flaws)}" for e in session.episodes if e.flaws]
        lines += [
            f"  never finished, and kept: {path} (piper-collect recover makes an episode of it)"
            for path in session.unfinished
        ]
    return lines or ["no episode was saved"]


def _episode(path: Path) -> SavedEpisode:
    record = json.loads(path.read_text(encoding="utf-8"))
    return SavedEpisode(
        name=path.parent.name,
        seconds=recorded_seconds(record),
        lost=lost_messages(record),
        flaws=tuple(record["incomplete_reasons"]),
    )
