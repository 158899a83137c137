"""What a recorder knows of each topic: rate, age, losses, and whether an episode can start."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

RATE_WINDOW_NS = 2_000_000_000
SEQUENCE_UNKNOWN = 0


@dataclass(slots=True, kw_only=True)
class TopicMonitor:
    """Counts the messages of one topic as they arrive.

    Losses are counted by the publisher's sequence number, which DDS hands over with each message:
    a step over one is a message that was published and did not arrive. A step back is another
    writer (a publisher that restarted), which starts a new count.

    Attributes:
        name: Resolved topic name.
        required: Whether an episode needs it.
        type: Message type; empty while nobody publishes it.
        publishers: How many publish it now.
        fault: Why it cannot be recorded at all (an unknown type, say); empty when it can.
        messages: Messages of the running episode.
        lost: Lost messages of the running episode.
        restarts: Publisher restarts seen in the running episode.
        zero_stamps: Messages of the running episode whose header stamp is unset.
    """

    name: str
    required: bool
    type: str = ""
    publishers: int = 0
    fault: str = ""
    messages: int = 0
    lost: int = 0
    restarts: int = 0
    zero_stamps: int = 0
    first_receive_ns: int = 0
    newest_receive_ns: int = 0
    newest_stamp_ns: int = 0
    _sequence: int = SEQUENCE_UNKNOWN
    _arrivals: deque[int] = field(default_factory=deque)

    def begin_episode(self) -> None:
        """Start the counts of an episode at zero."""
        self.messages = self.lost = self.restarts = self.zero_stamps = 0

    def receive(self, *, receive_ns: int, stamp_ns: int | None, sequence: int) -> None:
        """Take note of one message, whether an episode runs or not.

        Args:
            receive_ns: Arrival, ns since the epoch.
            stamp_ns: Header stamp; 0 when it is unset, None when the type has no header.
            sequence: The publisher's sequence number; 0 when the middleware gives none.
        """
        if not self.first_receive_ns:
            self.first_receive_ns = receive_ns
        if sequence and self._sequence:
            if sequence > self._sequence:
                self.lost += sequence - self._sequence - 1
            else:
                self.restarts += 1
        self._sequence = sequence
        if stamp_ns == 0:
            self.zero_stamps += 1
        self.newest_receive_ns = receive_ns
        self.newest_stamp_ns = stamp_ns or 0
        self._arrivals.append(receive_ns)
        self._forget(receive_ns)

    def rate_hz(self, now_ns: int) -> float:
        """Messages a second over the last two seconds, by arrival."""
        self._forget(now_ns)
        if not self._arrivals:
            return 0.0
        window_ns = min(RATE_WINDOW_NS, now_ns - self.first_receive_ns)
        return len(self._arrivals) * 1e9 / window_ns if window_ns > 0 else 0.0

    def age_s(self, now_ns: int) -> float:
        """Seconds since the newest message was stamped (arrived, when it has no stamp); -1 for none."""
        newest = self.newest_stamp_ns or self.newest_receive_ns
        return (now_ns - newest) / 1e9 if newest else -1.0

    def reason(self, now_ns: int, fresh_ns: int) -> str:
        """Why the topic is not as it should be; empty when it is."""
        if self.fault:
            return self.fault
        if not self.publishers:
            return "nobody publishes it" if self.required else ""
        if self.publishers > 1:
            return f"{self.publishers} publishers send on it: two sources would be mixed"
        if not self.newest_receive_ns:
            return "no message yet" if self.required else ""
        silent_ns = now_ns - self.newest_receive_ns
        if silent_ns > fresh_ns and self.required:
            return f"silent for {silent_ns / 1e9:.1f} s"
        return ""

    def _forget(self, now_ns: int) -> None:
        while self._arrivals and self._arrivals[0] < now_ns - RATE_WINDOW_NS:
            self._arrivals.popleft()


def start_refusal(monitors: Sequence[TopicMonitor], now_ns: int, fresh_ns: int) -> str:
    """Why no episode can start now, naming each bad topic; empty when one can."""
    bad = [
        f"{monitor.name}: {reason}"
        for monitor in monitors
        if monitor.required and (reason := monitor.reason(now_ns, fresh_ns))
    ]
    return "; ".join(bad)


def incomplete_reasons(monitors: Sequence[TopicMonitor], max_lost: int) -> list[str]:
    """Why the episode just recorded is not whole; empty when it is."""
    reasons = []
    for monitor in monitors:
        if not monitor.required:
            continue
        if monitor.messages == 0:
            reasons.append(f"{monitor.name}: no message recorded")
        if monitor.lost > max_lost:
            reasons.append(f"{monitor.name}: {monitor.lost} messages lost")
        if monitor.restarts:
            reasons.append(f"{monitor.name}: its publisher restarted {monitor.restarts} times")
    return reasons
