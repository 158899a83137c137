"""The headset's page as a node: its input becomes QuestInput, the session's state and haptics go to it."""

import sys

from piper_collect.config.names import QUEST_INPUT_TOPIC
from piper_collect.core.quest import QuestSample
from piper_collect.core.session_status import SessionView, shown_view
from piper_collect.msg import HapticPulse, QuestInput, SessionStatus
from piper_collect.nodes.camera_panels import sends_pictures, subscribe_panel
from piper_collect.nodes.convert import pulse_of, quest_input_msg, session_view_of
from piper_collect.nodes.qos import LATCHED_QOS, STREAM_QOS
from piper_collect.nodes.runtime import SessionNode, run_node
from piper_collect.web.addresses import own_addresses
from piper_collect.web.banner import banner, urls
from piper_collect.web.certificate import fingerprint, server_context
from piper_collect.web.identity import identity
from piper_collect.web.pairing import Pairing
from piper_collect.web.panels import Panels
from piper_collect.web.server import PageServer, PageSettings

SHOW_S = 0.5


class QuestNode(SessionNode):
    """Serves the page; publishes from its thread, so that no sample waits for anything."""

    def __init__(self) -> None:
        super().__init__("quest")
        self._settings = self.config.quest
        self._page: PageServer | None = None
        self._view: SessionView | None = None
        self._heard_ns = 0
        self._input = self.create_publisher(QuestInput, QUEST_INPUT_TOPIC, STREAM_QOS)
        self._panels = Panels(tuple(self.config.cameras))
        self._pairing = Pairing(show=self._show_code, lifetime_s=self._settings.pairing_s)
        self.create_subscription(SessionStatus, "session/status", self._take_status, LATCHED_QOS)
        self.create_subscription(HapticPulse, "session/haptics", self._take_pulse, STREAM_QOS)
        if self._settings.panel_rate_hz > 0:
            width, quality = self._settings.panel_width, self._settings.panel_quality
            for name, camera in self.config.cameras.items():
                if sends_pictures(camera):
                    subscribe_panel(self, self._panels, name, camera, width=width, quality=quality)
        self.create_timer(SHOW_S, self._show)

    def start(self) -> None:
        """Open the page and show where it is.

        Raises:
            LinkError: It cannot be served as configured.
        """
        settings = self._settings
        names, certificate, key = identity(settings)
        self._page = PageServer(
            PageSettings(
                host=settings.host,
                port=settings.port,
                tls=server_context(certificate, key),
                names=names,
                hand=self.config.teleop.hand,
                trigger_opens=self.config.teleop.gripper_inverted,
                panel_rate_hz=settings.panel_rate_hz,
            ),
            pairing=self._pairing,
            panels=self._panels,
            take_input=self._publish,
            clock_ns=self.now_ns,
            steady_ns=self.steady_ns,
            tell=lambda text: self.get_logger().info(text),
        )
        self._page.start()
        self.get_logger().info(f"certificate {certificate}, SHA-256 {fingerprint(certificate)}")
        self._pairing.renew()
        self._show()

    def stop(self) -> bool:
        """Close the page."""
        if self._page is not None:
            self._page.stop()
        return True

    def _publish(self, sample: QuestSample) -> None:
        self._input.publish(quest_input_msg(sample))

    def _take_status(self, status: SessionStatus) -> None:
        self._heard_ns = self.steady_ns()
        self._view = session_view_of(status, self._heard_ns)
        self._show()

    def _take_pulse(self, message: HapticPulse) -> None:
        if self._page is not None:
            self._page.feel(pulse_of(message))

    def _show(self) -> None:
        if self._page is not None:
            self._page.show(shown_view(self._view, self._heard_ns, self.steady_ns()))

    def _show_code(self, code: str) -> None:
        """On the terminal alone: what goes through the logger also lands in files."""
        settings, page = self._settings, self._page
        pages = urls(settings.host, page.port if page else settings.port, own_addresses())
        print(banner(pages, code, settings.pairing_s, qr=sys.stdout.isatty()), flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Serve the headset's page until told to stop."""
    return run_node(QuestNode, arguments)
