"""The desk's server over real sockets: who may look, that nothing is taken, and what is shown."""

import asyncio
import base64
import contextlib
import io
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import numpy as np
import pytest
from desk_support import KEY, Desk, jpeg, open_desk, texture
from page_support import Socket, browser, in_loop, until
from PIL import Image

from piper_collect.core.desk import DeskView, EpisodeRow, TopicReport, topic_row
from piper_collect.core.session_status import SessionView
from piper_collect.core.types import ReferenceView
from piper_collect.errors import LinkError
from piper_collect.web.alignment import CANNOT_TELL, OTHER_SHAPE, compare
from piper_collect.web.banner import desk_banner, only_here, urls
from piper_collect.web.desk_server import NEEDS_KEY, ONLY_LOOKS, DeskPlace, DeskServer
from piper_collect.web.hub import MOST_CLIENTS
from piper_collect.web.key import new_key, same_key
from piper_collect.web.panels import Panels
from piper_collect.web.sockets import MOST_WAITING, MOST_WATCHERS
from piper_collect.web.static_files import page_files

EPISODE = EpisodeRow(number=0, seconds=4.0, outcome="success", lost=0, flaws=(), size_bytes=1)


@pytest.fixture
def desk() -> Iterator[Desk]:
    desk = open_desk()
    yield desk
    desk.server.stop()


def dial(session: aiohttp.ClientSession, desk: Desk, path: str = "state", **headers: str):
    return session.ws_connect(f"{desk.origin}/desk/{path}", headers={"Origin": desk.origin, **headers})


# -- who may look ---------------------------------------------------------------------------------


def test_this_machine_needs_no_key_and_sees_every_file(desk: Desk) -> None:
    async def test() -> None:
        async with browser() as session:
            for path in ("", "desk", "desk.js", "desk.css", "house.css", "hud.js", "panel_worker.js"):
                async with session.get(f"{desk.origin}/{path}") as answer:
                    assert answer.status == 200, path
                    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
                    text = await answer.text()
                    assert not re.search(r"https?://(?!www\.w3\.org)", text), path
            for path in ("operator", "main.js", "panels", "server.py", "static/desk/desk.js"):
                async with session.get(f"{desk.origin}/{path}") as answer:
                    assert answer.status == 404, path
            for method in ("POST", "PUT", "DELETE"):
                async with session.request(method, f"{desk.origin}/desk") as answer:
                    assert answer.status == 405
            async with dial(session, desk) as raw:
                await raw.send_json({"type": "watch", "token": ""})
                assert (await Socket(raw).hear("hello"))["cameras"] == ["cam"]

    in_loop(test)
    assert set(page_files("static/desk")) >= {"desk.html", "desk.js", "desk.css", "alignments.js"}


@pytest.mark.parametrize("path", ["state", "pictures"])
def test_another_machine_needs_the_key_for_all_that_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr("piper_collect.web.desk_server.is_loopback", lambda _address: False)
    desk = open_desk(tmp_path)
    desk.panels.offer("cam", lambda: jpeg(texture((48, 64))))

    async def test() -> None:
        async with browser() as session:
            for token in ("", "guess", KEY[:-1], KEY + "a"):
                async with dial(session, desk, path) as raw:
                    await raw.send_json({"type": "watch", "token": token})
                    assert await Socket(raw).closed() == (1008, NEEDS_KEY)
            assert not desk.server.watched
            async with dial(session, desk, path) as raw:
                await raw.send_json({"type": "watch", "token": KEY})
                message = await raw.receive()
                assert message.type in (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY)

    in_loop(test)
    desk.server.stop()


@pytest.mark.parametrize("path", ["state", "pictures"])
def test_other_pages_and_foreign_names_are_refused(desk: Desk, path: str) -> None:
    async def test() -> None:
        async with browser() as session:
            for headers, status in (
                ({"Origin": "http://evil.example"}, 403),
                ({"Origin": ""}, 403),
                ({"Origin": desk.origin.replace("http", "https")}, 403),
                ({"Host": "evil.example", "Origin": "http://evil.example"}, 421),
            ):
                with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
                    async with dial(session, desk, path, **headers):
                        pass
                assert caught.value.status == status

    in_loop(test)


def test_keys_are_long_typed_in_any_way_and_never_the_same() -> None:
    keys = {new_key() for _ in range(200)}
    assert len(keys) == 200
    assert {len(key) for key in keys} == {12}
    assert same_key(KEY, "K7F2-9QMD x3tp")
    assert not same_key(KEY, "")
    assert not same_key(KEY, KEY + KEY)


@pytest.mark.parametrize(("path", "most"), [("state", MOST_CLIENTS), ("pictures", MOST_WATCHERS)])
def test_who_says_nothing_keeps_nobody_out_and_only_so_many_get_in(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, path: str, most: int
) -> None:
    monkeypatch.setattr("piper_collect.web.sockets.FIRST_WORD_S", 60.0)
    desk.panels.offer("cam", lambda: jpeg(texture((48, 64))))

    async def test() -> None:
        async with browser() as session, contextlib.AsyncExitStack() as opened:

            async def enter() -> aiohttp.ClientWebSocketResponse:
                return await opened.enter_async_context(dial(session, desk, path))

            for _ in range(MOST_WAITING - 1):
                await enter()  # and not a word
            for _ in range(most):
                inside = await enter()
                await inside.send_json({"type": "watch", "token": ""})
                await inside.receive()
            late = await enter()
            await late.send_json({"type": "watch", "token": ""})
            assert await Socket(late).closed() == (1013, "too many watch already")
            await enter()
            crowd = await enter()
            assert await Socket(crowd).closed() == (1013, "too many ask at once")

    in_loop(test)


