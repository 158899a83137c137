"""What a doctor says of one topic, from what was seen of it."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from piper_collect.core.qos_match import INFINITE_NS, Qos, mismatches
from piper_collect.core.topic_checks import clock_checks, domain_checks, measured_hz, topic_checks
from piper_collect.core.topic_look import DomainLook, PictureLook, Publisher, TopicLook, TopicWish

MS = 1_000_000
NOW = 1_700_000_000_000_000_000
DRIVER = Publisher(node="/driver", type="sensor_msgs/msg/JointState", qos=Qos())
WISH = TopicWish(topic="/a", feeds=("sources.a",), required=True, max_age_ms=50.0, rows_hz=30.0)
CAMERA = TopicWish(
    topic="/cam",
    feeds=("cameras.cam",),
    required=True,
    max_age_ms=100.0,
    camera_hz=30.0,
    camera_size=(64, 48),
)


def stamps(count=100, period_ms=5.0, start=NOW):
    return start + (np.arange(count) * period_ms * MS).astype(np.int64)


def look(stamp_ns=None, late_ms=2.0, **more):
    stamp_ns = stamps() if stamp_ns is None else stamp_ns
    settings = {
        "publishers": (DRIVER,),
        "stamp_ns": stamp_ns,
        "receive_ns": stamp_ns + round(late_ms * MS),
        "read": len(stamp_ns),
    }
    return TopicLook(**{**settings, **more})


def pictures(luma=(90.0,) * 8, contrast=(40.0,) * 8, distinct=8, sizes=((64, 48),), encodings=("rgb8",)):
    return PictureLook(
        encodings=encodings,
        sizes=sizes,
        luma=np.array(luma),
        contrast=np.array(contrast),
        distinct=distinct,
    )


def flaws(wish, seen, **more):
    return [(c.level, c.what, c.found) for c in topic_checks(wish, seen, **more) if c.level != "ok"]


def only_flaw(wish, seen, **more):
    (flaw,) = flaws(wish, seen, **more)
    return flaw


def test_a_healthy_topic_has_no_flaw():
    assert flaws(WISH, look()) == []
    frames = look(stamps(90, 1000 / 30), late_ms=30.0, pictures=pictures())
    assert flaws(CAMERA, frames) == []
    told = {c.what: c.found for c in topic_checks(CAMERA, frames)}
    assert told == {
        "publisher": "/driver",
        "QoS": "reliable, volatile",
        "type": "sensor_msgs/msg/JointState",
        "rate": "30.0 Hz",
        "stamps": "30.0 ms old",
        "pictures": "64x48 px, rgb8",
    }


@pytest.mark.parametrize(
    ("wish", "level", "text"),
    [
        (replace(WISH, origin="simulated"), "ok", "simulated: nothing to look at"),
        (
            replace(WISH, origin="session", publisher="arm_can_node"),
            "ok",
            "starts with the session (arm_can_node)",
        ),
        (replace(WISH, required=False), "ok", "nobody publishes it; optional, and left out"),
        (WISH, "FAIL", "nobody publishes it"),
        (
            replace(WISH, origin="driver", starts_with_launch=True),
            "not known",
            "nobody yet; collect.launch.py starts",
        ),
        (replace(WISH, origin="driver", starts_with_launch=True, feeds=()), "ok", "nobody yet; comes with"),
    ],
)
def test_a_topic_that_is_not_there_is_judged_by_who_would_publish_it(wish, level, text):
    (check,) = topic_checks(wish, TopicLook())
    assert check.level == level
    assert text in check.found


def test_a_missing_topic_says_how_to_have_it():
    wish = replace(WISH, origin="driver", start="ros2 run piper piper_single_ctrl")
    (check,) = topic_checks(wish, TopicLook(near_names=("/b", "/c")))
    assert check.hint == (
        "ros2 run piper piper_single_ctrl, or name the right topic in sources.a (there are: /b, /c)"
    )


@pytest.mark.parametrize("origin", ["simulated", "session"])
def test_a_topic_of_the_session_that_somebody_publishes_is_taken_unless_a_session_runs(origin):
    wish = replace(WISH, origin=origin, publisher="arm_sim_node")
    level, _, found = only_flaw(wish, look())
    assert level == "FAIL"
    assert found.startswith("/driver publishes it already, and arm_sim_node of the session will")
    assert flaws(wish, look(), session_runs=True) == []


def test_two_publishers_fail_where_the_topic_is_needed():
    seen = look(publishers=(DRIVER, replace(DRIVER, node="/other")))
    text = "2 publishers send on it (/driver, /other): two sources would be mixed"
    assert flaws(WISH, seen) == [("FAIL", "publisher", text)]
    assert flaws(replace(WISH, required=False), seen) == [("warn", "publisher", text)]


def test_a_reader_that_hears_nothing_names_the_policy():
    seen = look(publishers=(replace(DRIVER, qos=Qos(reliability="best_effort")),))
    assert only_flaw(replace(WISH, readers={"teleop_node": Qos()}), seen) == (
        "FAIL",
        "QoS",
        "teleop_node would hear nothing of /driver: reliability: best_effort is offered, "
        "reliable is asked for",
    )
    assert only_flaw(WISH, seen)[:2] == ("warn", "QoS")  # the recorder asks for no more than is offered


def test_what_the_recorder_refuses_is_told_in_its_words():
    seen = look(refusal="sources.a.field: no such field", read=0)
    assert only_flaw(WISH, seen) == ("FAIL", "content", "sources.a.field: no such field")
    nothing = np.empty(0, np.int64)
    assert only_flaw(WISH, look(nothing, refusal="no message yet")) == ("FAIL", "messages", "no message yet")
    assert only_flaw(replace(WISH, required=False), look(nothing))[0] == "warn"


def test_messages_that_cannot_be_read_are_counted():
    seen = look(unread=3, unread_first="cut short", refusal="cut short")
    assert only_flaw(WISH, seen) == ("FAIL", "content", "3 of 100 messages cannot be read: cut short")
    assert only_flaw(WISH, look(lost=4))[:2] == ("warn", "loss")


@pytest.mark.parametrize(
    ("wish", "period_ms", "level"),
    [
        (WISH, 1000 / 25, "warn"),  # fewer than 30 rows a second, each sample young enough
        (WISH, 100.0, "FAIL"),  # older than 50 ms at most rows
        (replace(WISH, required=False), 100.0, "warn"),
        (CAMERA, 50.0, "warn"),
        (CAMERA, 1000 / 60, "warn"),  # twice as fast as configured
        (CAMERA, 1000 / 7, "FAIL"),
    ],
)
def test_a_wrong_rate_fails_where_rows_would_be_dropped(wish, period_ms, level):
    assert only_flaw(wish, look(stamps(60, period_ms)))[:2] == (level, "rate")


def test_a_rate_needs_three_messages_and_counts_each_sample_once():
    assert measured_hz(look(stamps(2))) is None
    assert only_flaw(WISH, look(stamps(2)))[:2] == ("warn", "rate")
    assert measured_hz(look(np.repeat(stamps(40, 10.0), 2))) == pytest.approx(100.0)
    assert measured_hz(look(stamps(40, 10.0) * 0, receive_ns=stamps(40, 20.0))) == pytest.approx(50.0)


@pytest.mark.parametrize(
    ("changed", "level", "what", "text"),
    [
        (lambda s: s * 0, "FAIL", "stamps", "100 of 100 are zero: these messages would be aligned by"),
        (
            lambda s: np.where(np.arange(100) < 7, 0, s),
            "warn",
            "stamps",
            "7 of 100 are zero: these messages would be left",
        ),
        (
            lambda s: np.where(np.arange(100) == 50, s - 12 * MS, s),
            "warn",
            "order of stamps",
            "1 of 100 lie before",
        ),
        (lambda s: np.repeat(s[::2], 2), "warn", "equal stamps", "50 of 100 equal the one before"),
        (
            lambda s: np.where(np.arange(100) < 50, s, s + 80 * MS),
            "warn",
            "gap",
            "up to 85 ms from one stamp",
        ),
    ],
)
def test_stamps_that_are_unset_or_out_of_order(changed, level, what, text):
    seen = look(changed(stamps()), receive_ns=stamps() + 100 * MS)
    (found,) = [flaw for flaw in flaws(WISH, seen) if flaw[1] == what]
    assert found[0] == level
    assert text in found[2]


def test_stamps_that_come_twice_are_fine_where_that_is_known():
    seen = look(np.repeat(stamps(50), 2))
    assert flaws(replace(WISH, repeats=True), seen) == []


@pytest.mark.parametrize(
    ("late_ms", "level", "text"),
    [
        (-0.5, None, ""),
        (-3.0, "warn", "stamps lie up to 3 ms after their receipt: its clock runs ahead"),
        (-500.0, "FAIL", "stamps lie up to 500 ms after their receipt"),
        (90.0, None, ""),
        (150.0, "warn", "stamps lie at least 150 ms before their receipt"),
        (700.0, "FAIL", "stamps lie at least 700 ms before"),
        (NOW / MS - 5_000, "FAIL", "days from this machine's time: another epoch"),
        (-400 * 86_400_000.0, "FAIL", "400 days from this machine's time"),
    ],
)
def test_the_clock_of_the_source_is_held_against_ours(late_ms, level, text):
    base = stamps(start=10_000 * MS) if late_ms > 1e6 else stamps()
    found = [flaw for flaw in flaws(WISH, look(base, late_ms=late_ms)) if flaw[1] == "clock"]
    assert [flaw[0] for flaw in found] == ([level] if level else [])
    assert all(text in flaw[2] for flaw in found)


def test_one_old_latched_message_is_no_clock_that_is_behind():
    seen = look(stamps(1), late_ms=90_000.0)
    assert flaws(replace(WISH, required=False, max_age_ms=None, rows_hz=None), seen) == []


def test_a_type_without_stamps_matters_where_rows_are_made_of_it():
    seen = replace(look(), stamp_ns=None)
    assert only_flaw(WISH, seen)[:2] == ("warn", "stamps")
    assert flaws(replace(WISH, bare=True), seen) == []
    assert flaws(replace(WISH, max_age_ms=None, rows_hz=None), seen) == []


@pytest.mark.parametrize(
    ("seen", "level", "what", "text"),
    [
        (pictures(sizes=((32, 24),)), "warn", "picture size", "32x24 px"),
        (pictures(sizes=((64, 48), (32, 24))), "FAIL", "pictures", "64x48 and 32x24 px, rgb8: they change"),
        (pictures(encodings=("rgb8", "bgr8")), "FAIL", "pictures", "rgb8 and bgr8: they change"),
        (
            pictures(luma=(3.0,) * 8, contrast=(0.5,) * 8, distinct=1),
            "FAIL",
            "picture",
            "black (brightness 3 of 255)",
        ),
        (
            pictures(luma=(120.0,) * 8, contrast=(0.5,) * 8),
            "warn",
            "picture",
            "shows nothing (brightness 120 of 255",
        ),
        (pictures(distinct=1), "FAIL", "picture", "frozen: 8 pictures are the same in every byte"),
    ],
)
def test_pictures_that_show_nothing_or_nothing_new(seen, level, what, text):
    found = only_flaw(CAMERA, look(stamps(90, 1000 / 30), pictures=seen))
    assert found[:2] == (level, what)
    assert text in found[2]


def test_dark_and_still_scenes_are_no_fault():
    for seen in (
        pictures(luma=(12.0,) * 8, contrast=(6.0,) * 8),  # a dark room with something in it
        pictures(luma=(3.0, 90.0), contrast=(0.1, 30.0), distinct=2),
        pictures(luma=(90.0,) * 3, contrast=(40.0,) * 3, distinct=1),  # too few to tell
    ):
        assert flaws(CAMERA, look(stamps(90, 1000 / 30), pictures=seen)) == []


@pytest.mark.parametrize(("apart_ms", "level"), [(40.0, "ok"), (110.0, "warn"), (2_000.0, "FAIL")])
def test_the_clocks_of_sources_are_held_against_each_other(apart_ms, level):
    slow = look(late_ms=1.0 + apart_ms)
    unset = look(stamps() * 0)
    idle = (replace(WISH, topic="/status", max_age_ms=None), look(late_ms=9_000.0))
    pairs = [(WISH, look(late_ms=1.0)), (CAMERA, slow), (replace(WISH, topic="/zero"), unset), idle]
    (check,) = clock_checks(pairs)
    assert check.level == level
    assert ("/cam comes" in check.found) == (level != "ok")
    assert list(clock_checks(pairs[:1])) == []


@given(st.integers(-400, 400), st.integers(0, 300), st.integers(1, 200))
def test_queueing_changes_nothing_of_the_clocks_difference(offset_ms, queue_ms, count):
    """Messages that are held up, all but one, leave the verdict on a clock as it is."""
    base = stamps(count)
    prompt, queued = look(base, late_ms=offset_ms), look(base, late_ms=offset_ms)
    held = queued.receive_ns + np.where(np.arange(count) == count // 2, 0, queue_ms * MS)
    queued = replace(queued, receive_ns=held)
    assert prompt.offset.least_ms == queued.offset.least_ms == offset_ms


def test_who_else_is_there_comes_first():
    domain = DomainLook(topics={}, session=("/recorder",), clocks=("/gazebo",))
    checks = list(domain_checks([WISH], domain))
    assert [(c.level, c.where) for c in checks] == [
        ("FAIL", "ROS domain"),
        ("warn", "/clock"),
        ("FAIL", "/a"),
    ]
    assert "ROS_DOMAIN_ID" in checks[0].hint


OFFERS = st.builds(
    Qos,
    reliability=st.sampled_from(["reliable", "best_effort"]),
    durability=st.sampled_from(["volatile", "transient_local"]),
    deadline_ns=st.sampled_from([0, 10 * MS, 100 * MS, INFINITE_NS]),
)


@given(OFFERS, OFFERS)
def test_a_match_is_what_the_middleware_calls_one(offered, asked):
    qos = pytest.importorskip("rclpy.qos", reason="rclpy does not import here", exc_type=ImportError)
    duration = pytest.importorskip("rclpy.duration", exc_type=ImportError)

    def profile(policies):
        deadline = policies.deadline_ns if policies.deadline_ns < INFINITE_NS else 0
        return qos.QoSProfile(
            depth=1,
            reliability=qos.ReliabilityPolicy[policies.reliability.upper()],
            durability=qos.DurabilityPolicy[policies.durability.upper()],
            deadline=duration.Duration(nanoseconds=deadline),
        )

    compatible, reason = qos.qos_check_compatible(profile(offered), profile(asked))
    assert (compatible != qos.QoSCompatibility.ERROR) == (mismatches(offered, asked) == ()), reason


def test_policies_that_are_not_known_match():
    assert mismatches(Qos(reliability="unknown", durability="system_default"), Qos()) == ()
    assert str(Qos(deadline_ns=20 * MS)) == "reliable, volatile, deadline 20 ms"
