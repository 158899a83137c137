"""One episode while it is recorded: a bag in ``.recording``, moved into place when it is whole."""

import contextlib
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from piper_collect import __version__
from piper_collect.bag.backends import Storage
from piper_collect.bag.claim import Claim
from piper_collect.bag.session_folder import EPISODE_JSON, SessionFolder, json_text
from piper_collect.bag.storage import BagSummary, TopicInfo
from piper_collect.core.host_clock import HostStep
from piper_collect.errors import PiperCollectError, SessionError
from piper_collect.files import write_atomic

Outcome = str
SUCCESS: Outcome = "success"
INTERRUPTED: Outcome = "interrupted"

_ROOM_BYTES = 16_384


class EpisodeRecording:
    """Writes one episode; ``finish`` or ``abandon`` ends it.

    As long as it runs its folder is claimed, and holds an ``episode.json`` with what is known at the start.

    Args:
        folder: The session's folder, prepared.
        storage: How the bag is written.
        topics: Topics known at the start; more may be added.
        task: Task string of the episode.
        start_ns: ROS time of the start call.
        session_yaml: Resolved configuration; travels in the bag.
        session_record: Provenance record; travels in the bag.

    Raises:
        BagError: when the bag cannot be made.
        SessionError: when ``episode.json`` cannot be written.
    """

    def __init__(
        self,
        folder: SessionFolder,
        *,
        storage: Storage,
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
        self._storage = storage
        self._topics: dict[str, str] = {}
        self._clock, self._writer = _FlushClock(), storage.writer()
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
        self._claim: Claim | None = None
        try:
            self._begin()
            for topic in topics:
                self.add_topic(topic)
        except PiperCollectError:
            self._release()
            self._writer.abort()
            raise

    def _begin(self) -> None:
        try:
            self._claim = Claim.take(self.path)
            # with room for what ``leave`` has to say when there is none left on the disk
            write_atomic(self.path / EPISODE_JSON, json_text(self._record()).ljust(_ROOM_BYTES))
        except OSError as err:
            raise SessionError(f"the episode cannot be begun: {err.strerror}", where=self.path) from err

    def _record(self) -> dict[str, object]:
        """What is known of the episode from its start on."""
        return {
            "session": self._folder.name,
            "episode": self.index,
            "task": self.task,
            "episode_start_ns": self.start_ns,
            "storage": self._storage.record(),
            "tool_version": __version__,
        }

    def _release(self) -> None:
        if self._claim is not None:
            self._claim.release()

    def takes(self, topic: TopicInfo) -> bool:
        """Whether messages of this type can be added: a topic of a bag has one type."""
        return self._topics.get(topic.name, topic.type) == topic.type

    def add_topic(self, topic: TopicInfo) -> None:
        """Announce a topic, also one that appears while the episode runs."""
        if topic.name not in self._topics:
            self._writer.create_topic(topic)
            self._topics[topic.name] = topic.type

    def write(self, topic: str, payload: bytes, receive_ns: int, publish_ns: int | None = None) -> None:
        """Append one serialized message.

        Raises:
            BagError: when the storage cannot be written; the episode must then be abandoned or
                finished as interrupted.
        """
        self._writer.write(topic, payload, receive_ns, publish_ns)
        self._writer.flush_due(self._clock.after(time.monotonic(), receive_ns / 1e9))

    def finish(
        self,
        *,
        end_ns: int,
        outcome: Outcome,
        incomplete_reasons: list[str],
        topics: Mapping[str, Mapping[str, object]],
        clock_steps: Sequence[HostStep] = (),
    ) -> tuple[Path, BagSummary]:
        """Close the bag, put ``episode.json`` beside it and move the folder into place.

        Args:
            end_ns: ROS time of the stop call.
            outcome: ``success`` or ``interrupted``.
            incomplete_reasons: Why the episode is not whole; empty when it is.
            topics: Counts and losses by topic.
            clock_steps: How this machine's clock was set during the episode.

        Returns:
            The episode's folder and what the bag holds.
        """
        try:
            return self._finish(end_ns, outcome, incomplete_reasons, topics, clock_steps)
        finally:
            self._release()

    def _finish(
        self,
        end_ns: int,
        outcome: Outcome,
        incomplete_reasons: list[str],
        topics: Mapping[str, Mapping[str, object]],
        clock_steps: Sequence[HostStep],
    ) -> tuple[Path, BagSummary]:
        steps = [step.to_json() for step in clock_steps]
        complete = outcome == SUCCESS and not incomplete_reasons
        summary = self._writer.close(
            {
                "episode_end_ns": str(end_ns),
                "outcome": outcome,
                "complete": "true" if complete else "false",
                "incomplete_reasons": json.dumps(incomplete_reasons, ensure_ascii=False),
                "losses": json.dumps({name: counts["lost"] for name, counts in topics.items()}),
                **({"clock_steps": json.dumps(steps)} if steps else {}),
            }
        )
        record = {
            **self._record(),
            "outcome": outcome,
            "complete": complete,
            "incomplete_reasons": incomplete_reasons,
            "episode_end_ns": end_ns,
            "topics": topics,
            "messages_in_bag": summary.counts,
            **({"clock_steps": steps} if steps else {}),
        }
        return self._folder.commit(self.index, record), summary

    def abandon(self) -> None:
        """Remove the recording; nothing of it stays."""
        self._writer.abort()
        self._folder.discard(self.index)
        self._release()

    def leave(self, incomplete_reasons: list[str], topics: Mapping[str, Mapping[str, object]]) -> None:
        """Stop writing after a storage failure; what is on disk stays where it is.

        ``episode.json`` there says why, and what was counted.

        Args:
            incomplete_reasons: Why the episode is not whole.
            topics: Counts and losses by topic.
        """
        with contextlib.suppress(PiperCollectError):
            self._writer.close()
        record = {
            **self._record(),
            "complete": False,
            "incomplete_reasons": incomplete_reasons,
            "topics": topics,
        }
        text = json_text(record)
        try:
            write_atomic(self.path / EPISODE_JSON, text)
        except OSError:
            self._write_in_place(text.encode("utf-8"))
        self._release()

    def _write_in_place(self, content: bytes) -> None:
        """Write over ``episode.json`` where it lies, which a full disk still allows, if it fits in there."""
        path = self.path / EPISODE_JSON
        with contextlib.suppress(OSError):
            room = path.stat().st_size
            if len(content) <= room:
                with path.open("r+b") as file:
                    file.write(content.ljust(room))


class _FlushClock:
    """Goes on with real time and with the messages' times of receipt, whichever steps further.

    After a stall messages of many seconds are written at once: a flush is due by their time, not ours.
    """

    def __init__(self) -> None:
        self._clock_s = 0.0
        self._now_s: float | None = None
        self._newest_s = 0.0

    def after(self, now_s: float, receive_s: float) -> float:
        """The clock, in s, once a message of that time of receipt was written at ``now_s``."""
        if self._now_s is None:
            self._now_s, self._newest_s = now_s, receive_s
        self._clock_s += max(now_s - self._now_s, receive_s - self._newest_s, 0.0)
        self._now_s, self._newest_s = now_s, max(self._newest_s, receive_s)
        return self._clock_s