# -- nothing is taken -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "said",
    [
        {"type": "watch", "token": ""},
        {"type": "pair", "code": "123456"},
        {"type": "code"},
        {"type": "resume", "token": "x"},
        {"type": "leave"},
        {"type": "input", "sequence": 1},
        {"type": "start"},
    ],
)
def test_a_page_that_says_more_than_that_it_looks_is_sent_away(desk: Desk, said: dict[str, object]) -> None:
    async def test() -> None:
        async with browser() as session:
            async with dial(session, desk) as raw:
                await raw.send_json({"type": "watch", "token": ""})
                await Socket(raw).hear("state")
                await raw.send_json(said)
                assert await Socket(raw).closed() == (1008, ONLY_LOOKS)
            if said["type"] != "watch":
                for path in ("state", "pictures"):
                    async with dial(session, desk, path) as raw:
                        await raw.send_json(said)
                        assert (await Socket(raw).closed())[0] == 1008

    in_loop(test)


# -- what is shown --------------------------------------------------------------------------------


def test_the_newest_state_is_shown_and_episodes_only_when_they_change(desk: Desk) -> None:
    report = TopicReport(name="/a", required=True, rate_hz=9.0, age_s=0.1, lost=0, reason="")

    async def test() -> None:
        async with browser() as session, dial(session, desk) as raw:
            page = Socket(raw)
            await page.raw.send_json({"type": "watch", "token": ""})
            assert (await page.hear("episodes"))["rows"] == []
            first = await page.hear("state")
            assert (first["state"], first["topics"], first["bytes_free"]) == ("not_ready", None, None)
            running = SessionView(state="recording", episode_index=1, start_ns=time.time_ns() - 2 * 10**9)
            view = DeskView(
                session=running, topics=(topic_row(report, 30.0),), episodes=(EPISODE,), bytes_free=5
            )
            desk.server.show(view)
            assert (await page.hear("episodes"))["rows"][0]["outcome"] == "success"
            state = await page.hear("state")
            assert state["elapsed_ms"] >= 2000
            assert state["topics"][0]["reason"] == "9.0 Hz where 30 are expected"
            desk.server.show(view)
            assert (await page.hear("state", "episodes"))["type"] == "state"

    in_loop(test)


def test_a_picture_is_sent_to_who_watches_and_compared_with_the_reference(desk: Desk) -> None:
    picture = texture()
    desk.server.align_to(ReferenceView(dataset="cups", pictures={"cam": picture}, notes=("a note",)))
    desk.panels.offer("cam", lambda: jpeg(np.roll(picture, (6, -10), axis=(0, 1))))

    async def test() -> None:
        async with browser() as session, dial(session, desk) as raw:
            page = Socket(raw)
            await page.raw.send_json({"type": "watch", "token": ""})
            reference = await page.hear("reference")
            assert (reference["dataset"], reference["notes"]) == ("cups", ["a note"])
            sent = Image.open(io.BytesIO(base64.b64decode(reference["pictures"]["cam"])))
            assert sent.size == (640, 480)
            assert (await page.hear("state"))["misfits"] == {}
            await asyncio.sleep(0)
            assert not desk.server.watched
            async with dial(session, desk, "pictures") as pictures:
                await pictures.send_json({"type": "watch", "token": ""})
                await pictures.receive_bytes()
                assert desk.server.watched
                while not (misfits := (await page.hear("state"))["misfits"]):
                    pass
                assert misfits["cam"]["right_px"] == pytest.approx(-10, abs=0.5)
                assert misfits["cam"]["down_px"] == pytest.approx(6, abs=0.5)
                assert misfits["cam"]["difference"] > 5
            await until(lambda: not desk.server.watched, "nobody notices that he left")

    in_loop(test)


def test_what_cannot_be_compared_has_a_note_and_no_number() -> None:
    picture = texture()
    wide = compare(picture, jpeg(texture((360, 640))))
    assert (wide.difference, wide.right_px, wide.note) == (None, None, OTHER_SHAPE)
    flat = compare(picture, jpeg(np.full_like(picture, 90)))
    assert (flat.right_px, flat.down_px, flat.note) == (None, None, CANNOT_TELL)
    assert flat.difference is not None
    assert compare(picture, b"nothing").note == "the camera's picture cannot be read"
    small = compare(picture, jpeg(picture[::2, ::2]))
    assert (small.right_px, small.down_px) == (pytest.approx(0, abs=1), pytest.approx(0, abs=1))


# -- where it is ----------------------------------------------------------------------------------


def test_a_port_that_is_taken_is_no_reason_to_have_no_page() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        desk = open_desk(port=taken.getsockname()[1])
        assert desk.server.port not in (0, taken.getsockname()[1])
        desk.server.stop()


def test_an_address_of_another_machine_is_one_clear_error() -> None:
    place = DeskPlace(host="192.0.2.1", port=0, tls=None, names=(), key=KEY, picture_rate_hz=5.0)
    server = DeskServer(place, panels=Panels(()), clock_ns=time.time_ns)
    with pytest.raises(LinkError, match=r"cannot listen.*desk\.host"):
        server.start()


def test_the_banner_has_the_key_in_every_link() -> None:
    pages = urls("0.0.0.0", 4444, ("192.168.1.5", "127.0.0.1"))
    text = desk_banner(pages, KEY, qr=False)
    assert f"https://192.168.1.5:4444/desk#key={KEY}" in text
    assert only_here("127.0.0.1")
    assert only_here("localhost")
    assert not only_here("0.0.0.0")
