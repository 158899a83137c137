"""The saved episodes of a running session, read from the disk as they appear."""

import json
from pathlib import Path

from piper_collect.bag.session_folder import EPISODE_JSON, RECORDING, lost_messages, recorded_seconds
from piper_collect.core.desk import EpisodeRow
from piper_collect.core.naming import episode_name


class EpisodeLedger:
    """Reads each episode once; one that is gone, or was made anew, is noticed."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[int, EpisodeRow]] = {}

    def rows(self, session: Path) -> tuple[EpisodeRow, ...]:
        """The saved episodes of a session, in order; none where its folder is not there.

        Args:
            session: Its folder.
        """
        found = {}
        for record in session.glob(f"episode_*/{EPISODE_JSON}"):
            try:
                changed_ns = record.stat().st_mtime_ns
                known = self._known.get(record)
                found[record] = known if known and known[0] == changed_ns else (changed_ns, _row(record))
            except FileNotFoundError:
                continue  # it was deleted while we looked
        self._known = found
        return tuple(sorted((row for _, row in found.values()), key=lambda row: row.number))

    def running_bytes(self, session: Path, number: int) -> int:
        """What the running episode has on the disk; 0 where there is none.

        Args:
            session: The session's folder.
            number: Of the episode.
        """
        return _size_bytes(session / RECORDING / episode_name(number))


def _row(record: Path) -> EpisodeRow:
    content = json.loads(record.read_text(encoding="utf-8"))
    return EpisodeRow(
        number=content["episode"],
        seconds=recorded_seconds(content),
        outcome=content["outcome"],
        lost=lost_messages(content),
        flaws=tuple(content["incomplete_reasons"]),
        size_bytes=_size_bytes(record.parent),
    )


def _size_bytes(folder: Path) -> int:
    size = 0
    for path in folder.glob("*"):
        try:
            size += path.stat().st_size
        except FileNotFoundError:
            continue
    return size
