"""The HTTPS server of the headset's page, in a thread of its own."""

import ssl
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from piper_collect.core.haptics import Pulse
from piper_collect.core.quest import QuestSample
from piper_collect.core.session_status import SessionView
from piper_collect.web.addresses import is_loopback
from piper_collect.web.guard import add_headers, guard
from piper_collect.web.hub import Hub
from piper_collect.web.pairing import Pairing
from piper_collect.web.panels import Panels
from piper_collect.web.serving import Place, ServerThread
from piper_collect.web.sockets import PanelSockets, operator_socket
from piper_collect.web.static_files import file_answer, page_files

PAIR_FIRST = "pair first: pictures go to the operator, and to this machine itself"


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSettings:
    """How the page is served.

    Attributes:
        host: Address to listen on.
        port: Port; 0 takes a free one.
        tls: Certificate and key.
        names: Host names that the page may be opened by.
        hand: The hand that drives, for the page's map of buttons.
        trigger_opens: Whether a pulled trigger opens the gripper, for the same.
        panel_rate_hz: Most pictures a second of one camera; 0 for no pictures.
    """

    host: str
    port: int
    tls: ssl.SSLContext
    names: tuple[str, ...]
    hand: str = "right"
    trigger_opens: bool = False
    panel_rate_hz: float = 10.0


class PageServer:
    """Serves the page and its sockets; every method may be called from any thread.

    Args:
        settings: How.
        pairing: Who may drive.
        panels: The cameras' pictures.
        take_input: Called in the server's thread with each sample of the driver, stamped at its arrival.
        clock_ns: Host time for the stamps, ns since the epoch.
        steady_ns: The clock of ``start_ns`` of what is shown, in ns; best one that nobody sets.
        tell: Takes a line about who comes and goes, in the server's thread.
    """

    def __init__(
        self,
        settings: PageSettings,
        *,
        pairing: Pairing,
        panels: Panels,
        take_input: Callable[[QuestSample], None],
        clock_ns: Callable[[], int],
        steady_ns: Callable[[], int],
        tell: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._panels = panels
        self._pairing = pairing
        cameras = panels.cameras if settings.panel_rate_hz > 0 else ()
        self._hub = Hub(
            pairing,
            take_input=take_input,
            clock_ns=steady_ns,
            tell=tell,
            about={
                "hand": settings.hand,
                "trigger": "opens" if settings.trigger_opens else "closes",
                "cameras": list(cameras),
            },
        )
        self._panel_sockets = (
            PanelSockets(panels, settings.panel_rate_hz, admits=self._admits, refusal=PAIR_FIRST)
            if settings.panel_rate_hz > 0
            else None
        )
        self._clock_ns = clock_ns
        place = Place(
            what="headset page", section="quest", host=settings.host, port=settings.port, tls=settings.tls
        )
        self._server = ServerThread(place, self._app, self._partings)

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self._server.port

    def start(self) -> None:
        """Listen.

        Raises:
            LinkError: The address or port cannot be had.
        """
        self._server.start()

    def stop(self) -> None:
        """Close every socket, and the server."""
        self._server.stop()
        self._panels.close()

    def show(self, view: SessionView) -> None:
        """Show the state of the session on every page."""
        self._server.call(lambda: self._hub.show(view))

    def feel(self, pulse: Pulse) -> None:
        """Let the driver feel a pulse."""
        self._server.call(lambda: self._hub.feel(pulse))

    def _partings(self) -> list[Coroutine[Any, Any, None]]:
        partings = [self._hub.close()]
        if self._panel_sockets is not None:
            partings.append(self._panel_sockets.close())
        return partings

    def _admits(self, token: str, address: str) -> bool:
        return self._pairing.knows(token) or is_loopback(address)

    def _app(self) -> web.Application:
        app = web.Application(middlewares=[guard(self._settings.names, "quest.names")], client_max_size=1024)
        app.on_response_prepare.append(add_headers)
        app.router.add_get("/operator", operator_socket(self._hub, self._clock_ns))
        if self._panel_sockets is not None:
            app.router.add_get("/panels", self._panel_sockets.handle)
        for name, (kind, content) in page_files().items():
            app.router.add_get("/" if name == "index.html" else f"/{name}", file_answer(kind, content))
        return app
