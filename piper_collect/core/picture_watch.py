"""What a recorder notices of a camera's pictures as they arrive: frozen, black, of another size."""

from dataclasses import dataclass, field
from functools import partial

import numpy as np

from piper_collect.core.luma import BLACK_LUMA, flat
from piper_collect.core.picture_checks import LEAST_PICTURES

FROZEN_NS = 1_000_000_000
"""A picture that comes again for so long, equal in every byte, is no live one: a sensor has noise."""

DARK_NS = 1_000_000_000
"""Black for so long is no blink of the exposure."""

_LEAST_EQUAL = LEAST_PICTURES - 1

LOOK_NS = 500_000_000
"""How often the brightness is looked at: decoding each picture would cost too much."""


@dataclass(slots=True, kw_only=True)
class _Spell:
    """How long something has been so, and the longest time of the episode."""

    least_ns: int
    least_count: int
    since_ns: int = 0
    now_ns: int = 0
    longest_ns: int = 0
    count: int = 0

    def note(self, at_ns: int, holds: bool, *, since_ns: int) -> None:
        if not holds:
            self.since_ns = self.count = 0
            return
        self.count += 1
        self.since_ns = self.since_ns or since_ns
        self.now_ns = at_ns
        if self.lasting_ns:
            self.longest_ns = max(self.longest_ns, self.lasting_ns)

    @property
    def lasting_ns(self) -> int:
        """For how long it is so now; 0 when it is not, or not long enough to be told."""
        lasting_ns = self.now_ns - self.since_ns if self.count else 0
        return lasting_ns if lasting_ns >= self.least_ns and self.count >= self.least_count else 0

    def begin(self, start_ns: int) -> None:
        self.longest_ns = 0
        self.since_ns = max(self.since_ns, start_ns) if self.count else 0


@dataclass(slots=True, kw_only=True)
class PictureWatch:
    """Watches the pictures of one camera. Times are those of receipt, in ns, by a clock that nobody sets."""

    _frozen: _Spell = field(default_factory=partial(_Spell, least_ns=FROZEN_NS, least_count=_LEAST_EQUAL))
    _dark: _Spell = field(default_factory=partial(_Spell, least_ns=DARK_NS, least_count=2))
    _form: str = ""
    _changes: dict[str, None] = field(default_factory=dict)
    _newest_ns: int = 0
    _looked_ns: int = 0

    def begin_episode(self, start_ns: int) -> None:
        """Start an episode at ``start_ns``: what was before does not count."""
        self._frozen.begin(start_ns)
        self._dark.begin(start_ns)
        self._form = ""
        self._changes.clear()

    def take(self, receive_ns: int, *, form: str, same: bool) -> None:
        """Take note of a picture.

        Args:
            receive_ns: When it arrived.
            form: Its size and encoding in words.
            same: Whether it is equal to the one before in every byte.
        """
        self._frozen.note(receive_ns, same, since_ns=self._newest_ns)
        if self._form and form != self._form:
            self._changes[f"its pictures changed from {self._form} to {form}"] = None
        self._form, self._newest_ns = form, receive_ns

    def look_due(self, receive_ns: int) -> bool:
        """Whether the brightness of the picture that arrived then is to be looked at."""
        return receive_ns - self._looked_ns >= LOOK_NS

    def look(self, receive_ns: int, *, luma: float, contrast: float) -> None:
        """Take note of a picture's brightness.

        Args:
            receive_ns: When it arrived.
            luma: Mean, 0 to 255.
            contrast: Standard deviation of the luma.
        """
        black = luma < BLACK_LUMA and bool(flat(np.array([contrast]))[0])
        self._looked_ns = receive_ns
        self._dark.note(receive_ns, black, since_ns=receive_ns)

    @property
    def reason(self) -> str:
        """Why the newest pictures are not as they should be; empty when they are."""
        for spell, what in ((self._dark, _BLACK), (self._frozen, _FROZEN)):
            if spell.lasting_ns:
                return f"{what} for {spell.lasting_ns / 1e9:.1f} s"
        return ""

    @property
    def flaws(self) -> list[str]:
        """What was wrong with the pictures of the running episode so far."""
        found = [
            f"{what} for {spell.longest_ns / 1e9:.1f} s"
            for spell, what in ((self._dark, _BLACK), (self._frozen, _FROZEN))
            if spell.longest_ns
        ]
        return [*found, *self._changes]


_BLACK = "its pictures are black"
_FROZEN = "its picture is frozen"
