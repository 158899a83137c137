"""What is wrong with the ROS environment that a session would be started in."""

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches

from piper_collect.core.checkup import Check, CheckLevel

ROS = "ROS"
RMW = "rmw_fastrtps_cpp"
"""What all was tried with, and the only one whose settings come with the package."""

RANGES = ("SUBNET", "LOCALHOST", "OFF", "SYSTEM_DEFAULT")
_MOST_DOMAINS = 232
_SAFE_DOMAINS = 101
_SWITCHES = ("0", "1")


@dataclass(frozen=True, slots=True, kw_only=True)
class RosFacts:
    """Variables of the environment, None where they are not set, and what is there.

    Attributes:
        domain_id: ``ROS_DOMAIN_ID``.
        discovery_range: ``ROS_AUTOMATIC_DISCOVERY_RANGE``.
        localhost_only: ``ROS_LOCALHOST_ONLY``.
        rmw: ``RMW_IMPLEMENTATION``.
        profile: File of the Fast DDS profile that is set by the user.
        profile_there: Whether that file is there.
        rmw_installed: Middlewares that are installed; empty where that is not known.
    """

    domain_id: str | None = None
    discovery_range: str | None = None
    localhost_only: str | None = None
    rmw: str | None = None
    profile: str | None = None
    profile_there: bool = True
    rmw_installed: tuple[str, ...] = ()


def ros_checks(facts: RosFacts) -> Iterator[Check]:
    """Judge the environment."""
    yield _domain(facts.domain_id)
    yield from _reach(facts)
    yield _middleware(facts.rmw or RMW, facts.rmw_installed)
    yield _profile(facts)


def _check(where: str, level: CheckLevel, found: str, expected: str = "", hint: str = "") -> Check:
    return Check(level=level, group=ROS, where=where, what="", found=found, expected=expected, hint=hint)


def _domain(text: str | None) -> Check:
    where, text = "ROS_DOMAIN_ID", (text or "").strip() or "0"
    number = int(text) if text.isdecimal() and len(text) < 9 else None
    if number is None or number > _MOST_DOMAINS:
        hint = "set it to a number that all machines of the rig share, and no other rig has"
        return _check(where, "FAIL", f"{text!r}", f"a number from 0 to {_MOST_DOMAINS}", hint)
    if number > _SAFE_DOMAINS:
        found = f"{number}: its ports lie among those that Linux gives to any program"
        return _check(where, "warn", found, f"0 to {_SAFE_DOMAINS}", "choose a smaller one")
    return _check(where, "ok", str(number))


def _reach(facts: RosFacts) -> Iterator[Check]:
    """How far nodes look for each other."""
    reach, local = facts.discovery_range, (facts.localhost_only or "").strip()
    where = "ROS_AUTOMATIC_DISCOVERY_RANGE"
    if reach and reach not in RANGES:
        near = get_close_matches(reach.upper(), RANGES, n=1)
        hint = f"did you mean {near[0]}?" if near else "unset it"
        yield _check(where, "FAIL", repr(reach), " or ".join(RANGES), hint)
    elif reach == "OFF":
        yield _check(where, "FAIL", "OFF: no node finds another", "SUBNET or LOCALHOST", "unset it")
    elif local and local not in _SWITCHES:
        yield _check("ROS_LOCALHOST_ONLY", "warn", repr(local), "0 or 1", "unset it")
    elif local == "1":
        told = f", and {where} ({reach}) has no effect" if reach else ""
        found = f"1: only nodes on this machine are found{told}"
        hint = f"unset it, and set {where}=LOCALHOST where that is meant"
        yield _check("ROS_LOCALHOST_ONLY", "warn" if told else "ok", found, hint=hint if told else "")
    else:
        only = "nodes on this machine only" if reach == "LOCALHOST" else "nodes on this network"
        yield _check(where, "ok", f"{reach or 'not set'}: {only}")


def _middleware(rmw: str, installed: tuple[str, ...]) -> Check:
    if installed and rmw not in installed:
        found = f"{rmw} is not installed: no node would start"
        return _check("RMW_IMPLEMENTATION", "FAIL", found, " or ".join(installed), "unset it, or install it")
    if rmw == RMW:
        return _check("RMW_IMPLEMENTATION", "ok", rmw)
    found = f"{rmw}, with which nothing was tried; the Fast DDS profile has no effect"
    hint = f"unset it, here and where drivers run, or set it to {RMW}"
    return _check("RMW_IMPLEMENTATION", "warn", found, RMW, hint)


def _profile(facts: RosFacts) -> Check:
    where = "Fast DDS profile"
    if facts.profile is None:
        return _check(where, "ok", "the package's own (segments of 64 MB)")
    if not facts.profile_there:
        found = f"{facts.profile}, which is not there: Fast DDS would use its defaults"
        hint = "unset FASTRTPS_DEFAULT_PROFILES_FILE and FASTDDS_DEFAULT_PROFILES_FILE, or correct them"
        return _check(where, "FAIL", found, hint=hint)
    return _check(where, "ok", f"{facts.profile} (yours)")
