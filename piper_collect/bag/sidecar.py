"""What a bag says about itself: its custom data, ``episode.json`` beside it, the session's files above."""

import dataclasses
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

from piper_collect.bag.reader import BagReader
from piper_collect.bag.session_folder import EPISODE_JSON, SESSION_JSON, SESSION_YAML
from piper_collect.config.load import load_session, session_from_text
from piper_collect.config.schema import SessionConfig
from piper_collect.core.host_clock import HostStep
from piper_collect.errors import BagError

_NOT_WHOLE = ("incomplete", "interrupted")
_MOST_LISTED = 20
_TELEOP_TARGET = "/teleop/target"
_PIPER_ROS_STATE = "/joint_states_single"
PIPER_ROS_CONFIG = "piper_ros_realsense"


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeRecord:
    """What is known of the episode in a bag; None and empty where nobody said.

    Attributes:
        session: Name of the recording session.
        bag: Name of the bag's folder or file.
        task: Task string.
        outcome: As the recorder wrote it; ``interrupted`` when our recorder never finished it.
        incomplete_reasons: Why the episode is not whole; empty when it is, as far as is known.
        start_ns: ROS time of the start call.
        end_ns: ROS time of the stop call.
        tool_version: Version of the recorder.
        clock_steps: How the recorder's clock was set during the episode.
        losses: Messages that were published and did not arrive, as DDS counts, by topic.
        missing_by_stamps: Samples that were never taken or got lost anywhere, by topic.
        missing_by_sequence: The same by numbers in the messages, of topics that have such.
        messages: Messages that the recorder wrote, by topic.
        session_record: Provenance record of the session.
        config_text: YAML text of the configuration that it was recorded with.
    """

    session: str
    bag: str
    task: str = ""
    outcome: str = ""
    incomplete_reasons: tuple[str, ...] = ()
    start_ns: int | None = None
    end_ns: int | None = None
    tool_version: str = ""
    clock_steps: tuple[HostStep, ...] = ()
    losses: Mapping[str, object] = field(default_factory=dict)
    missing_by_stamps: Mapping[str, object] = field(default_factory=dict)
    missing_by_sequence: Mapping[str, object] = field(default_factory=dict)
    messages: Mapping[str, object] = field(default_factory=dict)
    session_record: Mapping[str, object] | None = None
    config_text: str = ""

    @property
    def name(self) -> str:
        """How messages name the episode."""
        return f"{self.session}/{self.bag}" if self.session else self.bag


def read_record(bag: BagReader) -> EpisodeRecord:
    """The episode's record; ``episode.json`` wins over custom data, which a kill may have left half said.

    Raises:
        BagError: A record is there and cannot be read.
    """
    beside = json_file(bag.path / EPISODE_JSON) if bag.path.is_dir() else {}
    known: dict[str, object] = {**bag.custom_data, **beside}
    where = bag.path
    ours = "episode_start_ns" in known
    outcome = str(known.get("outcome") or ("interrupted" if ours else ""))
    session_record = json_value(known.get("session_record"), where, "session_record")
    if not session_record:
        session_record = json_file(bag.path.parent / SESSION_JSON) or None
    return EpisodeRecord(
        session=str(known.get("session") or ""),
        bag=path_text(bag.path.name),
        task=str(known.get("task") or ""),
        outcome=outcome,
        incomplete_reasons=_incomplete_reasons(known, outcome, bag),
        start_ns=_time(known.get("episode_start_ns"), where, "episode_start_ns"),
        end_ns=_time(known.get("episode_end_ns"), where, "episode_end_ns"),
        tool_version=str(known.get("tool_version") or ""),
        clock_steps=_clock_steps(known.get("clock_steps"), where),
        losses=_mapping(json_value(known.get("losses"), where, "losses")),
        missing_by_stamps=_by_topic(known.get("topics"), "missing_by_stamps"),
        missing_by_sequence=_by_topic(known.get("topics"), "missing_by_sequence"),
        messages=_mapping(known.get("messages_in_bag")),
        session_record=_mapping(session_record) or None,
        config_text=str(bag.custom_data.get("session_config") or ""),
    )


