"""The certificate that the page is served with: self-signed, made once, kept, renewed when it must be.

WebXR runs on secure origins only, so the page needs HTTPS even on a desk. Key and certificate lie in one
file, so that a kill can never leave a pair that does not match.
"""

import ipaddress
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from piper_collect.errors import LinkError
from piper_collect.files import write_atomic
from piper_collect.web.addresses import is_address

FILE_NAME = "quest_certificate.pem"
VALID_DAYS = 730
RENEW_DAYS = 30
MOST_NAMES = 32
"""Names and addresses that are kept, those of now first: who moves between two networks is asked once."""


def ensure_certificate(folder: Path, hosts: Sequence[str], now: datetime | None = None) -> Path:
    """The PEM file (key and certificate) in ``folder``; made anew when there is none that will do.

    It will do when only its owner can read it, key and certificate belong together, it is valid for
    another ``RENEW_DAYS``, and names every one of ``hosts``.

    Args:
        folder: Made if it is not there.
        hosts: Names and IP addresses that the page may be opened by.
        now: Present time; the clock's by default.

    Raises:
        LinkError: The file cannot be written.
    """
    now = now or datetime.now(UTC)
    path = folder / FILE_NAME
    try:
        known = _usable_hosts(path, now)
        if _holds(known, hosts):
            return path
        folder.mkdir(parents=True, exist_ok=True)
        kept = [host for host in known or () if host not in hosts]
        write_atomic(path, _make([*hosts, *kept][:MOST_NAMES], now), mode=0o600)
    except OSError as err:
        raise LinkError(
            f"the certificate cannot be kept: {err.strerror}",
            where=path,
            hint="make quest.certificate_dir a folder that you can write",
        ) from err
    return path


def serves(path: Path, hosts: Sequence[str], now: datetime) -> bool:
    """Whether the certificate that is kept at ``path`` will do, and is not made anew.

    Raises:
        OSError: It cannot be read.
    """
    return _holds(_usable_hosts(path, now), hosts)


def certificate_hosts(certificate: x509.Certificate) -> tuple[str, ...]:
    """Names and addresses that a certificate is for.

    Raises:
        ExtensionNotFound: It does not say.
    """
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    addresses = map(str, names.get_values_for_type(x509.IPAddress))
    return (*names.get_values_for_type(x509.DNSName), *addresses)


def server_context(certificate: Path, key: Path | None = None) -> ssl.SSLContext:
    """TLS settings of the server.

    Args:
        certificate: PEM file; with the key in it, unless that is given.
        key: PEM file of the key.

    Raises:
        LinkError: They cannot be read or do not belong together.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as err:
        reason = err.reason if isinstance(err, ssl.SSLError) else err.strerror
        raise LinkError(
            f"the certificate cannot be used: {reason}",
            where=certificate,
            hint="quest.certificate and quest.key must be PEM files that belong together",
        ) from err
    return context


def fingerprint(certificate: Path) -> str:
    """SHA-256 of the certificate, as browsers show it."""
    pem = certificate.read_bytes()
    digest = x509.load_pem_x509_certificate(pem).fingerprint(hashes.SHA256())
    return ":".join(f"{byte:02X}" for byte in digest)


def _holds(known: tuple[str, ...] | None, hosts: Sequence[str]) -> bool:
    return known is not None and set(hosts) <= set(known)


def _usable_hosts(path: Path, now: datetime) -> tuple[str, ...] | None:
    """The hosts that the kept certificate names; None where it will not do."""
    if not path.is_file() or path.stat().st_mode & 0o077:
        return None
    pem = path.read_bytes()
    try:
        certificate = x509.load_pem_x509_certificate(pem)
        key = serialization.load_pem_private_key(pem, password=None)
        hosts = certificate_hosts(certificate)
        certificate.verify_directly_issued_by(certificate)
    except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        return None
    if not certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc - timedelta(RENEW_DAYS):
        return None
    return hosts


def _make(hosts: Sequence[str], now: datetime) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "piper_collect headset page")])
    names: list[x509.GeneralName] = [
        x509.IPAddress(ipaddress.ip_address(host)) if is_address(host) else x509.DNSName(host)
        for host in hosts
    ]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=VALID_DAYS))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private + certificate.public_bytes(serialization.Encoding.PEM)
