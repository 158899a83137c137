"""The page's server over real HTTPS: who gets in, who drives, what is refused, and what nobody is told."""

import asyncio
import json
import socket
import ssl
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import aiohttp
import pytest
from page_support import REST, Page, Socket, browser, connect, in_loop, open_page, until

from piper_collect.core.haptics import Pulse
from piper_collect.core.session_status import SessionView
from piper_collect.errors import ImageError, LinkError
from piper_collect.web.client import INPUT_HZ, STRIKES
from piper_collect.web.hub import ELSEWHERE, MOST_CLIENTS, NOT_PAIRED, TAKEN, UNKNOWN_PASS
from piper_collect.web.limits import Allowance
from piper_collect.web.messages import MOST_BYTES
from piper_collect.web.sockets import PICTURE_HEADER
from piper_collect.web.static_files import page_files

JPEG = b"\xff\xd8 picture \xff\xd9"


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    page = open_page(tmp_path)
    yield page
    page.close()


# -- the files ----------------------------------------------------------------------------------


def test_the_page_comes_with_the_headers_that_keep_others_out(page: Page) -> None:
    async def test() -> None:
        async with browser() as session, session.get(page.origin) as answer:
            text = await answer.text()
            assert (answer.status, answer.content_type) == (200, "text/html")
            assert "<title>piper_collect" in text
            headers = answer.headers
            assert "default-src 'none'" in headers["Content-Security-Policy"]
            assert "unsafe" not in headers["Content-Security-Policy"]
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert headers["X-Frame-Options"] == "DENY"
            assert headers["Cache-Control"] == "no-store"
            assert "Server" not in headers
            assert "Access-Control-Allow-Origin" not in headers

    in_loop(test)


def test_every_file_of_the_page_is_served_and_none_asks_for_what_is_elsewhere(page: Page) -> None:
    async def test() -> None:
        async with browser() as session:
            for name, (kind, content) in page_files().items():
                path = "" if name == "index.html" else name
                async with session.get(f"{page.origin}/{path}") as answer:
                    assert (answer.status, answer.content_type) == (200, kind)
                    assert await answer.read() == content
                text = content.decode().replace("http://www.w3.org/2000/svg", "")
                assert "http://" not in text
                assert "https://" not in text.replace("<b>https://</b>", "").replace("over https", "")

    in_loop(test)
    assert {"index.html", "main.js", "style.css", "panel_worker.js"} <= set(page_files())


@pytest.mark.parametrize(
    "path",
    [
        "/server.py",
        "/../server.py",
        "/%2e%2e/server.py",
        "/static/main.js",
        "//etc/passwd",
        "/main.js/",
        "/..",
    ],
)
def test_nothing_but_the_page_can_be_had(page: Page, path: str) -> None:
    """Sent raw: a client library would tidy the path."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", page.server.port)) as plain,
        context.wrap_socket(plain) as secured,
    ):
        secured.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: secured.recv(65536), b"")).decode()
    assert answer.startswith("HTTP/1.1 404")
    assert "Traceback" not in answer
    assert "nosniff" in answer


def test_only_get_is_answered(page: Page) -> None:
    async def test() -> None:
        async with browser() as session:
            for method in ("POST", "PUT", "DELETE", "OPTIONS"):
                async with session.request(method, page.origin, data=b"x" * 5000) as answer:
                    assert answer.status == 405
            async with session.get(f"{page.origin}/operator") as answer:
                assert answer.status == 400  # no WebSocket
                assert "Traceback" not in await answer.text()

    in_loop(test)


def test_a_foreign_name_for_this_machine_is_refused(page: Page) -> None:
    """DNS rebinding: the attacker's name points here, so that his page is of the same origin."""

    async def test() -> None:
        async with browser() as session:
            for host in (
                "evil.example",
                f"evil.example:{page.server.port}",
                "localhost.evil.example",
                "10.9.8.7",
            ):
                async with session.get(page.origin, headers={"Host": host}) as answer:
                    assert answer.status == 421
                    assert "quest.names" in await answer.text()
                with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
                    async with connect(session, page, Host=host, Origin=f"https://{host}"):
                        pass
                assert caught.value.status == 421
            for host in ("localhost", "LOCALHOST:99", "127.0.0.1", "[::1]:4443"):
                async with session.get(page.origin, headers={"Host": host}) as answer:
                    assert answer.status == 200

    in_loop(test)


