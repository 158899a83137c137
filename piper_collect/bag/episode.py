"""From a bag to a RawEpisode: one pass for numbers and stamps, images only when they are asked for."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from piper_collect.bag.clocks import TopicClock, check_one_clock, increasing
from piper_collect.bag.coded import PacketLog, TopicFrames
from piper_collect.bag.fields import FieldReader
from piper_collect.bag.pictures import camera_frame, frame_id_of, is_video, no_key_frame
from piper_collect.bag.reader import BagReader
from piper_collect.bag.sidecar import EpisodeRecord, read_record
from piper_collect.bag.timeline import Timelines
from piper_collect.config.names import depth_topic, image_topic, resolve_topic
from piper_collect.config.schema import CameraSettings, SessionConfig, SourceSettings
from piper_collect.core.host_clock import HostStep
from piper_collect.core.sampling import kept
from piper_collect.core.types import CameraFrame, CameraStream, RawEpisode, StampArray, Stream, depth_name
from piper_collect.errors import BagError
from piper_collect.imaging.frames import H264
from piper_collect.imaging.h264 import StreamParser


def read_episode(
    bag: BagReader, config: SessionConfig, record: EpisodeRecord | None = None, *, depth: bool = False
) -> RawEpisode:
    """Read the numeric sources and the cameras' stamps of a bag, in one pass.

    Args:
        bag: The opened bag.
        config: Which topics and fields feed which source.
        record: What the bag says about itself, when it was read already.
        depth: Whether to take the cameras' depth images, too, where there are any.

    Returns:
        The episode; its cameras open the bag again when their frames are asked for.

    Raises:
        BagError: A required topic has no messages, or a message cannot be read as configured.
        AlignmentError: The topics are stamped by clocks that have nothing to do with each other, or a clock
            is wrong and the configuration refuses that.
    """
    record = record or read_record(bag)
    plan = _Plan.of(bag, config, depth=depth)
    _read(bag, plan)
    steps = record.clock_steps if config.recorder.clock_step == "correct" else ()
    lines = Timelines(
        clocks=plan.clocks,
        pictures=frozenset(plan.cameras.values()),
        steps=steps,
        absolute=record.start_ns is not None,
    )
    streams = {key: plan.stream(key, config, lines, record.name) for key in plan.readers}
    cameras = {name: plan.camera(bag.path, name, config, lines, record.name) for name in plan.cameras}
    required = [s.stamp_ns for k, s in streams.items() if config.sources[k].required]
    required += [c.stamp_ns for n, c in cameras.items() if plan.settings[n].required]
    start_ns, end_ns, interval = _interval(bag.path, record, streams, required)
    end_ns -= sum(step.step_ns for step in steps) if record.end_ns is not None else 0
    spans = _spans([*streams.values(), *cameras.values()])
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
        provenance=_provenance(bag, record, plan, lines, config) | {"interval": interval},
    )


def _provenance(
    bag: BagReader, record: EpisodeRecord, plan: "_Plan", lines: Timelines, config: SessionConfig
) -> dict[str, object]:
    return {
        "session": record.session or None,
        "bag": record.bag,
        "storage": bag.storage_id,
        "tool_version": record.tool_version or None,
        "outcome": record.outcome or None,
        "incomplete_reasons": list(record.incomplete_reasons),
        "losses": dict(record.losses),
        "clocks": {t: c.reason for t, c in plan.clocks.items() if c.source == "receive"},
        "unset_stamps": {t: c.unset for t, c in plan.clocks.items() if c.unset},
        "latency_ms": _latencies({k: config.sources[k] for k in plan.readers} | plan.settings),
        "notes": [*bag.notes, *plan.notes],
        **_clock_provenance(lines, record.clock_steps),
    }


def _clock_provenance(lines: Timelines, recorded: tuple[HostStep, ...]) -> dict[str, object]:
    """What was wrong with clocks and what was done; keys only of what there is."""
    steps = [step.to_json() | {"corrected": bool(lines.steps)} for step in recorded]
    known = {
        "clock_faults": lines.faults(),
        "clock_corrections": lines.corrections,
        "clock_steps": steps,
    }
    return {key: value for key, value in known.items() if value}


def first_frames(bag: BagReader, config: SessionConfig, *, depth: bool = False) -> dict[str, CameraFrame]:
    """The first frame of each camera; an optional camera without frames is left out.

    Args:
        bag: The opened bag.
        config: Which topics are the cameras'.
        depth: Whether to take the first depth images, too, as ``depth_name`` of their cameras.

    Raises:
        BagError: A required topic has no messages.
        ImageError: A frame's compression is none that becomes video.
    """
    frames = {}
    for name, topic in _Plan.of(bag, config, depth=depth).cameras.items():
        frames[name] = _first_frame(bag, topic)
    return frames


def _first_frame(bag: BagReader, topic: str) -> CameraFrame:
    """The first message as a frame; of a video the first that says how large its pictures are."""
    parser = StreamParser()
    for message in bag.messages([topic]):
        stamp_ns = bag.header_stamp_ns(topic, message.payload) or message.receive_ns
        frame = camera_frame(topic, bag.decode(topic, message.payload), stamp_ns)
        if frame.encoding == H264:
            parser.add(frame.payload)
        if frame.encoding != H264 or parser.sequence is not None:
            return frame
    raise no_key_frame(topic, bag.topics[topic].message_count)


@dataclass(slots=True, kw_only=True)
class _Plan:
    """What is read from which topic."""

    topics: dict[str, str]
    readers: dict[str, FieldReader]
    cameras: dict[str, str]
    settings: dict[str, SourceSettings | CameraSettings]
    clocks: dict[str, TopicClock]
    videos: dict[str, PacketLog]
    depths: frozenset[str] = frozenset()
    frame_ids: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, bag: BagReader, config: SessionConfig, *, depth: bool) -> "_Plan":
        space = config.session.namespace
        sources = {key: resolve_topic(s.topic, space) for key, s in config.sources.items()}
        images = {name: resolve_topic(image_topic(name, c), space) for name, c in config.cameras.items()}
        depths = {depth_name(n): (n, depth_topic(c)) for n, c in config.cameras.items() if depth_topic(c)}
        if depth:
            images |= {name: resolve_topic(topic, space) for name, (_, topic) in depths.items()}
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
        of_camera = {name: depths[name][0] if name in depths else name for name in images}
        return cls(
            topics=sources,
            readers={k: FieldReader(k, t, config.sources[k], config.arm) for k, t in sources.items()},
            cameras=images,
            settings={name: config.cameras[camera] for name, camera in of_camera.items()},
            depths=frozenset(images) & frozenset(depths),
            clocks={t: TopicClock() for t in dict.fromkeys([*sources.values(), *images.values()])},
            videos={t: PacketLog() for t in images.values() if is_video(bag.topics[t].type)},
            notes=notes,
        )

    def stream(self, key: str, config: SessionConfig, lines: Timelines, where: str) -> Stream:
        topic, reader = self.topics[key], self.readers[key]
        clock, settings = self.clocks[topic], config.sources[key]
        line = lines.of(f"sources.{key}", topic, settings.clock, round(settings.latency_ms * 1e6), where)
        used, received = clock.used(), kept(clock.receive_ns(), clock.used())
        times, sure = line.times(clock.stamp_ns(), received)
        keep = increasing(kept(times, sure))
        dropped = {
            "stamp unset": clock.unset,
            "clock set": int(np.count_nonzero(~sure)),
            "stamp not increasing": int(np.count_nonzero(~keep)),
        }
        return Stream(
            key=key,
            stamp_ns=kept(kept(times, sure), keep),
            receive_ns=kept(kept(received, sure), keep),
            values=kept(kept(kept(reader.values(), used), sure), keep),
            frame_id=reader.frame_id,
            stamp_source=clock.source,
            topic=topic,
            dropped={reason: n for reason, n in dropped.items() if n},
            shape=reader.shape,
        )

    def camera(
        self, path: Path, name: str, config: SessionConfig, lines: Timelines, where: str
    ) -> CameraStream:
        topic, settings = self.cameras[name], self.settings[name]
        clock = self.clocks[topic]
        line = lines.of(f"cameras.{name}", topic, settings.clock, round(settings.latency_ms * 1e6), where)
        used = clock.used()
        received = kept(clock.receive_ns(), used)
        times, sure = line.times(clock.stamp_ns(), received)
        frames = TopicFrames(path=path, topic=topic, line=line)
        stream = CameraStream(
            camera=name,
            stamp_ns=kept(times, sure),
            receive_ns=kept(received, sure),
            frames=frames,
            topic=topic,
            frame_id=self.frame_ids.get(topic, ""),
            stamp_source=clock.source,
            is_depth=name in self.depths,
        )
        log = self.videos.get(topic)
        if log is None:
            return stream
        self.notes += log.notes(name)
        has_time = used.copy()
        has_time[used] = sure
        video = log.frames(frames, stream.stamp_ns, has_time)
        return replace(
            stream,
            stamp_ns=video.stamp_ns,
            receive_ns=stream.receive_ns[log.decodable()[has_time]],
            frames=video.pictures,
            coded=log.coded(video, topic),
        )


def _read(bag: BagReader, plan: _Plan) -> None:
    by_topic: dict[str, list[FieldReader]] = {}
    for key, reader in plan.readers.items():
        by_topic.setdefault(plan.topics[key], []).append(reader)
    images = set(plan.cameras.values())
    # of pictures only the stamps are wanted, and they are most of a recording
    heads = images - by_topic.keys() - plan.videos.keys()
    for topic, receive_ns, payload, *_ in bag.messages(list(plan.clocks), heads=heads):
        plan.clocks[topic].add(receive_ns, bag.header_stamp_ns(topic, payload))
        readers = by_topic.get(topic)
        if readers:
            message = bag.decode(topic, payload)
            for reader in readers:
                reader.add(message)
        if topic in plan.videos:
            message = bag.decode(topic, payload)
            plan.frame_ids.setdefault(topic, frame_id_of(message))
            plan.videos[topic].add(
                camera_frame(topic, message, bag.header_stamp_ns(topic, payload) or receive_ns)
            )
    plan.frame_ids |= _frame_ids(bag, sorted(heads))


def _frame_ids(bag: BagReader, topics: Iterable[str]) -> dict[str, str]:
    """The frame that the first message of each topic names."""
    first = {topic: next(bag.messages([topic])) for topic in topics}
    return {topic: frame_id_of(bag.decode(topic, message.payload)) for topic, message in first.items()}


def _spans(streams: Iterable[Stream | CameraStream]) -> dict[str, tuple[int, int]]:
    """First and last time by topic."""
    return {s.topic: (int(s.stamp_ns.min()), int(s.stamp_ns.max())) for s in streams if len(s.stamp_ns)}


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


def _latencies(settings: Mapping[str, SourceSettings | CameraSettings]) -> dict[str, float]:
    """What was taken off the stamps of each source and camera, in ms, where it is not nothing."""
    return {name: known.latency_ms for name, known in settings.items() if known.latency_ms}


def _interval(
    path: Path,
    record: EpisodeRecord,
    streams: Mapping[str, Stream],
    required: Iterable[StampArray],
) -> tuple[int, int, str]:
    stamps = [s for s in required if len(s)] or [s.stamp_ns for s in streams.values() if len(s.stamp_ns)]
    if not stamps:
        raise BagError("no message has a stamp", where=path)
    start_ns = record.start_ns if record.start_ns is not None else max(int(s.min()) for s in stamps)
    end_ns = record.end_ns if record.end_ns is not None else min(int(s.max()) for s in stamps)
    said = [
        "start by the recorder" if record.start_ns is not None else "start at the latest first stamp",
        "end by the recorder" if record.end_ns is not None else "end at the earliest last stamp",
    ]
    return start_ns, end_ns, ", ".join(said)
