"""The server of the page at the desk: it shows, and takes nothing but the word of who wants to look."""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from aiohttp import WSCloseCode, web

from piper_collect.core.desk import DeskView
from piper_collect.core.session_status import NO_SESSION, SessionView
from piper_collect.core.types import ReferenceView
from piper_collect.errors import LinkError
from piper_collect.report.style import STYLE
from piper_collect.web.addresses import is_loopback
from piper_collect.web.alignment import Alignment
from piper_collect.web.client import Client
from piper_collect.web.guard import add_headers, guard
from piper_collect.web.hub import MOST_CLIENTS, Refused
from piper_collect.web.key import same_key
from piper_collect.web.panels import Panels
from piper_collect.web.serving import Place, ServerThread
from piper_collect.web.sockets import Door, PanelSockets, new_socket
from piper_collect.web.state_text import desk_content, episodes_text, state_text
from piper_collect.web.static_files import file_answer, page_files

NEEDS_KEY = "this page needs the key that the terminal shows"
ONLY_LOOKS = "this page only looks: nothing is taken from it"
MEASURE_S = 1.0
_SHARED = ("hud.js", "icon.svg", "panel_worker.js", "panels.js")
"""Files of the headset's page that this one consists of, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeskPlace:
    """How the page is served.

    Attributes:
        host: Address to listen on.
        port: Port; where it is taken, a free one is.
        tls: Certificate and key; None for plain HTTP on the loopback.
        names: Host names that the page may be opened by.
        key: Opens the page from other machines.
        picture_rate_hz: Most pictures a second of one camera.
    """

    host: str
    port: int
    tls: ssl.SSLContext | None
    names: tuple[str, ...]
    key: str
    picture_rate_hz: float


class DeskServer:
    """Serves the page and its sockets; every method may be called from any thread.

    Args:
        place: Where and to whom.
        panels: The cameras' pictures.
        clock_ns: The clock of ``start_ns`` of what is shown, in ns; best one that nobody sets.
    """

    def __init__(self, place: DeskPlace, *, panels: Panels, clock_ns: Callable[[], int]) -> None:
        self._place = place
        self._panels = panels
        self._clock_ns = clock_ns
        self._clients: set[Client] = set()
        self._door = Door(self._admits, NEEDS_KEY, MOST_CLIENTS)
        self._view = DeskView(session=SessionView(state="not_ready", text=NO_SESSION))
        self._alignment = Alignment(panels, ReferenceView())
        self._reference = ""
        self._panel_sockets = PanelSockets(
            panels, place.picture_rate_hz, admits=self._admits, refusal=NEEDS_KEY
        )
        self._server = ServerThread(
            Place(
                what="desk page",
                section="desk",
                host=place.host,
                port=place.port,
                tls=place.tls,
                any_port=True,
            ),
            self._app,
            self._partings,
        )

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self._server.port

    @property
    def watched(self) -> bool:
        """Whether anybody looks at the cameras."""
        return self._panel_sockets.watched

    def start(self) -> None:
        """Listen.

        Raises:
            LinkError: The address cannot be had.
        """
        self._server.start()

    def stop(self) -> None:
        """Close every socket, and the server."""
        self._server.stop()
        self._panels.close()
        self._alignment.close()

    def show(self, view: DeskView) -> None:
        """Show a state on every page."""

        def act() -> None:
            before, self._view = self._view, view
            if view.episodes != before.episodes:
                for client in self._clients:
                    client.tell_text(episodes_text(view.episodes))
            self._show()

        self._server.call(act)

    def align_to(self, reference: ReferenceView) -> None:
        """Compare the cameras with a reference from now on."""
        alignment = Alignment(self._panels, reference)
        pictures = {name: base64.b64encode(jpeg).decode() for name, jpeg in alignment.pictures().items()}
        text = state_text(
            "reference",
            {"dataset": reference.dataset, "notes": list(reference.notes), "pictures": pictures},
        )

        def act() -> None:
            self._alignment.close()
            self._alignment, self._reference = alignment, text
            for client in self._clients:
                client.tell_text(text)

        self._server.call(act)

    # -- in the server's loop --------------------------------------------------------------------

    def _app(self) -> web.Application:
        app = web.Application(middlewares=[guard(self._place.names, "quest.names")], client_max_size=1024)
        app.on_response_prepare.append(add_headers)
        app.cleanup_ctx.append(self._measuring)
        app.router.add_get("/desk/state", self._handle)
        app.router.add_get("/desk/pictures", self._panel_sockets.handle)
        shared = page_files()
        own = {**page_files("static/desk"), "house.css": ("text/css", STYLE.encode())}
        for name, (kind, content) in {**own, **{name: shared[name] for name in _SHARED}}.items():
            if name == "desk.html":
                app.router.add_get("/", file_answer(kind, content))
                app.router.add_get("/desk", file_answer(kind, content))
            else:
                app.router.add_get(f"/{name}", file_answer(kind, content))
        return app

    def _admits(self, key: str, address: str) -> bool:
        return is_loopback(address) or same_key(self._place.key, key)

    async def _handle(self, request: web.Request) -> web.WebSocketResponse:
        """The handler of the socket for the state."""
        socket = new_socket()
        await socket.prepare(request)
        client = Client(socket, request.remote or "")
        try:
            async with self._door.passed(socket, client.address):
                await self._serve(socket, client)
        except (Refused, LinkError) as err:
            code = err.code if isinstance(err, Refused) else WSCloseCode.POLICY_VIOLATION
            await client.close(code, str(err))
        return socket

    async def _serve(self, socket: web.WebSocketResponse, client: Client) -> None:
        """Show the state until the page goes, or says a word."""
        self._clients.add(client)
        client.tell("hello", cameras=list(self._panels.cameras))
        if self._reference:
            client.tell_text(self._reference)
        client.tell_text(episodes_text(self._view.episodes))
        client.show(self._state())
        writer = asyncio.create_task(client.write())
        try:
            async for _message in socket:
                raise Refused(WSCloseCode.POLICY_VIOLATION, ONLY_LOOKS)
        finally:
            self._clients.discard(client)
            writer.cancel()
            with suppress(asyncio.CancelledError):
                await writer

    async def _measuring(self, _app: web.Application) -> AsyncIterator[None]:
        task = asyncio.create_task(self._measure())
        yield
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    async def _measure(self) -> None:
        while True:
            await asyncio.sleep(MEASURE_S)
            if self.watched and await self._alignment.measure():
                self._show()

    def _show(self) -> None:
        state = self._state()
        for client in self._clients:
            client.show(state)

    def _state(self) -> str:
        content = desk_content(self._view, self._clock_ns())
        faults = {camera: self._panels.faults.get(camera, "") for camera in self._panels.cameras}
        return state_text("state", {**content, "misfits": self._alignment.content(), "pictures": faults})

    def _partings(self) -> list[Coroutine[Any, Any, None]]:
        why = "the session ended"
        partings = [client.close(WSCloseCode.GOING_AWAY, why) for client in self._clients]
        return [*partings, self._panel_sockets.close()]
