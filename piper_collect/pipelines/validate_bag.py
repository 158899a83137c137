"""Looks at bags as an export would, without exporting: what would fail, and what is worth a look."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from piper_collect.bag.episode import read_episode
from piper_collect.bag.find import find_bags
from piper_collect.bag.reader import BagReader, open_bag
from piper_collect.bag.sidecar import EpisodeRecord, choose_config, path_text, read_record
from piper_collect.bag.survey import TopicSurvey, survey_topics
from piper_collect.config.fitted import fitted_profile
from piper_collect.config.profile import Profile, load_profile
from piper_collect.config.schema import SessionConfig
from piper_collect.core.findings import Finding, Findings, Level, Report
from piper_collect.core.types import CameraFrame, Episode
from piper_collect.errors import AlignmentError, BagError, PiperCollectError
from piper_collect.pipelines.aligned import align_by_profile
from piper_collect.pipelines.bag_facts import image_facts, storage_facts, topic_facts
from piper_collect.pipelines.bag_findings import (
    Need,
    Timing,
    clock_findings,
    decode_findings,
    edge_findings,
    finding,
    image_findings,
    measure,
    missing_findings,
    needed_topics,
    rate_findings,
    record_findings,
    said,
    stamp_findings,
    storage_findings,
)
from piper_collect.pipelines.bag_rows import alignment_facts, alignment_findings, value_findings


@dataclass(slots=True, kw_only=True)
class BagLook:
    """What was seen of one bag.

    Attributes:
        path: The bag.
        name: How the report calls it.
        task: Task string, empty when unknown.
        findings: In the order found.
        facts: Counts and measures (JSON values).
        surveys: By topic; empty when the storage could not be read.
        timings: By topic with messages.
        fed: Topics with messages that feed the dataset; all where nothing says which do.
        pictures: Some frames of each camera, by camera or topic name.
        episode: The aligned episode, when it could be aligned.
    """

    path: Path
    name: str
    task: str = ""
    findings: list[Finding] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    surveys: dict[str, TopicSurvey] = field(default_factory=dict)
    timings: dict[str, Timing] = field(default_factory=dict)
    fed: tuple[str, ...] = ()
    pictures: dict[str, list[CameraFrame]] = field(default_factory=dict)
    episode: Episode | None = None

    def fail(self, code: str, err: Exception) -> None:
        """Take an exception as an error."""
        self.findings.append(finding("error", code, self.name, said(err, self.path)))


def validate_bag(
    path: Path,
    config: SessionConfig | None = None,
    *,
    profile: Profile | None = None,
    on_bag: Callable[[BagLook], None] | None = None,
) -> Report:
    """Look at a bag, or at every bag of a folder, as ``export`` would read it.

    Nothing is written. A bag that cannot be read is a finding, and does not keep the others from being
    looked at. Memory holds one bag's numbers at a time, never its images.

    Args:
        path: A bag, a storage file, or a folder with bags at most three folders down.
        config: How to read the bags; each bag's own by default.
        profile: What would be exported; ``piper`` by default.
        on_bag: Told of each bag that was looked at.

    Returns:
        Findings by bag, and facts of each.

    Raises:
        BagError: There is no such path, or no bag below it.
    """
    profile = profile if profile is not None else load_profile("piper")
    paths = find_bags([path])
    findings = Findings()
    bags: dict[str, dict[str, Any]] = {}
    for found in paths:
        look = look_at_bag(found, _name(found, path), config, profile)
        findings.extend(look.findings)
        bags[look.name] = look.facts
        if on_bag is not None:
            on_bag(look)
    findings.extend(_differences(bags))
    facts = {
        "bags": len(paths),
        "messages": sum(int(b.get("messages", 0)) for b in bags.values()),
        "rows": sum(int(b.get("alignment", {}).get("rows", 0)) for b in bags.values()),
        "profile": profile.name,
        "by_bag": bags,
    }
    return Report(subject=path_text(path), findings=findings.listed, facts=facts, unlisted=findings.unlisted)


def look_at_bag(path: Path, name: str, config: SessionConfig | None, profile: Profile) -> BagLook:
    """Everything that can be said of one bag."""
    look = BagLook(path=path, name=name)
    try:
        with open_bag(path) as bag:
            _look_at_storage(look, bag)
            _look_at_content(look, bag, config, profile)
    except (PiperCollectError, OSError) as err:
        look.fail("unreadable", err)
    return look


def _look_at_storage(look: BagLook, bag: BagReader) -> None:
    look.findings += storage_findings(bag, look.name)
    look.facts |= storage_facts(bag)


def _look_at_content(look: BagLook, bag: BagReader, config: SessionConfig | None, profile: Profile) -> None:
    record = _record(look, bag)
    config = config if config is not None else _config(look, bag, record)
    needs = needed_topics(config, depth=profile.holds_depth) if config is not None else {}
    cameras = {topic for topic, need in needs.items() if need.camera_fps is not None}
    depths = _depth_topics(config) & set(bag.topics) - cameras if config is not None else set()
    if config is not None:
        look.findings += missing_findings(bag, needs, look.name)
    try:
        look.surveys = survey_topics(bag, cameras & set(bag.topics), depths)
    except BagError as err:
        look.fail("damaged", err)
        return
    _look_at_topics(look, record, config, needs)
    missing = any(f.code in ("missing-topic", "empty") for f in look.findings)
    if config is None or record is None or missing:
        return
    _look_at_episode(look, bag, record, config, profile)


def _depth_topics(config: SessionConfig) -> set[str]:
    """Absolute topics of the cameras' depth images, whether or not the profile takes them."""
    return {topic for topic, need in needed_topics(config, depth=True).items() if need.is_depth}


