"""The page's two sockets: poses and state on one, pictures on the other, so that these never delay those."""

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from aiohttp import WSCloseCode, WSMessage, WSMsgType, web
from aiohttp.typedefs import Handler

from piper_collect.errors import LinkError
from piper_collect.web.client import Client
from piper_collect.web.hub import Hub, Refused
from piper_collect.web.limits import Allowance
from piper_collect.web.messages import MOST_BYTES, ShownMessage, WatchMessage, parse_message
from piper_collect.web.panels import Panels

HEARTBEAT_S = 5.0
MOST_WATCHERS = 4
MOST_WAITING = 16
FIRST_WORD_S = 5.0
WATCHER_HZ = 100.0
PICTURE_HEADER = struct.Struct(">BI")
"""Of a picture's message: the camera's place in the list, and the count; the JPEG follows."""


def new_socket() -> web.WebSocketResponse:
    """A socket that takes short messages only, and notices when the other end has gone."""
    return web.WebSocketResponse(max_msg_size=MOST_BYTES, heartbeat=HEARTBEAT_S, compress=False)


def operator_socket(hub: Hub, clock_ns: Callable[[], int]) -> Handler:
    """The handler of the socket for state and input."""

    async def handle(request: web.Request) -> web.WebSocketResponse:
        socket = new_socket()
        await socket.prepare(request)
        client = Client(socket, request.remote or "")
        writer = asyncio.create_task(client.write())
        try:
            hub.join(client)
            async for message in socket:
                arrival_ns = clock_ns()
                if message.type is not WSMsgType.TEXT:
                    raise Refused(WSCloseCode.UNSUPPORTED_DATA, "text only")
                await hub.take(client, message.data, arrival_ns)
        except Refused as refused:
            await client.close(refused.code, refused.reason)
        except Exception:
            await client.close(WSCloseCode.INTERNAL_ERROR, "the host failed; its terminal says why")
            raise
        finally:
            hub.leave(client)
            writer.cancel()
            with suppress(asyncio.CancelledError):
                await writer
        return socket

    return handle


class Door:
    """Lets in who says the right first word: so many, and nobody who is outside takes up their room.

    Args:
        admits: Whether the one with this pass (it may be empty), at this address, may look.
        refusal: What is said to who may not.
        most: How many may be inside.
    """

    def __init__(self, admits: Callable[[str, str], bool], refusal: str, most: int) -> None:
        self._admits = admits
        self._refusal = refusal
        self._most = most
        self._waiting = 0
        self.inside = 0

    @asynccontextmanager
    async def passed(self, socket: web.WebSocketResponse, address: str) -> AsyncIterator[None]:
        """Wait for the first word; who has said it is inside until the block ends.

        Raises:
            Refused: It is not the right one, none came, or too many are there.
        """
        if self._waiting >= MOST_WAITING:
            raise Refused(WSCloseCode.TRY_AGAIN_LATER, "too many ask at once")
        self._waiting += 1
        try:
            await self._hear(socket, address)
        finally:
            self._waiting -= 1
        if self.inside >= self._most:
            raise Refused(WSCloseCode.TRY_AGAIN_LATER, "too many watch already")
        self.inside += 1
        try:
            yield
        finally:
            self.inside -= 1

    async def _hear(self, socket: web.WebSocketResponse, address: str) -> None:
        try:
            first = await socket.receive(FIRST_WORD_S)
        except TimeoutError as err:
            raise Refused(WSCloseCode.POLICY_VIOLATION, "no word came") from err
        message = parse_message(text_of(first))
        if not isinstance(message, WatchMessage) or not self._admits(message.token, address):
            raise Refused(WSCloseCode.POLICY_VIOLATION, self._refusal)


class PanelSockets:
    """Sends each watcher the newest picture of each camera, the next only when the one before was drawn.

    Args:
        panels: Where the pictures come from.
        rate_hz: Most pictures a second of one camera.
        admits: Whether the one with this pass (it may be empty), at this address, may look.
        refusal: What is said to who may not.
    """

    def __init__(
        self, panels: Panels, rate_hz: float, *, admits: Callable[[str, str], bool], refusal: str
    ) -> None:
        self._panels = panels
        self._door = Door(admits, refusal, MOST_WATCHERS)
        self._period_s = 1.0 / rate_hz
        self._sockets: set[web.WebSocketResponse] = set()

    @property
    def watched(self) -> bool:
        """Whether anybody looks; may be asked from any thread."""
        return self._door.inside > 0

    async def handle(self, request: web.Request) -> web.WebSocketResponse:
        """The handler of the socket for pictures."""
        socket = new_socket()
        await socket.prepare(request)
        self._sockets.add(socket)
        try:
            async with self._door.passed(socket, request.remote or ""):
                await self._watch(socket)
        except (Refused, LinkError) as err:
            code = err.code if isinstance(err, Refused) else WSCloseCode.POLICY_VIOLATION
            await socket.close(code=code, message=str(err).encode()[:120])
        finally:
            self._sockets.discard(socket)
        return socket

    async def close(self) -> None:
        """The server ends."""
        why = b"the session ended"
        partings = [socket.close(code=WSCloseCode.GOING_AWAY, message=why) for socket in self._sockets]
        await asyncio.gather(*partings)

    async def _watch(self, socket: web.WebSocketResponse) -> None:
        drawn = {camera: asyncio.Event() for camera in self._panels.cameras}
        writer = asyncio.create_task(self._write(socket, drawn))
        try:
            await self._read(socket, list(drawn.values()))
        finally:
            writer.cancel()
            with suppress(asyncio.CancelledError):
                await writer

    async def _read(self, socket: web.WebSocketResponse, drawn: list[asyncio.Event]) -> None:
        allowance = Allowance(rate_hz=WATCHER_HZ, burst=WATCHER_HZ)
        async for received in socket:
            message = parse_message(text_of(received))
            if not isinstance(message, ShownMessage) or message.camera >= len(drawn):
                raise LinkError("this message does not belong here", where="type")
            if not allowance.take():
                raise Refused(WSCloseCode.POLICY_VIOLATION, "too many messages")
            drawn[message.camera].set()

    async def _write(self, socket: web.WebSocketResponse, drawn: dict[str, asyncio.Event]) -> None:
        with suppress(ConnectionError):
            await asyncio.gather(
                *(self._send(socket, place, camera, drawn[camera]) for place, camera in enumerate(drawn))
            )

    async def _send(
        self, socket: web.WebSocketResponse, place: int, camera: str, drawn: asyncio.Event
    ) -> None:
        sent = 0
        while not socket.closed:
            if self._panels.count(camera) != sent and (picture := await self._panels.newest(camera)):
                sent = picture.count
                drawn.clear()
                await socket.send_bytes(PICTURE_HEADER.pack(place, sent & 0xFFFFFFFF) + picture.jpeg)
                await drawn.wait()
            await asyncio.sleep(self._period_s)


def text_of(message: WSMessage) -> str:
    """The text of a message.

    Raises:
        Refused: It is no text.
    """
    if message.type is not WSMsgType.TEXT:
        raise Refused(WSCloseCode.UNSUPPORTED_DATA, "text only")
    return str(message.data)
