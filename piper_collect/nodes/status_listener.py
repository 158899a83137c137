"""What a session and its recorder say of themselves, for those who show it in words."""

from piper_collect.config.names import RECORDER_STATUS_TOPIC
from piper_collect.core.session_status import SILENT_S, SessionView
from piper_collect.core.status_line import Figures, Span, status_parts
from piper_collect.msg import RecorderStatus, SessionStatus
from piper_collect.nodes.convert import session_view_of
from piper_collect.nodes.qos import LATCHED_QOS
from piper_collect.nodes.runtime import SessionNode


class StatusListener:
    """Hears both statuses.

    Args:
        node: Subscribes, and has the clock.

    Attributes:
        view: The session as it was last heard; None so far.
    """

    def __init__(self, node: SessionNode) -> None:
        self.view: SessionView | None = None
        self._node = node
        self._heard_ns = 0
        self._figures: Figures | None = None
        node.create_subscription(SessionStatus, "session/status", self._take_status, LATCHED_QOS)
        node.create_subscription(RecorderStatus, RECORDER_STATUS_TOPIC, self._take_recorder, LATCHED_QOS)

    def parts(self) -> tuple[Span, ...]:
        """The state in words, the banner first; a session that has fallen silent is as one never heard."""
        now_ns = self._node.steady_ns()
        heard = self.view is not None and now_ns - self._heard_ns < SILENT_S * 1e9
        view = self.view if heard else None
        elapsed_ns = now_ns - view.start_ns if view and view.start_ns else 0
        return status_parts(view, self._figures, elapsed_ns / 1e9)

    def _take_status(self, status: SessionStatus) -> None:
        self._heard_ns = self._node.steady_ns()
        self.view = session_view_of(status, self._heard_ns)

    def _take_recorder(self, status: RecorderStatus) -> None:
        lost = sum(topic.lost for topic in status.topics)
        self._figures = Figures(lost=lost, bytes_free=status.bytes_free)
