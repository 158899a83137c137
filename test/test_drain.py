"""An episode ends when all that belongs to it has been taken, however much had piled up."""

from hypothesis import given
from hypothesis import strategies as st

from piper_collect.core.drain import Drain
from piper_collect.core.topics import TopicMonitor

END_NS = 1_000_000_000
PATIENCE_NS = 300_000_000


def _drain() -> Drain:
    return Drain(end_ns=END_NS, patience_ns=PATIENCE_NS)


def _monitor(newest_stamp_ns: int, *, required: bool = True) -> TopicMonitor:
    return TopicMonitor(name="/arm", required=required, newest_stamp_ns=newest_stamp_ns)


def test_the_first_look_never_ends_it():
    assert not _drain().is_over(END_NS + PATIENCE_NS, [_monitor(END_NS + 1)])


def test_it_is_over_when_every_required_topic_has_gone_on():
    drain = _drain()
    drain.is_over(END_NS, [])
    assert not drain.is_over(END_NS + 1, [_monitor(END_NS + 1), _monitor(END_NS)])
    assert drain.is_over(END_NS + 2, [_monitor(END_NS + 1), _monitor(END_NS, required=False)])


def test_messages_on_their_way_are_waited_for_no_longer_than_the_patience():
    drain = _drain()
    drain.is_over(END_NS, [])
    assert not drain.is_over(END_NS + PATIENCE_NS - 1, [_monitor(END_NS)])
    assert drain.is_over(END_NS + PATIENCE_NS, [_monitor(END_NS)])


def test_those_that_come_one_after_the_other_are_waited_for_longer_but_not_for_ever():
    drain = _drain()
    step_ns = PATIENCE_NS - 1
    late = [k * step_ns for k in range(1, 12)]
    over = [drain.is_over(END_NS + late_ns, [_monitor(END_NS - 100 + k)]) for k, late_ns in enumerate(late)]
    assert over == [False] * 10 + [True]


def test_one_that_came_late_is_not_waited_for_twice_as_long():
    drain = _drain()
    drain.is_over(END_NS, [_monitor(END_NS - 2)])
    assert not drain.is_over(END_NS + 10, [_monitor(END_NS - 1)])
    assert not drain.is_over(END_NS + PATIENCE_NS + 9, [_monitor(END_NS - 1)])
    assert drain.is_over(END_NS + PATIENCE_NS + 10, [_monitor(END_NS - 1)])


@given(st.lists(st.integers(1, 20), min_size=1, max_size=20))
def test_all_that_had_piled_up_is_taken_however_long_it_takes(taken_between_looks):
    """Also of a topic that no episode needs, and long after the patience."""
    drain = _drain()
    monitors = [_monitor(END_NS + 1), _monitor(0, required=False)]
    now_ns = END_NS
    for number in taken_between_looks:
        for k in range(number):
            drain.receive(END_NS - k)
        now_ns += PATIENCE_NS
        assert not drain.is_over(now_ns, monitors)
    drain.receive(END_NS + 1)
    assert drain.is_over(now_ns + 1, monitors)


def test_a_clock_that_was_set_back_does_not_keep_it_for_ever():
    drain = _drain()
    drain.is_over(END_NS, [])
    drain.receive(END_NS - 3_600_000_000_000)
    assert drain.is_over(END_NS - 3_600_000_000_000, [_monitor(END_NS)])


def test_a_clock_that_was_set_ahead_does_not_take_the_patience():
    drain = _drain()
    drain.is_over(END_NS, [])
    ahead_ns = END_NS + 3_600_000_000_000
    assert not drain.is_over(ahead_ns, [_monitor(END_NS)], waited_ns=PATIENCE_NS - 1)
    assert drain.is_over(ahead_ns, [_monitor(END_NS)], waited_ns=PATIENCE_NS)
