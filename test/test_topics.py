"""The recorder's view of a topic: rates, ages, losses, and when an episode may start."""

from collections.abc import Callable

import pytest

from piper_collect.core.live_clock import LiveClock
from piper_collect.core.topics import TopicMonitor, incomplete_reasons, start_refusal, topic_counts

SECOND = 1_000_000_000
FRESH = SECOND


def fed(count: int, *, period_ns: int = 10_000_000, start_ns: int = 100 * SECOND) -> TopicMonitor:
    monitor = TopicMonitor(name="/arm/joint_states", required=True, publishers=("/arm_sim",))
    for k in range(count):
        now_ns = start_ns + k * period_ns
        monitor.receive(receive_ns=now_ns, stamp_ns=now_ns - 1_000_000, sequence=k + 1)
    return monitor


def test_rate_and_age_come_from_the_last_two_seconds() -> None:
    monitor = fed(401)
    now_ns = monitor.newest_receive_ns
    assert monitor.rate_hz(now_ns) == pytest.approx(100.0, abs=0.6)
    assert monitor.age_s(now_ns) == pytest.approx(0.001)
    assert monitor.rate_hz(now_ns + 3 * SECOND) == 0.0


def test_age_falls_back_to_arrival_when_the_stamp_is_unset() -> None:
    monitor = TopicMonitor(name="/a", required=True)
    assert monitor.age_s(5 * SECOND) == -1.0
    monitor.receive(receive_ns=4 * SECOND, stamp_ns=0, sequence=1)
    assert monitor.age_s(5 * SECOND) == 1.0
    assert monitor.zero_stamps == 1


def test_losses_are_counted_by_the_publishers_sequence() -> None:
    monitor = TopicMonitor(name="/a", required=True)
    monitor.begin_episode(SECOND)
    for sequence in (1, 2, 5, 6, 10):
        monitor.receive(receive_ns=SECOND, stamp_ns=SECOND, sequence=sequence)
    assert monitor.lost == 2 + 3
    assert monitor.restarts == 0


def test_a_restarted_publisher_is_a_restart_and_not_a_loss() -> None:
    monitor = TopicMonitor(name="/a", required=True)
    for sequence in (7, 8, 1, 2):
        monitor.receive(receive_ns=SECOND, stamp_ns=SECOND, sequence=sequence)
    assert (monitor.lost, monitor.restarts) == (0, 1)


def test_a_new_episode_counts_from_zero_and_sees_a_loss_across_its_start() -> None:
    monitor = TopicMonitor(name="/a", required=True)
    monitor.receive(receive_ns=SECOND, stamp_ns=SECOND, sequence=1)
    monitor.receive(receive_ns=SECOND, stamp_ns=SECOND, sequence=9)
    monitor.begin_episode(SECOND)
    assert monitor.lost == 0
    monitor.receive(receive_ns=SECOND, stamp_ns=SECOND, sequence=11)
    assert monitor.lost == 1


def test_start_is_refused_naming_each_bad_topic_and_why() -> None:
    good, silent = fed(10), fed(10)
    silent.name = "/cam_front/image_raw/compressed"
    missing = TopicMonitor(name="/teleop/target", required=True)
    double = fed(10)
    double.name, double.publishers = "/arm/flange_pose", ("/arm_sim", "/rig/arm")
    optional = TopicMonitor(name="/quest/input", required=False)
    now_ns = good.newest_receive_ns
    assert start_refusal([good, optional], now_ns, FRESH) == ""
    text = start_refusal([silent, missing, double, optional], now_ns + 5 * SECOND, FRESH)
    assert "/cam_front/image_raw/compressed: silent for 5.0 s" in text
    assert "/teleop/target: nobody publishes it" in text
    assert "/arm/flange_pose: 2 publishers send on it (/arm_sim, /rig/arm)" in text
    assert "/quest/input" not in text


def reasons(monitor: TopicMonitor, *, end_ns: int, max_lost: int = 0) -> list[str]:
    return incomplete_reasons([monitor], max_lost, end_ns=end_ns, fresh_ns=FRESH)


