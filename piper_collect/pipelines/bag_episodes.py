"""What one bag gives to a dataset: its episodes, and what goes beside them."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from piper_collect.bag.definitions import full_type_name
from piper_collect.bag.episode import read_episode
from piper_collect.bag.extras import QUEST_INPUT, camera_infos, write_quest_jsonl
from piper_collect.bag.reader import BagReader, open_bag
from piper_collect.bag.sidecar import EpisodeRecord, path_text
from piper_collect.bag.timeline import clock_notes
from piper_collect.config.profile import Profile
from piper_collect.config.schema import SessionConfig
from piper_collect.core.split import split_episode
from piper_collect.core.types import Episode
from piper_collect.dataset.stage import EpisodeExtras
from piper_collect.errors import DatasetError
from piper_collect.pipelines.aligned import align_by_profile

LONGEST_S = 1024.0
"""Beyond it float32 timestamps are too coarse for stock LeRobot's check of 1e-4 s (measured at 30 Hz)."""

_RECORDING = (
    "outcome",
    "incomplete_reasons",
    "losses",
    "interval",
    "clocks",
    "unset_stamps",
    "latency_ms",
    "tool_version",
)

_CLOCKS = ("clock_faults", "clock_corrections", "clock_steps")
"""What is there only where a clock was wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """How bags become episodes.

    Attributes:
        profile: What the dataset is made of.
        config: How to read the bags; each bag's own by default.
        config_name: What ``config`` is called in the summary.
        allow_incomplete: Export bags whose recording was cut short or interrupted, too.
        task: Task string for all of them, in place of the recorded one.
        split_s: Recordings longer than this become several episodes; None for never.
        save_raw_quest: Keep the raw headset input beside each episode.
        strict_binding: Refuse a session that was recorded under other control parameters than the one
            before, instead of warning.
        replace: Make the episodes of bags that the dataset holds anew, in place.
    """

    profile: Profile
    config: SessionConfig | None = None
    config_name: str = "--config"
    allow_incomplete: bool = False
    task: str | None = None
    split_s: float | None = None
    save_raw_quest: bool = False
    strict_binding: bool = False
    replace: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BagEpisodes:
    """The aligned episodes of a bag.

    Attributes:
        parts: One, or several where the recording was split.
        start_ns: First stamp of the recording.
        end_ns: Last stamp of it.
    """

    parts: tuple[Episode, ...]
    start_ns: int
    end_ns: int

    def spans(self) -> list[tuple[int, int]]:
        """First and last stamp of each part; together they are the whole recording."""
        starts = [self.start_ns, *(p.t0_ns for p in self.parts[1:])]
        ends = [*(p.t0_ns - 1 for p in self.parts[1:]), self.end_ns]
        return list(zip(starts, ends, strict=True))


def bag_episodes(
    bag: BagReader, config: SessionConfig, record: EpisodeRecord, options: ExportOptions
) -> BagEpisodes:
    """The aligned episodes of a bag: one, or its parts where it is to be split.

    Raises:
        DatasetError: There is no task.
        PiperCollectError: The bag cannot be read, or not be aligned.
    """
    raw = read_episode(bag, config, record, depth=options.profile.holds_depth)
    task = options.task if options.task is not None else raw.task
    if not task.strip():
        raise DatasetError("the episode has no task", where=raw.name, hint='give --task "what is done"')
    episode = align_by_profile(replace(raw, task=task), config, options.profile)
    known = {key: episode.provenance.get(key) for key in _RECORDING}
    known |= {key: episode.provenance[key] for key in _CLOCKS if key in episode.provenance}
    notes = [path_text(str(note)) for note in _list(episode.provenance.get("notes"))]
    episode = replace(episode, provenance={**known, "notes": notes})
    parts: tuple[Episode, ...] = (episode,)
    if options.split_s is not None:
        poses = [c.source for c in options.profile.columns if c.rotation == "quat_wxyz"]
        parts = split_episode(episode, max(1, int(options.split_s * config.session.fps)), poses)
    # what lies beside the rows keeps its stamps as they are, also where a step of the clock was taken back
    end_ns = raw.end_ns if record.end_ns is None else max(raw.end_ns, record.end_ns)
    return BagEpisodes(parts=parts, start_ns=raw.start_ns, end_ns=end_ns)


def bag_extras(
    bag: BagReader, config: SessionConfig, episodes: BagEpisodes, options: ExportOptions
) -> tuple[list[EpisodeExtras], tuple[str, ...]]:
    """What goes beside each part, and what to say of it."""
    infos = camera_infos(bag, config)
    topic = _quest_topic(bag) if options.save_raw_quest else None
    notes = list(infos.notes)
    if options.save_raw_quest and topic is None:
        notes.append("no headset input was recorded, so none is kept")
    extras = [
        EpisodeExtras(
            cameras=infos.by_camera,
            quest=_QuestWriter(path=bag.path, topic=topic, first_ns=first_ns, last_ns=last_ns)
            if topic is not None
            else None,
        )
        for first_ns, last_ns in episodes.spans()
    ]
    return extras, tuple(notes)


def recording_notes(parts: Sequence[Episode], profile: Profile, fps: float) -> Iterator[str]:
    """What a person should know of a recording that was exported."""
    known = parts[0].provenance
    for topic, why in _mapping(known.get("clocks")).items():
        yield f"{topic}: {why}"
    yield from clock_notes(known)
    yield from map(str, _list(known.get("notes")))
    for reason in _list(known.get("incomplete_reasons")):
        yield f"not whole: {reason}"
    yield from _marked_notes(parts, profile)
    longest_s = max(p.length for p in parts) / fps
    if profile.timestamp == "not_below" and longest_s > LONGEST_S:
        yield (
            f"an episode of {longest_s:.0f} s: stock LeRobot's check of float32 timestamps "
            f"refuses those over {LONGEST_S:.0f} s; --split {LONGEST_S - 24:.0f} makes several of it"
        )


def _marked_notes(parts: Sequence[Episode], profile: Profile) -> Iterator[str]:
    """How many rows show what is not new, where the profile keeps such rows rather than drop them."""
    if profile.on_gap != "hold":
        return
    for word, state, what in (
        ("repeated", 1, "the same sample as the row before"),
        ("stale", 2, "a value older than its max_age_ms"),
    ):
        counts: Counter[str] = Counter()
        for part in parts:
            counts.update(part.marked_rows[word])
        if counts:
            marked = f", marked {state} in source_state" if profile.row_samples == "columns" else ""
            yield f"rows that show {what}{marked}: {', '.join(f'{n} {c}' for n, c in counts.items())}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _QuestWriter:
    """Writes the headset input of one part of a bag, which it opens again."""

    path: Path
    topic: str
    first_ns: int
    last_ns: int

    def __call__(self, target: Path) -> int:
        with open_bag(self.path) as bag:
            return write_quest_jsonl(bag, self.topic, self.first_ns, self.last_ns, target)


def _quest_topic(bag: BagReader) -> str | None:
    found = [n for n, t in bag.topics.items() if full_type_name(t.type) == QUEST_INPUT and t.message_count]
    return found[0] if found else None


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[object]:
    return list(value) if isinstance(value, list | tuple) else []
