"""A page's server leaves no socket open when it ends, whatever those at the other end do."""

import gc
import socket
from collections.abc import Awaitable

from aiohttp import web

from piper_collect.web.serving import Place, ServerThread

MUCH = b"x" * 20_000_000


def test_one_who_does_not_take_what_is_sent_to_him_is_cut_off() -> None:
    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=MUCH)

    def app() -> web.Application:
        app = web.Application()
        app.router.add_get("/", answer)
        return app

    def partings() -> list[Awaitable[None]]:
        return []

    place = Place(what="test's page", section="test", host="127.0.0.1", port=0, tls=None)
    server = ServerThread(place, app, partings)
    server.start()
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
