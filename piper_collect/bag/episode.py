"""From a bag to a RawEpisode: one pass for numbers and stamps, images only when they are asked for."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from piper_collect.bag.clocks import TopicClock, check_one_clock, increasing
from piper_collect.bag.fields import FieldReader
from piper_collect.bag.reader import BagMessage, BagReader, open_bag
from piper_collect.bag.sidecar import EpisodeRecord, read_record
from piper_collect.config.names import image_topic, resolve_topic
from piper_collect.config.schema import SessionConfig
from piper_collect.core.types import CameraFrame, CameraStream, RawEpisode, Stream
from piper_collect.errors import BagError, ImageError
from piper_collect.imaging.frames import parse_compressed_format


def read_episode(bag: BagReader, config: SessionConfig, record: EpisodeRecord | None = None) -> RawEpisode:
    """Read the numeric sources and the cameras' stamps of a bag, in one pass.

    Args:
        bag: The opened bag.
        config: Which topics and fields feed which source.
        record: What the bag says about itself, when it was read already.

    Returns:
        The episode; its cameras open the bag again when their frames are asked for.

    Raises:
        BagError: A required topic has no messages, or a message cannot be read as configured.
        AlignmentError: The topics are stamped by clocks that have nothing to do with each other.
    """
    record = record or read_record(bag)
    plan = _Plan.of(bag, config)
    _read(bag, plan)
    streams = {key: plan.stream(key, config) for key in plan.readers}
    cameras = {name: plan.camera(bag.path, name, config) for name in plan.cameras}
    start_ns, end_ns, interval = _interval(bag.path, record, config, streams, cameras)
    spans = {topic: clock.span() for topic, clock in plan.clocks.items()}
    if record.start_ns is not None:
        spans["the recorder's start"] = (record.start_ns, record.start_ns)
    check_one_clock(record.name, spans)
    return RawEpisode(
        name=record.name,
        streams=streams,
        cameras=cameras,
        start_ns=start_ns,
        end_ns=end_ns,
        task=record.task or config.session.task,
        provenance={
            "session": record.session or None,
            "bag": record.bag,
            "storage": bag.storage_id,
            "tool_version": record.tool_version or None,
            "outcome": record.outcome or None,
            "incomplete_reasons": list(record.incomplete_reasons),
            "losses": dict(record.losses),
            "interval": interval,
            "clocks": {t: c.reason for t, c in plan.clocks.items() if c.source == "receive"},
            "unset_stamps": {t: c.unset for t, c in plan.clocks.items() if c.unset},
            "notes": [*bag.notes, *plan.notes],
        },
    )


def first_frames(bag: BagReader, config: SessionConfig) -> dict[str, CameraFrame]:
    """The first frame of each camera; an optional camera without frames is left out.

    Raises:
        BagError: A required topic has no messages.
        ImageError: A frame's compression is none that becomes video.
    """
    frames = {}
    for name, topic in _Plan.of(bag, config).cameras.items():
        message = next(bag.messages([topic]))
        stamp_ns = bag.header_stamp_ns(topic, message.payload) or message.receive_ns
        frames[name] = camera_frame(topic, bag.decode(topic, message.payload), stamp_ns)
    return frames


@dataclass(slots=True, kw_only=True)
class _Plan:
    """What is read from which topic."""

    topics: dict[str, str]
    readers: dict[str, FieldReader]
    cameras: dict[str, str]
    clocks: dict[str, TopicClock]
    frame_ids: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, bag: BagReader, config: SessionConfig) -> "_Plan":
        space = config.session.namespace
        sources = {key: resolve_topic(s.topic, space) for key, s in config.sources.items()}
        images = {name: resolve_topic(image_topic(name, c), space) for name, c in config.cameras.items()}
        there = {name for name, info in bag.topics.items() if info.message_count}
        required = [k for k, s in config.sources.items() if s.required]
        required_cameras = [n for n, c in config.cameras.items() if c.required]
        _refuse_missing(
            bag, there, {k: sources[k] for k in required}, {n: images[n] for n in required_cameras}
        )
        notes = [
            f"no messages on {t} (optional {k})" for k, t in {**sources, **images}.items() if t not in there
        ]
        sources = {k: t for k, t in sources.items() if t in there}
        images = {n: t for n, t in images.items() if t in there}
        return cls(
            topics=sources,
            readers={k: FieldReader(k, t, config.sources[k], config.arm) for k, t in sources.items()},
            cameras=images,
            clocks={t: TopicClock() for t in dict.fromkeys([*sources.values(), *images.values()])},
            notes=notes,
        )

    def stream(self, key: str, config: SessionConfig) -> Stream:
        clock, reader = self.clocks[self.topics[key]], self.readers[key]
        latency_ns = round(config.sources[key].latency_ms * 1e6)
        used, stamps = clock.used(), clock.stamp_ns() - latency_ns
        keep = increasing(stamps)
        dropped = {"stamp unset": clock.unset, "stamp not increasing": int(np.count_nonzero(~keep))}
        return Stream(
            key=key,
            stamp_ns=stamps[keep],
            receive_ns=clock.receive_ns()[used][keep],
            values=reader.values()[used][keep],
            frame_id=reader.frame_id,
            stamp_source=clock.source,
            topic=self.topics[key],
            dropped={reason: n for reason, n in dropped.items() if n},
        )

    def camera(self, path: Path, name: str, config: SessionConfig) -> CameraStream:
        topic = self.cameras[name]
        clock = self.clocks[topic]
        latency_ns = round(config.cameras[name].latency_ms * 1e6)
        frames = _BagFrames(path=path, topic=topic, latency_ns=latency_ns, stamp_source=clock.source)
        return CameraStream(
            camera=name,
            stamp_ns=clock.stamp_ns() - latency_ns,
            receive_ns=clock.receive_ns()[clock.used()],
            frames=frames,
            topic=topic,
            frame_id=self.frame_ids.get(topic, ""),
            stamp_source=clock.source,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _BagFrames:
    """Yields a camera's frames out of the bag, which each call opens again."""

    path: Path
    topic: str
    latency_ns: int
    stamp_source: Literal["header", "receive"]

    def __call__(self, first_ns: int, last_ns: int) -> Iterator[CameraFrame]:
        with open_bag(self.path) as bag:
            for message in bag.messages([self.topic]):
                stamp_ns = self._stamp_ns(bag, message)
                if stamp_ns is not None and first_ns <= stamp_ns <= last_ns:
                    yield camera_frame(self.topic, bag.decode(self.topic, message.payload), stamp_ns)

    def _stamp_ns(self, bag: BagReader, message: BagMessage) -> int | None:
        if self.stamp_source == "receive":
            return message.receive_ns - self.latency_ns
        stamp_ns = bag.header_stamp_ns(self.topic, message.payload)
        return stamp_ns - self.latency_ns if stamp_ns else None