@pytest.mark.parametrize("path", ["operator", "panels"])
@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "", "http://localhost", "https://localhost", "file://"]
)
def test_a_socket_of_another_page_is_refused(page: Page, path: str, origin: str) -> None:
    async def test() -> None:
        async with browser() as session:
            with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
                async with connect(session, page, path, Origin=origin):
                    pass
            assert caught.value.status == 403

    in_loop(test)


# -- who drives ---------------------------------------------------------------------------------


def test_a_paired_page_drives_and_its_input_arrives_stamped_in_order(page: Page) -> None:
    async def test() -> None:
        async with browser() as session, connect(session, page) as operator:
            hello = await operator.hear("hello")
            assert (hello["hand"], hello["trigger"], hello["cameras"]) == ("right", "closes", ["cam"])
            token = await operator.pair(page.codes[-1])
            for sequence in range(1, 41):
                await operator.say(**{**REST, "sequence": sequence})
            await until(lambda: len(page.samples) == 40, "the input does not arrive")
            while not operator.acks or operator.acks[-1] < 40:
                await operator.hear("ack")
            assert operator.acks == sorted(set(operator.acks))
            assert operator.states[-1]["driver"] is True
            assert token not in "".join(page.lines)
            assert page.codes[0] not in "".join(page.lines)

    in_loop(test)
    assert [sample.sequence for sample in page.samples] == list(range(1, 41))
    stamps = [sample.stamp_ns for sample in page.samples]
    assert stamps == sorted(set(stamps))


def test_input_of_a_page_that_is_not_paired_is_not_taken(page: Page) -> None:
    async def test() -> None:
        async with browser() as session, connect(session, page) as viewer:
            await viewer.say(**{**REST, "sequence": 1})
            assert (await viewer.hear("refused"))["reason"] == NOT_PAIRED
            assert await viewer.closed() == (1008, NOT_PAIRED)

    in_loop(test)
    assert page.samples == []


def test_a_second_operator_is_refused_and_may_watch(page: Page) -> None:
    async def test() -> None:
        async with browser() as session, connect(session, page) as first, connect(session, page) as second:
            await first.pair(page.codes[-1])
            for request in ({"type": "pair", "code": page.codes[-1]}, {"type": "code"}):
                await second.say(**request)
                assert (await second.hear("refused"))["reason"] == TAKEN
            page.server.show(SessionView(state="ready", saved=3))
            while not second.states or second.states[-1]["saved"] != 3:
                await second.hear("state")
            assert second.states[-1]["driver"] is True
            await first.say(**{**REST, "sequence": 1})
            await until(lambda: page.samples, "the first operator drives no more")
            await second.say(**{**REST, "sequence": 2})
            assert (await second.closed())[0] == 1008
            assert len(page.samples) == 1
            assert len(page.codes) == 1

    in_loop(test)


def test_a_wrong_code_is_refused_and_few_are_enough_to_be_sent_away(page: Page) -> None:
    async def test() -> None:
        async with browser() as session:
            reasons = []
            for _ in range(3):  # over fresh sockets: the count is not the socket's
                async with connect(session, page) as guesser:
                    for guess in range(3):
                        await guesser.say(type="pair", code=f"{(int(page.codes[0]) + 1 + guess) % 10**6:06d}")
                        reasons.append((await guesser.hear("refused"))["reason"])
            assert ["too many" in reason for reason in reasons] == [False] * 5 + [True] * 4
            async with connect(session, page) as operator:
                await operator.say(type="pair", code=page.codes[0])
                assert "too many" in (await operator.hear("refused"))["reason"]

    in_loop(test)