def test_an_episode_is_incomplete_when_a_required_topic_lost_more_than_allowed() -> None:
    monitor = episode_with(0, 100, 200)
    end_ns = monitor.newest_receive_ns
    monitor.messages, monitor.lost = 3, 2
    assert reasons(monitor, end_ns=end_ns, max_lost=2) == []
    assert reasons(monitor, end_ns=end_ns, max_lost=1) == ["/arm/joint_states: 2 messages lost"]
    monitor.messages = monitor.lost = 0
    assert reasons(monitor, end_ns=end_ns) == ["/arm/joint_states: no message recorded"]
    monitor.required = False
    assert reasons(monitor, end_ns=end_ns) == []


def episode_with(
    *arrivals_ms: int, late_ms: int = 0, required: bool = True, stamped: bool = True
) -> TopicMonitor:
    """A topic in an episode that starts at 10 s, with arrivals in ms since then; two were before."""
    monitor = TopicMonitor(name="/arm/joint_states", required=required, publishers=("/arm_sim",))
    for sequence, at_ms in enumerate((-200, -100, *arrivals_ms), start=1):
        if sequence == 3:
            monitor.begin_episode(10 * SECOND)
        stamp_ns = 10 * SECOND + (at_ms - late_ms) * 1_000_000 if stamped else 0
        monitor.receive(receive_ns=10 * SECOND + at_ms * 1_000_000, stamp_ns=stamp_ns, sequence=sequence)
    monitor.messages = len(arrivals_ms)
    return monitor


@pytest.mark.parametrize("stamped", [True, False])
@pytest.mark.parametrize(
    ("arrivals_ms", "end_ms", "silent"),
    [
        ((0, 500, 1000, 1500), 2000, ""),
        ((0, 1000, 2000), 3000, ""),  # just as long as is allowed
        ((0, 100, 200), 5000, "silent for 4.8 s"),  # until the stop
        ((0, 100, 2600, 2700), 2800, "silent for 2.5 s"),  # in the middle
        ((1500, 1600), 1700, "silent for 1.5 s"),  # from the start: what was before does not count
        ((0, 2000, 2100), 3400, "silent for 2.0 s"),  # the longest
    ],
)
def test_an_episode_is_incomplete_when_a_required_topic_was_silent(
    arrivals_ms: tuple[int, ...], end_ms: int, silent: str, stamped: bool
) -> None:
    end_ns = 10 * SECOND + end_ms * 1_000_000
    wanted = [f"/arm/joint_states: {silent}"] if silent else []
    assert reasons(episode_with(*arrivals_ms, stamped=stamped), end_ns=end_ns) == wanted
    assert reasons(episode_with(*arrivals_ms, required=False), end_ns=end_ns) == []
    # stamps of another clock change nothing
    assert reasons(episode_with(*arrivals_ms, late_ms=7000), end_ns=end_ns) == wanted
    assert reasons(episode_with(*arrivals_ms, late_ms=-7000), end_ns=end_ns) == wanted


def test_messages_that_came_late_all_at_once_are_no_silence_and_the_next_episode_begins_anew() -> None:
    monitor = episode_with(0, 100)
    for sequence, stamp_ms in enumerate((600, 1100, 1600, 2000), start=5):
        stamp_ns = 10 * SECOND + stamp_ms * 1_000_000
        monitor.receive(receive_ns=12_100_000_000, stamp_ns=stamp_ns, sequence=sequence)
    assert reasons(monitor, end_ns=12_200_000_000) == []
    assert reasons(monitor, end_ns=15_100_000_000) == ["/arm/joint_states: silent for 3.0 s"]
    monitor.begin_episode(16 * SECOND)
    monitor.receive(receive_ns=16_100_000_000, stamp_ns=16_000_000_000, sequence=9)
    monitor.messages = 1
    assert reasons(monitor, end_ns=16_200_000_000) == []


# -- publishers -----------------------------------------------------------------------------------


def published(*sequences: int, monitor: TopicMonitor) -> None:
    for sequence in sequences:
        monitor.receive(receive_ns=11 * SECOND, stamp_ns=11 * SECOND, sequence=sequence)


