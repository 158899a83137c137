"""The page at the desk as a node: it listens, and publishes, calls and commands nothing."""

import sys
import threading
from dataclasses import replace
from pathlib import Path

from rclpy.subscription import Subscription

from piper_collect.config.names import RECORDER_STATUS_TOPIC
from piper_collect.config.rates import expected_rates
from piper_collect.core.desk import DeskView, EpisodeRow, fill_rate, minutes_left, topic_row
from piper_collect.core.session_status import SILENT_S, SessionView, shown_view
from piper_collect.core.types import ReferenceView
from piper_collect.msg import RecorderStatus, SessionStatus
from piper_collect.nodes.camera_panels import sends_pictures, subscribe_panel
from piper_collect.nodes.convert import session_view_of, topic_reports
from piper_collect.nodes.qos import LATCHED_QOS
from piper_collect.nodes.runtime import SessionNode, run_node
from piper_collect.pipelines.episode_ledger import EpisodeLedger
from piper_collect.pipelines.reference_view import read_reference
from piper_collect.web.addresses import own_addresses
from piper_collect.web.banner import desk_banner, only_here, urls
from piper_collect.web.certificate import server_context
from piper_collect.web.desk_server import DeskPlace, DeskServer
from piper_collect.web.identity import identity, served_names
from piper_collect.web.key import new_key
from piper_collect.web.panels import Panels

SHOW_S = 0.2
LOOK_S = 1.0
NO_REFERENCE = "no dataset to align to: set desk.reference or session.dataset"
_GB = 1e9


class DeskNode(SessionNode):
    """Shows what it hears; looks at the cameras only while somebody looks at the page."""

    def __init__(self) -> None:
        super().__init__("desk")
        self._settings = self.config.desk
        self._root = Path(self.config.session.root).expanduser()
        self._expected = expected_rates(self.config)
        self._key = new_key()
        self._ledger = EpisodeLedger()
        self._page: DeskServer | None = None
        self._view: SessionView | None = None
        self._recorder: RecorderStatus | None = None
        self._view_ns = self._recorder_ns = 0
        self._episodes: tuple[EpisodeRow, ...] = ()
        self._fill: float | None = None
        self._panels = Panels(tuple(self.config.cameras))
        self._cameras: list[Subscription] = []
        self.create_subscription(SessionStatus, "session/status", self._take_status, LATCHED_QOS)
        self.create_subscription(RecorderStatus, RECORDER_STATUS_TOPIC, self._take_recorder, LATCHED_QOS)

    def start(self) -> None:
        """Open the page, and say where it is.

        Raises:
            LinkError: It cannot be served as configured.
        """
        settings, here = self._settings, only_here(self._settings.host)
        names, tls = served_names(self.config.quest), None
        if not here:
            names, certificate, key = identity(self.config.quest)
            tls = server_context(certificate, key)
        self._page = DeskServer(
            DeskPlace(
                host=settings.host,
                port=settings.port,
                tls=tls,
                names=names,
                key=self._key,
                picture_rate_hz=settings.picture_rate_hz,
            ),
            panels=self._panels,
            clock_ns=self.steady_ns,
        )
        self._page.start()
        self._tell(here)
        self.create_timer(SHOW_S, self._show)
        self.create_timer(LOOK_S, self._look)
        threading.Thread(target=self._read_reference, name="reference", daemon=True).start()

    def stop(self) -> bool:
        """Close the page."""
        if self._page is not None:
            self._page.stop()
        return True

    def _tell(self, here: bool) -> None:
        """Where the page is; with the key on the terminal alone, since what is logged also lands in files."""
        port = self._page.port
        if self._settings.port not in (0, port):
            self.get_logger().warning(f"port {self._settings.port} is taken: the desk page is at {port}")
        if here:
            self.get_logger().info(f"desk page: http://localhost:{port}/desk")
            return
        pages = urls(self._settings.host, port, own_addresses())
        print(desk_banner(pages, self._key, qr=sys.stdout.isatty()), flush=True)

    # -- what comes in -------------------------------------------------------------------------

    def _take_status(self, status: SessionStatus) -> None:
        self._view_ns = self.steady_ns()
        self._view = session_view_of(status, self._view_ns)

    def _take_recorder(self, status: RecorderStatus) -> None:
        before, self._recorder, self._recorder_ns = self._recorder, status, self.steady_ns()
        if before is None or (before.state, before.session) != (status.state, status.session):
            self._look_at_disk()

    def _look(self) -> None:
        """Follow what nobody announces: the disk, and whether the cameras are looked at."""
        self._look_at_disk()
        if self._page.watched and not self._cameras:
            width, quality = self._settings.picture_width, self._settings.picture_quality
            self._cameras = [
                subscribe_panel(self, self._panels, name, camera, width=width, quality=quality)
                for name, camera in self.config.cameras.items()
                if sends_pictures(camera)
            ]
        elif not self._page.watched:
            for subscription in self._cameras:
                self.destroy_subscription(subscription)
            self._cameras = []

    def _look_at_disk(self) -> None:
        status = self._recorder
        if status is None or not status.session:
            self._episodes, self._fill = (), None
            return
        session = self._root / status.session
        self._episodes = self._ledger.rows(session)
        running_s = status.elapsed.sec + status.elapsed.nanosec / 1e9
        size = self._ledger.running_bytes(session, status.episode_index) if running_s else 0
        self._fill = fill_rate(self._episodes, running_s, size)

    def _read_reference(self) -> None:
        root = self._settings.reference or self.config.session.dataset
        if root:
            found = read_reference(Path(root).expanduser(), tuple(self.config.cameras))
            reference = replace(found, dataset=root)  # as the user calls it
        else:
            reference = ReferenceView(notes=(NO_REFERENCE,))
        self._page.align_to(reference)

    # -- what is shown -------------------------------------------------------------------------

    def _show(self) -> None:
        now_ns = self.steady_ns()
        session = shown_view(self._view, self._view_ns, now_ns)
        status = self._recorder
        if status is None or now_ns - self._recorder_ns > SILENT_S * 1e9:
            self._page.show(DeskView(session=session, episodes=self._episodes))
            return
        kept_free = self.config.recorder.min_free_gb * _GB
        self._page.show(
            DeskView(
                session=session,
                name=status.session,
                topics=tuple(topic_row(r, self._expected.get(r.name)) for r in topic_reports(status)),
                episodes=self._episodes,
                bytes_free=status.bytes_free,
                bytes_a_second=self._fill,
                minutes_left=minutes_left(status.bytes_free, kept_free, self._fill),
            )
        )


def main(arguments: list[str] | None = None) -> int:
    """Serve the page at the desk until told to stop."""
    return run_node(DeskNode, arguments)