def _record(look: BagLook, bag: BagReader) -> EpisodeRecord | None:
    try:
        record = read_record(bag)
    except BagError as err:
        look.fail("record-unreadable", err)
        return None
    look.findings += record_findings(bag, record, look.name)
    look.task = record.task
    look.facts |= {
        "session": record.session or None,
        "task": record.task or None,
        "outcome": record.outcome or None,
        "tool_version": record.tool_version or None,
        "lost": {topic: lost for topic, lost in record.losses.items() if lost},
    }
    return record


def _config(look: BagLook, bag: BagReader, record: EpisodeRecord | None) -> SessionConfig | None:
    if record is None:
        return None
    try:
        config, where_from = choose_config(bag, record)
    except PiperCollectError as err:
        look.fail("no-config", err)
        return None
    look.facts["configuration"] = where_from
    return config


def _look_at_topics(
    look: BagLook, record: EpisodeRecord | None, config: SessionConfig | None, needs: Mapping[str, Need]
) -> None:
    """Clocks, rates and images; of topics that feed nothing only whether they can be decoded."""
    interval = (record.start_ns, record.end_ns) if record is not None else (None, None)
    for topic, survey in look.surveys.items():
        if not survey.count:
            continue
        where = f"{look.name} {topic}"
        need = needs.get(topic)
        level: Level = "error" if need is not None else "warning"
        timing = look.timings[topic] = measure(
            survey,
            camera_fps=need.camera_fps if need is not None else None,
            clock_steps=record.clock_steps if record is not None else (),
        )
        look.findings += decode_findings(survey, level, where)
        if survey.images is not None:
            look.findings += image_findings(survey, survey.images, level, where)
            if survey.images.samples or not survey.images.depths:
                look.pictures[need.names[0] if need is not None else topic] = survey.images.samples
        if need is not None and config is not None:
            look.findings += stamp_findings(survey, timing, where)
            look.findings += rate_findings(survey, need, config.session.fps, interval, where)
    if config is None:
        look.findings += _stamps_at_large(look)
    look.fed = tuple(t for t, s in look.surveys.items() if s.count and (t in needs or config is None))
    if config is not None:
        fed = {t: look.surveys[t].clock.stamp_ns() for t in look.fed}
        look.findings += edge_findings(fed, needs, interval, look.name)
    look.facts["topics"] = {t: topic_facts(s, look.timings.get(t)) for t, s in look.surveys.items()}
    look.facts["images"] = {
        t: image_facts(s) for t, s in look.surveys.items() if s.images is not None and s.count
    }
    if config is not None:
        look.facts["fps"] = config.session.fps
        look.facts["robot"] = config.arm.model


def _stamps_at_large(look: BagLook) -> Iterator[Finding]:
    """Where nothing says which topics matter: one finding a kind, of those that bear stamps."""
    by_code: dict[str, list[Finding]] = {}
    for topic, timing in look.timings.items():
        if look.surveys[topic].clock.has_header:
            for one in stamp_findings(look.surveys[topic], timing, topic):
                by_code.setdefault(one.code, []).append(one)
    for code, found in by_code.items():
        first = found[0]
        more = f" (so on {len(found)} topics)" if len(found) > 1 else ""
        yield finding(first.level, code, f"{look.name} {first.where}", first.text + more)


def _look_at_episode(
    look: BagLook, bag: BagReader, record: EpisodeRecord, config: SessionConfig, profile: Profile
) -> None:
    """The sources as configured, and the rows that an export would make of them."""
    try:
        raw = read_episode(bag, config, record, depth=profile.holds_depth)
    except AlignmentError as err:
        look.fail("clocks-differ", err)
        return
    except PiperCollectError as err:
        look.fail("source", err)
        return
    look.task = raw.task
    look.findings += clock_findings(raw, look.name)
    profile = fitted_profile(profile, config.sources)
    faults = list(value_findings(raw, profile, look.name))
    look.findings += faults
    if any(f.level == "error" for f in faults):
        return
    try:
        episode = align_by_profile(raw, config, profile)
    except AlignmentError as err:
        look.fail("no-rows", err)
        return
    except PiperCollectError as err:
        look.fail("columns", err)
        return
    look.episode = episode
    look.facts["alignment"] = alignment_facts(raw, episode)
    look.findings += alignment_findings(raw, episode, look.name)


def _differences(bags: Mapping[str, Mapping[str, Any]]) -> Iterator[Finding]:
    """What keeps two bags out of one dataset: the first that differs from the first bag."""

    def sizes(facts: Mapping[str, Any]) -> dict[str, str]:
        return {topic: image["sizes"] for topic, image in facts.get("images", {}).items()}

    known = {name: facts for name, facts in bags.items() if "alignment" in facts}
    for first, (name, facts) in zip([next(iter(known), "")] * len(known), known.items(), strict=True):
        for what in ("fps", "robot"):
            if facts[what] != known[first][what]:
                text = f"its {what} is {facts[what]}, that of {first} is {known[first][what]}"
                yield finding("warning", "bags-differ", name, f"{text}: not for one dataset")
        if sizes(facts) != sizes(known[first]):
            text = f"its images are {sizes(facts)}, those of {first} are {sizes(known[first])}"
            yield finding("warning", "bags-differ", name, f"{text}: not for one dataset")


def _name(bag: Path, path: Path) -> str:
    """A bag below ``path`` by its way there, ``path`` itself by its last part."""
    inside = bag != path and bag.is_relative_to(path)
    return path_text(bag.relative_to(path) if inside else bag.name)
