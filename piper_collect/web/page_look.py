"""The pages as a session would find them: certificate, port, addresses. Nothing is made or served."""

import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509

from piper_collect.config.quest_settings import QuestSettings
from piper_collect.config.schema import SessionConfig
from piper_collect.core.checkup import Check
from piper_collect.core.page_checks import CertificateFacts, PageFacts, certificate_checks, page_checks
from piper_collect.errors import LinkError
from piper_collect.web.addresses import is_loopback, own_addresses
from piper_collect.web.banner import only_here, urls
from piper_collect.web.certificate import FILE_NAME, certificate_hosts, server_context, serves
from piper_collect.web.identity import served_names


def web_checks(config: SessionConfig, now: datetime | None = None) -> Iterator[Check]:
    """Look at what the pages of a session need; the desk's has a certificate only beyond this machine."""
    now = now or datetime.now(UTC)
    if config.devices.operator == "quest":
        yield from page_checks(page_facts(config.quest))
        yield from certificate_checks(certificate_facts(config.quest, now), now)
    elif config.desk.serve and not only_here(config.desk.host):
        for check in certificate_checks(certificate_facts(config.quest, now), now):
            # a session goes on without the desk's page
            yield replace(check, level="warn") if check.level == "FAIL" else check


def page_facts(settings: QuestSettings) -> PageFacts:
    """Whether the headset page's port is free, and how the page will be reached."""
    addresses = own_addresses()
    pages = urls(settings.host, settings.port, addresses)
    return PageFacts(
        where=f"{settings.host}:{settings.port}",
        problem=_port_problem(settings.host, settings.port),
        urls=pages,
        lan=any(not is_loopback(address) for address in addresses),
        local_only=only_here(settings.host),
    )


def _port_problem(host: str, port: int) -> str:
    """Why nothing can listen there, by trying it for a moment as the server does."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, address in found:
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                probe.bind(address)
                probe.listen(1)
    except OSError as err:
        return f"cannot listen: {err.strerror}"
    return ""


def certificate_facts(settings: QuestSettings, now: datetime) -> CertificateFacts:
    """What is known of the certificate: yours, or the one that is kept for the pages."""
    wanted = (*served_names(settings), *own_addresses())
    if not settings.certificate:
        path = Path(settings.certificate_dir).expanduser() / FILE_NAME
        return _facts(path, path, own=True, wanted=wanted, renewed=not _serves(path, wanted, now))
    path = Path(settings.certificate).expanduser()
    key = Path(settings.key).expanduser() if settings.key else None
    try:
        server_context(path, key)
    except LinkError as err:
        return CertificateFacts(path=str(path), own=False, problem=err.what)
    return _facts(path, key or path, own=False, wanted=settings.names, renewed=False)


def _serves(path: Path, wanted: tuple[str, ...], now: datetime) -> bool:
    try:
        return serves(path, wanted, now)
    except OSError:
        return False


def _facts(path: Path, key: Path, *, own: bool, wanted: tuple[str, ...], renewed: bool) -> CertificateFacts:
    try:
        if own and not path.exists():
            return CertificateFacts(path=str(path), own=own)
        mode = key.stat().st_mode & 0o777
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError) as err:
        reason = err.strerror if isinstance(err, OSError) else "it holds no certificate"
        return CertificateFacts(path=str(path), own=own, problem=f"cannot be read: {reason}")
    held: tuple[str, ...] = ()
    with suppress(x509.ExtensionNotFound):
        held = certificate_hosts(certificate)
    return CertificateFacts(
        path=str(path),
        own=own,
        mode=mode,
        key_path=str(key),
        since=certificate.not_valid_before_utc,
        until=certificate.not_valid_after_utc,
        missing_names=tuple(name for name in wanted if name not in held),
        renewed=renewed,
    )
