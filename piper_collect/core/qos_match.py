"""Whether a subscriber hears a publisher: what is offered must not be less than what is asked for (DDS)."""

from dataclasses import dataclass

INFINITE_NS = 2**63 - 1
"""A duration without bound, as rmw spells it (9223372036 s and 854775807 ns)."""

_RELIABILITY = ("best_effort", "reliable")
_DURABILITY = ("volatile", "transient_local")


@dataclass(frozen=True, slots=True, kw_only=True)
class Qos:
    """The policies that a subscriber's match depends on.

    Attributes:
        reliability: ``best_effort`` or ``reliable``.
        durability: ``volatile`` or ``transient_local``.
        deadline_ns: Longest time between messages that is promised or demanded; 0 and ``INFINITE_NS``: none.
    """

    reliability: str = "reliable"
    durability: str = "volatile"
    deadline_ns: int = INFINITE_NS

    def __str__(self) -> str:
        deadline = f", deadline {self.deadline_ns / 1e6:g} ms" if 0 < self.deadline_ns < INFINITE_NS else ""
        return f"{self.reliability}, {self.durability}{deadline}"


def mismatches(offered: Qos, asked: Qos) -> tuple[str, ...]:
    """Why a subscriber that asks for ``asked`` hears nothing of a publisher; empty when it does.

    Values that are not known (``unknown``, ``system_default``) are taken to match.
    """
    found = []
    for name, order in (("reliability", _RELIABILITY), ("durability", _DURABILITY)):
        has, wants = getattr(offered, name), getattr(asked, name)
        if has in order and wants in order and order.index(has) < order.index(wants):
            found.append(f"{name}: {has} is offered, {wants} is asked for")
    has_ns, wants_ns = offered.deadline_ns or INFINITE_NS, asked.deadline_ns or INFINITE_NS
    if has_ns > wants_ns:
        found.append(f"deadline: {_ms(has_ns)} is offered, {_ms(wants_ns)} is asked for")
    return tuple(found)


def _ms(duration_ns: int) -> str:
    return "none" if duration_ns >= INFINITE_NS else f"{duration_ns / 1e6:g} ms"
