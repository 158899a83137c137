"""QoS profiles as rosbag2 writes them: names since version 9, rmw numbers before."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import yaml

from piper_collect.bag.yaml_text import read_texts
from piper_collect.core.qos_match import INFINITE_NS

# Position in each tuple is the rmw enumeration value that rosbag2 versions 4 to 8 wrote (rmw/types.h).
_HISTORY = ("system_default", "keep_last", "keep_all", "unknown")
_RELIABILITY = ("system_default", "reliable", "best_effort", "unknown", "best_available")
_DURABILITY = ("system_default", "transient_local", "volatile", "unknown", "best_available")
_LIVELINESS = (
    "system_default",
    "automatic",
    "manual_by_node",
    "manual_by_topic",
    "unknown",
    "best_available",
)
_UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class QosProfile:
    """What one publisher of a topic offered.

    Attributes:
        history: ``keep_last``, ``keep_all``, ``system_default`` or ``unknown``.
        depth: Queue length; discovery reports 0 where it does not know.
        reliability: ``reliable``, ``best_effort``, ``system_default``, ``best_available``, ``unknown``.
        durability: ``volatile``, ``transient_local``, ``system_default``, ``best_available``, ``unknown``.
        deadline_ns: ``INFINITE_NS`` for none.
        lifespan_ns: ``INFINITE_NS`` for none.
        liveliness: ``automatic``, ``manual_by_topic``, ``system_default``, ``unknown``.
        lease_ns: Liveliness lease duration; ``INFINITE_NS`` for none.
        avoid_ros_namespace_conventions: Whether the DDS topic name goes without ROS prefixes.
    """

    history: str = "keep_last"
    depth: int = 100
    reliability: str = "reliable"
    durability: str = "volatile"
    deadline_ns: int = INFINITE_NS
    lifespan_ns: int = INFINITE_NS
    liveliness: str = "automatic"
    lease_ns: int = INFINITE_NS
    avoid_ros_namespace_conventions: bool = False


def qos_maps(profiles: Sequence[QosProfile]) -> list[dict[str, object]]:
    """The profiles as the list of maps of a version 9 ``metadata.yaml``."""
    return [
        {
            "history": qos.history,
            "depth": qos.depth,
            "reliability": qos.reliability,
            "durability": qos.durability,
            "deadline": _split(qos.deadline_ns),
            "lifespan": _split(qos.lifespan_ns),
            "liveliness": qos.liveliness,
            "liveliness_lease_duration": _split(qos.lease_ns),
            "avoid_ros_namespace_conventions": qos.avoid_ros_namespace_conventions,
        }
        for qos in profiles
    ]


def qos_text(profiles: Sequence[QosProfile]) -> str:
    """The profiles as the YAML text of an MCAP channel's ``offered_qos_profiles``."""
    return yaml.safe_dump(qos_maps(profiles), sort_keys=False).strip()


def qos_words(profiles: Sequence[QosProfile]) -> list[str] | None:
    """What each publisher offered, e.g. ``reliable, volatile``; None where nobody said.

    History and depth are left out: discovery does not know them.
    """
    words = []
    for qos in profiles:
        bounds = {"deadline": qos.deadline_ns, "lifespan": qos.lifespan_ns}
        said = [f"{name} {bound / 1e6:g} ms" for name, bound in bounds.items() if 0 < bound < INFINITE_NS]
        words.append(", ".join([qos.reliability, qos.durability, *said]))
    return words or None


def parse_qos(entry: object) -> tuple[QosProfile, ...]:
    """Read profiles of any rosbag2 version.

    Args:
        entry: YAML text, or what YAML made of it (a list of maps whose scalars may be strings).

    Returns:
        The profiles; values that rmw does not name become ``unknown``, missing ones the default.
        Text that is no list of maps holds no profile.
    """
    if isinstance(entry, str):
        try:
            entry = read_texts(entry)
        except yaml.YAMLError:
            return ()
    if not isinstance(entry, list):
        return ()
    return tuple(_profile(item) for item in entry if isinstance(item, Mapping))


def _profile(item: Mapping[str, object]) -> QosProfile:
    return QosProfile(
        history=_name(item.get("history"), _HISTORY),
        depth=_integer(item.get("depth")),
        reliability=_name(item.get("reliability"), _RELIABILITY),
        durability=_name(item.get("durability"), _DURABILITY),
        deadline_ns=_joined(item.get("deadline")),
        lifespan_ns=_joined(item.get("lifespan")),
        liveliness=_name(item.get("liveliness"), _LIVELINESS),
        lease_ns=_joined(item.get("liveliness_lease_duration")),
        avoid_ros_namespace_conventions=str(item.get("avoid_ros_namespace_conventions")).lower() == "true",
    )


def _split(duration_ns: int) -> dict[str, int]:
    return {"sec": duration_ns // 1_000_000_000, "nsec": duration_ns % 1_000_000_000}


def _joined(entry: object) -> int:
    if not isinstance(entry, Mapping):
        return INFINITE_NS
    return min(_integer(entry.get("sec")) * 1_000_000_000 + _integer(entry.get("nsec")), INFINITE_NS)


def _name(entry: object, names: tuple[str, ...]) -> str:
    text = str(entry).lower()
    if text in names:
        return text
    return names[int(text)] if text.isdecimal() and int(text) < len(names) else _UNKNOWN


def _integer(entry: object) -> int:
    try:
        return int(str(entry))
    except ValueError:
        return 0
