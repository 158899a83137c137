"""Whether packets of a stream may be missing where the numbers of its pictures do not tell.

Pictures are numbered from the key frame before them. Where all is lost from one picture to the one that has
the next number after a later key frame, the numbers go on as if nothing were missing, and a decoder would put
the change of one picture onto another. So many packets take their time, and leave a step in what their sender
counts.
"""

from collections import deque
from statistics import median

_LEAST_STEPS = 10
_STEPS = 30
_LEAST_UNKNOWN = 8
"""Pictures from key frame to key frame, at least, of a stream of which no two key frames came yet."""


class UnseenGaps:
    """Looks at the packets of one stream in the order of decoding."""

    def __init__(self) -> None:
        self._stamp_ns = 0
        self._count: int | None = None
        self._counted = 0
        self._is_count = True
        self._steps_ns: deque[int] = deque(maxlen=_STEPS)
        self._since_key = 0
        self._shortest: int | None = None

    def may_hide_loss(self, stamp_ns: int, count: int | None) -> bool:
        """Whether packets may be missing between the newest one and this one, which is no key frame.

        Args:
            stamp_ns: Its capture time; 0 where it is not known.
            count: Its number as its sender counts; None where it does not.
        """
        least = max(self._since_key, self._shortest or _LEAST_UNKNOWN)
        if count is not None and self._count is not None and self._is_count and self._counted >= _LEAST_STEPS:
            return not 0 < count - self._count <= least
        if not stamp_ns or not self._stamp_ns or len(self._steps_ns) < _LEAST_STEPS:
            return False
        return stamp_ns - self._stamp_ns > (least + 0.5) * median(self._steps_ns)

    def add(self, stamp_ns: int, count: int | None, *, is_key: bool, follows: bool) -> None:
        """Take note of the next packet.

        Args:
            stamp_ns: As above.
            count: As above.
            is_key: Whether it is a key frame.
            follows: Whether all before it, from its key frame on, is there.
        """
        if follows and not is_key:
            self._note_steps(stamp_ns, count)
        if is_key:
            if follows and self._since_key:
                self._shortest = min(self._since_key, self._shortest or self._since_key)
            self._since_key = 0
        self._since_key += follows
        self._stamp_ns, self._count = stamp_ns, count

    def _note_steps(self, stamp_ns: int, count: int | None) -> None:
        if count is not None and self._count is not None:
            self._is_count = self._is_count and count == self._count + 1
            self._counted += 1
        if stamp_ns and 0 < self._stamp_ns < stamp_ns:
            self._steps_ns.append(stamp_ns - self._stamp_ns)
