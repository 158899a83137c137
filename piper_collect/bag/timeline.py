"""From the stamps that messages bear to the times that an export goes by."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from piper_collect.bag.clocks import TopicClock
from piper_collect.core.clock_faults import UNSTEADY_NS, ClockJudgement, ClockPolicy, judge_clocks, told
from piper_collect.core.host_clock import HostStep, follows_host, steady
from piper_collect.core.types import BoolArray, StampArray
from piper_collect.errors import AlignmentError

_NS_PER_MS = 1e6
_MOST_TOLD = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """How the stamps of a topic become the times of a source or a camera.

    Attributes:
        source: Whether header stamps are used, or times of receipt.
        latency_ns: Taken off every stamp.
        correction: How the clock that stamps it is put right; None where it is left as it is.
        steps: Steps of the recording machine's clock that are taken back.
        follows: Whether the stamps come from that clock.
    """

    source: Literal["header", "receive"]
    latency_ns: int = 0
    correction: ClockJudgement | None = None
    steps: tuple[HostStep, ...] = ()
    follows: bool = True

    def times(self, stamp_ns: StampArray, receive_ns: StampArray) -> tuple[StampArray, BoolArray]:
        """The times of messages, and which of them are sure.

        Args:
            stamp_ns: int64 [N] as used: times of receipt where ``source`` says so.
            receive_ns: int64 [N].
        """
        sure = np.ones(len(stamp_ns), np.bool_)
        if self.steps:
            stamp_ns, receive_ns, sure = _put_back(stamp_ns, receive_ns, self.steps, self.follows)
        if self.correction is not None and self.correction.fit is not None:
            fit, reference_ns = self.correction.fit, self.correction.reference_ns
            stamp_ns = fit.corrected(stamp_ns, receive_ns, reference_ns)
        return (stamp_ns - self.latency_ns if self.latency_ns else stamp_ns), sure

    def time_ns(self, stamp_ns: int | None, receive_ns: int) -> int | None:
        """The time of one message; None where it has none that is sure."""
        stamp_ns = receive_ns if self.source == "receive" else stamp_ns
        if not stamp_ns:
            return None
        if self.correction is None and not self.steps:
            return stamp_ns - self.latency_ns
        times, sure = self.times(np.array([stamp_ns], np.int64), np.array([receive_ns], np.int64))
        return int(times[0]) if sure[0] else None


@dataclass(slots=True, kw_only=True)
class Timelines:
    """The clocks of one recording, and what is done about them.

    Attributes:
        clocks: The stamps of each topic, all read.
        pictures: Topics of cameras, whose messages may come in any order.
        steps: Steps of the recorder's clock that are to be taken back.
        absolute: Whether the recorder's clock is the one to agree with.
        corrections: What was done to the stamps of each source and camera (JSON values).
    """

    clocks: Mapping[str, TopicClock]
    pictures: Collection[str]
    steps: tuple[HostStep, ...]
    absolute: bool
    corrections: dict[str, object] = field(default_factory=dict)
    _judged: dict[str, ClockJudgement] = field(default_factory=dict)
    _follows: dict[str, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        stamped = {
            topic: replace(clock.stamped(), any_order=topic in self.pictures)
            for topic, clock in self.clocks.items()
        }
        if self.steps:
            for topic, one in stamped.items():
                self._follows[topic] = follows_host(one.receive_ns, one.stamp_ns, self.steps)
                stamps, received, sure = _put_back(
                    one.stamp_ns, one.receive_ns, self.steps, self._follows[topic]
                )
                stamped[topic] = replace(one, stamp_ns=stamps[sure], receive_ns=received[sure])
        self._judged = judge_clocks(stamped, absolute=self.absolute)

    def faults(self) -> dict[str, str]:
        """What is wrong with the clock of each topic, where something is."""
        return {topic: told(judged.faults) for topic, judged in self._judged.items() if judged.faults}

    def of(self, name: str, topic: str, policy: ClockPolicy, latency_ns: int, where: str) -> Timeline:
        """The timeline of a source or camera.

        Args:
            name: Of the setting, e.g. ``sources.arm_eef``.
            topic: What it reads.
            policy: What its setting says.
            latency_ns: What is taken off its stamps.
            where: The episode, for the message.

        Raises:
            AlignmentError: The clock is wrong, and that is to be refused.
        """
        judged = self._judged[topic]
        if policy == "refuse" and judged.faults:
            raise AlignmentError(
                f"the clock of {topic} is wrong, and {name}.clock says refuse",
                where=where,
                got=told(judged.faults),
                hint=f"mend the clock and record again, or set {name}.clock to flag or correct",
            )
        corrected = policy == "correct" and judged.correctable
        if corrected and judged.fit is not None:
            if judged.fit.left_ns > UNSTEADY_NS:
                raise AlignmentError(
                    f"the clock of {topic} cannot be corrected ({name}.clock): its stamps follow no clock",
                    where=where,
                    expected=f"offset, drift and steps that leave {UNSTEADY_NS / _NS_PER_MS:g} ms at most",
                    got=f"{judged.fit.left_ns / _NS_PER_MS:.0f} ms; {told(judged.faults)}",
                    hint="mend the driver that stamps it, and record again",
                )
            self.corrections[name] = {
                "topic": topic,
                "because": told([fault for fault in judged.faults if fault.correctable]),
                "uncertain_ns": judged.fit.left_ns,
                "pieces": judged.fit.records(judged.reference_ns),
            }
        return Timeline(
            source=self.clocks[topic].source,
            latency_ns=latency_ns,
            correction=judged if corrected else None,
            steps=self.steps,
            follows=self._follows.get(topic, True),
        )


def clock_notes(known: Mapping[str, Any], *, faults: bool = True) -> Iterator[str]:
    """What was wrong with clocks, and what was done about it.

    Args:
        known: Provenance of an episode that was read here.
        faults: Whether what is wrong with topics is told too, beside what was done.
    """
    for topic, why in known.get("clock_faults", {}).items() if faults else ():
        if topic not in known["clocks"]:
            yield f"{topic}: {why}"
    for name, record in known.get("clock_corrections", {}).items():
        sizes = [_seconds(piece["offset_ns"]) for piece in record["pieces"]]
        more = f" and {len(sizes) - _MOST_TOLD} more" if len(sizes) > _MOST_TOLD else ""
        offsets = ", ".join(sizes[:_MOST_TOLD])
        yield f"{name}: stamps corrected by {offsets}{more}, because {record['because']}"
    steps = known.get("clock_steps")
    if steps:
        sizes = [_seconds(step["step_ns"]) for step in steps]
        done = "taken back" if steps[0]["corrected"] else "left as it is"
        said = "the recording machine's clock was set during the episode"
        yield f"{said} ({', '.join(sizes)}), which is {done}"


def _seconds(ns: int) -> str:
    return f"{ns / _NS_PER_MS:+.1f} ms" if abs(ns) < 10**10 else f"{ns / 1e9:+.3f} s"


def _put_back(
    stamp_ns: StampArray, receive_ns: StampArray, steps: tuple[HostStep, ...], follows: bool
) -> tuple[StampArray, StampArray, BoolArray]:
    """Stamps and times of receipt without the steps of the machine's clock, and which are sure."""
    receive_ns, sure = steady(receive_ns, steps)
    if follows:
        stamp_ns, sure_stamps = steady(stamp_ns, steps)
        sure = sure & sure_stamps
    return stamp_ns, receive_ns, sure
