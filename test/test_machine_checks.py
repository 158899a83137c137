"""What a doctor says of packages, disk, memory, clock, CAN and page, from facts."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from piper_collect.core.machine_checks import (
    CanFacts,
    ClockFacts,
    DiskFacts,
    MemoryFacts,
    PackageFacts,
    can_checks,
    clock_checks,
    disk_checks,
    memory_checks,
    package_checks,
)
from piper_collect.core.page_checks import CertificateFacts, PageFacts, certificate_checks, page_checks

GB = 1_000_000_000
NOW = datetime(2026, 5, 1, tzinfo=UTC)
SDK = PackageFacts(
    module="piper_sdk",
    package="piper_sdk",
    needed_by="devices.arm: can",
    found=True,
    version="0.6.2",
    pinned="0.6.2",
)
DISK = DiskFacts(root="/bags", free_bytes=100 * GB, floor_bytes=1e9, bytes_per_s=10e6)


def levels(checks):
    return [check.level for check in checks]


@pytest.mark.parametrize(
    ("changed", "level", "text"),
    [
        ({}, "ok", "piper_sdk 0.6.2"),
        ({"version": None}, "ok", "piper_sdk"),
        ({"pinned": None, "version": "9"}, "ok", "piper_sdk 9"),
        ({"version": "0.5.0"}, "warn", "version 0.5.0, with which devices.arm: can was not tried"),
        ({"found": False}, "FAIL", "piper_sdk is not installed, and devices.arm: can needs it"),
        (
            {"found": False, "optional": "status is unknown"},
            "warn",
            "needs it; without it status is unknown",
        ),
    ],
)
def test_a_package(changed, level, text):
    (check,) = package_checks((replace(SDK, **changed),))
    assert check.level == level
    assert check.found.endswith(text)
    assert (check.hint == "pip install piper_sdk==0.6.2") == (level != "ok")


def test_packages_that_are_fine_share_a_line():
    av = replace(SDK, package="av", version="18.1.0", pinned="18.1.0")
    checks = list(package_checks((SDK, replace(SDK, found=False, package="x"), av)))
    assert levels(checks) == ["FAIL", "ok"]
    assert checks[1].found == "piper_sdk 0.6.2, av 18.1.0"


@pytest.mark.parametrize(
    ("changed", "expected", "text"),
    [
        ({}, ["ok", "ok"], "100.0 GB free, about 2.8 hours of recording"),
        ({"free_bytes": 10 * GB}, ["ok", "warn"], "10.0 GB free: 15 minutes of recording (about 10.0 MB a"),
        ({"free_bytes": 10 * GB, "bytes_per_s": 0.0}, ["ok", "ok"], "10.0 GB free"),
        ({"refusal": "only 0.50 GB free"}, ["ok", "FAIL"], "only 0.50 GB free"),
        ({"problem": "Permission denied"}, ["FAIL"], "Permission denied"),
        ({"unfinished": ("/bags/a",)}, ["ok", "ok", "warn"], "never finished and are kept: /bags/a"),
    ],
)
def test_the_disk(changed, expected, text):
    checks = list(disk_checks(replace(DISK, **changed)))
    assert levels(checks) == expected
    assert text in checks[-1].found


@pytest.mark.parametrize(
    ("clock", "level"),
    [
        (ClockFacts(), "not known"),
        (ClockFacts(synchronised=True, error_ms=12.0), "ok"),
        (ClockFacts(synchronised=False), "warn"),
    ],
)
def test_the_clock(clock, level):
    assert levels(clock_checks(clock)) == [level]


@pytest.mark.parametrize(
    ("free_bytes", "level"),
    [(10 * GB, "ok"), (64_000_000, "FAIL"), (200_000_000, "warn"), (None, "not known")],
)
def test_shared_memory(free_bytes, level):
    facts = MemoryFacts(path="/dev/shm", free_bytes=free_bytes, segment_bytes=68_000_000, processes=6)
    (check,) = memory_checks(facts)
    assert check.level == level
    if level in ("warn", "FAIL"):
        assert check.expected == "408 MB for 6 processes"


def test_the_can_interface():
    assert levels(can_checks(CanFacts(channel="can0", bitrate=1_000_000))) == ["ok", "ok"]
    assert levels(can_checks(CanFacts(channel="can0"))) == ["ok", "not known"]
    (check,) = can_checks(CanFacts(channel="can0", problem="is down", hint="sudo ip link set can0 up"))
    assert (check.level, check.hint) == ("FAIL", "sudo ip link set can0 up")


CERTIFICATE = CertificateFacts(
    path="/c.pem",
    own=False,
    mode=0o600,
    key_path="/k.pem",
    since=NOW - timedelta(days=9),
    until=NOW + timedelta(days=90),
)


@pytest.mark.parametrize(
    ("changed", "of_yours", "of_ours"),
    [
        ({}, ["ok"], ["ok"]),
        ({"problem": "no such file"}, ["FAIL"], ["warn"]),
        ({"until": NOW}, ["FAIL"], ["warn"]),
        ({"since": NOW + timedelta(days=1)}, ["FAIL"], ["warn"]),
        ({"until": NOW + timedelta(days=20)}, ["warn"], ["ok"]),
        ({"mode": 0o640}, ["warn"], ["warn"]),
        ({"missing_names": ("desk",)}, ["warn"], ["warn"]),
        ({"renewed": True}, ["warn"], ["warn"]),
        ({"mode": None, "until": None}, ["ok"], ["ok"]),
    ],
)
def test_the_certificate(changed, of_yours, of_ours):
    facts = replace(CERTIFICATE, **changed)
    assert levels(certificate_checks(facts, NOW)) == of_yours
    assert levels(certificate_checks(replace(facts, own=True), NOW)) == of_ours


def test_where_the_page_can_be_opened():
    page = PageFacts(where="0.0.0.0:4443", urls=("https://192.168.1.5:4443/",), lan=True, local_only=False)
    assert levels(page_checks(page)) == ["ok", "ok"]
    assert levels(page_checks(replace(page, lan=False))) == ["ok", "FAIL"]
    (port, _) = page_checks(replace(page, problem="cannot listen: Address already in use"))
    assert port.level == "FAIL"
    local = PageFacts(where="127.0.0.1:4443", urls=("https://localhost:4443/",), local_only=True)
    (_, address) = page_checks(local)
    assert "adb reverse tcp:4443 tcp:4443" in address.hint
