"""What is wrong with the machine before a session: packages, disk, shared memory, clock, CAN."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from piper_collect.core.checkup import Check, CheckLevel

MACHINE, DISK, ARM = "machine", "disk", "arm"

SHORT_MIN = 30.0
"""Room for less recording than this is worth a warning."""

_MB, _GB = 1e6, 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageFacts:
    """One Python package that the session needs.

    Attributes:
        module: What is imported.
        package: What is installed.
        needed_by: What needs it.
        found: Whether it can be imported.
        version: As installed; None where it does not say.
        pinned: The version that this package was tried with; None where that is not known.
        install: How to have it; empty for ``pip install``.
        optional: What goes without it; empty where nothing does.
    """

    module: str
    package: str
    needed_by: str
    found: bool
    version: str | None = None
    pinned: str | None = None
    install: str = ""
    optional: str = ""


def package_checks(packages: Sequence[PackageFacts]) -> Iterator[Check]:
    """Packages that are missing, or of another version than the one tried; the others in one line."""
    fine = [package for package in packages if _package_flaw(package) is None]
    for package in packages:
        flaw = _package_flaw(package)
        if flaw is not None:
            yield flaw
    if fine:
        names = ", ".join(f"{p.package} {p.version}" if p.version else p.package for p in fine)
        yield Check(level="ok", group=MACHINE, where="Python packages", what="", found=names)


def _package_flaw(package: PackageFacts) -> Check | None:
    wanted = f"{package.package}=={package.pinned}" if package.pinned else package.package
    install = package.install or f"pip install {wanted}"
    if not package.found:
        lacks = f"; without it {package.optional}" if package.optional else ""
        return Check(
            level="warn" if package.optional else "FAIL",
            group=MACHINE,
            where=package.package,
            what="Python package",
            found=f"{package.module} is not installed, and {package.needed_by} needs it{lacks}",
            expected=package.pinned or "",
            hint=install,
        )
    if package.pinned and package.version and package.version != package.pinned:
        return Check(
            level="warn",
            group=MACHINE,
            where=package.package,
            what="Python package",
            found=f"version {package.version}, with which {package.needed_by} was not tried",
            expected=package.pinned,
            hint=install,
        )
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskFacts:
    """The recording root.

    Attributes:
        root: The folder.
        problem: Why it cannot be written; empty when it can.
        hint: What to do about that.
        free_bytes: Free there; 0 where it cannot be told.
        refusal: Why the recorder would start no episode for lack of room, in its words; empty when it would.
        floor_bytes: What must stay free.
        bytes_per_s: What a recording takes, about.
        unfinished: Recordings that a killed recorder left there.
    """

    root: str
    problem: str = ""
    hint: str = ""
    free_bytes: int = 0
    refusal: str = ""
    floor_bytes: float = 0.0
    bytes_per_s: float = 0.0
    unfinished: tuple[str, ...] = ()


def disk_checks(disk: DiskFacts) -> Iterator[Check]:
    """Whether episodes can be written, and how long."""

    def check(level: CheckLevel, what: str, found: str, expected: str = "", hint: str = "") -> Check:
        return Check(
            level=level, group=DISK, where=disk.root, what=what, found=found, expected=expected, hint=hint
        )

    if disk.problem:
        yield check("FAIL", "recording root", disk.problem, hint=disk.hint)
        return
    yield check("ok", "recording root", "can be written")
    free = f"{disk.free_bytes / _GB:.1f} GB free"
    minutes = (disk.free_bytes - disk.floor_bytes) / disk.bytes_per_s / 60 if disk.bytes_per_s else None
    if disk.refusal:
        hint = "make room, set another session.root, or lower recorder.min_free_gb"
        yield check("FAIL", "room", disk.refusal, hint=hint)
    elif minutes is not None and minutes < SHORT_MIN:
        rate = f"about {disk.bytes_per_s / _MB:.1f} MB a second"
        found = f"{free}: {minutes:.0f} minutes of recording ({rate})"
        hint = "make room, or set another session.root"
        yield check("warn", "room", found, expected=f"{SHORT_MIN:g} minutes or more", hint=hint)
    else:
        told = f", about {minutes / 60:.1f} hours of recording" if minutes is not None else ""
        yield check("ok", "room", f"{free}{told}")
    if disk.unfinished:
        found = f"{len(disk.unfinished)} were never finished and are kept: {', '.join(disk.unfinished[:3])}"
        hint = "piper-collect recover makes episodes of them; or remove them"
        yield check("warn", "recordings", found, hint=hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockFacts:
    """The system's clock, as the kernel says.

    Attributes:
        synchronised: Whether something keeps it in step; None where the kernel does not say.
        error_ms: Greatest error that the kernel reckons with.
    """

    synchronised: bool | None = None
    error_ms: float | None = None


def clock_checks(clock: ClockFacts) -> Iterator[Check]:
    """Whether the clock that everything is stamped by is kept in step."""
    what, where = "kept in step", "system clock"
    if clock.synchronised is None:
        found = "the kernel does not say whether NTP keeps it in step"
        yield Check(level="not known", group=MACHINE, where=where, what=what, found=found)
    elif clock.synchronised:
        error = "" if clock.error_ms is None else f", within {clock.error_ms:.0f} ms"
        yield Check(level="ok", group=MACHINE, where=where, what=what, found=f"by NTP{error}")
    else:
        yield Check(
            level="warn",
            group=MACHINE,
            where=where,
            what=what,
            found="no: stamps of another machine's sources will not fit, and it may be set while recording",
            expected="synchronised",
            hint="start chrony or systemd-timesyncd; with all sources on this machine it does no harm",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFacts:
    """Shared memory, through which DDS hands pictures on.

    Attributes:
        path: Where it lies.
        free_bytes: Free there; None where there is none.
        segment_bytes: What a process takes of it at most.
        processes: Of the session.
    """

    path: str
    free_bytes: int | None
    segment_bytes: int
    processes: int


def memory_checks(memory: MemoryFacts) -> Iterator[Check]:
    """Whether every process of the session gets its shared memory."""
    needed = memory.segment_bytes * memory.processes
    expected = f"{needed / _MB:.0f} MB for {memory.processes} processes"
    what = "shared memory"
    if memory.free_bytes is None:
        yield Check(level="not known", group=MACHINE, where=memory.path, what=what, found="not there")
    elif memory.free_bytes < needed:
        yield Check(
            level="FAIL" if memory.free_bytes < memory.segment_bytes else "warn",
            group=MACHINE,
            where=memory.path,
            what=what,
            found=f"{memory.free_bytes / _MB:.0f} MB free",
            expected=expected,
            hint="remove what killed programs left there (fastrtps_*, while no ROS runs); a container needs"
            " --shm-size",
        )
    else:
        found = f"{memory.free_bytes / _MB:.0f} MB free"
        yield Check(level="ok", group=MACHINE, where=memory.path, what=what, found=found)


@dataclass(frozen=True, slots=True, kw_only=True)
class CanFacts:
    """The CAN interface of the arm.

    Attributes:
        channel: Its name.
        problem: What is wrong with it; empty for nothing.
        expected: How it should be.
        hint: The command that puts it right.
        bitrate: As it is set, bit/s; None where it cannot be told.
    """

    channel: str
    problem: str = ""
    expected: str = ""
    hint: str = ""
    bitrate: int | None = None


def can_checks(can: CanFacts) -> Iterator[Check]:
    """Whether the arm's CAN interface is there and up. No frame is sent, and none is listened to."""

    def check(level: CheckLevel, what: str, found: str, expected: str = "", hint: str = "") -> Check:
        return Check(
            level=level, group=ARM, where=can.channel, what=what, found=found, expected=expected, hint=hint
        )

    if can.problem:
        yield check("FAIL", "CAN interface", can.problem, can.expected, can.hint)
        return
    yield check("ok", "CAN interface", "up")
    if can.bitrate is None:
        hint = f"ip -details link show {can.channel}"
        yield check(
            "not known", "bitrate", "it is not told here (no `ip`, or a virtual interface)", hint=hint
        )
    else:
        yield check("ok", "bitrate", f"{can.bitrate} bit/s")