def test_the_operator_comes_back_with_his_pass_and_takes_his_own_place(page: Page) -> None:
    async def test() -> None:
        async with browser() as session:
            async with connect(session, page) as operator:
                token = await operator.pair(page.codes[-1])
            await until(lambda: "closed" in page.lines[-1], "nobody notices that he left")
            async with connect(session, page) as back, connect(session, page) as guesser:
                await guesser.say(type="resume", token=token[::-1])
                assert (await guesser.hear("unpaired"))["reason"] == UNKNOWN_PASS
                await back.say(type="resume", token=token)
                assert (await back.hear("paired"))["token"] == token
                async with connect(session, page) as tab:
                    await tab.say(type="resume", token=token)
                    await tab.hear("paired")
                    assert await back.closed() == (1008, ELSEWHERE)
                    await tab.say(**{**REST, "sequence": 1})
                    await until(lambda: page.samples, "the new tab does not drive")

    in_loop(test)


def test_an_operator_who_gives_his_place_up_cannot_come_back_without_a_code(page: Page) -> None:
    async def test() -> None:
        async with browser() as session, connect(session, page) as operator:
            token = await operator.pair(page.codes[-1])
            await operator.say(type="leave")
            await operator.hear("unpaired")
            await operator.say(type="resume", token=token)
            assert (await operator.hear("unpaired"))["reason"] == UNKNOWN_PASS
            await operator.say(**{**REST, "sequence": 1})
            assert (await operator.closed())[0] == 1008
            assert page.samples == []

    in_loop(test)


# -- what is too much ---------------------------------------------------------------------------


def test_a_message_that_is_too_big_ends_the_connection(page: Page) -> None:
    async def test() -> None:
        async with browser() as session, connect(session, page) as operator:
            await operator.pair(page.codes[-1])
            await operator.raw.send_str(" " * (MOST_BYTES + 1))
            assert (await operator.closed())[0] == 1009

    in_loop(test)
    assert page.samples == []


