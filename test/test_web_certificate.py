"""The page's certificate: made once, kept for its owner only, renewed when it no longer serves."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from piper_collect.errors import LinkError
from piper_collect.web.addresses import own_addresses, own_names
from piper_collect.web.banner import banner, urls
from piper_collect.web.certificate import (
    MOST_NAMES,
    RENEW_DAYS,
    VALID_DAYS,
    ensure_certificate,
    fingerprint,
    server_context,
)

HOSTS = ("localhost", "robot", "robot.local", "192.168.1.20", "127.0.0.1")


def hosts_of(path: Path) -> set[str]:
    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))}


def test_it_is_made_once_and_serves(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    path = ensure_certificate(folder, HOSTS)
    first = path.read_bytes()
    assert path.stat().st_mode & 0o777 == 0o600
    assert hosts_of(path) == set(HOSTS)
    assert ensure_certificate(folder, HOSTS[:2]).read_bytes() == first
    assert [p.name for p in folder.iterdir()] == [path.name]
    server_context(path)
    certificate = x509.load_pem_x509_certificate(first)
    life = certificate.not_valid_after_utc - datetime.now(UTC)
    assert timedelta(days=VALID_DAYS - 1) < life <= timedelta(days=VALID_DAYS)
    assert fingerprint(path) == fingerprint(path).upper()
    assert len(fingerprint(path)) == 32 * 3 - 1


def test_a_client_that_trusts_it_reaches_the_names_in_it_and_no_other(tmp_path: Path) -> None:
    path = ensure_certificate(tmp_path, HOSTS)
    server = server_context(path)
    client = ssl.create_default_context(cadata=path.read_text().partition("-----BEGIN CERTIFICATE")[2].join(
        ("-----BEGIN CERTIFICATE", "")
    ))  # fmt: skip

    def greet(name: str) -> None:
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        near = client.wrap_bio(to_client, to_server, server_hostname=name)
        far = server.wrap_bio(to_server, to_client, server_side=True)
        for _ in range(4):
            for side in (near, far):
                try:
                    side.do_handshake()
                except ssl.SSLWantReadError:
                    continue

    for name in ("robot.local", "192.168.1.20"):
        greet(name)
    for name in ("other.local", "192.168.1.21"):
        with pytest.raises(ssl.SSLCertVerificationError):
            greet(name)


def test_it_is_renewed_before_it_expires(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    path = ensure_certificate(tmp_path, HOSTS, now)
    first = path.read_bytes()
    late = now + timedelta(days=VALID_DAYS - RENEW_DAYS - 1)
    assert ensure_certificate(tmp_path, HOSTS, late).read_bytes() == first
    later = now + timedelta(days=VALID_DAYS - RENEW_DAYS + 1)
    assert ensure_certificate(tmp_path, HOSTS, later).read_bytes() != first
    assert ensure_certificate(tmp_path, HOSTS, now - timedelta(days=100)).read_bytes() != first


def test_a_new_address_renews_it_and_the_old_ones_stay_in_it(tmp_path: Path) -> None:
    path = ensure_certificate(tmp_path, HOSTS)
    ensure_certificate(tmp_path, ("localhost", "10.0.0.7"))
    assert hosts_of(path) == {*HOSTS, "10.0.0.7"}
    both = path.read_bytes()
    assert ensure_certificate(tmp_path, HOSTS).read_bytes() == both  # back in the first network
    for k in range(3):
        ensure_certificate(tmp_path, [f"10.1.{k}.{n}" for n in range(20)])
    assert len(hosts_of(path)) == MOST_NAMES
    assert {f"10.1.2.{n}" for n in range(20)} <= hosts_of(path)


@pytest.mark.parametrize("content", [b"", b"garbage", b"-----BEGIN CERTIFICATE-----\nAAAA\n"])
def test_a_broken_file_is_replaced(tmp_path: Path, content: bytes) -> None:
    path = ensure_certificate(tmp_path, HOSTS)
    path.write_bytes(content)
    assert ensure_certificate(tmp_path, HOSTS) == path
    assert path.read_bytes() != content
    server_context(path)


def test_a_key_of_another_certificate_is_replaced(tmp_path: Path) -> None:
    one, other = (ensure_certificate(tmp_path / name, HOSTS) for name in "ab")
    mark = b"-----BEGIN CERTIFICATE"
    key, own = one.read_bytes().split(mark)[0], mark + other.read_bytes().split(mark)[1]
    one.write_bytes(key + own)
    ensure_certificate(tmp_path / "a", HOSTS)
    assert one.read_bytes() != key + own
    server_context(one)


def test_a_key_that_others_could_read_is_replaced(tmp_path: Path) -> None:
    path = ensure_certificate(tmp_path, HOSTS)
    before = path.read_bytes()
    path.chmod(0o644)
    ensure_certificate(tmp_path, HOSTS)
    assert path.read_bytes() != before
    assert path.stat().st_mode & 0o777 == 0o600


def test_where_it_cannot_be_kept_or_used_the_error_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LinkError, match=r"quest\.certificate_dir"):
        ensure_certificate(tmp_path / "file", HOSTS)
    with pytest.raises(LinkError, match=r"quest\.certificate and quest\.key"):
        server_context(tmp_path / "missing.pem")
    (tmp_path / "bad.pem").write_text("nothing")
    with pytest.raises(LinkError, match="cannot be used"):
        server_context(tmp_path / "bad.pem")


def test_a_certificate_of_ones_own_in_two_files_serves(tmp_path: Path) -> None:
    pem = ensure_certificate(tmp_path, HOSTS).read_bytes()
    mark = b"-----BEGIN CERTIFICATE"
    (tmp_path / "key.pem").write_bytes(pem.split(mark)[0])
    (tmp_path / "cert.pem").write_bytes(mark + pem.split(mark)[1])
    server_context(tmp_path / "cert.pem", tmp_path / "key.pem")
    with pytest.raises(LinkError):
        server_context(tmp_path / "cert.pem")


def test_this_machine_has_a_loopback_and_is_localhost() -> None:
    assert "127.0.0.1" in own_addresses()
    assert own_names()[0] == "localhost"
    ensure_order = [address.startswith("127.") for address in own_addresses()]
    assert ensure_order == sorted(ensure_order)


def test_the_terminal_says_where_to_go() -> None:
    own = ("192.168.1.20", "127.0.0.1")
    assert urls("127.0.0.1", 4443, own) == ("https://localhost:4443/",)
    assert urls("0.0.0.0", 4443, own) == ("https://192.168.1.20:4443/", "https://localhost:4443/")
    assert urls("192.168.1.20", 1, own) == ("https://192.168.1.20:1/",)
    assert urls("::1", 1, own) == ("https://localhost:1/",)
    assert urls("fd00::1", 1, own) == ("https://[fd00::1]:1/",)
    text = banner(urls("127.0.0.1", 4443, own), "012345", 600, qr=True)
    assert "012 345" in text
    assert "adb reverse tcp:4443 tcp:4443" in text
    text = banner(urls("0.0.0.0", 4443, own), "012345", 600, qr=True)
    assert "https://192.168.1.20:4443/" in text
    assert "▀" in text  # the QR code
    assert "▀" not in banner(urls("0.0.0.0", 4443, own), "012345", 600, qr=False)
