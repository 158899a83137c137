"""A clock that was set: noticed by what nobody sets, and taken back where a time is sure."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from piper_collect.core.host_clock import HostClock, HostStep, follows_host, steady, told_steps

MS = 1_000_000
S = 1_000 * MS
START = 1_700_000_000_000_000_000


class Clocks:
    """A wall clock that a test sets, beside one that only runs."""

    def __init__(self):
        self.steady_ns, self.ahead_ns, self.pauses = 77 * S, START - 77 * S, []

    def wall(self):
        if self.pauses:
            self.steady_ns += self.pauses.pop()
        return self.steady_ns + self.ahead_ns

    def steady(self):
        return self.steady_ns

    def host(self):
        return HostClock(self.wall, self.steady)


def test_a_clock_that_only_runs_or_is_slewed_has_no_steps():
    clocks = Clocks()
    host = clocks.host()
    for elapsed_ns in (200 * MS, 5 * MS, 3 * S, 0):
        clocks.steady_ns += elapsed_ns
        clocks.ahead_ns += elapsed_ns // 2000  # 500 ppm
        assert host.look() is None


@pytest.mark.parametrize("step_ns", [2 * S, -2 * S, 40 * MS, -6 * MS])
def test_a_step_is_told_once_with_its_size_and_where_it_lies(step_ns):
    clocks = Clocks()
    host = clocks.host()
    clocks.steady_ns += 120 * MS
    clocks.ahead_ns += step_ns
    clocks.steady_ns += 80 * MS
    step = host.look()
    assert step == HostStep(old_until_ns=START + 200 * MS, new_from_ns=START + step_ns, step_ns=step_ns)
    assert step.to_json()["step_ns"] == step_ns
    assert host.steps == [step]
    assert host.look() is None
    host.begin()
    assert host.steps == []
    assert told_steps([step]).startswith(f"this machine's clock was set ({step_ns / 1e9:+.3f} s)")


def test_a_process_that_stands_still_between_two_readings_saw_no_step():
    clocks = Clocks()
    host = clocks.host()
    clocks.pauses = [2 * S, 900 * MS]
    assert host.look() is None
    clocks.pauses = [2 * S] * 5  # at every reading
    assert host.look() is None
    assert host.look() is None


steps_of_a_clock = st.lists(
    st.tuples(st.integers(1, 400), st.integers(-3000, 3000).filter(lambda ms: abs(ms) > 10)), max_size=3
)


def shown(steps):
    """Four seconds at 5 ms, what the clock showed, and what was noticed by looking every 5 ms."""
    clocks, host, noticed = Clocks(), None, []
    true_ns, wall_ns, due = [], [], dict(steps)
    host = clocks.host()
    first_ns = START - 77 * S
    for tick in range(800):
        clocks.ahead_ns += due.get(tick, 0) * MS
        step = host.look()
        noticed += [step] if step is not None else []
        true_ns.append(clocks.steady_ns + first_ns)
        wall_ns.append(clocks.wall())
        clocks.steady_ns += 5 * MS
    return np.array(true_ns, np.int64), np.array(wall_ns, np.int64), noticed


@given(steps_of_a_clock)
def test_every_time_that_is_sure_is_the_one_the_clock_would_have_shown(steps):
    true_ns, wall_ns, noticed = shown(steps)
    assert len(noticed) == len(dict(steps))
    back_ns, sure = steady(wall_ns, noticed)
    assert (back_ns[sure] == true_ns[sure]).all()
    unsure_ns = sum(abs(s.step_ns) + 10 * MS for s in noticed) * 3
    assert np.count_nonzero(~sure) * 5 * MS <= unsure_ns


def test_without_steps_every_time_is_as_it_was():
    true_ns, _, noticed = shown([])
    back_ns, sure = steady(true_ns, noticed)
    assert (back_ns == true_ns).all()
    assert sure.all()


@pytest.mark.parametrize("step_ms", [700, -700])
def test_stamps_of_this_machine_and_of_another_are_told_apart(step_ms):
    true_ns, wall_ns, noticed = shown([(300, step_ms)])
    order = np.argsort(wall_ns, kind="stable")  # as a bag is read
    assert follows_host(wall_ns[order] + MS, wall_ns[order], noticed)
    assert not follows_host(wall_ns[order] + MS, true_ns[order] - 3 * S, noticed)
