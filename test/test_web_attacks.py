"""Who only takes up room, or talks what is no HTTP: a browser is served meanwhile, and none of it stays."""

import asyncio
import json
import ssl
from contextlib import suppress
from functools import cache

import aiohttp
import pytest
from fuzz_support import fuzzed
from hypothesis import given
from hypothesis import strategies as st
from page_support import REST, Page, browser, connect, in_loop, open_page

HEAD = b"GET / HTTP/1.1\r\nHost: localhost\r\n"
UPGRADE = (
    b"GET /operator HTTP/1.1\r\nHost: %s\r\nOrigin: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    opened = open_page(tmp_path_factory.mktemp("page"))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def impatient(tmp_path_factory):
    """A page that waits half a second, not fifteen, for what it is asked."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("piper_collect.web.serving.HEAD_S", 0.5)
        opened = open_page(tmp_path_factory.mktemp("page"))
    yield opened
    opened.close()


@cache
def any_certificate():
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


async def connected(page: Page, *, tls=True):
    return await asyncio.open_connection(
        "127.0.0.1", page.server.port, ssl=any_certificate() if tls else None
    )


async def served(page: Page) -> None:
    """A browser gets the page, at once or, where this process stood still too long, when it asks again."""
    while True:
        with suppress(aiohttp.ClientError):
            async with browser() as session, session.get(f"{page.origin}/") as answer:
                assert answer.status == 200
                return


async def until_hung_up(reader) -> bytes:
    with suppress(ConnectionError, ssl.SSLError):
        return await reader.read()
    return b""


def test_heads_that_never_end_are_hung_up_on_and_keep_nobody_out(impatient: Page) -> None:
    page = impatient

    async def test() -> None:
        slow = [await connected(page) for _ in range(12)]
        for number, (_, writer) in enumerate(slow):
            writer.write(HEAD if number % 2 else b"")
        await served(page)
        assert {await until_hung_up(reader) for reader, _ in slow} == {b""}
        for _, writer in slow:
            writer.close()
        await served(page)

    in_loop(test)


def test_what_is_no_tls_is_hung_up_on(page: Page) -> None:
    async def test() -> None:
        for noise in (HEAD + b"\r\n", bytes(range(256)), b"\x16\x03\x01\xff\xff" + bytes(600)):
            reader, writer = await connected(page, tls=False)
            writer.write(noise)
            answer = await until_hung_up(reader) if noise[0] != 0x16 else b""
            assert b"HTTP" not in answer
            writer.close()
        await served(page)

    in_loop(test)


NOISE = (
    b"\r\n",
    b"\x00",
    b"Host: evil",
    b"Transfer-Encoding: chunked\r\n",
    b"Content-Length: -1\r\n",
    b"\xff" * 9,
)


def test_a_request_may_be_anything(impatient: Page, tally) -> None:
    page = impatient
    parts = st.one_of(st.sampled_from(NOISE), st.binary(max_size=12))

    @fuzzed(6)
    @given(st.lists(parts, max_size=5), st.integers(0, len(HEAD)))
    def look(noise, at) -> None:
        tally("inputs tried")

        async def test() -> None:
            reader, writer = await connected(page)
            writer.write(HEAD[:at] + b"".join(noise) + HEAD[at:] + b"\r\n")
            writer.write_eof() if writer.can_write_eof() else None
            answer = await until_hung_up(reader)
            assert not answer or answer.startswith(b"HTTP/1.")
            assert b"Traceback" not in answer
            writer.close()

        in_loop(test)

    look()
    in_loop(lambda: served(page))


FRAMES = {
    "reserved bits": b"\xf1\x80\x00\x00\x00\x00",
    "a length of 2**63": b"\x81\xff\x80\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
    "a ping of 64 kB": b"\x89\xff\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00",
    "a fragment without a beginning": b"\x80\x82\x00\x00\x00\x00{}",
    "no text": b"\x81\x82\x00\x00\x00\x00\xff\xfe",
    "an unknown opcode": b"\x83\x80\x00\x00\x00\x00",
}


@pytest.mark.parametrize("name", FRAMES)
def test_a_frame_that_breaks_the_rules_ends_its_connection_only(page: Page, name: str) -> None:
    async def test() -> None:
        reader, writer = await connected(page)
        origin = page.origin.encode()
        writer.write(UPGRADE % (origin.removeprefix(b"https://"), origin))
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101 ")
        writer.write(FRAMES[name])
        await until_hung_up(reader)
        writer.close()
        await served(page)

    in_loop(test)
    assert page.samples == []


def test_what_was_sent_once_is_not_taken_again(page: Page) -> None:
    """A recorded conversation that is played again gets nobody in, and moves nothing."""
    said: list[str] = []

    async def test() -> None:
        async with browser() as session:
            async with connect(session, page) as operator:
                await operator.pair(page.codes[-1])
                said.append(json.dumps({"type": "pair", "code": page.codes[-1]}))
                for sequence in (1, 2, 3):
                    await operator.say(**{**REST, "sequence": sequence})
                    said.append(json.dumps({**REST, "sequence": sequence}))
                while len(page.samples) < 3:
                    await asyncio.sleep(0.01)
                for sequence in (1, 2, 3):  # on the same socket
                    await operator.say(**{**REST, "sequence": sequence})
                    assert (await operator.hear("refused"))["reason"]
            async with connect(session, page) as thief:
                for text in said:
                    await thief.raw.send_str(text)
                await thief.hear("refused")

    in_loop(test)
    assert [sample.sequence for sample in page.samples] == [1, 2, 3]
