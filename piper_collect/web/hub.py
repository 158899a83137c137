"""Everybody who has the page open, and the one of them who drives."""

import asyncio
from collections.abc import Callable

from aiohttp import WSCloseCode

from piper_collect.core.haptics import Pulse
from piper_collect.core.quest import QuestSample
from piper_collect.core.session_status import SessionView
from piper_collect.errors import LinkError
from piper_collect.web.client import Client
from piper_collect.web.messages import (
    ClientMessage,
    CodeMessage,
    InputMessage,
    LeaveMessage,
    PairMessage,
    ResumeMessage,
    parse_message,
)
from piper_collect.web.pairing import Pairing, PairingRefused
from piper_collect.web.state_text import session_content, state_text

MOST_CLIENTS = 16
ACKNOWLEDGE_EVERY = 4

TAKEN = "another operator is driving"
NOT_PAIRED = "not paired: only the paired operator's input is taken"
ELSEWHERE = "the same operator went on in another tab"
UNKNOWN_PASS = "the pairing is no longer valid: enter the code that the terminal shows"


class Refused(Exception):
    """The socket must be closed; holds the code and the reason to close it with."""

    def __init__(self, code: int, reason: str) -> None:
        self.code = code
        self.reason = reason
        super().__init__(reason)


class Hub:
    """Lives in the server's event loop; nothing here is called from another thread.

    Args:
        pairing: Who may drive.
        take_input: Called with each sample of the driver, stamped.
        clock_ns: The clock of ``start_ns`` of what is shown, in ns.
        tell: Takes a line about who comes and goes.
        about: What a page needs to know at once (cameras, hand …), as JSON can hold it.
    """

    def __init__(
        self,
        pairing: Pairing,
        *,
        take_input: Callable[[QuestSample], None],
        clock_ns: Callable[[], int],
        tell: Callable[[str], None],
        about: dict[str, object],
    ) -> None:
        self.driver: Client | None = None
        self._pairing = pairing
        self._take_input = take_input
        self._clock_ns = clock_ns
        self._tell = tell
        self._about = about
        self._clients: set[Client] = set()
        self._view = SessionView(state="not_ready", text="waiting for the session")

    def join(self, client: Client) -> None:
        """A page opened its socket.

        Raises:
            Refused: Too many are open.
        """
        if len(self._clients) >= MOST_CLIENTS:
            raise Refused(WSCloseCode.TRY_AGAIN_LATER, "too many pages are open")
        self._clients.add(client)
        client.tell("hello", **self._about)
        client.show(self._state())

    def leave(self, client: Client) -> None:
        """Its socket closed; the pass stays good, so that the same page may come back."""
        self._clients.discard(client)
        if self.driver is client:
            self._set_driver(None)
            self._tell(f"the operator's connection from {client.address} closed")

    async def take(self, client: Client, text: str, arrival_ns: int) -> None:
        """Act on one message.

        Raises:
            Refused: The client may not go on.
        """
        if not client.messages.take():
            raise Refused(WSCloseCode.POLICY_VIOLATION, "too many messages")
        try:
            message = parse_message(text)
            if isinstance(message, InputMessage):
                self._input(client, message, arrival_ns)
            else:
                await self._other(client, message)
        except (LinkError, PairingRefused) as err:
            client.tell("refused", reason=str(err))
            if not client.strikes.take():
                raise Refused(WSCloseCode.POLICY_VIOLATION, "too many messages were refused") from err

    def show(self, view: SessionView) -> None:
        """Take the newest state of the session and show it to everybody."""
        self._view = view
        self._broadcast()

    def feel(self, pulse: Pulse) -> None:
        """Let the driver feel a pulse."""
        if self.driver is not None:
            self.driver.feel(pulse)

    async def close(self) -> None:
        """The server ends: say so to everybody."""
        partings = [client.close(WSCloseCode.GOING_AWAY, "the session ended") for client in self._clients]
        await asyncio.gather(*partings)

    def _input(self, client: Client, message: InputMessage, arrival_ns: int) -> None:
        if client is not self.driver:
            client.tell("refused", reason=NOT_PAIRED)
            raise Refused(WSCloseCode.POLICY_VIOLATION, NOT_PAIRED)
        sequence = message.sample.sequence
        if sequence <= client.sequence:
            raise LinkError(
                "input out of order", where="sequence", expected=f"above {client.sequence}", got=sequence
            )
        client.sequence = sequence
        client.taken += 1
        self._take_input(message.stamped(arrival_ns))
        if client.taken % ACKNOWLEDGE_EVERY == 0:
            client.acknowledge(sequence)

    async def _other(self, client: Client, message: ClientMessage) -> None:
        if isinstance(message, PairMessage):
            self._refuse_if_taken(client)
            client.tell("paired", token=self._pairing.redeem(message.code))
            self._set_driver(client)
            self._tell(f"paired with the operator at {client.address}")
        elif isinstance(message, ResumeMessage):
            await self._resume(client, message.token)
        elif isinstance(message, CodeMessage):
            self._refuse_if_taken(client)
            self._pairing.renew()
        elif isinstance(message, LeaveMessage):
            if client is self.driver:
                self._pairing.forget()
                self._set_driver(None)
                client.tell("unpaired", reason="")
                self._tell("the operator gave up the pairing")
        else:
            raise LinkError("this message does not belong here", where="type")

    async def _resume(self, client: Client, token: str) -> None:
        if not self._pairing.knows(token):
            client.tell("unpaired", reason=UNKNOWN_PASS)
            raise PairingRefused(UNKNOWN_PASS)
        before = self.driver
        if before is client:
            return
        client.tell("paired", token=token)
        self._set_driver(client)
        self._tell(f"the operator is back, from {client.address}")
        if before is not None:
            before.tell("unpaired", reason=ELSEWHERE)
            await before.close(WSCloseCode.POLICY_VIOLATION, ELSEWHERE)

    def _refuse_if_taken(self, client: Client) -> None:
        if self.driver is not None and self.driver is not client:
            raise PairingRefused(TAKEN)

    def _set_driver(self, client: Client | None) -> None:
        self.driver = client
        self._broadcast()

    def _broadcast(self) -> None:
        state = self._state()
        for client in self._clients:
            client.show(state)

    def _state(self) -> str:
        content = session_content(self._view, self._clock_ns())
        return state_text("state", {**content, "driver": self.driver is not None})
