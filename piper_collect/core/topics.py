"""What a recorder knows of each topic: rate, age, losses, and whether an episode can start."""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from piper_collect.core.live_clock import LiveClock
from piper_collect.core.picture_watch import PictureWatch
from piper_collect.core.stamp_gaps import NumberGaps, StampGaps

RATE_WINDOW_NS = 2_000_000_000
STILL_NS = 1_000_000_000
"""Messages that bring the same stamp for so long bring nothing new."""

SEQUENCE_UNKNOWN = 0
NO_MESSAGE = "no message yet"


@dataclass(slots=True, kw_only=True)
class TopicMonitor:
    """Counts the messages of one topic as they arrive.

    Rates and silences are counted by a clock that nobody sets: arrivals, the begin and the end of an episode
    and every ``now_ns`` are times of that one.

    Losses are counted by the publisher's sequence number, which DDS hands over with each message:
    a step over one is a message that was published and did not arrive. A step back is another
    writer (a publisher that restarted), which starts a new count; so is a step forward by a writer
    that discovery found to be new.

    Attributes:
        name: Resolved topic name.
        required: Whether an episode needs it.
        type: Message type; empty while nobody publishes it.
        publishers: Names of the nodes that publish it now.
        fault: Why it cannot be recorded at all (an unknown type, say); empty when it can.
        hint: Why nobody may publish it, for people; empty when that is not known.
        messages: Messages of the running episode.
        lost: Lost messages of the running episode.
        restarts: Publisher restarts seen in the running episode.
        zero_stamps: Messages of the running episode whose header stamp is unset.
        longest_gap_ns: Longest time without a message in the running episode, up to the newest one.
        pictures: What is noticed of a camera's pictures; None where the topic is no camera's.
        clock: What is noticed of the clock that stamps it; None where the topic feeds no source or camera.
        gaps: Samples missing from the running episode by their stamps, whatever became of them.
        numbers: The same by numbers in the messages; None where they have none.
    """

    name: str
    required: bool
    type: str = ""
    publishers: tuple[str, ...] = ()
    fault: str = ""
    hint: str = ""
    messages: int = 0
    lost: int = 0
    restarts: int = 0
    zero_stamps: int = 0
    longest_gap_ns: int = 0
    first_receive_ns: int = 0
    newest_receive_ns: int = 0  # 0 for none
    newest_stamp_ns: int = 0
    pictures: PictureWatch | None = None
    clock: LiveClock | None = None
    gaps: StampGaps = field(default_factory=StampGaps)
    numbers: NumberGaps | None = None
    _still_since_ns: int = 0
    _still_ns: int = 0
    _stillest_ns: int = 0
    _notes: dict[str, None] = field(default_factory=dict)
    _writers: frozenset[bytes] = frozenset()
    _foretold: int = 0
    _unexplained: int = 0
    _begun_ns: int = 0
    _sequence: int = SEQUENCE_UNKNOWN
    _arrivals: deque[int] = field(default_factory=deque)

    def begin_episode(self, start_ns: int) -> None:
        """Start the counts of an episode, which begins at ``start_ns``, at zero."""
        self.messages = self.lost = self.restarts = self.zero_stamps = self.longest_gap_ns = 0
        self._begun_ns = start_ns
        self._foretold = 0
        self._still_since_ns, self._still_ns, self._stillest_ns = start_ns, 0, 0
        self._notes.clear()
        self.gaps.begin_episode()
        if self.numbers is not None:
            self.numbers.begin_episode()
        if self.pictures is not None:
            self.pictures.begin_episode(start_ns)
        if self.clock is not None:
            self.clock.begin_episode()

    def note(self, flaw: str) -> None:
        """Keep what is wrong with the topic in the running episode; the same words are kept once."""
        self._notes[flaw] = None

    def see_publishers(self, nodes: Sequence[str], writers: frozenset[bytes]) -> None:
        """Take note of who publishes the topic now.

        Args:
            nodes: Names of the nodes.
            writers: What tells each of their publishers from any other that ever was.
        """
        mixed, self.publishers = len(self.publishers) > 1, tuple(sorted(nodes))
        if len(self.publishers) > 1:
            self.note(mixed_sources(self.publishers))
        if not writers:
            return  # who comes next is compared with those who were
        if self._begun_ns and not self._writers:
            self.note("its publisher was found only after the episode began")
        new, gone = writers - self._writers, self._writers - writers
        found = max(0, min(len(new), len(gone)) - self._unexplained)
        self.restarts += found
        if self._sequence:
            self._foretold += found or mixed
        self._unexplained = 0
        self._writers = writers

    def receive(
        self, *, receive_ns: int, stamp_ns: int | None, sequence: int, wall_ns: int | None = None
    ) -> None:
        """Take note of one message, whether an episode runs or not.

        Args:
            receive_ns: Arrival.
            stamp_ns: Header stamp; 0 when it is unset, None when the type has no header.
            sequence: The publisher's sequence number; 0 when the middleware gives none.
            wall_ns: Arrival by the clock that stamps are compared with, ns since the epoch; as
                ``receive_ns`` where it is not given.
        """
        wall_ns = receive_ns if wall_ns is None else wall_ns
        if not self.first_receive_ns:
            self.first_receive_ns = receive_ns
        if sequence and self._sequence and sequence != self._sequence + 1:
            self._note_step(sequence)
        self._sequence = sequence
        self._note_gap(receive_ns, stamp_ns or 0)
        if stamp_ns == 0:
            self.zero_stamps += 1
        if stamp_ns is not None and self.clock is not None:
            self.clock.add(wall_ns, stamp_ns)
        if stamp_ns is not None:
            self._note_still(receive_ns, stamp_ns)
            self.gaps.add(wall_ns, stamp_ns)
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

    def age_s(self, now_ns: int, wall_ns: int | None = None) -> float:
        """Seconds since the newest message was stamped (arrived, when it has no stamp); -1 for none.

        Args:
            now_ns: Now.
            wall_ns: Now by the clock of the stamps; as ``now_ns`` where it is not given.
        """
        if self.newest_stamp_ns:
            return ((now_ns if wall_ns is None else wall_ns) - self.newest_stamp_ns) / 1e9
        return (now_ns - self.newest_receive_ns) / 1e9 if self.newest_receive_ns else -1.0

    def reason(self, now_ns: int, fresh_ns: int) -> str:
        """Why the topic is not as it should be; empty when it is."""
        if self.fault:
            return self.fault
        if not self.publishers:
            return f"nobody publishes it{self.hint}" if self.required else ""
        if len(self.publishers) > 1:
            return mixed_sources(self.publishers)
        if not self.newest_receive_ns:
            return NO_MESSAGE if self.required else ""
        silent_ns = now_ns - self.newest_receive_ns
        if silent_ns > fresh_ns and self.required:
            return f"silent for {silent_ns / 1e9:.1f} s"
        seen = self.pictures.reason if self.pictures is not None else ""
        if self._still_ns >= STILL_NS:
            return _stands_still(self._still_ns)
        return seen or (self.clock.refusal if self.clock is not None else "")

    def advice(self, now_ns: int, fresh_ns: int) -> str:
        """``reason``, or what is wrong without keeping an episode from starting."""
        return self.reason(now_ns, fresh_ns) or (self.clock.reason if self.clock is not None else "")

    @property
    def flaws(self) -> list[str]:
        """What was wrong with the topic in the running episode so far, but for losses and silence."""
        restarted = [f"its publisher restarted {self.restarts} times"] if self.restarts else []
        seen = self.pictures.flaws if self.pictures is not None else []
        still = [_stands_still(self._stillest_ns)] if self._stillest_ns >= STILL_NS else []
        stamped = self.clock.flaws if self.clock is not None else []
        return [*restarted, *self._notes, *still, *seen, *stamped]

    def silence_ns(self, end_ns: int) -> int:
        """The longest time without a message in the episode that ends at ``end_ns``."""
        return max(self.longest_gap_ns, end_ns - max(self.newest_receive_ns, self._begun_ns))

    def _note_step(self, sequence: int) -> None:
        """A number that does not follow: messages that are lost, or the first of another writer."""
        if len(self.publishers) > 1:
            return  # several count, and nobody can tell them apart
        if self._foretold:
            self._foretold -= 1
        elif sequence > self._sequence:
            self.lost += sequence - self._sequence - 1
        else:
            self.restarts += 1
            self._unexplained += 1

    def _note_gap(self, receive_ns: int, stamp_ns: int) -> None:
        """Measure by arrival, and by the stamps where those say less: what came late was not silent.

        Stamps that go back, as when the clock was set, say nothing.
        """
        gap_ns = receive_ns - max(self.newest_receive_ns, self._begun_ns)
        if stamp_ns >= self.newest_stamp_ns > 0:
            gap_ns = min(gap_ns, stamp_ns - self.newest_stamp_ns)
        self.longest_gap_ns = max(self.longest_gap_ns, gap_ns)

    def _note_still(self, receive_ns: int, stamp_ns: int) -> None:
        """Measure for how long messages have brought one and the same stamp."""
        if not stamp_ns or stamp_ns != self.newest_stamp_ns:
            self._still_since_ns, self._still_ns = receive_ns, 0
            return
        self._still_ns = receive_ns - self._still_since_ns
        self._stillest_ns = max(self._stillest_ns, self._still_ns)

    def _forget(self, now_ns: int) -> None:
        while self._arrivals and self._arrivals[0] < now_ns - RATE_WINDOW_NS:
            self._arrivals.popleft()


