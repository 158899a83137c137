"""Which clock stamps a topic, and whether the topics of a bag share one."""

from array import array
from collections.abc import Mapping
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from piper_collect.core.clock_faults import Stamped
from piper_collect.core.sampling import kept
from piper_collect.core.types import StampArray
from piper_collect.errors import AlignmentError

_DAY_NS = 86_400 * 1_000_000_000


class TopicClock:
    """The stamps of one topic's messages, in the order received.

    Header stamps are used where there are any. Where every one of them is zero, or the type has none,
    the receive times stand in; where only some are zero, those messages have no time and are left out.

    Once it was asked for stamps it takes no more messages: they are views of what it holds.
    """

    def __init__(self) -> None:
        self._receive_ns = array("q")
        self._header_ns = array("q")
        self._has_header = True
        self._any_set = False

    def add(self, receive_ns: int, header_ns: int | None) -> None:
        """Take note of one message; ``header_ns`` is None without a header and 0 where it is unset."""
        self._receive_ns.append(receive_ns)
        self._header_ns.append(header_ns or 0)
        self._has_header = self._has_header and header_ns is not None
        self._any_set = self._any_set or bool(header_ns)

    @property
    def has_header(self) -> bool:
        """Whether every message has a header."""
        return self._has_header

    @property
    def source(self) -> Literal["header", "receive"]:
        """The clock in use."""
        return "header" if self._any_set else "receive"

    @property
    def reason(self) -> str:
        """Why receive times are used; empty when they are not."""
        if self._any_set:
            return ""
        if not self._has_header:
            return "receive time: the messages have no header"
        return f"receive time: all {len(self._header_ns)} header stamps are zero"

    @property
    def unset(self) -> int:
        """Messages left out because only theirs, not every stamp is zero."""
        return int(np.count_nonzero(~self.used()))

    def used(self) -> NDArray[np.bool_]:
        """bool [N], which messages have a time."""
        if not self._any_set:
            return np.ones(len(self._receive_ns), dtype=np.bool_)
        return np.not_equal(np.frombuffer(self._header_ns, dtype=np.int64), 0)

    def stamp_ns(self) -> StampArray:
        """int64 stamps of the messages that have one."""
        chosen = self._header_ns if self._any_set else self._receive_ns
        return kept(np.frombuffer(chosen, dtype=np.int64), self.used())

    def receive_ns(self) -> StampArray:
        """int64 [N], when each message was received, used or not."""
        return np.frombuffer(self._receive_ns, dtype=np.int64)

    def header_ns(self) -> StampArray:
        """int64 [N] header stamps, 0 where one is unset or there is no header."""
        return np.frombuffer(self._header_ns, dtype=np.int64)

    def stamped(self) -> Stamped:
        """The messages that have a header stamp, for who judges the clock behind them."""
        if not self._any_set:
            none = np.empty(0, np.int64)
            return Stamped(receive_ns=none, stamp_ns=none, unset=self.reason if self._header_ns else "")
        unset = f"{self.unset} of {len(self._header_ns)} header stamps are zero" if self.unset else ""
        return Stamped(receive_ns=kept(self.receive_ns(), self.used()), stamp_ns=self.stamp_ns(), unset=unset)


def increasing(stamp_ns: StampArray) -> NDArray[np.bool_]:
    """bool [N], False for each stamp not above every one before it (of equal ones the first is kept)."""
    keep = np.ones(len(stamp_ns), dtype=np.bool_)
    keep[1:] = stamp_ns[1:] > np.maximum.accumulate(stamp_ns)[:-1]
    return keep


def check_one_clock(name: str, spans: Mapping[str, tuple[int, int]]) -> None:
    """Refuse topics whose stamps lie days apart: simulation time beside wall time, say.

    Args:
        name: The episode, for the message.
        spans: First and last stamp in ns, by topic.

    Raises:
        AlignmentError: Names the two topics and both spans.
    """
    early = min(spans, key=lambda topic: spans[topic][1])
    late = max(spans, key=lambda topic: spans[topic][0])
    if spans[late][0] - spans[early][1] < _DAY_NS:
        return
    shown = ", ".join(f"{t} from {spans[t][0] / 1e9:.3f} to {spans[t][1] / 1e9:.3f} s" for t in (early, late))
    raise AlignmentError(
        "topics are stamped by different clocks",
        where=name,
        expected="one clock for all",
        got=shown,
        hint="is one of them on simulation time? Record all with the same use_sim_time",
    )
