"""An overview as one screen of labelled lines."""

from collections.abc import Iterator, Mapping
from typing import Any, TextIO

from rich.text import Text

from piper_collect.core.overview import Overview
from piper_collect.report.episode_view import spoken_duration
from piper_collect.report.tables import console_for

_MOST_LISTED = 6
_MOST_REASON = 110
_LABEL_WIDTH = 11
_BOOKS = ("timestamp", "frame_index", "episode_index", "index", "task_index")
_SOURCES = ("source_timestamp.", "source_state.")
_UNITS = ("B", "kB", "MB", "GB", "TB")


def print_overview(overview: Overview, stream: TextIO | None = None) -> None:
    """Print it to ``stream`` (stdout by default); colours on a terminal only."""
    console = console_for(stream)
    console.print(Text(overview.subject, style="bold"), soft_wrap=True)
    styles = {"problem": "bold red", "next": "green"}
    for label, text in overview_lines(overview):
        line = Text(f"  {label:<{_LABEL_WIDTH}} ", style=styles.get(label, "cyan"))
        line.append(text, style="default")
        console.print(line, soft_wrap=True)


def overview_lines(overview: Overview) -> Iterator[tuple[str, str]]:
    """Label and text of each line; the label is empty where a line goes on with the one before."""
    facts = overview.facts
    yield from _dataset(facts) if overview.kind == "dataset" else _recordings(overview.kind, facts)
    for number, problem in enumerate(overview.problems):
        if number == _MOST_LISTED:
            yield "", f"and {len(overview.problems) - _MOST_LISTED} more"
            break
        yield "problem", problem
    width = max((len(command) for command, _ in overview.next_steps), default=0)
    for number, (command, purpose) in enumerate(overview.next_steps):
        yield "" if number else "next", f"{command:<{width}}  {purpose}"


def spoken_bytes(count: int) -> str:
    """Bytes in the unit that fits, by thousands."""
    value, unit = float(count), 0
    while value >= 999.5 and unit < len(_UNITS) - 1:
        value, unit = value / 1000.0, unit + 1
    return f"{count} B" if unit == 0 else f"{value:.3g} {_UNITS[unit]}"


