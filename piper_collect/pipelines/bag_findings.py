"""What is wrong with a bag, or worth a look, from what was measured of it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from piper_collect.bag.reader import BagReader
from piper_collect.bag.sidecar import EpisodeRecord
from piper_collect.bag.survey import ImageSurvey, TopicSurvey
from piper_collect.bag.timeline import clock_notes
from piper_collect.config.names import depth_topic, image_topic, resolve_topic
from piper_collect.config.schema import SessionConfig
from piper_collect.core.clock_faults import told_set
from piper_collect.core.findings import Finding, Level
from piper_collect.core.host_clock import HostStep
from piper_collect.core.pacing import (
    ANOTHER_CLOCK_MS,
    CAMERA_RATE_SHARE,
    SLOW_RATE_SHARE,
    ClockOffset,
    Pacing,
    clock_offset,
    pacing,
)
from piper_collect.core.source_clock import fit_clock
from piper_collect.core.stamp_gaps import missing_by_stamps
from piper_collect.core.types import RawEpisode, StampArray, depth_name

_NS_PER_S = 1e9
_NS_PER_MS = 1e6
_DRIFT_PPM = 100.0
_DRIFT_MS = 5.0
"""Less than this over a whole recording is no drift that matters."""
_FOREIGN_EDGE_NS = 1_000_000_000
"""Recorders that are not ours start and end their topics this far apart."""

# Notes of the reader that an export fails or stops at; the others are worth a look.
_NOTE_LEVELS: Mapping[str, Level] = {"truncated": "error", "lost-topics": "error", "not-indexed": "info"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What the configuration wants of one topic.

    Attributes:
        names: Sources and cameras that it feeds.
        required: Whether the export needs it.
        max_age_ns: Greatest age of a sample; the least of its sources.
        camera_fps: Nominal rate of a camera; None for numbers.
        is_depth: Whether its depth images are wanted.
    """

    names: tuple[str, ...]
    required: bool
    max_age_ns: int
    camera_fps: float | None = None
    is_depth: bool = False

    def joined(self, other: "Need") -> "Need":
        """Both needs of one topic."""
        return Need(
            names=self.names + other.names,
            required=self.required or other.required,
            max_age_ns=min(self.max_age_ns, other.max_age_ns),
            camera_fps=self.camera_fps or other.camera_fps,
            is_depth=self.is_depth or other.is_depth,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The time of one topic.

    Attributes:
        stamps: Steps between the stamps in use.
        offset: Against the times of receipt; None where no stamp is set.
        set_ns: By how much the clock that stamps them was set, each time.
        missing: Samples that are missing by the stamps; None where the topic has no rate.
    """

    stamps: Pacing
    offset: ClockOffset | None
    set_ns: tuple[int, ...] = ()
    missing: int | None = None


def finding(level: Level, code: str, where: str, text: str) -> Finding:
    """A finding of one line."""
    return Finding(level=level, code=code, where=where, text=" ".join(text.split()))


def said(err: Exception, path: Path) -> str:
    """An error's line without the path that ``where`` names already."""
    text = " ".join(str(err).split())
    rest = text.removeprefix(str(path))
    return rest[1:] if rest.startswith("/") and rest != text else rest.lstrip(": ")


def needed_topics(config: SessionConfig, *, depth: bool = False) -> dict[str, Need]:
    """What the sources and cameras of a configuration want, by absolute topic name.

    Args:
        config: Of the session.
        depth: Whether the depth images of its cameras are wanted, too.
    """
    space = config.session.namespace
    needs: dict[str, Need] = {}
    for key, source in config.sources.items():
        need = Need(names=(key,), required=source.required, max_age_ns=round(source.max_age_ms * _NS_PER_MS))
        topic = resolve_topic(source.topic, space)
        needs[topic] = needs[topic].joined(need) if topic in needs else need
    for name, camera in config.cameras.items():
        topic = resolve_topic(image_topic(name, camera), space)
        need = Need(
            names=(name,),
            required=camera.required,
            max_age_ns=round(camera.max_age_ms * _NS_PER_MS),
            camera_fps=camera.fps,
        )
        needs[topic] = needs[topic].joined(need) if topic in needs else need
        if depth and depth_topic(camera):
            topic = resolve_topic(depth_topic(camera), space)
            need = replace(need, names=(depth_name(name),), camera_fps=None, is_depth=True)
            needs[topic] = needs[topic].joined(need) if topic in needs else need
    return needs


def storage_findings(bag: BagReader, where: str) -> Iterator[Finding]:
    """What the reader noticed, and a bag without messages."""
    for note in bag.notes:
        yield finding(_NOTE_LEVELS.get(note.code, "warning"), note.code, where, note)
    if not any(info.message_count for info in bag.topics.values()):
        yield finding("error", "empty", where, "the bag holds no messages")


def record_findings(bag: BagReader, record: EpisodeRecord, where: str) -> Iterator[Finding]:
    """What the recorder itself said of the episode."""
    for reason in record.incomplete_reasons:
        text = f"the episode is not whole: {reason}; export leaves it out unless told --allow-incomplete"
        yield finding("error", "incomplete", where, text)
    for topic, lost in record.losses.items():
        if isinstance(lost, int) and lost > 0:
            text = f"{lost} messages were published and never arrived at the recorder, by DDS's numbers"
            yield finding("warning", "loss", f"{where} {topic}", text)
    for topic, missing in record.missing_by_sequence.items():
        if isinstance(missing, int) and missing > 0:
            text = f"{missing} samples are missing by their own numbers: lost between headset and host"
            yield finding("warning", "samples-missing", f"{where} {topic}", text)
    for topic, counted in record.messages.items():
        held = bag.topics[topic].message_count if topic in bag.topics else 0
        if counted != held:
            text = f"the recorder wrote {counted} messages, the storage holds {held}"
            yield finding("error", "messages-missing", f"{where} {topic}", text)
    if not record.task.strip():
        text = 'no task was recorded: export needs --task "what is done"'
        yield finding("warning", "no-task", where, text)
    if record.start_ns is not None and record.end_ns is not None and record.end_ns <= record.start_ns:
        text = f"it ends {(record.start_ns - record.end_ns) / _NS_PER_S:.3f} s before it starts"
        yield finding("error", "interval", where, text)


def missing_findings(bag: BagReader, needs: Mapping[str, Need], where: str) -> Iterator[Finding]:
    """Topics that the configuration names and the bag does not hold."""
    there = {name for name, info in bag.topics.items() if info.message_count}
    for topic, need in needs.items():
        if topic in there:
            continue
        names = ", ".join(need.names)
        kind = "there, without a message" if topic in bag.topics else "not in the bag"
        if need.required:
            held = ", ".join(sorted(there)[:20]) or "none"
            text = f"the topic is {kind}, and {names} needs it; topics with messages: {held}"
            yield finding("error", "missing-topic", f"{where} {topic}", text)
        else:
            text = f"the topic is {kind}; {names} is optional and is left out"
            yield finding("info", "missing-optional", f"{where} {topic}", text)


def measure(
    survey: TopicSurvey, *, camera_fps: float | None = None, clock_steps: Sequence[HostStep] = ()
) -> Timing:
    """Steps and offset of a topic.

    Args:
        survey: The topic.
        camera_fps: Nominal rate of a camera; None for others.
        clock_steps: How the recorder's clock was set meanwhile.
    """
    clock = survey.clock
    stamps = clock.stamp_ns()
    if clock.source == "receive" or not len(stamps):
        return Timing(stamps=pacing(stamps), offset=None)
    received = clock.receive_ns()[clock.used()]
    return Timing(
        stamps=pacing(stamps),
        offset=clock_offset(received, stamps),
        set_ns=fit_clock(received, stamps).steps_ns,
        missing=missing_by_stamps(
            clock.header_ns(),
            clock.receive_ns(),
            nominal_ns=round(_NS_PER_S / camera_fps) if camera_fps else 0,
            steps=clock_steps,
        ),
    )


def stamp_findings(survey: TopicSurvey, timing: Timing, where: str) -> Iterator[Finding]:
    """Stamps that are unset, do not increase, lie ahead of their receipt, or come from another clock."""
    clock, stamps = survey.clock, timing.stamps
    if clock.reason:
        yield finding("warning", "stamps-unset", where, f"aligned by {clock.reason}")
    if clock.unset:
        text = f"{clock.unset} of {survey.count} header stamps are zero; these messages are left out"
        yield finding("warning", "stamps-unset", where, text)
    if stamps.equal:
        text = f"{stamps.equal} stamps equal the one before; of equal ones the first is kept"
        yield finding("warning", "stamps-equal", where, text)
    if stamps.backwards:
        text = f"{stamps.backwards} stamps lie before one received earlier; these messages are left out"
        yield finding("warning", "stamps-backwards", where, text)
    if timing.offset is not None:
        yield from _offset_findings(survey, timing.offset, where)
    if timing.missing:
        text = f"{timing.missing} samples are missing by the stamps: never taken, or lost anywhere on the way"
        yield finding("warning", "samples-missing", where, text)
    if timing.set_ns:
        text = f"the clock that stamps them {told_set(timing.set_ns)} while it was recorded"
        yield finding("warning", "clock-step", where, text)


def clock_findings(raw: RawEpisode, where: str) -> Iterator[Finding]:
    """What an export does to the stamps, and steps of the recording machine's clock."""
    for text in clock_notes(raw.provenance, faults=False):
        code = "clock-corrected" if "corrected" in text or "taken back" in text else "clock-step"
        yield finding("info" if code == "clock-corrected" else "warning", code, where, text)


def _offset_findings(survey: TopicSurvey, offset: ClockOffset, where: str) -> Iterator[Finding]:
    if abs(offset.median_ms) > ANOTHER_CLOCK_MS:
        text = f"stamps lie {_seconds(offset.median_ms)} from the time of receipt (median): another clock, "
        yield finding("warning", "clock-offset", where, text + "or messages that were held up")
    elif offset.ahead:
        text = f"{offset.ahead} stamps lie after their receipt, at most {offset.most_ahead_ms:.1f} ms: "
        yield finding("warning", "stamps-future", where, text + "the clock that stamps them runs ahead")
    received = survey.clock.receive_ns()
    span_ms = float(received.max() - received.min()) / _NS_PER_MS
    drift = offset.drift_ppm
    if drift is not None and abs(drift) > _DRIFT_PPM and abs(drift) * span_ms / 1e6 > _DRIFT_MS:
        way = "slower" if drift > 0 else "faster"
        text = f"the clock that stamps them runs {abs(drift):.0f} ppm {way} than the recorder's, "
        text += f"{abs(drift) * span_ms / 1e6:.1f} ms over the recording"
        yield finding("warning", "clock-drift", where, text)


def _seconds(ms: float) -> str:
    return f"{ms:.0f} ms" if abs(ms) < 10_000 else f"{ms / 1e3:.1f} s"


def rate_findings(
    survey: TopicSurvey, need: Need, fps: float, interval: tuple[int | None, int | None], where: str
) -> Iterator[Finding]:
    """Rates and gaps of a topic that feeds the dataset, inside the episode."""
    stamps = np.unique(_inside(survey.clock.stamp_ns(), interval))
    steps = pacing(stamps)
    if steps.rate_hz is None or steps.longest_ms is None or steps.longest_at_ns is None:
        yield finding("warning", "few-messages", where, f"{len(stamps)} messages in the episode")
        return
    wanted = need.camera_fps
    if wanted is not None and abs(steps.rate_hz / wanted - 1.0) > CAMERA_RATE_SHARE:
        text = f"{steps.rate_hz:.2f} Hz (by the median step), configured are {wanted:g} Hz"
        yield finding("warning", "rate", where, text)
    elif wanted is None and steps.rate_hz < SLOW_RATE_SHARE * fps:
        text = f"{steps.rate_hz:.2f} Hz is less than the dataset's {fps:g} rows a second: values repeat"
        yield finding("warning", "rate", where, text)
    max_age_ms = need.max_age_ns / _NS_PER_MS
    if steps.longest_ms > max_age_ms:
        after_s = (steps.longest_at_ns - (interval[0] or int(stamps[0]))) / _NS_PER_S
        gaps = int(np.count_nonzero(np.diff(stamps) > need.max_age_ns))
        text = f"{gaps} gap{'' if gaps == 1 else 's'} above max_age ({max_age_ms:g} ms), "
        text += f"the longest {steps.longest_ms:.1f} ms "
        yield finding("warning", "gap", where, f"{text}at {after_s:.3f} s: rows there are dropped")


def edge_findings(
    stamps: Mapping[str, StampArray],
    needs: Mapping[str, Need],
    interval: tuple[int | None, int | None],
    where: str,
) -> Iterator[Finding]:
    """Required topics that come late or end early, which costs the episode its rows there."""
    required = {t: s for t, s in stamps.items() if len(s) and needs[t].required}
    if not required:
        return
    start = interval[0] if interval[0] is not None else min(int(s.min()) for s in required.values())
    end = interval[1] if interval[1] is not None else max(int(s.max()) for s in required.values())
    for topic, topic_stamps in required.items():
        late, early = int(topic_stamps.min()) - start, end - int(topic_stamps.max())
        slack = 2 * needs[topic].max_age_ns
        if late > (slack if interval[0] is not None else _FOREIGN_EDGE_NS):
            text = f"its first stamp lies {late / _NS_PER_S:.3f} s after the start: no rows before it"
            yield finding("warning", "starts-late", f"{where} {topic}", text)
        if early > (slack if interval[1] is not None else _FOREIGN_EDGE_NS):
            text = f"its last stamp lies {early / _NS_PER_S:.3f} s before the end: no rows after it"
            yield finding("warning", "stops-early", f"{where} {topic}", text)


def image_findings(survey: TopicSurvey, images: ImageSurvey, level: Level, where: str) -> Iterator[Finding]:
    """Images that cannot become video, or are no depth images where such are meant.

    Args:
        survey: The topic.
        images: Its images.
        level: Of what the export would stop at.
        where: Of the findings.
    """
    if images.unusable.count:
        what = "are no depth images" if images.depths or images.is_depth else "do not become video"
        text = f"{images.unusable.count} of {survey.count} images {what}: {images.unusable.first}"
        yield finding(level, "image", where, text)
    if len(images.encodings) > 1:
        text = ", ".join(f"{name} ({count})" for name, count in images.encodings.most_common())
        yield finding("warning", "image-encoding", where, f"the encoding changes: {text}")
    if len(images.sizes) > 1:
        text = ", ".join(f"{w}×{h} ({count})" for (h, w), count in images.sizes.most_common(8))
        yield finding(level, "image-size", where, f"the size changes: {text}")


def decode_findings(survey: TopicSurvey, level: Level, where: str) -> Iterator[Finding]:
    """Messages whose bytes do not fit their type."""
    faults = survey.undecodable
    if faults.count:
        text = f"{faults.count} of {survey.count} messages cannot be decoded: {faults.first}"
        yield finding(level, "undecodable", where, text)


def _inside(stamps: StampArray, interval: tuple[int | None, int | None]) -> StampArray:
    start, end = interval
    keep = np.ones(len(stamps), dtype=np.bool_)
    if start is not None:
        keep &= stamps >= start
    if end is not None:
        keep &= stamps <= end
    return stamps[keep]
