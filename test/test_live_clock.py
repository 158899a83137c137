"""Stamps as they arrive: clocks that are wrong are told, messages that were only held up are not."""

import pytest

from piper_collect.core.live_clock import LiveClock

MS = 1_000_000
S = 1_000 * MS
START = 1_700_000_000 * S


def fed(late_ms, *, policy="flag", count=60, begin=True):
    clock = LiveClock(policy=policy)
    if begin:
        clock.begin_episode()
    for k in range(count):
        received = START + k * 50 * MS
        late = late_ms(k) if callable(late_ms) else late_ms
        clock.add(received, received - round(late * MS))
    return clock


@pytest.mark.parametrize("late_ms", [0.3, 120.0, -1.0, 400.0])
def test_transport_and_clocks_kept_in_step_are_nothing(late_ms):
    assert fed(late_ms).reason == ""


@pytest.mark.parametrize(
    ("late_ms", "words"),
    [(-312.0, "stamped 312 ms after its receipt"), (-3.15e10, "after its receipt"), (900.0, "900 ms before")],
)
def test_a_wrong_clock_is_told_with_its_size(late_ms, words):
    assert words in fed(late_ms).reason
    assert fed(late_ms).refusal == ""
    assert fed(late_ms).flaws == []
    assert words in fed(late_ms, policy="refuse").refusal


def test_messages_that_were_held_up_are_no_clock():
    held = fed(lambda k: max(0.5, 2000.0 - 50 * (k - 20)) if k >= 20 else 0.5, count=80)
    assert held.reason == ""


def test_stamps_that_are_not_set_are_told_until_one_is():
    clock = fed(1.0, policy="refuse")
    clock.add(START, 0)
    assert clock.refusal == "not stamped (header.stamp is zero)"
    clock.add(START + 4 * S, START + 4 * S)
    assert clock.refusal == ""
    assert clock.flaws == ["not stamped (header.stamp is zero)"]


def test_too_few_messages_tell_nothing():
    assert fed(-900.0, count=9).reason == ""
    assert fed(-900.0, count=10).reason != ""


def test_what_is_over_is_told_no_more_but_spoiled_the_episode_that_it_was_in():
    clock = fed(lambda k: -50.0 if k == 3 else 1.0, policy="refuse", count=100)
    assert clock.reason == ""
    assert clock.flaws == ["stamped 50 ms after its receipt: its clock runs ahead"]
    clock.begin_episode()
    assert clock.flaws == []


def test_what_was_wrong_before_the_episode_is_none_of_its_flaws():
    assert fed(-50.0, policy="refuse", begin=False).flaws == []
