"""An aiohttp application served from a thread of its own."""

import asyncio
import errno
import ssl
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import cast

from aiohttp import web

from piper_collect.errors import LinkError

_START_S = 10.0
_HANDSHAKE_S = 10.0
HEAD_S = 15.0
"""A connection that has asked for nothing so long is hung up on: it only takes up room."""

MOST_SHAKING = 32
"""Connections in the TLS handshake; one takes milliseconds, and who goes slow makes room for who comes."""

MOST_CONNECTIONS = 128
"""Connections after it; who comes then is hung up on, so that nobody can push out the one who drives."""

_GOODBYE_S = 2.0
_TLS_GOODBYE_S = 0.2
_STOP_S = 10.0
"""More than the goodbye, twice as long for the runner's own wait, and TLS's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a page is served, and how it is called in errors.

    Attributes:
        what: Name of the page, for people.
        section: Section of the configuration that has its ``host`` and ``port``.
        host: Address to listen on.
        port: Port; 0 takes a free one.
        tls: Certificate and key; None for plain HTTP, which is for the loopback only.
        any_port: Whether a free port is taken where ``port`` is taken.
    """

    what: str
    section: str
    host: str
    port: int
    tls: ssl.SSLContext | None
    any_port: bool = False


class _Arrivals:
    """Makes the protocol of each connection, and knows which have not shaken hands: the server does not.

    Args:
        server: What serves them afterwards.
        most_shaking: How many may be shaking hands; the one that began first makes room for the next.
        most: How many may be served; there is no room for more.
    """

    def __init__(self, server: web.Server, most_shaking: int, most: int) -> None:
        self._server = server
        self._most_shaking = most_shaking
        self._most = most
        self._tasks: dict[asyncio.Task[object], None] = {}  # in the order in which they came

    def __call__(self) -> web.RequestHandler:
        task = asyncio.current_task()  # accepts this one connection, and ends when it is made
        if task is not None:
            self._tasks[task] = None
            task.add_done_callback(lambda done: self._tasks.pop(done, None))
            if len(self._server.connections) >= self._most:
                self._hang_up(task)
            while len(self._tasks) > self._most_shaking:
                self._hang_up(next(iter(self._tasks)))
        return self._server()

    def _hang_up(self, task: asyncio.Task[object]) -> None:
        del self._tasks[task]
        task.cancel()

    async def refuse(self) -> None:
        """Hang up on them; when this returns no other can come."""
        await asyncio.sleep(0)  # one that was accepted just now asks for its protocol
        shaking = [*self._tasks]
        for task in shaking:
            task.cancel()
        await asyncio.gather(*shaking, return_exceptions=True)


class ServerThread:
    """Serves an application; every method may be called from any thread.

    Args:
        place: Where.
        make_app: Makes the application, in the server's loop.
        partings: What says goodbye to open sockets when the server ends.
    """

    def __init__(
        self,
        place: Place,
        make_app: Callable[[], web.Application],
        partings: Callable[[], Sequence[Awaitable[None]]],
    ) -> None:
        self.port = place.port
        self._place = place
        self._make_app = make_app
        self._partings = partings
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end: asyncio.Event | None = None
        self._started = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=place.what, daemon=True)

    def start(self) -> None:
        """Listen.

        Raises:
            LinkError: The address or port cannot be had.
        """
        place, where = self._place, f"{self._place.host}:{self._place.port}"
        self._thread.start()
        if not self._started.wait(_START_S):
            raise LinkError(f"the {place.what} did not come up", where=where)
        if isinstance(self._failure, OSError):
            address = "an address of this machine and a free port"
            raise LinkError(
                f"cannot listen: {self._failure.strerror}",
                where=where,
                hint=f"set {place.section}.host and {place.section}.port to {address}",
            ) from self._failure
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Close every socket, and the server."""
        self.call(lambda: self._end.set() if self._end is not None else None)
        self._thread.join(_STOP_S)

    def call(self, act: Callable[[], None]) -> None:
        """Have something done in the server's loop; nothing where it has ended."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            try:
                loop.call_soon_threadsafe(act)
            except RuntimeError:  # it closed in between
                return

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as err:  # the thread has nobody else to tell
            self._failure = err
        finally:
            self._started.set()

    async def _serve(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        runner = web.AppRunner(
            self._make_app(),
            access_log=None,
            handle_signals=False,
            shutdown_timeout=_GOODBYE_S,
            keepalive_timeout=HEAD_S,
        )
        await runner.setup()
        pages = cast(web.Server, runner.server)
        # without TLS there are no hands to shake: a burst is no sign of anything
        shaking = MOST_SHAKING if self._place.tls is not None else MOST_CONNECTIONS
        arrivals = _Arrivals(pages, shaking, MOST_CONNECTIONS)
        try:
            server = await self._listen(arrivals)
            self.port = server.sockets[0].getsockname()[1]
            self._started.set()
            await self._end.wait()
            server.close()
            await arrivals.refuse()
            with suppress(TimeoutError):
                async with asyncio.timeout(_GOODBYE_S):
                    await asyncio.gather(*self._partings(), return_exceptions=True)
        finally:
            transports = [c.transport for c in pages.connections]
            await runner.cleanup()
            if self._place.tls is not None:
                await asyncio.sleep(2 * _TLS_GOODBYE_S)  # what has not said goodbye by then is cut off
            for transport in transports:  # who did not take all that was sent to him
                if transport is not None:
                    transport.abort()
            await asyncio.sleep(0)

    async def _listen(self, protocol: Callable[[], asyncio.BaseProtocol]) -> asyncio.Server:
        place = self._place
        try:
            return await self._listen_at(protocol, place.port)
        except OSError as err:
            if err.errno != errno.EADDRINUSE or not place.any_port:
                raise
            return await self._listen_at(protocol, 0)

    async def _listen_at(self, protocol: Callable[[], asyncio.BaseProtocol], port: int) -> asyncio.Server:
        tls = self._place.tls
        return await asyncio.get_running_loop().create_server(
            protocol,
            self._place.host,
            port,
            ssl=tls,
            ssl_handshake_timeout=_HANDSHAKE_S if tls else None,
            ssl_shutdown_timeout=_TLS_GOODBYE_S if tls else None,
        )