def _stands_still(still_ns: int) -> str:
    return f"its stamp stands still for {still_ns / 1e9:.1f} s"


def mixed_sources(publishers: Sequence[str]) -> str:
    """What is wrong with several publishers of one topic."""
    return f"{len(publishers)} publishers send on it ({', '.join(publishers)}): two sources would be mixed"


def start_refusal(monitors: Sequence[TopicMonitor], now_ns: int, fresh_ns: int) -> str:
    """Why no episode can start now, naming each bad topic; empty when one can."""
    bad = [
        f"{monitor.name}: {reason}"
        for monitor in monitors
        if monitor.required and (reason := monitor.reason(now_ns, fresh_ns))
    ]
    return "; ".join(bad)


def incomplete_reasons(
    monitors: Sequence[TopicMonitor], max_lost: int, *, end_ns: int, fresh_ns: int
) -> list[str]:
    """Why the episode just recorded is not whole; empty when it is.

    Args:
        monitors: Of all topics.
        max_lost: Messages that a required topic may lose.
        end_ns: When the episode ended.
        fresh_ns: How long a required topic may be silent, in the episode as before it.
    """
    reasons = []
    for monitor in monitors:
        if not monitor.required:
            continue
        if monitor.messages == 0:
            reasons.append(f"{monitor.name}: no message recorded")
        elif monitor.silence_ns(end_ns) > fresh_ns:
            reasons.append(f"{monitor.name}: silent for {monitor.silence_ns(end_ns) / 1e9:.1f} s")
        if monitor.lost > max_lost:
            reasons.append(f"{monitor.name}: {monitor.lost} messages lost")
        reasons += [f"{monitor.name}: {flaw}" for flaw in monitor.flaws]
    return reasons


def topic_counts(monitors: Iterable[TopicMonitor]) -> dict[str, dict[str, object]]:
    """What ``episode.json`` says of each topic."""
    return {
        monitor.name: {
            "type": monitor.type,
            "required": monitor.required,
            "messages": monitor.messages,
            "lost": monitor.lost,
            "missing_by_stamps": monitor.gaps.missing,
            **({"missing_by_sequence": monitor.numbers.lost} if monitor.numbers is not None else {}),
            "publisher_restarts": monitor.restarts,
            "zero_stamps": monitor.zero_stamps,
            "flaws": monitor.flaws,
        }
        for monitor in monitors
    }
