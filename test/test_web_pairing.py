"""Who may drive: codes that serve once and not for long, few wrong tries, passes that bring one page back."""

import hmac
import re
from itertools import pairwise

import pytest

from piper_collect.web.limits import Allowance
from piper_collect.web.pairing import (
    EXPIRED_CODE,
    FIRST_PAUSE_S,
    LONGEST_PAUSE_S,
    SHOW_EVERY_S,
    WRONG_CODE,
    WRONG_TRIES,
    Pairing,
    PairingRefused,
)


class Door:
    """A pairing with a clock that the test moves."""

    def __init__(self, lifetime_s: float = 600.0) -> None:
        self.now_s = 1000.0
        self.codes: list[str] = []
        self.pairing = Pairing(show=self.codes.append, lifetime_s=lifetime_s, clock=lambda: self.now_s)
        self.pairing.renew()

    @property
    def code(self) -> str:
        return self.codes[-1]

    @property
    def wrong(self) -> str:
        return f"{(int(self.code) + 1) % 10**6:06d}"

    def refused(self, code: str) -> str:
        with pytest.raises(PairingRefused) as caught:
            self.pairing.redeem(code)
        return str(caught.value)


def test_a_code_serves_once_and_gives_a_pass() -> None:
    door = Door()
    assert re.fullmatch(r"\d{6}", door.code)
    token = door.pairing.redeem(door.code)
    assert len(token) >= 40
    assert door.pairing.knows(token)
    assert not door.pairing.knows(token[:-1])
    assert not door.pairing.knows("")
    assert door.refused(door.code) == EXPIRED_CODE
    assert token not in repr(door.pairing)


def test_codes_and_passes_differ() -> None:
    doors = [Door() for _ in range(50)]
    assert len({door.code for door in doors}) > 40
    assert len({door.pairing.redeem(door.code) for door in doors}) == 50


def test_nobody_is_known_before_a_code_was_redeemed_and_after_the_pass_was_given_up() -> None:
    door = Door()
    assert not door.pairing.knows("")
    token = door.pairing.redeem(door.code)
    door.pairing.forget()
    assert not door.pairing.knows(token)


def test_a_new_operator_makes_the_pass_of_the_one_before_void() -> None:
    door = Door()
    first = door.pairing.redeem(door.code)
    door.now_s += SHOW_EVERY_S
    door.pairing.renew()
    second = door.pairing.redeem(door.code)
    assert (door.pairing.knows(first), door.pairing.knows(second)) == (False, True)


def test_a_code_expires() -> None:
    door = Door(lifetime_s=60.0)
    door.now_s += 60.0
    assert door.refused(door.code) == EXPIRED_CODE
    door.pairing.renew()
    assert door.pairing.redeem(door.code)


def test_few_wrong_codes_end_the_code_and_each_round_must_wait_longer() -> None:
    door = Door()
    pauses = []
    for _ in range(8):
        for _ in range(WRONG_TRIES):
            assert door.refused(door.wrong) == WRONG_CODE
        began_s = door.now_s
        assert "too many wrong codes" in door.refused(door.code)  # the right one does not help now
        with pytest.raises(PairingRefused, match="too many"):
            door.pairing.renew()
        while True:
            door.now_s += 1.0
            try:
                door.pairing.renew()
            except PairingRefused:
                continue
            break
        pauses.append(door.now_s - began_s)
    assert pauses[0] == FIRST_PAUSE_S
    assert all(b == min(2 * a, LONGEST_PAUSE_S) for a, b in pairwise(pauses))
    assert pauses[-1] == LONGEST_PAUSE_S
    assert door.pairing.redeem(door.code)


def test_the_terminal_is_not_flooded_with_codes() -> None:
    door = Door()
    for _ in range(20):
        with pytest.raises(PairingRefused, match="just shown"):
            door.pairing.renew()
    door.now_s += SHOW_EVERY_S
    door.pairing.renew()
    assert len(door.codes) == 2


def test_codes_and_passes_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []
    real = hmac.compare_digest

    def note(a: bytes, b: bytes) -> bool:
        compared.append((a, b))
        return real(a, b)

    monkeypatch.setattr(hmac, "compare_digest", note)
    door = Door()
    assert door.refused(door.wrong) == WRONG_CODE
    token = door.pairing.redeem(door.code)
    assert not door.pairing.knows("guess")
    assert compared == [
        (door.code.encode(), door.wrong.encode()),
        (door.code.encode(), door.code.encode()),
        (token.encode(), b"guess"),
    ]


def test_an_allowance_gives_a_burst_and_then_its_rate() -> None:
    now_s = 5.0
    allowance = Allowance(rate_hz=10.0, burst=3, clock=lambda: now_s)
    assert [allowance.take() for _ in range(5)] == [True, True, True, False, False]
    now_s += 0.25
    assert [allowance.take() for _ in range(4)] == [True, True, False, False]
    now_s += 1000.0
    assert [allowance.take() for _ in range(4)] == [True, True, True, False]
