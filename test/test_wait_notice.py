"""That no episode can start is told when it lasts, and not while a session is starting."""

from piper_collect.core.wait_notice import LASTING_S, STARTING_S, WaitNotice

S = 1_000_000_000


def told(*spells, step_s=0.2):
    """(seconds, whether it waits) spells one after the other: (second, "waits" or "ready") of each line."""
    notice, lines, now = WaitNotice(0), [], 0
    for length_s, is_waiting in spells:
        for _ in range(round(length_s / step_s)):
            if notice.is_due(is_waiting, now):
                lines.append((round(now / S, 1), "waits" if is_waiting else "ready"))
            now += round(step_s * S)
    return lines


def test_a_session_that_only_starts_says_nothing_but_that_it_is_ready():
    assert told((10, True), (30, False)) == [(10.0, "ready")]


def test_one_that_does_not_get_ready_says_so_once():
    assert told((60, True)) == [(STARTING_S, "waits")]
    assert told((30, True), (1, False)) == [(STARTING_S, "waits"), (30.0, "ready")]


def test_later_a_short_gap_is_no_news_and_a_lasting_one_is_told_once():
    assert told((1, True), (9, False), (4, True), (6, False)) == [(1.0, "ready")]
    assert told((1, True), (9, False), (20, True), (6, False)) == [
        (1.0, "ready"),
        (10.0 + LASTING_S, "waits"),
        (30.0, "ready"),
    ]


def test_an_episode_between_is_not_the_question():
    assert told((1, False), (60, None), (1, False)) == [(0.0, "ready")]
    # the wait after it begins with its end
    assert told((1, False), (60, None), (6, True)) == [(0.0, "ready"), (61.0 + LASTING_S, "waits")]
