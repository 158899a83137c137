"""What one asks first about recordings: one bag, a session's folder, or any folder with bags below it."""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from piper_collect.bag.episode import first_frames
from piper_collect.bag.find import find_bags, storage_bytes, unfinished_recordings
from piper_collect.bag.reader import BagReader, open_bag
from piper_collect.bag.session_folder import SESSION_JSON, SESSION_YAML
from piper_collect.bag.sidecar import EpisodeRecord, choose_config, path_text, read_record
from piper_collect.bag.source import StrangeFileError, identify
from piper_collect.config.schema import SessionConfig
from piper_collect.core.overview import Kind, Overview, counted, session_facts, summed
from piper_collect.errors import BagError, PiperCollectError
from piper_collect.imaging.frames import frame_size
from piper_collect.pipelines.overview.at_work import is_locked

_UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class _BagLook:
    """What one bag says of itself."""

    path: Path
    record: EpisodeRecord | None = None
    seconds: float = 0.0
    messages: int = 0
    size_bytes: int = 0
    cameras: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    robot: str | None = None
    fps: float | None = None
    dataset: str = ""
    topics: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    storage: str = ""
    cut_short: bool = False
    unreadable: str = ""


def recordings_overview(path: Path) -> Overview:
    """Look at a bag or at all bags below a folder; of all messages only the first frames of one bag are read.

    Raises:
        BagError: There is no such path, nothing was recorded below it, or it is a file that is no bag.
    """
    if path.is_file():
        _refuse_no_bag(path)
    unfinished = list(unfinished_recordings(path)) if path.is_dir() else []
    try:
        bags = find_bags([path])
    except BagError:
        if not unfinished:
            raise
        bags = []
    kind: Kind = "bags"
    if (path / SESSION_JSON).is_file() or (path / SESSION_YAML).is_file():
        kind = "session"
    elif bags == [path]:
        kind = "bag"
    looks: list[_BagLook] = []
    for bag in bags:
        looks.append(_look(bag, with_cameras=not any(look.cameras for look in looks)))
    facts = _facts(looks)
    facts["unfinished"] = [{"path": path_text(p), "being_recorded": is_locked(p)} for p in unfinished]
    if kind == "bag":
        facts |= {"storage": looks[0].storage, "topics": dict(looks[0].topics)}
    return Overview(
        subject=path_text(path),
        kind=kind,
        facts=facts,
        problems=tuple(_problems(facts)),
        next_steps=tuple(_next(path, looks, facts)),
    )


def _refuse_no_bag(path: Path) -> None:
    try:
        identify(path)
    except StrangeFileError as err:
        raise BagError("is neither a bag nor a dataset", where=path, got=err.got) from err


def _look(path: Path, *, with_cameras: bool) -> _BagLook:
    try:
        with open_bag(path) as bag:
            record = read_record(bag)
            config = _config(bag, record)
            span_ns = (bag.end_ns or 0) - (bag.start_ns or 0)
            if record.start_ns is not None and record.end_ns is not None:
                span_ns = record.end_ns - record.start_ns
            return _BagLook(
                path=path,
                record=record,
                seconds=span_ns / 1e9,
                messages=sum(t.message_count for t in bag.topics.values()),
                size_bytes=storage_bytes(path),
                cameras=_cameras(bag, config) if config is not None and with_cameras else {},
                robot=None if config is None else config.arm.model,
                fps=None if config is None else config.session.fps,
                dataset="" if config is None else config.session.dataset,
                topics={
                    name: {"type": t.type, "messages": t.message_count}
                    for name, t in sorted(bag.topics.items())
                },
                storage=bag.storage_id,
                cut_short=bag.incomplete,
            )
    except (PiperCollectError, OSError) as err:
        return _BagLook(path=path, size_bytes=storage_bytes(path), unreadable=" ".join(str(err).split()))


def _config(bag: BagReader, record: EpisodeRecord) -> SessionConfig | None:
    try:
        return choose_config(bag, record)[0]
    except PiperCollectError:
        return None


def _cameras(bag: BagReader, config: SessionConfig) -> dict[str, dict[str, Any]]:
    """Size of each camera's first frame; None where it has none that can be looked at."""
    try:
        sizes = {name: frame_size(frame) for name, frame in first_frames(bag, config).items()}
    except PiperCollectError:
        sizes = {}
    unknown = (None, None)
    return {
        name: dict(zip(("height", "width"), sizes.get(name, unknown), strict=True)) for name in config.cameras
    }


def _facts(looks: list[_BagLook]) -> dict[str, Any]:
    records = {look.path: look.record for look in looks if look.record is not None}
    by_topic = summed(record.losses for record in records.values())
    return {
        "bags": len(looks),
        "seconds": round(sum(look.seconds for look in looks), 3),
        "messages": sum(look.messages for look in looks),
        "tasks": counted(record.task or _UNKNOWN for record in records.values()),
        "outcomes": counted(record.outcome or _UNKNOWN for record in records.values()),
        "incomplete": {
            path_text(path): list(record.incomplete_reasons)
            for path, record in records.items()
            if record.incomplete_reasons
        },
        "cut_short": [path_text(look.path) for look in looks if look.cut_short],
        "unreadable": {path_text(look.path): look.unreadable for look in looks if look.unreadable},
        "cameras": next((dict(look.cameras) for look in looks if look.cameras), {}),
        "robot": next((look.robot for look in looks if look.robot), None),
        "fps": next((look.fps for look in looks if look.fps), None),
        "sessions": _sessions(list(records.values())),
        "losses": {
            "messages": sum(by_topic.values()),
            "messages_by_topic": by_topic,
            "bags_that_tell": sum(bool(record.losses) for record in records.values()),
            "missing_by_stamps": summed(record.missing_by_stamps for record in records.values()),
            "missing_by_sequence": summed(record.missing_by_sequence for record in records.values()),
        },
        "disk_bytes": {"total": sum(look.size_bytes for look in looks)},
    }


def _sessions(records: list[EpisodeRecord]) -> list[dict[str, Any]]:
    counts = counted(record.session or _UNKNOWN for record in records)
    newest = {record.session: record.session_record for record in records if record.session_record}
    named = dict.fromkeys(record.session for record in records if record.session)
    return [
        {**session_facts(newest.get(name) or {}), "session": name, "bags": counts[name]} for name in named
    ]


def _problems(facts: Mapping[str, Any]) -> Iterator[str]:
    for path, reasons in facts["incomplete"].items():
        yield f"{path} is not whole: {'; '.join(reasons)}"
    yield from facts["unreadable"].values()
    for left in facts["unfinished"]:
        if left["being_recorded"]:
            yield f"{left['path']} is being recorded now"
        else:
            yield f"{left['path']} was never finished"


def _next(path: Path, looks: list[_BagLook], facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    place = shlex.quote(path_text(path))
    left = any(not left["being_recorded"] for left in facts["unfinished"])
    if facts["unreadable"] or facts["cut_short"] or left:
        yield f"piper-collect recover {place}", "makes whole episodes of what is unfinished or damaged"
    if facts["cut_short"] and looks[0].path == path:
        return  # what is recovered of a bag lies beside it, and stands for it
    readable = [look.record for look in looks if look.record is not None]
    if readable:
        named = next((str(Path(look.dataset).expanduser()) for look in looks if look.dataset), "")
        root = shlex.quote(named) if named else "ROOT"
        yield f"piper-collect validate {place}", "looks at every message, as an export would"
        allow = " --allow-incomplete" if all(record.incomplete_reasons for record in readable) else ""
        yield f"piper-collect export {place} -o {root}{allow}", "makes a dataset of it"
