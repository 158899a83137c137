"""The recorder's view of a topic: rates, ages, losses, and when an episode may start."""

import pytest

from piper_collect.core.topics import TopicMonitor, incomplete_reasons, start_refusal

SECOND = 1_000_000_000
FRESH = SECOND


def fed(count: int, *, period_ns: int = 10_000_000, start_ns: int = 100 * SECOND) -> TopicMonitor:
    monitor = TopicMonitor(name="/arm/joint_states", required=True, publishers=1)
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
    monitor.begin_episode()
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
    monitor.begin_episode()
    assert monitor.lost == 0
    monitor.receive(receive_ns=SECOND, stamp_ns=SECOND, sequence=11)
    assert monitor.lost == 1


def test_start_is_refused_naming_each_bad_topic_and_why() -> None:
    good, silent = fed(10), fed(10)
    silent.name = "/cam_front/image_raw/compressed"
    missing = TopicMonitor(name="/teleop/target", required=True)
    double = fed(10)
    double.name, double.publishers = "/arm/flange_pose", 2
    optional = TopicMonitor(name="/quest/input", required=False)
    now_ns = good.newest_receive_ns
    assert start_refusal([good, optional], now_ns, FRESH) == ""
    text = start_refusal([silent, missing, double, optional], now_ns + 5 * SECOND, FRESH)
    assert "/cam_front/image_raw/compressed: silent for 5.0 s" in text
    assert "/teleop/target: nobody publishes it" in text
    assert "/arm/flange_pose: 2 publishers" in text
    assert "/quest/input" not in text


def test_an_episode_is_incomplete_when_a_required_topic_lost_more_than_allowed() -> None:
    monitor = fed(3)
    monitor.messages, monitor.lost = 3, 2
    assert incomplete_reasons([monitor], max_lost=2) == []
    assert incomplete_reasons([monitor], max_lost=1) == ["/arm/joint_states: 2 messages lost"]
    monitor.messages = monitor.lost = 0
    assert incomplete_reasons([monitor], max_lost=1) == ["/arm/joint_states: no message recorded"]
    monitor.required = False
    assert incomplete_reasons([monitor], max_lost=1) == []
