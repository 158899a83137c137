"""The card of a dataset on the Hugging Face Hub: what is in it, where it is from, and how good it is."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from piper_collect import __version__
from piper_collect.core.findings import Report
from piper_collect.report.episode_view import spoken_duration
from piper_collect.report.overview import spoken_bytes

_CONVENTIONS = (
    "Metres, radians, seconds; quaternions wxyz; poses in the arm's base frame; actions are absolute.\n"
)
MADE_BY = "*Made by piper_collect "
"""How the last line of a card starts."""
_MOST_TASKS = 50
_MOST_SESSIONS = 50
_MOST_FINDINGS = 20
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))


@dataclass(frozen=True, slots=True, kw_only=True)
class CardContent:
    """What the card tells.

    Attributes:
        title: Its heading.
        facts: Of the dataset, as ``info --json`` has them.
        features: The features of info.json, in their order.
        report: What ``validate`` found.
        license: Identifier of a licence; empty where nobody said any.
        thumbnails: Path of a strip of pictures in the repository, by what it shows.
    """

    title: str
    facts: Mapping[str, Any]
    features: Mapping[str, Mapping[str, Any]]
    report: Report
    license: str = ""
    thumbnails: Mapping[str, str] = field(default_factory=dict)


def dataset_card(content: CardContent) -> str:
    """The card as Markdown with its YAML header."""
    parts = (
        _header(content),
        f"# {_text(content.title)}\n",
        *_about(content.facts),
        *_pictures(content.thumbnails),
        "## Columns\n",
        *_schema(content),
        *_provenance(content.facts),
        *_quality(content),
        f"{MADE_BY}{__version__}.*\n",
    )
    return "\n".join(parts)


def _header(content: CardContent) -> str:
    rows = content.facts["rows"]
    size = next((name for limit, name in _SIZES if rows < limit), "n>1M")
    lines = ["---"]
    if content.license:
        lines.append(f"license: {content.license}")
    is_lerobot = _is_lerobot(content.facts)
    lines += ["task_categories:", "- robotics", "tags:", "- LeRobot" if is_lerobot else "- hdf5"]
    lines += ["- piper_collect", "size_categories:", f"- {size}"]
    if is_lerobot:
        lines += ["configs:", "- config_name: default", "  data_files: data/*/*.parquet"]
    lines += ["---", ""]
    return "\n".join(lines)


def _is_lerobot(facts: Mapping[str, Any]) -> bool:
    """Versions of LeRobot's format are numbers after a v; HDF5 cases have a name."""
    return str(facts["version"]).startswith("v")


def _about(facts: Mapping[str, Any]) -> Iterator[str]:
    profiles = ", ".join(facts["profiles"]) or "unknown"
    cameras = ", ".join(
        f"{name} ({camera['width']}×{camera['height']})" if camera.get("width") else name
        for name, camera in facts["cameras"].items()
    )
    yield from _table(
        ("", ""),
        [
            ("format", f"{'LeRobot ' * _is_lerobot(facts)}{facts['version']}, profile {profiles}"),
            ("robot", facts["robot"] or "unknown"),
            ("episodes", f"{facts['episodes']:,}"),
            ("rows", f"{facts['rows']:,} at {facts['fps']:g} a second, {spoken_duration(facts['seconds'])}"),
            ("cameras", cameras or "none"),
            ("size", spoken_bytes(facts["disk_bytes"]["total"])),
        ],
    )
    yield "## Tasks\n"
    tasks = list(facts["tasks"].items())
    yield from _table(("task", "episodes"), [(task, f"{n:,}") for task, n in tasks[:_MOST_TASKS]])
    if len(tasks) > _MOST_TASKS:
        yield f"and {len(tasks) - _MOST_TASKS} more.\n"


def _pictures(thumbnails: Mapping[str, str]) -> Iterator[str]:
    if thumbnails:
        yield "## Pictures\n"
    for label, path in thumbnails.items():
        yield f"{_text(label)}\n\n![{_text(label)}]({path})\n"


def _schema(content: CardContent) -> Iterator[str]:
    rows = [
        (f"`{key}`", feature["dtype"], str(list(feature.get("shape", ()))), ", ".join(_names(feature)))
        for key, feature in content.features.items()
    ]
    yield from _table(("column", "type", "shape", "elements"), rows)
    if content.facts["profiles"]:
        yield _CONVENTIONS


def _names(feature: Mapping[str, Any]) -> list[str]:
    names = feature.get("names")
    if isinstance(names, Mapping):
        names = [name for part in names.values() for name in (part if isinstance(part, list) else [part])]
    return [str(name) for name in names] if isinstance(names, list) else []


def _provenance(facts: Mapping[str, Any]) -> Iterator[str]:
    yield "## Provenance\n"
    sessions = facts["sessions"]
    if not sessions:
        yield "Not recorded.\n"
        return
    rows = []
    for session in sessions[:_MOST_SESSIONS]:
        arm = {k: v for k, v in session["arm"].items() if v is not None and not k.endswith("_source")}
        rows.append(
            (
                session["session"],
                str(session["episodes"]),
                session["input_device"] or "unknown",
                ", ".join(f"{key} {value}" for key, value in arm.items()) or "unknown",
            )
        )
    yield from _table(("session", "episodes", "input device", "arm"), rows)
    if len(sessions) > _MOST_SESSIONS:
        yield f"and {len(sessions) - _MOST_SESSIONS} more.\n"
    yield "Which recording each episode is from: `meta/episode_sources.jsonl`.\n"


def _quality(content: CardContent) -> Iterator[str]:
    facts, report = content.facts, content.report
    yield "## Quality\n"
    outcomes = ", ".join(f"{n} {name}" for name, n in facts["outcomes"].items())
    losses = facts["losses"]
    rows = [
        ("outcomes", f"{outcomes}; {len(facts['incomplete_episodes'])} not whole"),
        ("messages lost while recording", f"{losses['messages']:,}"),
        (
            "rows without a target, or dropped as stale",
            f"{losses['rows_missing'] + losses['rows_dropped']:,}",
        ),
        ("frames repeated, or dropped", f"{losses['frames_repeated'] + losses['frames_dropped']:,}"),
        ("validate", f"{report.count('error')} errors, {report.count('warning')} warnings"),
        ("statistics of relative and delta actions", ", ".join(facts["finalized"]) or "none"),
    ]
    yield from _table(("", ""), rows)
    found = [f for f in report.findings if f.level != "info" and f.code != "consumer"]
    yield from (f"- {_text(str(finding))}" for finding in found[:_MOST_FINDINGS])
    more = len(found) - _MOST_FINDINGS + sum(report.unlisted.values())
    yield f"- and {more} more\n" if more > 0 else ""
    yield "What trainers do with it, foretold from the times in it:\n"
    consumers = [f for f in report.findings if f.code == "consumer"]
    yield from _table(("trainer", "what it does"), [(f.where, f.text) for f in consumers])


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    lines = [head, ["---"] * len(head), *rows]
    yield "\n".join(f"| {' | '.join(_text(cell) for cell in line)} |" for line in lines) + "\n"


def _text(value: str) -> str:
    """One line that neither ends a cell nor begins a tag."""
    line = " ".join(str(value).split())
    return line.replace("|", "\\|").replace("<", "&lt;")