def camera_frame(topic: str, message: object, stamp_ns: int) -> CameraFrame:
    """A decoded Image or CompressedImage message as a CameraFrame; its bytes are not copied.

    Raises:
        BagError: The message is of another type.
        ImageError: Its compression is none that becomes video.
    """
    pixels = getattr(message, "data", None)
    if not isinstance(pixels, np.ndarray):
        raise BagError("not an image message", where=topic, got=type(message).__name__)
    payload = np.ascontiguousarray(pixels, dtype=np.uint8).data
    if hasattr(message, "encoding"):
        return CameraFrame(
            stamp_ns=stamp_ns,
            encoding=str(message.encoding),
            height=int(message.height),  # type: ignore[attr-defined]
            width=int(message.width),  # type: ignore[attr-defined]
            step=int(message.step),  # type: ignore[attr-defined]
            payload=payload,
            big_endian=bool(getattr(message, "is_bigendian", 0)),
        )
    try:
        encoding = parse_compressed_format(str(getattr(message, "format", "")), payload)
    except ImageError as err:
        raise ImageError(err.what, where=topic, got=err.got, valid=err.valid, hint=err.hint) from err
    return CameraFrame(stamp_ns=stamp_ns, encoding=encoding, height=0, width=0, step=0, payload=payload)


def _read(bag: BagReader, plan: _Plan) -> None:
    by_topic: dict[str, list[FieldReader]] = {}
    for key, reader in plan.readers.items():
        by_topic.setdefault(plan.topics[key], []).append(reader)
    images = set(plan.cameras.values())
    for topic, receive_ns, payload in bag.messages(list(plan.clocks)):
        plan.clocks[topic].add(receive_ns, bag.header_stamp_ns(topic, payload))
        readers = by_topic.get(topic)
        if readers:
            message = bag.decode(topic, payload)
            for reader in readers:
                reader.add(message)
        elif topic in images and topic not in plan.frame_ids:
            header = getattr(bag.decode(topic, payload), "header", None)
            plan.frame_ids[topic] = str(header.frame_id) if header is not None else ""


def _refuse_missing(
    bag: BagReader, there: Iterable[str], sources: Mapping[str, str], cameras: Mapping[str, str]
) -> None:
    missing: dict[str, list[str]] = {}
    for key, topic in sources.items():
        if topic not in there:
            missing.setdefault(topic, []).append(key)
    parts = [f"no messages on {topic} (needed for {', '.join(keys)})" for topic, keys in missing.items()]
    parts += [
        f"no frames on {topic} (camera {name})" for name, topic in cameras.items() if topic not in there
    ]
    if parts:
        raise BagError(
            "; ".join(parts),
            where=bag.path,
            got=f"messages on {', '.join(sorted(there)) or 'no topic'}",
            hint="record these topics, or give --config with the topics that are there",
        )


def _interval(
    path: Path,
    record: EpisodeRecord,
    config: SessionConfig,
    streams: Mapping[str, Stream],
    cameras: Mapping[str, CameraStream],
) -> tuple[int, int, str]:
    stamps = [s.stamp_ns for k, s in streams.items() if config.sources[k].required]
    stamps += [c.stamp_ns for n, c in cameras.items() if config.cameras[n].required]
    stamps = [s for s in stamps if len(s)] or [s.stamp_ns for s in streams.values() if len(s.stamp_ns)]
    if not stamps:
        raise BagError("no message has a stamp", where=path)
    start_ns = record.start_ns if record.start_ns is not None else max(int(s.min()) for s in stamps)
    end_ns = record.end_ns if record.end_ns is not None else min(int(s.max()) for s in stamps)
    said = [
        "start by the recorder" if record.start_ns is not None else "start at the latest first stamp",
        "end by the recorder" if record.end_ns is not None else "end at the earliest last stamp",
    ]
    return start_ns, end_ns, ", ".join(said)
