"""What is wrong with a topic before it is recorded, and what to do about it."""

from collections.abc import Iterator, Sequence

import numpy as np

from piper_collect.core.checkup import Check, CheckLevel
from piper_collect.core.pacing import CAMERA_RATE_SHARE, SLOW_RATE_SHARE
from piper_collect.core.picture_checks import picture_checks
from piper_collect.core.qos_match import mismatches
from piper_collect.core.stamp_checks import DAY_MS, stamp_checks
from piper_collect.core.topic_look import TOPICS, DomainLook, TopicLook, TopicWish, topic_check
from piper_collect.core.topics import NO_MESSAGE, mixed_sources


def domain_checks(wishes: Sequence[TopicWish], domain: DomainLook) -> Iterator[Check]:
    """Judge what was seen on the ROS domain: who else is there, each topic, and the topics together."""
    if domain.session:
        yield Check(
            level="FAIL",
            group=TOPICS,
            where="ROS domain",
            what="another session",
            found=f"it runs: {', '.join(domain.session)} publishes a recorder's status",
            expected="none",
            hint="end it first, or give this one its own ROS_DOMAIN_ID or session.namespace",
        )
    else:
        yield Check(level="ok", group=TOPICS, where="ROS domain", what="another session", found="none")
    if domain.clocks:
        yield Check(
            level="warn",
            group=TOPICS,
            where="/clock",
            what="simulation time",
            found=f"{', '.join(domain.clocks)} publishes it: sources that use it stamp in another time",
            expected="nobody",
            hint="end the simulation or `ros2 bag play --clock`, or use another ROS_DOMAIN_ID",
        )
    looks = [(wish, domain.topics.get(wish.topic, TopicLook())) for wish in wishes]
    for wish, look in looks:
        yield from topic_checks(wish, look, session_runs=bool(domain.session))
    yield from clock_checks(looks)


def topic_checks(wish: TopicWish, look: TopicLook, *, session_runs: bool = False) -> Iterator[Check]:
    """Judge one topic.

    Args:
        wish: What the session wants of it.
        look: What was seen of it.
        session_runs: Whether a session runs here already, whose nodes then publish what this one's would.
    """
    if not look.publishers:
        yield _absent(wish, look)
        return
    if wish.origin in ("simulated", "session") and not session_runs:
        yield _taken(wish, look)
        return
    yield from _publisher_checks(wish, look)
    yield from _qos_checks(wish, look)
    if not len(look.receive_ns):
        silent = look.refusal in ("", NO_MESSAGE)
        level: CheckLevel = "FAIL" if wish.required else "warn"
        hint = _SILENT if silent else ""
        yield topic_check(
            wish, level, "messages" if silent else "content", look.refusal or NO_MESSAGE, hint=hint
        )
        return
    yield from _content_checks(wish, look)
    yield from _rate_checks(wish, look)
    yield from stamp_checks(wish, look)
    if look.pictures is not None:
        yield from picture_checks(wish, look.pictures)


_SILENT = "see that its driver has its device, and look at what it prints"


def _absent(wish: TopicWish, look: TopicLook) -> Check:
    if wish.origin == "simulated":
        return topic_check(wish, "ok", "publisher", "simulated: nothing to look at")
    if wish.origin == "session":
        return topic_check(wish, "ok", "publisher", f"starts with the session ({wish.publisher})")
    if wish.starts_with_launch and not wish.feeds:
        return topic_check(wish, "ok", "publisher", f"nobody yet; comes with {wish.publisher}")
    if wish.starts_with_launch:
        found = f"nobody yet; collect.launch.py starts {wish.publisher}, `piper-collect record` does not"
        return topic_check(wish, "not known", "publisher", found, hint=f"to look at it now: {wish.start}")
    found = "nobody publishes it"
    if not wish.required:
        return topic_check(wish, "ok", "publisher", f"{found}; optional, and left out")
    return topic_check(wish, "FAIL", "publisher", look.refusal or found, hint=_how_to_have(wish, look))


def _how_to_have(wish: TopicWish, look: TopicLook) -> str:
    near = f", or name the right topic in {_settings(wish)}"
    if look.near_names:
        near += f" (there are: {', '.join(look.near_names)})"
    start = wish.start or (f"start {wish.publisher}" if wish.publisher else "start what publishes it")
    return start + near


def _settings(wish: TopicWish) -> str:
    return ", ".join(wish.feeds)


def _taken(wish: TopicWish, look: TopicLook) -> Check:
    """A topic of the session's own that somebody else publishes already."""
    who = ", ".join(publisher.node for publisher in look.publishers)
    return topic_check(
        wish,
        "FAIL",
        "publisher",
        f"{who} publishes it already, and {wish.publisher} of the session will: two sources would be mixed",
        expected="nobody",
        hint="end it; where it is the one to record, set that device to none in `devices`",
    )


def _publisher_checks(wish: TopicWish, look: TopicLook) -> Iterator[Check]:
    nodes = tuple(publisher.node for publisher in look.publishers)
    if len(nodes) > 1:
        level: CheckLevel = "FAIL" if wish.required else "warn"
        hint = "end all but one, or give one of them another name or namespace"
        yield topic_check(wish, level, "publisher", mixed_sources(nodes), expected="one", hint=hint)
    else:
        yield topic_check(wish, "ok", "publisher", nodes[0])


