"""How old a command is, while the clock that stamps it is set."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from piper_collect.core.host_clock import HostStep
from piper_collect.core.sent_age import AHEAD, TOO_OLD, SentAge, age_refusal, sent_age_ns

MS = 1_000_000
S = 1_000 * MS
START = 1_700_000_000 * S


class Machine:
    """A clock that a test sets, and a node that looks at it every 5 ms."""

    def __init__(self) -> None:
        self.steady_ns, self.ahead_ns = 77 * S, START
        self.ages = SentAge(self.wall, lambda: self.steady_ns)

    def wall(self) -> int:
        return self.steady_ns + self.ahead_ns

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds * 200)):
            self.steady_ns += 5 * MS
            self.ages.look()

    def age_ns(self, stamp_ns: int) -> int:
        return self.ages.age_ns(stamp_ns, self.wall())


STEPS = pytest.mark.parametrize("step_ns", [10 * S, -10 * S, 600 * MS, -600 * MS, 3600 * S, -3600 * S])


@STEPS
@pytest.mark.parametrize("under_way_ns", [2 * MS, 3 * S])
def test_a_step_of_the_clock_makes_nothing_older_or_younger_that_is_under_way(step_ns, under_way_ns):
    machine = Machine()
    machine.run(1.0)
    stamp_ns = machine.wall()
    machine.run(under_way_ns / 2e9)
    machine.ahead_ns += step_ns
    machine.steady_ns += 1 * MS
    machine.run(under_way_ns / 2e9)
    elapsed_ns = machine.wall() - step_ns - stamp_ns
    if -step_ns < elapsed_ns and step_ns < 0:  # the new clock may have shown it as well: the younger is taken
        assert machine.age_ns(stamp_ns) in (elapsed_ns, elapsed_ns + step_ns)
    else:
        assert machine.age_ns(stamp_ns) == elapsed_ns


@STEPS
def test_what_is_sent_after_a_step_is_as_old_as_it_is(step_ns, tally):
    tally("steps of the clock survived")
    machine = Machine()
    machine.run(1.0)
    machine.ahead_ns += step_ns
    for _ in range(50):
        machine.run(0.1)
        stamp_ns = machine.wall()
        machine.steady_ns += 3 * MS
        assert machine.age_ns(stamp_ns) == 3 * MS


@STEPS
def test_an_old_command_stays_old_over_a_step(step_ns):
    machine = Machine()
    machine.run(1.0)
    stamp_ns = machine.wall() - 20 * S
    machine.ahead_ns += step_ns
    machine.run(0.1)
    assert age_refusal(machine.age_ns(stamp_ns), 0.5) == TOO_OLD


def test_several_steps():
    machine = Machine()
    stamps = []
    for step_ns in (7 * S, -2 * S, 40 * S, -90 * S, 3 * S):
        machine.run(0.5)
        stamps.append((machine.steady_ns, machine.wall()))
        machine.ahead_ns += step_ns
        machine.run(0.1)
    for steady_ns, stamp_ns in stamps[-2:]:
        assert machine.age_ns(stamp_ns) == machine.steady_ns - steady_ns
    assert len(machine.ages._host.steps) == 4


def test_a_stamp_from_the_future_is_never_taken_for_new():
    machine = Machine()
    machine.run(1.0)
    assert machine.age_ns(machine.wall() + 2 * S) == -2 * S
    machine.ahead_ns -= 10 * S
    machine.run(1.0)
    assert age_refusal(machine.age_ns(machine.wall() + 100 * S), 0.5) == AHEAD
    assert age_refusal(-20 * MS, 0.5) == age_refusal(500 * MS, 0.5) == ""
    assert machine.age_ns(0) == 0


@given(st.integers(-(10**18), 10**18), st.lists(st.integers(-(10**15), 10**15), max_size=4))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_without_a_fitting_step_it_is_the_plain_difference_or_one_of_the_steps_apart(stamp_ns, sizes):
    steps, now_ns = [], 0
    for size in sizes:
        steps.append(HostStep(old_until_ns=now_ns, new_from_ns=now_ns + size, step_ns=size))
        now_ns += size + S
    sums = [sum(sizes[k:]) for k in range(len(sizes) + 1)]
    assert now_ns - stamp_ns - sent_age_ns(stamp_ns, now_ns, steps) in sums


@STEPS
def test_on_the_clock_that_nobody_sets_stamps_keep_their_distance_over_a_step(step_ns):
    machine = Machine()
    machine.run(1.0)
    moments, seen = [], []
    for number in range(400):  # a sample every 5 ms, each 2 ms under way
        if number == 200:
            machine.ahead_ns += step_ns
        moments.append(machine.steady_ns)
        stamp_ns = machine.wall()
        machine.steady_ns += 2 * MS
        if number == 100:
            machine.ahead_ns -= step_ns  # while it is under way
        seen.append(machine.ages.steady_ns(stamp_ns))
        machine.steady_ns += 3 * MS
    assert seen == moments
    assert machine.ages.steady_ns(0) == 0


def test_a_step_of_long_ago_says_nothing_of_a_stamp_a_little_ahead():
    """As of another machine, whose clock is a moment ahead."""
    machine = Machine()
    machine.run(1.0)
    machine.ahead_ns -= 3600 * S
    machine.run(11.0)
    assert machine.age_ns(machine.wall() + 1 * MS) == -1 * MS
