"""A running page server without ROS, and the client that a browser would be."""

import asyncio
import json
import ssl
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from piper_collect.core.quest import QuestSample
from piper_collect.web.addresses import own_addresses, own_names
from piper_collect.web.certificate import ensure_certificate, server_context
from piper_collect.web.pairing import Pairing
from piper_collect.web.panels import Panels
from piper_collect.web.server import PageServer, PageSettings

PATIENCE_S = 60.0
REST = {"type": "input", "time_ms": 1.0, "visibility": "visible", "head": None, "left": None, "right": None}


@dataclass(slots=True, kw_only=True)
class Page:
    """A server and all that it said."""

    server: PageServer
    settings: PageSettings
    panels: Panels
    samples: list[QuestSample] = field(default_factory=list)
    codes: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    pairing: Pairing

    @property
    def origin(self) -> str:
        return f"https://localhost:{self.server.port}"

    def close(self) -> None:
        self.server.stop()


def open_page(
    folder: Path,
    *,
    panel_rate_hz: float = 50.0,
    cameras: tuple[str, ...] = ("cam",),
    take_input: Callable[[QuestSample], None] | None = None,
) -> Page:
    """Serve the page on a free port of the loopback; samples are kept unless ``take_input`` takes them."""
    codes: list[str] = []
    lines: list[str] = []
    samples: list[QuestSample] = []
    pairing = Pairing(show=codes.append)
    panels = Panels(cameras)
    certificate = ensure_certificate(folder, (*own_names(), *own_addresses()))
    settings = PageSettings(
        host="127.0.0.1",
        port=0,
        tls=server_context(certificate),
        names=own_names(),
        panel_rate_hz=panel_rate_hz,
    )
    server = PageServer(
        settings,
        pairing=pairing,
        panels=panels,
        take_input=take_input or samples.append,
        clock_ns=time.time_ns,
        steady_ns=time.time_ns,
        tell=lines.append,
    )
    page = Page(
        server=server,
        settings=settings,
        panels=panels,
        samples=samples,
        codes=codes,
        lines=lines,
        pairing=pairing,
    )
    server.start()
    pairing.renew()
    return page


def in_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run one test's coroutine; it must not hang."""

    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await test()

    asyncio.run(bounded())


@asynccontextmanager
async def browser() -> AsyncIterator[aiohttp.ClientSession]:
    """A client that takes any certificate, as a person does."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
        yield session
    await asyncio.sleep(0.05)  # TLS connections close a few turns of the loop later


class Socket:
    """A socket of the page."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.raw = socket
        self.states: list[dict[str, Any]] = []
        self.acks: list[int] = []

    async def say(self, **content: Any) -> None:
        await self.raw.send_str(json.dumps(content))

    async def hear(self, *kinds: str) -> dict[str, Any]:
        """The next message of one of these kinds; states and acks on the way are kept."""
        while True:
            message = await self.raw.receive()
            assert message.type is aiohttp.WSMsgType.TEXT, f"{message.type}: {message.data} {message.extra}"
            content = json.loads(message.data)
            if content["type"] == "state":
                self.states.append(content)
            if content["type"] == "ack":
                self.acks.append(content["sequence"])
            if content["type"] in kinds:
                return dict(content)

    async def closed(self) -> tuple[int, str]:
        """The code and reason that the server closes it with."""
        while True:
            message = await self.raw.receive()
            if message.type is aiohttp.WSMsgType.CLOSE:
                return int(message.data), str(message.extra or "")
            assert message.type in (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY), message

    async def pair(self, code: str) -> str:
        """Pair, and give the pass."""
        await self.say(type="pair", code=code)
        return str((await self.hear("paired"))["token"])


@asynccontextmanager
async def connect(
    session: aiohttp.ClientSession, page: Page, path: str = "operator", **headers: str
) -> AsyncIterator[Socket]:
    """Open a socket as our own page does."""
    headers = {"Origin": page.origin, **headers}
    async with session.ws_connect(f"{page.origin}/{path}", headers=headers, autoclose=True) as socket:
        yield Socket(socket)


async def until(holds: Callable[[], Any], what: str) -> None:
    """Wait for something that the server's thread does."""
    deadline = time.monotonic() + PATIENCE_S / 2
    while not holds():
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.01)
