"""A page's server leaves no socket open when it ends, whatever those at the other end do."""

import asyncio
import gc
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from aiohttp import web

from piper_collect.web import serving
from piper_collect.web.certificate import ensure_certificate, server_context
from piper_collect.web.serving import Place, ServerThread

MUCH = b"x" * 20_000_000

Partings = Callable[[], list[Awaitable[None]]]


def started(
    answer: Callable[[web.Request], Awaitable[web.Response]],
    tls: ssl.SSLContext | None = None,
    partings: Partings = list,
) -> ServerThread:
    def app() -> web.Application:
        app = web.Application()
        app.router.add_get("/", answer)
        return app

    place = Place(what="test's page", section="test", host="127.0.0.1", port=0, tls=tls)
    server = ServerThread(place, app, partings)
    server.start()
    return server


def test_one_who_does_not_take_what_is_sent_to_him_is_cut_off() -> None:
    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=MUCH)

    server = started(answer)
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n")
        assert client.recv(12) == b"HTTP/1.1 200"
        server.stop()
        gc.collect()  # a socket that was left open would be an error of this test
        client.settimeout(60.0)
        taken = 0
        try:
            while piece := client.recv(1_000_000):
                taken += len(piece)
        except ConnectionResetError:
            pass
        assert taken < len(MUCH)


class Guest:
    """A TLS client whose bytes go when the test says."""

    def __init__(self, port: int) -> None:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self.heard, self.said = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.heard, self.said)
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.settimeout(60.0)

    def greet(self) -> bool:
        """Go on with the handshake; whether it is done."""
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def send(self) -> None:
        self.socket.sendall(self.said.read())

    def hear(self) -> bool:
        """Take what the server sent; whether it is still there."""
        try:
            piece = self.socket.recv(100_000)
        except ConnectionResetError:
            return False
        self.heard.write(piece)
        return bool(piece)


def test_one_who_is_still_shaking_hands_when_the_server_ends_is_hung_up_on(tmp_path: Path) -> None:
    """A browser opens connections ahead of what it asks for, and finishes them when it likes."""
    asked, let_go = threading.Event(), threading.Event()

    async def answer(_request: web.Request) -> web.Response:
        asked.set()
        while not let_go.is_set():
            await asyncio.sleep(0.01)
        return web.Response()

    server = started(answer, server_context(ensure_certificate(tmp_path, ["127.0.0.1"])))
    slow, late = Guest(server.port), Guest(server.port)
    with slow.socket, late.socket:
        while not slow.greet():
            slow.send()
            assert slow.hear()
        slow.tls.write(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n")
        slow.send()
        assert asked.wait(60.0)
        assert not late.greet()
        late.send()
        assert late.hear()  # the server waits for the last part of the handshake
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        while not late.greet():
            assert late.hear()
        # the server waits for the answer to ``slow``, which has time to end
        try:
            late.send()
            while late.hear():
                pass
        except (BrokenPipeError, ConnectionResetError):
            pass
        let_go.set()
        stopping.join(60.0)
        gc.collect()  # a socket that was left open would be an error of this test


def test_a_goodbye_that_cannot_be_said_leaves_no_socket_open() -> None:
    async def answer(_request: web.Request) -> web.Response:
        return web.Response()

    async def gone() -> None:
        raise ConnectionResetError("Cannot write to closing transport")

    server = started(answer, partings=lambda: [gone()])
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n")
        assert client.recv(12) == b"HTTP/1.1 200"
        server.stop()
        gc.collect()
        client.settimeout(60.0)
        while client.recv(1000):
            pass


# -- too many --------------------------------------------------------------------------------------


async def hello(_request: web.Request) -> web.Response:
    return web.Response(text="hello")


def ask(client: socket.socket) -> bytes:
    """What the server answers; empty where it has hung up."""
    answer = b""
    try:
        client.sendall(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n")
        while not answer.endswith(b"hello"):
            piece = client.recv(1000)
            if not piece:
                return b""
            answer += piece
    except (BrokenPipeError, ConnectionResetError):
        return b""
    return answer


def is_open(client: socket.socket) -> bool:
    try:
        return client.recv(1, socket.MSG_DONTWAIT) != b""
    except BlockingIOError:
        return True
    except ConnectionResetError:
        return False


def test_of_those_who_do_not_finish_the_handshake_the_oldest_make_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tally: Callable[..., None]
) -> None:
    monkeypatch.setattr(serving, "_HANDSHAKE_S", 3600.0)  # so that nothing else ends them
    server = started(hello, server_context(ensure_certificate(tmp_path, ["127.0.0.1"])))
    with ExitStack() as stack:
        silent = [
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port))) for _ in range(200)
        ]
        for client in silent[: -serving.MOST_SHAKING]:
            client.settimeout(60.0)
            assert not client.recv(1)
            tally("connections hung up on")
        guest = Guest(server.port)
        stack.enter_context(guest.socket)
        while not guest.greet():
            guest.send()
            assert guest.hear()
        guest.send()
        guest.tls.write(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n")
        guest.send()
        assert guest.hear()
        assert [is_open(client) for client in silent[-serving.MOST_SHAKING + 1 :]] == [True] * (
            serving.MOST_SHAKING - 1
        )
        server.stop()
        gc.collect()


def test_beyond_so_many_connections_the_next_is_hung_up_on_and_the_others_stay(
    monkeypatch: pytest.MonkeyPatch, tally: Callable[..., None]
) -> None:
    monkeypatch.setattr(serving, "MOST_CONNECTIONS", 8)
    monkeypatch.setattr(serving, "HEAD_S", 3600.0)
    server = started(hello)

    def comes() -> socket.socket:
        client = socket.create_connection(("127.0.0.1", server.port))
        client.settimeout(60.0)
        return stack.enter_context(client)

    with ExitStack() as stack:
        inside = [comes() for _ in range(8)]
        assert all(ask(client) for client in inside)
        for _ in range(40):
            assert not ask(comes())
            tally("connections hung up on")
        assert all(ask(client) for client in inside)
        inside.pop().close()
        while not ask(comes()):  # once the server has noticed
            pass
        assert all(ask(client) for client in inside)
        server.stop()
        gc.collect()