def test_a_flood_ends_the_connection(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    no_time_passes = partial(Allowance, clock=lambda: 0.0)
    monkeypatch.setattr("piper_collect.web.client.Allowance", no_time_passes)

    async def test() -> None:
        async with browser() as session, connect(session, page) as operator:
            await operator.pair(page.codes[-1])
            for sequence in range(int(2 * INPUT_HZ)):
                try:
                    await operator.say(**{**REST, "sequence": sequence})
                except (ConnectionError, aiohttp.ClientError):
                    break
            assert await operator.closed() == (1008, "too many messages")

    in_loop(test)
    assert len(page.samples) == INPUT_HZ - 1  # the code was a message, too


def test_bytes_are_refused(page: Page) -> None:
    async def test() -> None:
        async with browser() as session, connect(session, page) as operator:
            await operator.raw.send_bytes(b"{}")
            assert (await operator.closed())[0] == 1003

    in_loop(test)


def test_what_is_wrong_is_told_in_words_and_too_much_of_it_ends_the_connection(page: Page) -> None:
    async def test() -> None:
        async with browser() as session, connect(session, page) as operator:
            await operator.pair(page.codes[-1])
            await operator.say(**{**REST, "sequence": 5})
            for wrong in ({**REST, "sequence": 5}, {**REST, "sequence": 4}, {"type": "shown", "camera": 0}):
                await operator.say(**wrong)
                reason = (await operator.hear("refused"))["reason"]
                assert "Traceback" not in reason
                assert ".py" not in reason
            for _ in range(2 * STRIKES):
                await operator.say(type="nonsense")
            assert await operator.closed() == (1008, "too many messages were refused")

    in_loop(test)
    assert [sample.sequence for sample in page.samples] == [5]


def test_too_many_pages_are_refused(page: Page) -> None:
    async def test() -> None:
        async with browser() as session, asyncio.TaskGroup() as group:
            done = asyncio.Event()

            async def watch(ready: asyncio.Event) -> None:
                async with connect(session, page) as viewer:
                    await viewer.hear("hello")
                    ready.set()
                    await done.wait()

            for _ in range(MOST_CLIENTS):
                ready = asyncio.Event()
                group.create_task(watch(ready))
                await ready.wait()
            async with connect(session, page) as late:
                assert (await late.closed())[0] == 1013
            done.set()

    in_loop(test)


def test_a_fault_in_the_program_is_not_shown_to_the_page(tmp_path: Path) -> None:
    def fail(_sample: object) -> None:
        raise RuntimeError("secret")

    page = open_page(tmp_path, take_input=fail)

    async def test() -> None:
        async with browser() as session, connect(session, page) as operator:
            await operator.pair(page.codes[-1])
            await operator.say(**{**REST, "sequence": 1})
            assert await operator.closed() == (1011, "the host failed; its terminal says why")
        async with browser() as session, connect(session, page) as viewer:
            await viewer.hear("state")  # and the server goes on

    in_loop(test)
    page.close()


# -- what the pages are shown -------------------------------------------------------------------


def test_the_state_reaches_every_page_and_pulses_only_the_operator(page: Page) -> None:
    view = SessionView(
        state="recording", episode_index=4, start_ns=1, saved=4, task="stack", text="t", teleop="following",
        faults=("arm: stall",),
    )  # fmt: skip

    async def test() -> None:
        async with browser() as session, connect(session, page) as first, connect(session, page) as second:
            await first.pair(page.codes[-1])
            page.server.show(view)
            page.server.feel(Pulse(hand="left", intensity=0.5, duration_s=0.1))
            for viewer in (first, second):
                while not viewer.states or viewer.states[-1]["state"] != "recording":
                    await viewer.hear("state")
                shown = dict(viewer.states[-1])
                assert shown.pop("elapsed_ms") > 1e9
                assert shown == {
                    "type": "state", "state": "recording", "episode": 4, "saved": 4, "task": "stack",
                    "text": "t", "teleop": "following", "faults": ["arm: stall"], "driver": True,
                }  # fmt: skip
            page.server.feel(Pulse(hand="right", intensity=1.0, duration_s=0.2))
            pulse = await first.hear("pulse")
            while pulse["hand"] != "right":
                pulse = await first.hear("pulse")
            assert pulse == {"type": "pulse", "hand": "right", "intensity": 1.0, "duration_s": 0.2}
            page.server.show(SessionView(state="ready"))
            kinds = []
            while not kinds or kinds[-1].get("state") != "ready":
                kinds.append(await second.hear("state", "pulse"))
            assert {kind["type"] for kind in kinds} == {"state"}

    in_loop(test)


def test_a_page_that_does_not_read_gets_the_newest_state_and_no_queue(page: Page) -> None:
    async def test() -> None:
        async with browser() as session, connect(session, page) as viewer:
            await viewer.hear("state")
            long = "x" * 20_000
            for saved in range(3000):
                page.server.show(SessionView(state="ready", saved=saved, text=long))
                await asyncio.sleep(0)
            while not viewer.states or viewer.states[-1]["saved"] != 2999:
                await viewer.hear("state")
            assert len(viewer.states) < 3000

    in_loop(test)


async def watching(viewer: Socket, token: str = "") -> None:
    await viewer.say(type="watch", token=token)


async def picture(viewer: Socket) -> tuple[int, int, bytes]:
    message = await viewer.raw.receive()
    assert message.type is aiohttp.WSMsgType.BINARY, message
    return (*PICTURE_HEADER.unpack(message.data[:5]), message.data[5:])


def test_the_next_picture_is_the_newest_and_comes_only_when_the_last_was_drawn(page: Page) -> None:
    made: list[int] = []

    def offer(number: int) -> None:
        page.panels.offer("cam", lambda: (made.append(number), JPEG + bytes([number]))[1])

    async def test() -> None:
        async with browser() as session, connect(session, page, "panels") as viewer:
            offer(1)
            assert page.panels.count("cam") == 1
            await watching(viewer)
            assert await picture(viewer) == (0, 1, JPEG + b"\x01")
            for number in range(2, 50):
                offer(number)
            await asyncio.sleep(0.2)
            assert made == [1]  # nobody asked: nothing was decoded, nothing sent
            await viewer.say(type="shown", camera=0)
            assert await picture(viewer) == (0, 49, JPEG + bytes([49]))
            assert made == [1, 49]
            await viewer.say(type="shown", camera=0)
            await viewer.say(type="shown", camera=1)
            assert (await viewer.closed())[0] == 1008  # there is no such camera

    in_loop(test)


def test_a_picture_that_is_none_is_left_out_and_told(page: Page) -> None:
    def broken() -> bytes:
        raise ImageError("the JPEG image is cut off")

    async def test() -> None:
        async with browser() as session, connect(session, page, "panels") as viewer:
            page.panels.offer("cam", broken)
            await watching(viewer)
            await until(lambda: page.panels.faults, "the broken picture is not noticed")
            page.panels.offer("cam", lambda: JPEG)
            assert await picture(viewer) == (0, 2, JPEG)
            assert page.panels.faults == {}

    in_loop(test)


def test_who_is_elsewhere_and_not_paired_sees_no_pictures(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("piper_collect.web.server.is_loopback", lambda _address: False)
    page.panels.offer("cam", lambda: JPEG)

    async def test() -> None:
        async with browser() as session, connect(session, page) as operator:
            token = await operator.pair(page.codes[-1])
            for wrong in ("", token[:-1]):
                async with connect(session, page, "panels") as viewer:
                    await watching(viewer, wrong)
                    assert (await viewer.closed())[0] == 1008
            async with connect(session, page, "panels") as viewer:
                await viewer.say(**{**REST, "sequence": 1})
                assert (await viewer.closed())[0] == 1008
            async with connect(session, page, "panels") as viewer:
                await watching(viewer, token)
                assert (await picture(viewer))[2] == JPEG

    in_loop(test)


def test_without_pictures_there_is_no_socket_for_them(tmp_path: Path) -> None:
    page = open_page(tmp_path, panel_rate_hz=0.0)

    async def test() -> None:
        async with browser() as session, connect(session, page) as viewer:
            assert (await viewer.hear("hello"))["cameras"] == []
            async with session.get(f"{page.origin}/panels") as answer:
                assert answer.status == 404

    in_loop(test)
    page.close()


# -- start and end ------------------------------------------------------------------------------


def test_a_port_that_is_taken_is_an_error_that_says_what_to_do(page: Page, tmp_path: Path) -> None:
    taken = open_page(tmp_path / "other")
    settings = replace(page.settings, port=taken.server.port)
    with pytest.raises(LinkError, match=r"cannot listen.*quest\.port"):
        type(page.server)(
            settings,
            pairing=page.pairing,
            panels=page.panels,
            take_input=print,
            clock_ns=lambda: 0,
            steady_ns=lambda: 0,
            tell=print,
        ).start()
    taken.close()


def test_at_the_end_every_page_is_told(tmp_path: Path) -> None:
    page = open_page(tmp_path)

    async def test() -> None:
        async with browser() as session, connect(session, page) as viewer:
            await viewer.hear("state")
            async with connect(session, page, "panels") as watcher:
                await watching(watcher)
                ended = asyncio.get_running_loop().run_in_executor(None, page.close)
                assert await viewer.closed() == (1001, "the session ended")
                assert await watcher.closed() == (1001, "the session ended")
                await ended

    in_loop(test)
    page.server.show(SessionView(state="ready"))  # nothing to show it on any more, and no error
    assert json.dumps(page.lines)
