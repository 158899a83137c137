"""Where the episodes come from: their bags, their T0, their sessions, and what was lost on the way."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from piper_collect.core.findings import Findings, Level
from piper_collect.core.provenance import binding_changes
from piper_collect.core.survey import CameraSurvey
from piper_collect.dataset.columns import SOURCE_STATE
from piper_collect.dataset.layout import LATEST_SESSION, META, SESSIONS, SOURCES
from piper_collect.pipelines.validation.json_values import as_int, as_object, as_text, read_object, shown
from piper_collect.pipelines.validation.metadata import Metadata
from piper_collect.pipelines.validation.rows import EpisodeRows

WHERE = f"{META}/{SOURCES}"
_EARLIEST_NS = 946_684_800_000_000_000  # 2000-01-01: header stamps before it are not wall-clock time
_MANY_DROPPED = 0.05
_RECORDED = ("input_device", "arm.model", "arm.firmware", "control.backend", "cameras", "recording.fps")


def check_sources(meta: Metadata, findings: Findings) -> None:
    """One line an episode, each bag once, every session recorded, T0 in wall-clock time."""
    sources = meta.sources
    if sources is None:
        ours = any("tool_version" in record for record in meta.sessions or ())
        text = "the file is missing: from which bag and time each episode comes cannot be told"
        findings.add("warning" if ours else "info", "no-sources", WHERE, text)
        return
    for index in meta.episodes.offsets:
        if index not in sources.offsets:
            findings.add("error", "sources", WHERE, f"there is no line of episode {index}")
    for index in sources.offsets:
        if index not in meta.episodes.offsets:
            findings.add("error", "sources", WHERE, f"has a line of episode {index}, which there is not")
    known = {as_text(record.get("session")) for record in meta.sessions or ()}
    bags: dict[tuple[str, int | None], int] = {}
    starts: dict[int, int] = {}
    unknown: set[str] = set()
    for index, line in sources.items():
        _check_line(index, line, bags, starts, findings)
        session = as_text(line.get("session"))
        if session and session not in known and session not in unknown:
            unknown.add(session)
            text = f"episode {index} is of session {session!r}, of which {META}/{SESSIONS} has no record"
            findings.add("error", "sessions", WHERE, text)


def _check_line(
    index: int,
    line: Mapping[str, Any],
    bags: dict[tuple[str, int | None], int],
    starts: dict[int, int],
    findings: Findings,
) -> None:
    where = f"{WHERE}, episode {index}"
    if not as_text(line.get("session")):
        findings.add("error", "sources", where, f"session is {shown(line.get('session'))}")
    if not as_text(line.get("bag")):
        findings.add("error", "sources", where, f"bag is {shown(line.get('bag'))}")
    content = as_text(line.get("content_hash"))
    if content:
        first = bags.setdefault((content, as_int(line.get("part"))), index)
        if first != index:
            text = f"comes from the bag of episode {first} ({shown(line.get('bag'))}, the same content)"
            findings.add("error", "duplicate-bag", where, text)
    t0_ns = line.get("t0_ns")
    if not isinstance(t0_ns, int) or as_int(t0_ns) is None:
        findings.add("error", "t0", where, f"t0_ns is {shown(t0_ns)}, not whole nanoseconds")
        return
    if t0_ns < _EARLIEST_NS:
        findings.add("warning", "t0", where, f"t0_ns {t0_ns} is not wall-clock time since the epoch")
    first = starts.setdefault(t0_ns, index)
    if first != index:
        findings.add("error", "t0", where, f"starts at the same t0_ns as episode {first}")


def check_origin(
    rows: EpisodeRows, source: Mapping[str, Any], cameras: Mapping[str, CameraSurvey], findings: Findings
) -> None:
    """The counts of the export against what is there, and losses worth a look."""
    counts = as_object(source.get("counts"))
    parts = as_int(source.get("parts")) or 1
    told = as_int(counts.get("rows"))
    if told is not None and told != rows.length and parts == 1:
        text = f"{rows.length} rows, the export counted {told}"
        findings.add("error", "sources", f"{WHERE}, {rows.where}", text)
    _check_frames(rows, as_object(source.get("cameras")), cameras, findings)
    check_losses(rows.length, rows.where, source, findings)
    check_marked(rows.cells, rows.where, as_object(source.get("marked_rows")), findings)


def check_losses(length: int, where: str, source: Mapping[str, Any], findings: Findings) -> None:
    """What the export says was lost: rows, freshness, messages, the end of the recording; of any format.

    Args:
        length: Rows of the episode.
        where: How messages name it.
        source: Its line of episode_sources.jsonl.
        findings: Take what is found.
    """
    counts = as_object(source.get("counts"))
    slots = as_int(counts.get("slots"))
    lost = (as_int(counts.get("gaps")) or 0) + (as_int(counts.get("dropped")) or 0)
    if slots and lost:
        text = (
            f"{lost} of {slots} slots have no row ({counts.get('gaps', 0)} gaps, "
            f"{counts.get('dropped', 0)} dropped for want of a fresh value)"
        )
        level: Level = "warning" if lost > _MANY_DROPPED * slots else "info"
        findings.add(level, "lost-rows", where, text)
    _check_stale(length, where, as_object(as_object(source.get("marked_rows")).get("stale")), findings)
    recording = as_object(source.get("recording"))
    losses = {topic: n for topic, value in as_object(recording.get("losses")).items() if (n := as_int(value))}
    if losses:
        worst = max(losses, key=lambda topic: losses[topic])
        text = f"the recording lost {sum(losses.values())} messages, most on {worst} ({losses[worst]})"
        findings.add("info", "losses", where, text)
    reasons = recording.get("incomplete_reasons")
    if isinstance(reasons, list) and reasons:
        findings.add("warning", "incomplete", where, f"the recording is not whole: {shown(reasons[0])}")


def check_marked(
    cells_by_key: Mapping[str, NDArray[Any]], where: str, marked: Mapping[str, Any], findings: Findings
) -> None:
    """Rows that show a sample again or one too old: the counts of the export against the columns.

    Args:
        cells_by_key: Columns; those of ``source_state`` are looked at.
        where: How messages name the episode.
        marked: Counts by ``repeated`` and ``stale``, then by source; without any nothing is looked at.
        findings: Take what is found.
    """
    for word, state in (("repeated", 1), ("stale", 2)):
        told = {name: n for name, value in as_object(marked.get(word)).items() if (n := as_int(value))}
        for key, cells in cells_by_key.items():
            name = key.removeprefix(SOURCE_STATE)
            if name != key and marked and np.count_nonzero(cells == state) != told.get(name, 0):
                text = (
                    f"{np.count_nonzero(cells == state)} rows of {key} have state {state}, the export "
                    f"counted {told.get(name, 0)} {word}"
                )
                findings.add("error", "source-state", f"{WHERE}, {where}", text)


def _check_stale(length: int, where: str, told: Mapping[str, Any], findings: Findings) -> None:
    stale = {name: n for name, value in told.items() if (n := as_int(value))}
    if stale:
        worst = max(stale, key=lambda name: stale[name])
        level: Level = "warning" if stale[worst] > _MANY_DROPPED * length else "info"
        text = f"{stale[worst]} of {length} rows show a sample of {worst} that is too old"
        findings.add(level, "stale-rows", where, text)


def _check_frames(
    rows: EpisodeRows, told: Mapping[str, Any], cameras: Mapping[str, CameraSurvey], findings: Findings
) -> None:
    """Frame counts and sizes of the videos as the export knew them, by which swapped files show."""
    kept = {key.rpartition(".")[2]: len(camera.pts_s) for key, camera in cameras.items()}
    counted = {name: as_int(as_object(told.get(name)).get("frames")) for name in kept}
    wrong = [name for name in kept if counted[name] is not None and counted[name] != kept[name]]
    where = f"{WHERE}, {rows.where}"
    for name in wrong:
        text = f"the video of {name} has {kept[name]} frames, the export counted {counted[name]}"
        other = [n for n in wrong if n != name and counted[n] == kept[name] and counted[name] == kept[n]]
        if other:
            text += f"; it counted {kept[name]} for {other[0]}: are the two videos swapped?"
        findings.add("error", "frame-count", where, text)
    for key, camera in cameras.items():
        size = as_object(told.get(key.rpartition(".")[2])).get("encoded_size")
        if camera.pictures is not None and size is not None and list(camera.pictures.size) != size:
            text = f"the pictures of {key} are {list(camera.pictures.size)}, the export wrote {shown(size)}"
            findings.add("error", "video-size", where, text)


def check_sessions(meta: Metadata, findings: Findings) -> None:
    """The session records: named once, the latest one beside them, and under one control all along."""
    if meta.sessions is None:
        return
    where = f"{META}/{SESSIONS}"
    names = [as_text(record.get("session")) for record in meta.sessions]
    for name in sorted({n for n in names if names.count(n) > 1 and n}):
        findings.add("error", "sessions", where, f"session {name!r} is recorded twice")
    if not meta.sessions:
        findings.add("error", "sessions", where, "holds no record")
        return
    latest = meta.root / META / LATEST_SESSION
    if not latest.is_file():
        findings.add("error", "sessions", f"{META}/{LATEST_SESSION}", "the file is missing")
    elif read_object(latest, f"{META}/{LATEST_SESSION}", findings) not in (None, meta.sessions[-1]):
        text = f"is not the last record of {where}"
        findings.add("warning", "sessions", f"{META}/{LATEST_SESSION}", text)
    for record in meta.sessions:
        absent = [key for key in _RECORDED if not _has(record, key)]
        if absent:
            text = f"the record of session {shown(record.get('session'))} does not tell {', '.join(absent)}"
            findings.add("warning", "session-record", where, text)
    for before, after in zip(meta.sessions, meta.sessions[1:], strict=False):
        for change in binding_changes(before, after).changed:
            text = (
                f"{change.key} changes from {shown(change.old)} in session {shown(before.get('session'))} to "
                f"{shown(change.new)} in {shown(after.get('session'))}: the same action moves the arm in "
                "another way"
            )
            findings.add("warning", "binding-change", where, text)


def _has(record: Mapping[str, Any], key: str) -> bool:
    """Whether a dotted key is there, be it null: not known is an answer."""
    *path, last = key.split(".")
    for part in path:
        record = as_object(record.get(part))
    return last in record
