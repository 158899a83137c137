"""When an episode that was told to end has all that belongs to it."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from piper_collect.core.topics import TopicMonitor

MOST = 10
"""How many times the patience is had at most, with topics that come nearer to the end."""


@dataclass(slots=True, kw_only=True)
class Drain:
    """Looked at again and again after the end, until it is over; every topic is served between two looks.

    Attributes:
        end_ns: When the episode ended.
        patience_ns: How long messages on their way are waited for, those stamped before the end: from the
            end, and again from the last that came, as where a busy machine holds their publisher up.
    """

    end_ns: int
    patience_ns: int
    _behind: bool = True
    _came_ns: int = 0
    _newest_ns: dict[str, int] = field(default_factory=dict)

    def receive(self, receive_ns: int) -> None:
        """Take note of a message by its arrival: one from before the end had piled up, others may have."""
        if receive_ns <= self.end_ns:
            self._behind = True

    def is_over(self, now_ns: int, monitors: Iterable[TopicMonitor], *, waited_ns: int | None = None) -> bool:
        """Whether nothing from before the end waits here, and nothing of a required topic is to come.

        However much has piled up is taken, and does not count against the patience. A clock that has been set
        back meanwhile ends it, since it can say neither.

        Args:
            now_ns: Now, on the clock of ``end_ns``.
            monitors: Of all topics.
            waited_ns: Time since the end by a clock that nobody sets; as ``now_ns`` says where not given.
        """
        behind, self._behind = self._behind, False
        late_ns = now_ns - self.end_ns
        if late_ns < 0:
            return True
        late_ns = late_ns if waited_ns is None else waited_ns
        newest_ns = {m.name: m.newest_stamp_ns for m in monitors if m.required}
        waiting = {name: stamp_ns for name, stamp_ns in newest_ns.items() if stamp_ns <= self.end_ns}
        if any(self._newest_ns.get(name, stamp_ns) < stamp_ns for name, stamp_ns in waiting.items()):
            self._came_ns = late_ns
        self._newest_ns = newest_ns
        if behind:
            return False
        out_of_patience = late_ns >= min(self._came_ns + self.patience_ns, MOST * self.patience_ns)
        return not waiting or out_of_patience