def _dataset(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    profiles = ", ".join(facts["profiles"]) or ("not ours" if facts["episodes"] else "not known")
    yield (
        "dataset",
        f"{_format(str(facts['version']))}, profile {profiles}, robot {facts['robot'] or 'unknown'}, "
        f"{facts['fps']:g} rows a second",
    )
    yield (
        "content",
        f"{_number(facts['episodes'], 'episode')}, {_number(facts['rows'], 'row')}, "
        f"{spoken_duration(facts['seconds'])}",
    )
    yield from _counts("tasks", facts["tasks"])
    yield "outcomes", _outcomes(facts["outcomes"], len(facts["incomplete_episodes"]))
    yield "cameras", _cameras(facts["cameras"])
    yield "columns", _columns(facts["features"])
    yield from _sessions(facts["sessions"], "episode")
    losses = facts["losses"]
    parts = {
        "messages": "messages lost while recording",
        "rows_missing": "rows without a target",
        "rows_dropped": "rows dropped as stale",
        "frames_repeated": "frames shown twice",
        "frames_dropped": "frames dropped by the encoder",
    }
    told = [f"{losses[key]:,} {text}" for key, text in parts.items() if losses[key]]
    yield "losses", ", ".join(told) or "none"
    yield from _trainers(facts["trainers"], facts["episodes"])
    yield "disk", _disk(facts["disk_bytes"])
    finalized = ", ".join(facts["finalized"])
    yield "finalized", finalized or "no (no relative_stats.json, delta_stats.json)"


def _recordings(kind: str, facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    robot, fps = facts["robot"] or "unknown", facts["fps"]
    rate = f", {fps:g} rows a second" if fps else ""
    yield {"bag": "recording", "session": "session", "bags": "recordings"}[kind], f"robot {robot}{rate}"
    yield (
        "content",
        f"{_number(facts['bags'], 'bag')}, {spoken_duration(facts['seconds'])}, "
        f"{_number(facts['messages'], 'message')}",
    )
    yield from _counts("tasks", facts["tasks"])
    yield "outcomes", _outcomes(facts["outcomes"], len(facts["incomplete"]))
    yield "cameras", _cameras(facts["cameras"])
    for number, (name, topic) in enumerate(facts.get("topics", {}).items()):
        yield "" if number else "topics", f"{name}: {topic['messages']:,} {topic['type'].rpartition('/')[2]}"
    yield from _sessions(facts["sessions"], "bag")
    yield from _losses(facts["losses"], len(facts["cut_short"]))
    yield "disk", _disk(facts["disk_bytes"])


def _losses(losses: Mapping[str, Any], cut_short: int) -> Iterator[tuple[str, str]]:
    """What DDS counted, then what the samples themselves tell: the one is no part of the other."""
    none = "none" if losses["bags_that_tell"] else "not known"
    told = _by_topic(losses["messages_by_topic"], "published and not arrived, by DDS")
    if cut_short:
        yield "losses", f"the end of {_number(cut_short, 'bag')}, whose storage was cut short"
        if told:
            yield "", told
    else:
        yield "losses", told or none
    for key, what in (
        ("missing_by_stamps", "never taken or lost anywhere, by the stamps"),
        ("missing_by_sequence", "lost between headset and host, by its numbers"),
    ):
        if losses[key]:
            yield "", _by_topic(losses[key], what)


def _by_topic(counts: Mapping[str, int], what: str) -> str:
    told = ", ".join(f"{topic} {count:,}" for topic, count in counts.items())
    return f"{told} ({what})" if told else ""


def _trainers(trainers: Mapping[str, Any], episodes: int) -> Iterator[tuple[str, str]]:
    if not episodes:
        yield "loads in", "no trainer as it is"
        return
    if not trainers["loads"] and not trainers["refuses"]:
        yield "loads in", "not looked at here; validate tells"
        return
    looked = len(trainers["episodes_looked_at"])
    by = f" (by {looked} of {episodes} episodes)" if looked < episodes else ""
    yield "loads in", ("; ".join(trainers["loads"]) or "no trainer as it is") + by
    alike: dict[str, list[str]] = {}
    for name, reason in trainers["refuses"].items():
        alike.setdefault(_short(reason), []).append(name)
    for number, (reason, names) in enumerate(alike.items()):
        yield "" if number else "not in", f"{' and '.join(names)}: {reason}"


def _short(reason: str) -> str:
    """The first of several reasons, cut at a word; validate tells all."""
    first = reason.split("; ")[0]
    cut = first if len(first) <= _MOST_REASON else first[:_MOST_REASON].rsplit(" ", 1)[0] + " …"
    return cut if first == reason or cut != first else f"{cut}; …"


def _columns(features: Mapping[str, Mapping[str, Any]]) -> str:
    """Columns with their shapes; those that the format has for its own books are counted."""
    books = [k for k in features if k in _BOOKS or k.startswith(_SOURCES)]
    told = [f"{key}{f['shape']}" for key, f in features.items() if key not in books]
    names = {key.partition(".")[0] + (".*" if "." in key else "") for key in books}
    return ", ".join(told) + (f"; and {len(books)} of {', '.join(sorted(names))}" if books else "")


def _counts(label: str, counts: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    for number, (name, count) in enumerate(counts.items()):
        if number == _MOST_LISTED:
            yield "", f"and {len(counts) - _MOST_LISTED} more"
            return
        yield "" if number else label, f"{count:,} × {name}"
    if not counts:
        yield label, "none"


def _outcomes(outcomes: Mapping[str, int], incomplete: int) -> str:
    told = ", ".join(f"{count:,} {name}" for name, count in outcomes.items()) or "none"
    return f"{told}; {incomplete} not whole" if incomplete else told


def _cameras(cameras: Mapping[str, Mapping[str, Any]]) -> str:
    told = []
    for name, camera in cameras.items():
        width, height = camera.get("width"), camera.get("height")
        size = f"{width}×{height}" if width and height else "size unknown"
        told.append(f"{name} {size}" + (f" {camera['codec']}" if camera.get("codec") else ""))
    return ", ".join(told) or "none"


def _sessions(sessions: list[Mapping[str, Any]], what: str) -> Iterator[tuple[str, str]]:
    for number, session in enumerate(sessions):
        if number == _MOST_LISTED:
            yield "", f"and {len(sessions) - _MOST_LISTED} more"
            return
        arm = {k: v for k, v in session["arm"].items() if v is not None and not k.endswith("_source")}
        parts = [
            f"{session['session']}: {_number(session[what + 's'], what)}",
            f"by {session['input_device'] or 'an unknown device'}",
            "arm " + (", ".join(f"{key} {value}" for key, value in arm.items()) or "unknown"),
        ]
        serials = {name: serial for name, serial in session["camera_serials"].items() if serial}
        parts += [f"{name} {serial}" for name, serial in serials.items()]
        yield "" if number else "sessions", ", ".join(parts)
    if not sessions:
        yield "sessions", "unknown"


def _disk(sizes: Mapping[str, int]) -> str:
    parts = ", ".join(f"{name} {spoken_bytes(size)}" for name, size in sizes.items() if name != "total")
    return spoken_bytes(sizes["total"]) + (f" ({parts})" if parts else "")


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _format(version: str) -> str:
    return f"LeRobot {version}" if version.startswith("v") else version
