"""The provenance record of a session: who and what produced its data, and what binds a policy to it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

FirmwareSource = Literal["arm/status", "configuration"]

BINDING_KEYS = (
    "control.backend",
    "control.impedance.kp",
    "control.impedance.kd",
    "control.impedance.t_ff",
    "control.impedance.gravity_ff",
    "arm.firmware",
    "recording.fps",
)
"""What a policy is bound to: another value gives other motion, or another rate, for the same action."""

_RULE = "=" * 78


def session_record(
    *,
    session: str,
    started_ns: int,
    input_device: str,
    arm: Mapping[str, object],
    control: Mapping[str, object],
    cameras: Mapping[str, Mapping[str, object]],
    fps: float,
    task: str,
    tool_version: str,
    config_sha256: str,
    storage: Mapping[str, object] | None = None,
) -> dict[str, object]:
    """One JSON-ready record; a value that is not known is None, never a guess.

    Args:
        session: Name of the session's folder.
        started_ns: Wall-clock ns at which the session started.
        input_device: What the operator held.
        arm: ``model``, ``firmware``, ``firmware_source``, ``dh_offset``.
        control: ``backend`` and ``impedance`` with ``kp``, ``kd``, ``t_ff``, ``gravity_ff``; an empty list
            of gains says nothing.
        cameras: By name, at least ``serial``.
        fps: Rows a second.
        task: The session's task string.
        tool_version: Version of this package.
        config_sha256: Of the session YAML as recorded.
        storage: What writes the bags: ``backend``, ``storage``, ``library``, ``version``; left out where
            nobody knows.
    """
    return {
        "session": session,
        "started_ns": started_ns,
        "task": task,
        "input_device": input_device or None,
        "arm": {name: value or None for name, value in arm.items()},
        "control": _known(control),
        "cameras": {name: {k: v or None for k, v in camera.items()} for name, camera in cameras.items()},
        "recording": {"fps": fps, **({} if storage is None else {"storage": dict(storage)})},
        "tool_version": tool_version,
        "config_sha256": config_sha256,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """One binding key in two sessions; None where a record does not know it.

    Attributes:
        key: Dotted path in the record, one of ``BINDING_KEYS``.
        old: Value of the session before.
        new: Value of the session that is added.
    """

    key: str
    old: object
    new: object


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingComparison:
    """Two sessions compared by the keys that bind a policy.

    Attributes:
        changed: Keys that both records know, with different values.
        unknown: Keys that only one of them knows: neither the same nor changed.
    """

    changed: tuple[Binding, ...] = ()
    unknown: tuple[Binding, ...] = ()


def binding_changes(
    previous: Mapping[str, object], current: Mapping[str, object], keys: Sequence[str] = BINDING_KEYS
) -> BindingComparison:
    """Compare two session records by ``keys``, in their order.

    Numbers compare as numbers (1 and 1.0 are equal) and lists element by element. A value that is null
    or missing is unknown; where both are, there is nothing to say.
    """
    pairs = [Binding(key=key, old=_value(previous, key), new=_value(current, key)) for key in keys]
    differing = [pair for pair in pairs if pair.old != pair.new]
    unknown = tuple(pair for pair in differing if pair.old is None or pair.new is None)
    return BindingComparison(
        changed=tuple(pair for pair in differing if pair not in unknown), unknown=unknown
    )


def warning_text(comparison: BindingComparison, previous_session: str, current_session: str) -> str:
    """Several lines that cannot be overlooked, each changed key old -> new; empty when none changed."""
    if not comparison.changed:
        return ""
    width = max(len(pair.key) for pair in comparison.changed)
    return "\n".join(
        (
            _RULE,
            f"WARNING: session {current_session} was recorded under other control than {previous_session}",
            "before it in this dataset:",
            "",
            *(f"  {p.key:<{width}}  {_shown(p.old)} -> {_shown(p.new)}" for p in comparison.changed),
            "",
            "The same action moves the arm in another way, or at another rate: a policy that is trained on",
            "both learns from contradictions. Start a fresh dataset root for this session instead.",
            _RULE,
        )
    )


def note_text(comparison: BindingComparison, previous_session: str, current_session: str) -> str:
    """One line that names the keys only one session knows; empty when there is none."""
    sides = (
        (previous_session, [pair.key for pair in comparison.unknown if pair.old is None]),
        (current_session, [pair.key for pair in comparison.unknown if pair.new is None]),
    )
    parts = [f"{', '.join(keys)} of session {session}" for session, keys in sides if keys]
    return f"cannot be compared, because unknown: {'; '.join(parts)}" if parts else ""


def total_losses(episodes: Iterable[Mapping[str, object]]) -> dict[str, object] | None:
    """The messages lost in several episodes, summed.

    Args:
        episodes: For each episode, the messages lost by topic.

    Returns:
        ``episodes`` that were counted, ``messages`` lost in all, ``by_topic``; None when no episode says
        what it lost.
    """
    by_topic: dict[str, int] = {}
    counted = 0
    for losses in episodes:
        numbers = {topic: lost for topic, lost in losses.items() if isinstance(lost, int)}
        counted += bool(numbers)
        for topic, lost in numbers.items():
            by_topic[topic] = by_topic.get(topic, 0) + lost
    if not counted:
        return None
    return {
        "episodes": counted,
        "messages": sum(by_topic.values()),
        "by_topic": dict(sorted(by_topic.items())),
    }


def _known(control: Mapping[str, object]) -> dict[str, object]:
    """The control settings as JSON has them, None for empty lists."""
    known: dict[str, object] = {}
    for name, value in control.items():
        if isinstance(value, Mapping):
            known[name] = _known(value)
        elif isinstance(value, Sequence) and not isinstance(value, str):
            known[name] = list(value) or None
        else:
            known[name] = value
    return known


def _value(record: Mapping[str, object], key: str) -> object:
    found: object = record
    for part in key.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return list(found) if isinstance(found, tuple) else found


def _shown(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]"
    return "unknown" if value is None else str(value)
