"""What is wrong with a CAN interface, and the command that puts it right."""

import json
import stat

import pytest

from piper_collect.devices.can_port import check_can_port
from piper_collect.errors import ArmError


@pytest.fixture
def net(tmp_path, monkeypatch):
    """A kernel's list of interfaces, and an ``ip`` that knows their bitrates."""
    folder = tmp_path / "net"
    for name, kind, state in (
        ("eth0", "1", "up"),
        ("can0", "280", "up"),
        ("can1", "280", "down"),
        ("vcan0", "280", "unknown"),
    ):
        (folder / name).mkdir(parents=True)
        (folder / name / "type").write_text(f"{kind}\n")
        (folder / name / "operstate").write_text(f"{state}\n")
    told = json.dumps([{"linkinfo": {"info_data": {"bittiming": {"bitrate": 1000000}}}}])
    ip = tmp_path / "bin" / "ip"
    ip.parent.mkdir()
    ip.write_text(f"#!/bin/sh\n[ \"$5\" = can0 ] && echo '{told}' || echo '[{{}}]'\n")
    ip.chmod(ip.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(ip.parent))
    return folder


def test_an_interface_that_is_up_at_its_bitrate_is_taken(net):
    check_can_port("can0", 1_000_000, net)
    check_can_port("vcan0", 1_000_000, net)


@pytest.mark.parametrize(
    ("channel", "bitrate", "words"),
    [
        ("can7", 1_000_000, r"can7: there is no such interface .*CAN interfaces: can0, can1, vcan0.*gs_usb"),
        ("eth0", 1_000_000, "eth0: is no CAN interface"),
        (
            "can1",
            1_000_000,
            r"can1: the CAN interface is down -> .*ip link set can1 up type can bitrate 1000000",
        ),
        ("can0", 500_000, r"can0: the CAN interface has another bitrate \(expected 500000, got 1000000\)"),
    ],
)
def test_what_is_wrong_with_it(net, channel, bitrate, words):
    with pytest.raises(ArmError, match=words):
        check_can_port(channel, bitrate, net)


def test_without_ip_the_bitrate_is_not_asked(net, monkeypatch):
    monkeypatch.setenv("PATH", "")
    check_can_port("can0", 500_000, net)


def test_an_ip_that_does_not_run_tells_no_bitrate(net, tmp_path):
    (tmp_path / "bin" / "ip").write_bytes(b"\x00no program")
    assert check_can_port("can0", 500_000, net) is None


def test_a_machine_without_can_says_so(tmp_path):
    with pytest.raises(ArmError, match="CAN interfaces: none"):
        check_can_port("can0", 1_000_000, tmp_path)