@pytest.fixture
def monitor() -> TopicMonitor:
    """In an episode, with three messages of one publisher, A."""
    monitor = TopicMonitor(name="/a", required=True)
    monitor.see_publishers(["/arm"], frozenset({b"A"}))
    monitor.begin_episode(10 * SECOND)
    published(7, 8, 9, monitor=monitor)
    return monitor


@pytest.mark.parametrize("first", [1, 9, 10, 11, 400])
@pytest.mark.parametrize("told_first", [True, False])
def test_another_publisher_is_one_restart_whatever_its_numbers_say(
    monitor: TopicMonitor, first: int, told_first: bool, tally: Callable[..., None]
) -> None:
    tally("restarts noticed")
    monitor.see_publishers([], frozenset())  # the old one has died
    if told_first or first > 9:
        monitor.see_publishers(["/arm"], frozenset({b"B"}))
        published(first, first + 1, monitor=monitor)
    else:
        published(first, first + 1, monitor=monitor)
        monitor.see_publishers(["/arm"], frozenset({b"B"}))
    monitor.see_publishers(["/arm"], frozenset({b"B"}))
    assert (monitor.restarts, monitor.lost) == (1, 0)
    assert monitor.flaws == ["its publisher restarted 1 times"]
    monitor.messages = 5
    assert reasons(monitor, end_ns=11 * SECOND) == ["/a: its publisher restarted 1 times"]


def test_what_is_lost_after_a_restart_is_counted(monitor: TopicMonitor) -> None:
    monitor.see_publishers(["/arm"], frozenset({b"B"}))
    published(1, 2, 5, monitor=monitor)
    assert (monitor.restarts, monitor.lost) == (1, 2)


def test_a_publisher_that_was_there_before_the_first_message_hides_no_loss() -> None:
    monitor = TopicMonitor(name="/a", required=True)
    for writer in (b"A", b"B"):
        monitor.see_publishers(["/arm"], frozenset({writer}))
    published(1, 2, 5, monitor=monitor)
    assert monitor.lost == 2
    monitor.see_publishers(["/arm"], frozenset({b"C"}))
    monitor.begin_episode(10 * SECOND)
    published(8, monitor=monitor)
    assert (monitor.restarts, monitor.lost) == (0, 2)


def test_a_second_publisher_in_an_episode_is_told_also_when_it_has_gone(monitor: TopicMonitor) -> None:
    monitor.see_publishers(["/rig", "/arm"], frozenset({b"A", b"B"}))
    assert "2 publishers send on it (/arm, /rig)" in monitor.reason(11 * SECOND, FRESH)
    published(1, 10, 2, 11, 3, monitor=monitor)
    monitor.see_publishers(["/arm"], frozenset({b"A"}))
    assert monitor.reason(11 * SECOND, FRESH) == ""
    published(12, 13, 16, monitor=monitor)
    assert (monitor.restarts, monitor.lost) == (0, 2)
    monitor.messages = 3
    said = reasons(monitor, end_ns=11 * SECOND)
    assert any("2 publishers send on it (/arm, /rig): two sources would be mixed" in text for text in said)
    monitor.begin_episode(12 * SECOND)
    assert monitor.flaws == []


def test_what_is_counted_of_a_topic_is_kept_whether_it_is_required_or_not(monitor: TopicMonitor) -> None:
    monitor.required = False
    monitor.note("its type changed")
    monitor.note("its type changed")
    assert reasons(monitor, end_ns=30 * SECOND) == []
    counts = topic_counts([monitor])["/a"]
    assert (counts["required"], counts["flaws"]) == (False, ["its type changed"])


def test_a_publisher_that_is_found_in_the_episode_is_told() -> None:
    monitor = TopicMonitor(name="/late", required=False)
    monitor.see_publishers([], frozenset())
    monitor.begin_episode(10 * SECOND)
    assert monitor.flaws == []
    monitor.see_publishers(["/late"], frozenset({b"L"}))
    published(1, 2, monitor=monitor)
    assert topic_counts([monitor])["/late"]["flaws"] == [
        "its publisher was found only after the episode began"
    ]
    monitor.begin_episode(20 * SECOND)
    assert monitor.flaws == []


# -- what the stamps say --------------------------------------------------------------------------


