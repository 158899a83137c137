"""One open socket of a page, and what goes out on it: the newest state, never a queue of old ones."""

import asyncio
import json
from collections import deque
from contextlib import suppress

from aiohttp import web

from piper_collect.core.haptics import Pulse
from piper_collect.web.limits import Allowance

INPUT_HZ = 250.0
"""More messages a second than any headset has frames; a stall of the network may deliver some at once."""

STRIKES = 20
STRIKE_HZ = 1.0
_REPLIES = 16
_PULSES = 12


class Client:
    """What the server knows of one socket.

    Args:
        socket: Open.
        address: Of the machine at the other end.
    """

    def __init__(self, socket: web.WebSocketResponse, address: str) -> None:
        self.address = address
        self.sequence = -1
        self.taken = 0
        self.messages = Allowance(rate_hz=INPUT_HZ, burst=INPUT_HZ)
        self.strikes = Allowance(rate_hz=STRIKE_HZ, burst=STRIKES)
        self._socket = socket
        self._replies: deque[str] = deque(maxlen=_REPLIES)
        self._pulses: deque[Pulse] = deque(maxlen=_PULSES)
        self._state = ""
        self._acknowledged: int | None = None
        self._wake = asyncio.Event()

    def tell(self, kind: str, **content: object) -> None:
        """Send a message that must arrive."""
        self.tell_text(_text(kind, **content))

    def tell_text(self, text: str) -> None:
        """Send a message that must arrive, as it is."""
        self._replies.append(text)
        self._wake.set()

    def show(self, state: str) -> None:
        """Send a state; one that was not sent yet is replaced."""
        self._state = state
        self._wake.set()

    def feel(self, pulse: Pulse) -> None:
        """Send a haptic pulse; the oldest is dropped where too many wait."""
        self._pulses.append(pulse)
        self._wake.set()

    def acknowledge(self, sequence: int) -> None:
        """Tell the page that its input arrived up to ``sequence``."""
        self._acknowledged = sequence
        self._wake.set()

    async def write(self) -> None:
        """Send what there is to send, until cancelled or the socket closes."""
        with suppress(ConnectionError):
            while not self._socket.closed:
                await self._wake.wait()
                self._wake.clear()
                await self._flush()

    async def close(self, code: int, reason: str) -> None:
        """Send what must arrive, then close the socket, saying why."""
        with suppress(ConnectionError):
            await self._flush()
            await self._socket.close(code=code, message=reason.encode()[:120])

    async def _flush(self) -> None:
        while self._replies:
            await self._socket.send_str(self._replies.popleft())
        while self._pulses:
            pulse = self._pulses.popleft()
            await self._socket.send_str(
                _text("pulse", hand=pulse.hand, intensity=pulse.intensity, duration_s=pulse.duration_s)
            )
        if self._acknowledged is not None:
            sequence, self._acknowledged = self._acknowledged, None
            await self._socket.send_str(_text("ack", sequence=sequence))
        if self._state:
            state, self._state = self._state, ""
            await self._socket.send_str(state)


def _text(kind: str, **content: object) -> str:
    return json.dumps({"type": kind, **content}, separators=(",", ":"))