def _qos_checks(wish: TopicWish, look: TopicLook) -> Iterator[Check]:
    deaf = False
    for publisher in look.publishers:
        for reader, asked in wish.readers.items():
            for mismatch in mismatches(publisher.qos, asked):
                deaf = True
                yield topic_check(
                    wish,
                    "FAIL",
                    "QoS",
                    f"{reader} would hear nothing of {publisher.node}: {mismatch}",
                    expected=str(asked),
                    hint="have the driver publish so (its QoS parameters)",
                )
    offers = sorted({str(publisher.qos) for publisher in look.publishers})
    if deaf:
        return
    if any(publisher.qos.reliability == "best_effort" for publisher in look.publishers) and wish.feeds:
        found = f"{' and '.join(offers)}: what does not get through is lost, and counted"
        hint = "set the driver's QoS to reliable where it can (realsense2_camera: SYSTEM_DEFAULT)"
        yield topic_check(wish, "warn", "QoS", found, expected="reliable", hint=hint)
    else:
        yield topic_check(wish, "ok", "QoS", " and ".join(offers))


def _content_checks(wish: TopicWish, look: TopicLook) -> Iterator[Check]:
    level: CheckLevel = "FAIL" if wish.required else "warn"
    kind = ", ".join(sorted({publisher.type for publisher in look.publishers}))
    if look.unread:
        found = f"{look.unread} of {look.read} messages cannot be read: {look.unread_first}"
        yield topic_check(wish, level, "content", found)
    elif look.refusal and len(look.publishers) == 1:
        yield topic_check(wish, level, "content", look.refusal)
    else:
        yield topic_check(wish, "ok", "type", kind)
    if look.lost:
        found = f"{look.lost} messages were published and did not arrive"
        hint = "close what loads this machine; see that the driver runs with the same DDS profile"
        yield topic_check(wish, "warn", "loss", found, expected="none", hint=hint)


def measured_hz(look: TopicLook) -> float | None:
    """New samples a second, by their stamps (by arrival where those are unset); None below three of them."""
    times = np.unique(look.set_stamps if look.offset is not None else look.receive_ns)
    return (len(times) - 1) * 1e9 / int(times[-1] - times[0]) if len(times) >= 3 else None


def _rate_checks(wish: TopicWish, look: TopicLook) -> Iterator[Check]:
    rate_hz = measured_hz(look)
    if rate_hz is None:
        if wish.required:
            found = f"{len(look.receive_ns)} messages while it was looked at"
            yield topic_check(wish, "warn", "rate", found, hint="look longer, with --seconds 10")
        return
    found = f"{rate_hz:.1f} Hz"
    if wish.camera_hz is not None and abs(rate_hz / wish.camera_hz - 1.0) > CAMERA_RATE_SHARE:
        yield topic_check(
            wish,
            _slow_level(wish, rate_hz),
            "rate",
            found,
            expected=f"{wish.camera_hz:g} Hz, as {_settings(wish)} says",
            hint="set the driver to that rate, or `fps` to this one; long exposure and USB 2 slow it",
        )
    elif wish.camera_hz is None and wish.rows_hz is not None and rate_hz < SLOW_RATE_SHARE * wish.rows_hz:
        yield topic_check(
            wish,
            _slow_level(wish, rate_hz),
            "rate",
            f"{found}: rows would repeat values",
            expected=f"{wish.rows_hz:g} Hz or more, as session.fps",
            hint="raise the driver's rate, or lower session.fps",
        )
    else:
        yield topic_check(wish, "ok", "rate", found)


def _slow_level(wish: TopicWish, rate_hz: float) -> CheckLevel:
    """Rows are dropped where the newest sample is too old at most times."""
    dropped = wish.max_age_ms is not None and 1e3 / rate_hz > wish.max_age_ms
    return "FAIL" if dropped and wish.required else "warn"


def clock_checks(looks: Sequence[tuple[TopicWish, TopicLook]]) -> Iterator[Check]:
    """Hold the clocks of sources and cameras against each other, by the delays of their fastest messages."""
    known = {
        wish.topic: look.offset.least_ms
        for wish, look in looks
        if wish.max_age_ms is not None and look.offset is not None and abs(look.offset.median_ms) < DAY_MS
    }
    if len(known) < 2:
        return
    first, last = min(known, key=lambda t: known[t]), max(known, key=lambda t: known[t])
    apart_ms = known[last] - known[first]
    close = apart_ms <= APART_MS
    told = f"{last} comes {apart_ms:.0f} ms later after its stamps than {first}"
    yield Check(
        level="ok" if close else "FAIL" if apart_ms > FAR_APART_MS else "warn",
        group=TOPICS,
        where="sources and cameras",
        what="clocks",
        found=f"{len(known)} topics agree within {apart_ms:.0f} ms" if close else told,
        expected="" if close else f"within {APART_MS:g} ms",
        hint="" if close else _CLOCKS_HINT,
    )


APART_MS = 50.0
"""Delays of capture and transport differ by less; more is a clock's, or belongs into ``latency_ms``."""

FAR_APART_MS = 200.0
"""Six rows at 30 Hz."""

_CLOCKS_HINT = (
    "put both on one clock (chrony or PTP between machines); a device's own delay belongs into its latency_ms"
)
