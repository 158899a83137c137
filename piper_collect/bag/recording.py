"""One episode while it is recorded: a bag in ``.recording``, moved into place when it is whole."""

import contextlib
import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from piper_collect import __version__
from piper_collect.bag.backends import make_writer
from piper_collect.bag.session_folder import SessionFolder
from piper_collect.bag.storage import BagSummary, TopicInfo
from piper_collect.errors import PiperCollectError

Outcome = str
SUCCESS: Outcome = "success"
INTERRUPTED: Outcome = "interrupted"


class EpisodeRecording:
    """Writes one episode; ``finish`` or ``abandon`` ends it.

    Args:
        folder: The session's folder, prepared.
        storage: Storage backend.
        topics: Topics known at the start; more may be added.
        task: Task string of the episode.
        start_ns: ROS time of the start call.
        session_yaml: Resolved configuration; travels in the bag.
        session_record: Provenance record; travels in the bag.

    Raises:
        BagError: when the bag cannot be made.
    """

    def __init__(
        self,
        folder: SessionFolder,
        *,
        storage: str,
        topics: Iterable[TopicInfo],
        task: str,
        start_ns: int,
        session_yaml: str,
        session_record: Mapping[str, object],
    ) -> None:
        self.index = folder.next_index()
        self.path = folder.recording_path(self.index)
        self.task = task
        self.start_ns = start_ns
        self._folder = folder
        self._topics: set[str] = set()
        self._writer = make_writer(storage)
        self._writer.open(
            self.path,
            {
                "session": folder.name,
                "episode": str(self.index),
                "task": task,
                "tool_version": __version__,
                "episode_start_ns": str(start_ns),
                "session_record": json.dumps(session_record, ensure_ascii=False, allow_nan=False),
                "session_config": session_yaml,
            },
        )
        try:
            for topic in topics:
                self.add_topic(topic)
        except PiperCollectError:
            self._writer.abort()
            raise

    def add_topic(self, topic: TopicInfo) -> None:
        """Announce a topic, also one that appears while the episode runs."""
        if topic.name not in self._topics:
            self._writer.create_topic(topic)
            self._topics.add(topic.name)

    def write(self, topic: str, payload: bytes, receive_ns: int) -> None:
        """Append one serialized message.

        Raises:
            BagError: when the storage cannot be written; the episode must then be abandoned or
                finished as interrupted.
        """
        self._writer.write(topic, payload, receive_ns)
        self._writer.flush_due(time.monotonic())

    def finish(
        self,
        *,
        end_ns: int,
        outcome: Outcome,
        incomplete_reasons: list[str],
        topics: Mapping[str, Mapping[str, object]],
    ) -> tuple[Path, BagSummary]:
        """Close the bag, put ``episode.json`` beside it and move the folder into place.

        Args:
            end_ns: ROS time of the stop call.
            outcome: ``success`` or ``interrupted``.
            incomplete_reasons: Why the episode is not whole; empty when it is.
            topics: Counts and losses by topic.

        Returns:
            The episode's folder and what the bag holds.
        """
        complete = outcome == SUCCESS and not incomplete_reasons
        summary = self._writer.close(
            {
                "episode_end_ns": str(end_ns),
                "outcome": outcome,
                "complete": "true" if complete else "false",
                "incomplete_reasons": json.dumps(incomplete_reasons, ensure_ascii=False),
                "losses": json.dumps({name: counts["lost"] for name, counts in topics.items()}),
            }
        )
        record = {
            "session": self._folder.name,
            "episode": self.index,
            "task": self.task,
            "outcome": outcome,
            "complete": complete,
            "incomplete_reasons": incomplete_reasons,
            "episode_start_ns": self.start_ns,
            "episode_end_ns": end_ns,
            "topics": topics,
            "messages_in_bag": summary.counts,
            "tool_version": __version__,
        }
        return self._folder.commit(self.index, record), summary

    def abandon(self) -> None:
        """Remove the recording; nothing of it stays."""
        self._writer.abort()
        self._folder.discard(self.index)

    def leave(self) -> None:
        """Stop writing after a storage failure; what is on disk stays where it is."""
        with contextlib.suppress(PiperCollectError):
            self._writer.close()