def choose_config(bag: BagReader, record: EpisodeRecord) -> tuple[SessionConfig, str]:
    """The configuration to read a bag with when none was given, and where it is from, in words.

    The bag's own comes first, then ``session.yaml`` in the folder above; else the topics decide
    between ours and a bare piper_ros recording.

    Raises:
        BagError: Nothing says how to read the bag.
        ConfigError: A configuration is there and is wrong.
    """
    if record.config_text:
        return session_from_text(
            record.config_text, f"{bag.path} (session_config)"
        ), "the bag's own configuration"
    above = bag.path.parent / SESSION_YAML
    if above.is_file():
        return load_session(above), str(above)
    for ending, config in ((_TELEOP_TARGET, None), (_PIPER_ROS_STATE, PIPER_ROS_CONFIG)):
        spaces = [t.removesuffix(ending) for t in bag.topics if t.endswith(ending)]
        if len(spaces) == 1:
            found = SessionConfig() if config is None else load_session(config)
            said = f"{config or 'the default configuration'}, because {spaces[0]}{ending} is there"
            if config is not None:
                said += f" (flange pose by DH variant {found.arm.dh_offset}: give --config for another)"
            session = dataclasses.replace(found.session, namespace=spaces[0].strip("/"))
            return dataclasses.replace(found, session=session), said
    raise BagError(
        "nothing says which topics feed the dataset",
        where=bag.path,
        expected=f"a recorded configuration, or one topic *{_TELEOP_TARGET} or *{_PIPER_ROS_STATE}",
        got=f"topics {_listed(sorted(bag.topics))}",
        hint="give --config FILE.yaml",
    )


def session_losses(bag: BagReader, record: EpisodeRecord) -> Iterator[Mapping[str, object]]:
    """Messages lost by topic: of this bag's episode, then of the session's others that lie beside it.

    An episode whose record cannot be read is left out.
    """
    yield record.losses
    if not record.session:
        return
    for path in sorted(bag.path.parent.glob(f"episode_*/{EPISODE_JSON}")):
        if path.parent == bag.path:
            continue
        try:
            known = json_file(path)
        except BagError:
            continue
        if known.get("session") == record.session:
            yield _by_topic(known.get("topics"), "lost")


def path_text(path: str | Path) -> str:
    """A path, or a text that names one, as text that any file can hold, whatever the locale made of it."""
    return os.fspath(path).encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _incomplete_reasons(known: Mapping[str, object], outcome: str, bag: BagReader) -> tuple[str, ...]:
    reasons = json_value(known.get("incomplete_reasons"), bag.path, "incomplete_reasons") or []
    found = [str(r) for r in reasons] if isinstance(reasons, list) else [str(reasons)]
    if bag.incomplete:
        found.append("the storage was cut short")
    if outcome in _NOT_WHOLE:
        found.append(f"the recording was {outcome}" if outcome == "interrupted" else "recorded as incomplete")
    if not found and str(known.get("complete", "true")).lower() == "false":
        found.append("recorded as incomplete")
    return tuple(found)


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    return (", ".join(names[:_MOST_LISTED]) or "none") + more


def json_file(path: Path) -> dict[str, object]:
    """The map in a JSON file; empty where there is no file.

    Raises:
        BagError: It cannot be read as JSON.
    """
    if not path.is_file():
        return {}
    try:
        return _mapping(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as err:
        raise BagError("cannot be read as JSON", where=path, got=err) from err


def json_value(value: object, where: Path, key: str) -> object:
    """A value that custom data keeps as JSON text and ``episode.json`` as it is.

    Raises:
        BagError: The text is no JSON.
    """
    if not isinstance(value, str) or not value:
        return value
    try:
        return json.loads(value)
    except ValueError as err:
        raise BagError(f"custom data {key} is not JSON", where=where, got=err) from err


def _mapping(value: object) -> dict[str, object]:
    return {str(k): v for k, v in value.items()} if isinstance(value, Mapping) else {}


def _by_topic(topics: object, key: str) -> dict[str, object]:
    """One of the counts that ``episode.json`` has of each topic."""
    counts = {name: _mapping(told) for name, told in _mapping(topics).items()}
    return {name: told[key] for name, told in counts.items() if key in told}


def _clock_steps(value: object, where: Path) -> tuple[HostStep, ...]:
    steps = json_value(value, where, "clock_steps") or []
    try:
        if not isinstance(steps, list):
            raise TypeError("no list")
        return tuple(HostStep(**{f.name: int(step[f.name]) for f in fields(HostStep)}) for step in steps)
    except (TypeError, ValueError, KeyError, OverflowError) as err:
        raise BagError("clock_steps is no list of steps", where=where, got=err) from err


def _time(value: object, where: Path, key: str) -> int | None:
    if value is None or value == "":
        return None
    try:
        return int(str(value))
    except ValueError as err:
        raise BagError(f"{key} is not a time", where=where, expected="whole nanoseconds", got=value) from err
