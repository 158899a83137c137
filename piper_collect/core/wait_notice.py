"""When it is worth a line on the console that no episode can start, and that one can again."""

STARTING_S = 15.0
"""Until it was ready once, waiting is the usual thing: the recorder is the first of a session's nodes, and
the others take seconds to import ROS and to open an arm and cameras, up to ten of them on a busy machine."""

LASTING_S = 5.0
"""Later, a topic that is late once is no news; one that is gone for so long is."""

_NS = 1_000_000_000


class WaitNotice:
    """Follows whether an episode can start, by a clock that nobody sets.

    Args:
        now_ns: Of that clock, as all times here.
    """

    def __init__(self, now_ns: int) -> None:
        self._since_ns = now_ns
        self._is_waiting: bool | None = None
        self._told: bool | None = None
        self._was_ready = False

    def is_due(self, is_waiting: bool | None, now_ns: int) -> bool:
        """Whether to tell now that it is ready again, or that it is not.

        Args:
            is_waiting: Whether no episode can start; None where that is not the question, in an episode say.
            now_ns: When that is so.
        """
        if is_waiting != self._is_waiting:
            self._is_waiting, self._since_ns = is_waiting, now_ns
        if is_waiting is None or is_waiting == self._told:
            return False
        least_s = LASTING_S if self._was_ready else STARTING_S
        if is_waiting and now_ns - self._since_ns < least_s * _NS:
            return False
        self._was_ready |= not is_waiting
        self._told = is_waiting
        return True
