"""Whether datasets may become one: the same kind of rows, under the same control, no recording twice."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from piper_collect.core.content_hash import HashKind, hash_kind
from piper_collect.core.provenance import BINDING_KEYS, binding_changes
from piper_collect.dataset.embodiment import EMBODIMENT
from piper_collect.dataset.json_files import read_json
from piper_collect.dataset.layout import EPISODES_STATS, INFO, META, MODALITY, SOURCES, STATS
from piper_collect.dataset.reader import DatasetReader
from piper_collect.dataset.v3.reader import LeRobotV3Reader
from piper_collect.errors import DatasetError

Mergeable: TypeAlias = DatasetReader | LeRobotV3Reader
"""Datasets that can become one."""

_INFO_KEYS = ("codebase_version", "robot_type", "fps")
_PROFILE_KEYS = ("row_clock", "timestamp", "video_timing")
_OF_THE_EXPORT = ("started_ns", "task", "qos", "losses")
"""What a session's record may have of the bag that was exported first, or of the bags beside it then."""
_HINT = "such datasets do not belong into one"


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """An episode on its way into another dataset.

    Attributes:
        dataset: The dataset that it is in.
        index: Its number there.
    """

    dataset: Mergeable
    index: int

    @property
    def source(self) -> Mapping[str, Any]:
        """Its line of episode_sources.jsonl; empty where there is none."""
        return self.dataset.sources.get(self.index, {})


def check_alike(datasets: Sequence[Mergeable]) -> None:
    """Refuse datasets of different kinds.

    Raises:
        DatasetError: Naming the first key that differs, its two values, and where they are.
    """
    first = datasets[0]
    for other in datasets:
        _check_numbers(other)
        for key in _INFO_KEYS:
            _check(f"{key} of {INFO}", first, other, first.info.get(key), other.info.get(key))
        _check_features(first, other)
        for name in (SOURCES, EPISODES_STATS, STATS):
            there = [(dataset.root / META / name).is_file() for dataset in (first, other)]
            _check(f"{META}/{name}", first, other, *("there" if has else "missing" for has in there))
        _check_stats(first, other)
        for name in (MODALITY, EMBODIMENT):
            _check(f"{META}/{name}", first, other, _content(first, name), _content(other, name))
    _check_profiles(datasets)


def check_binding(datasets: Sequence[Mergeable]) -> tuple[str, ...]:
    """Refuse sessions that were recorded under different control.

    Returns:
        Notes on what cannot be compared, because a session does not know it.

    Raises:
        DatasetError: Naming the binding key that differs, both values, and the sessions.
    """
    records = [(dataset, record) for dataset in datasets for record in dataset.sessions]
    known: dict[str, tuple[str, object]] = {}
    for dataset, record in records:
        session = f"session {record.get('session')} of {dataset.root}"
        for key, value in _binding(record).items():
            where, first = known.setdefault(key, (session, value))
            if value != first:
                raise DatasetError(
                    f"{key} differs: the same action moves the arm in another way, or at another rate",
                    where=session,
                    expected=f"{first} ({where})",
                    got=value,
                    hint=_HINT,
                )
    return tuple(
        f"cannot be compared: session {record.get('session')} of {dataset.root} does not know its {key}"
        for dataset, record in records
        for key in BINDING_KEYS
        if key in known and key not in _binding(record)
    )


def joint_sessions(
    datasets: Sequence[Mergeable],
) -> tuple[tuple[Mapping[str, Any], ...], tuple[str, ...]]:
    """The session records of all datasets, the first of each session, in the order in which they come.

    Returns:
        The records, and notes on those of one session that tell of it differently.
    """
    found: dict[object, Mapping[str, Any]] = {}
    notes = []
    for dataset in datasets:
        for record in dataset.sessions:
            first = found.setdefault(record.get("session"), record)
            keys = [k for k in dict.fromkeys((*first, *record)) if k not in _OF_THE_EXPORT]
            other = [key for key in keys if first.get(key) != record.get(key)]
            if other:
                notes.append(
                    f"the record of session {record.get('session')} in {dataset.root} has another "
                    f"{', '.join(other)} than that of a dataset before it, which is kept"
                )
    return tuple(found.values()), tuple(notes)