def test_a_stamp_that_stands_still_is_told_while_it_does_and_of_the_episode_after_that() -> None:
    monitor = episode_with(0)
    sent_ns, sequence = 10 * SECOND, 3

    def send(count: int, *, still: bool) -> None:
        nonlocal sent_ns, sequence
        for _ in range(count):
            sent_ns, sequence = sent_ns + 100_000_000, sequence + 1
            stamp_ns = monitor.newest_stamp_ns if still else sent_ns
            monitor.receive(receive_ns=sent_ns, stamp_ns=stamp_ns, sequence=sequence)
            monitor.messages += 1

    send(10, still=False)
    send(9, still=True)
    assert (monitor.reason(sent_ns, FRESH), monitor.flaws) == ("", [])
    send(6, still=True)
    assert monitor.reason(sent_ns, FRESH) == "its stamp stands still for 1.5 s"
    assert start_refusal([monitor], sent_ns, FRESH)
    send(10, still=False)
    assert monitor.reason(sent_ns, FRESH) == ""
    assert reasons(monitor, end_ns=sent_ns) == ["/arm/joint_states: its stamp stands still for 1.5 s"]
    monitor.begin_episode(sent_ns)
    send(10, still=False)
    assert reasons(monitor, end_ns=sent_ns) == []


def test_unset_stamps_stand_still_by_another_name() -> None:
    monitor = episode_with(*range(0, 3000, 100), stamped=False)
    assert (monitor.flaws, monitor.zero_stamps) == ([], 30)


def test_what_is_missing_by_the_stamps_stands_beside_what_dds_counted() -> None:
    arrivals = [at for at in range(0, 3000, 10) if at not in (500, 510, 2000)]
    monitor = episode_with(*arrivals)
    monitor.receive(receive_ns=13 * SECOND, stamp_ns=13 * SECOND, sequence=1000)
    counts = topic_counts([monitor])["/arm/joint_states"]
    assert (counts["lost"], counts["missing_by_stamps"]) == (1000 - 3 - len(arrivals), 3)
    assert "missing_by_sequence" not in counts
    monitor.begin_episode(14 * SECOND)
    assert topic_counts([monitor])["/arm/joint_states"]["missing_by_stamps"] is None


@pytest.mark.parametrize("step_ns", [3600 * SECOND, -3600 * SECOND])
def test_a_clock_that_is_set_changes_no_rate_and_hides_no_silence(step_ns: int) -> None:
    """Arrivals are by a clock that nobody sets; stamps, and what they are compared with, by one that is."""
    monitor = TopicMonitor(name="/a", required=True, publishers=("/arm",), clock=LiveClock(policy="refuse"))
    monitor.begin_episode(10 * SECOND)
    for k in range(1, 1001):
        now_ns = 10 * SECOND + k * 10_000_000
        wall_ns = 10**9 * SECOND + now_ns + (step_ns if k > 500 else 0)
        monitor.receive(receive_ns=now_ns, wall_ns=wall_ns, stamp_ns=wall_ns - 2_000_000, sequence=k)
        assert monitor.reason(now_ns, FRESH) == ""
    assert monitor.rate_hz(now_ns) == pytest.approx(100.0, abs=0.6)
    assert monitor.age_s(now_ns + SECOND, wall_ns + SECOND) == pytest.approx(1.002)
    assert monitor.silence_ns(now_ns) == 10_000_000
    monitor.messages = 1000
    assert incomplete_reasons([monitor], 0, end_ns=now_ns, fresh_ns=FRESH) == []
    assert monitor.reason(now_ns + 5 * SECOND, FRESH) == "silent for 5.0 s"
    assert monitor.silence_ns(now_ns + 5 * SECOND) == 5 * SECOND


def test_a_silence_in_which_the_clock_is_set_back_is_one() -> None:
    monitor = fed(100)
    monitor.begin_episode(monitor.newest_receive_ns)
    after_ns = monitor.newest_receive_ns + 5 * SECOND
    monitor.receive(receive_ns=after_ns, stamp_ns=after_ns - 3600 * SECOND, sequence=101)
    assert monitor.silence_ns(after_ns) == 5 * SECOND
