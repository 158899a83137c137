"""Who may drive: a code that the terminal shows once, and the pass that the page gets for it.

The code is short because a person types it in a headset, so it lives for minutes, serves once, and allows
few wrong tries. The pass is long: with it the same page comes back after a lost connection.
"""

import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

CODE_DIGITS = 6
WRONG_TRIES = 5
FIRST_PAUSE_S = 30.0
LONGEST_PAUSE_S = 600.0
SHOW_EVERY_S = 10.0

WRONG_CODE = "this is not the code that the terminal shows"
EXPIRED_CODE = "this code is no longer valid: ask for a new one"


class PairingRefused(Exception):
    """The one who asked may not drive; the text says why."""


@dataclass(slots=True, kw_only=True)
class Pairing:
    """The code of the moment and the pass of the operator.

    Attributes:
        show: Called with every new code; it must reach the person, and no log.
        lifetime_s: How long a code serves.
        clock: Seconds that only go forward.
    """

    show: Callable[[str], None]
    lifetime_s: float = 600.0
    clock: Callable[[], float] = time.monotonic
    _code: str | None = None
    _expires_s: float = 0.0
    _shown_s: float = -SHOW_EVERY_S
    _wrong: int = 0
    _pause_s: float = FIRST_PAUSE_S
    _paused_until_s: float = 0.0
    _pass: str | None = field(default=None, repr=False)

    def renew(self) -> None:
        """Make and show a new code in place of the one before.

        Raises:
            PairingRefused: One was shown a moment ago, or too many wrong codes were tried.
        """
        self._check_pause()
        if self.clock() - self._shown_s < SHOW_EVERY_S:
            raise PairingRefused("the terminal has just shown a code")
        self._renew()

    def redeem(self, code: str) -> str:
        """The pass for a code, which then serves no more; passes given before are void.

        Raises:
            PairingRefused: It is not the code, there is none, or too many wrong ones were tried.
        """
        self._check_pause()
        if self._code is None or self.clock() >= self._expires_s:
            self._code = None
            raise PairingRefused(EXPIRED_CODE)
        if not _equal(self._code, code):
            self._note_wrong()
            raise PairingRefused(WRONG_CODE)
        self._code, self._wrong, self._pause_s = None, 0, FIRST_PAUSE_S
        self._pass = secrets.token_urlsafe(32)
        return self._pass

    def knows(self, given: str) -> bool:
        """Whether ``given`` is the pass of the operator."""
        return self._pass is not None and _equal(self._pass, given)

    def forget(self) -> None:
        """Make the pass void: the operator has left for good."""
        self._pass = None

    def _renew(self) -> None:
        self._code = f"{secrets.randbelow(10**CODE_DIGITS):0{CODE_DIGITS}d}"
        self._wrong = 0
        self._shown_s = self.clock()
        self._expires_s = self._shown_s + self.lifetime_s
        self.show(self._code)

    def _note_wrong(self) -> None:
        self._wrong += 1
        if self._wrong >= WRONG_TRIES:
            self._code = None
            self._paused_until_s = self.clock() + self._pause_s
            self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)

    def _check_pause(self) -> None:
        left_s = self._paused_until_s - self.clock()
        if left_s > 0:
            raise PairingRefused(f"too many wrong codes: wait {left_s:.0f} s, then ask for a new one")


def _equal(secret: str, given: str) -> bool:
    """Comparison whose time does not tell how much is right."""
    return hmac.compare_digest(secret.encode(), given.encode())