def without_duplicates(
    datasets: Sequence[Mergeable], *, skip: bool
) -> tuple[list[Member], list[tuple[Member, Member]]]:
    """The episodes of all datasets, each recording once.

    Two episodes are of one recording when their bags have the same content hash, and they are the same part
    of it, or it was split in different ways. Where the datasets know their bags by several kinds of hash,
    the names of session and bag stand for it.

    Args:
        datasets: In their order.
        skip: Leave out what comes a second time.

    Returns:
        The episodes, and what was left out, each with the episode that is kept in its place.

    Raises:
        DatasetError: One comes twice, and is not to be left out.
    """
    members: list[Member] = []
    twice: list[tuple[Member, Member]] = []
    by_mark: dict[object, list[Member]] = {}
    by_name = len(_hash_kinds(datasets)) > 1
    for member in (Member(dataset=d, index=index) for d in datasets for index in d.episodes):
        digest = str(member.source.get("content_hash") or "")
        mark = (member.source.get("session"), member.source.get("bag")) if by_name else digest
        known = by_mark.setdefault(mark, []) if digest else []
        same = next((other for other in known if _overlap(member.source, other.source)), None)
        if same is None:
            members.append(member)
            known.append(member)
            continue
        if not skip:
            raise DatasetError(
                f"episode {member.index} is a recording that {same.dataset.root} has as episode {same.index}",
                where=member.dataset.root,
                got=f"bag {member.source.get('bag')} of session {member.source.get('session')}",
                hint="--skip-duplicates takes it once",
            )
        twice.append((member, same))
    return members, twice


def hash_notes(datasets: Sequence[Mergeable]) -> tuple[str, ...]:
    """That an export into all of them together would not know some bags again, where it is so."""
    if len(_hash_kinds(datasets)) < 2:
        return ()
    return (
        "some datasets know their recordings by SHA-256, others by BLAKE3: an export into the merged dataset "
        "does not see that it holds recordings of the others",
    )


def _hash_kinds(datasets: Sequence[Mergeable]) -> set[HashKind]:
    return {hash_kind(d.sources.values()) for d in datasets if d.sources}


def _overlap(source: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    here, there = ((int(s.get("part", 0)), int(s.get("parts", 1))) for s in (source, other))
    return here[1] != there[1] or here[0] == there[0]


def _check_numbers(dataset: Mergeable) -> None:
    if list(dataset.episodes) != list(range(len(dataset.episodes))):
        raise DatasetError("the episodes are not numbered from 0 without a gap", where=dataset.root)


def _check(what: str, first: Mergeable, other: Mergeable, one: object, two: object) -> None:
    if one != two:
        raise DatasetError(
            f"{what} differs from that of {first.root}", where=other.root, expected=one, got=two, hint=_HINT
        )


def _check_features(first: Mergeable, other: Mergeable) -> None:
    ours, theirs = first.info["features"], other.info["features"]
    for key in dict.fromkeys((*ours, *theirs)):
        one, two = ours.get(key, "no such feature"), theirs.get(key, "no such feature")
        _check(f"feature {key}", first, other, one, two)
    _check("the order of the features", first, other, list(ours), list(theirs))


def _check_stats(first: Mergeable, other: Mergeable) -> None:
    """Columns of stats.json; one without episodes has none."""
    if first.episodes and other.episodes:
        keys = [list(dataset.stats or {}) for dataset in (first, other)]
        _check(f"the columns of {META}/{STATS}", first, other, *keys)


def _check_profiles(datasets: Iterable[Mergeable]) -> None:
    marks = [
        (d, s["profile"]) for d in datasets for s in d.sources.values() if isinstance(s.get("profile"), dict)
    ]
    for dataset, mark in marks:
        for key in _PROFILE_KEYS:
            _check(f"{key} of the profile", marks[0][0], dataset, marks[0][1].get(key), mark.get(key))


def _content(dataset: Mergeable, name: str) -> object:
    path = dataset.root / META / name
    return read_json(path) if path.is_file() else "missing"


def _binding(record: Mapping[str, Any]) -> dict[str, object]:
    """The binding keys that a session knows, with their values."""
    return {pair.key: pair.new for pair in binding_changes({}, record).unknown}
