"""What is wrong with a session's pages before it: the headset's port and address, the certificate of both."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from piper_collect.core.checkup import Check, CheckLevel

PAGE = "pages"


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateFacts:
    """The certificate of the headset's page, and of the desk's beyond this machine.

    Attributes:
        path: Its file.
        own: Whether it is ours, which is made anew when it no longer serves.
        problem: Why it cannot be used at all; empty when it can.
        mode: Of the file that holds the key, e.g. 0o600; None where there is none yet.
        key_path: That file.
        until: When it expires; None where there is none.
        since: When it begins; None where there is none.
        missing_names: Names of this machine that it does not hold.
        renewed: Whether ours will be made anew at the start.
    """

    path: str
    own: bool
    problem: str = ""
    mode: int | None = None
    key_path: str = ""
    until: datetime | None = None
    since: datetime | None = None
    missing_names: tuple[str, ...] = ()
    renewed: bool = False


def certificate_checks(certificate: CertificateFacts, now: datetime) -> Iterator[Check]:
    """Whether a browser will take the pages' certificate."""

    def check(level: CheckLevel, what: str, found: str, expected: str = "", hint: str = "") -> Check:
        where = certificate.path
        return Check(
            level=level, group=PAGE, where=where, what=what, found=found, expected=expected, hint=hint
        )

    own = certificate.own
    if certificate.problem:
        yield check("warn" if own else "FAIL", "certificate", certificate.problem, hint=_remedy(own))
        return
    if certificate.mode is None:
        yield check("ok", "certificate", "will be made at the start; the browser asks once")
        return
    flaws = 0
    if certificate.mode & 0o077:
        flaws += 1
        found = f"others can read it: mode {certificate.mode:o} of {certificate.key_path}"
        hint = f"chmod 600 {certificate.key_path}" + ("; the session makes a new one" if own else "")
        yield check("warn", "key", found, "mode 600", hint)
    if certificate.until is not None and certificate.until <= now:
        flaws += 1
        found = f"expired on {certificate.until:%Y-%m-%d}"
        yield check("warn" if own else "FAIL", "certificate", found, hint=_remedy(own))
    elif certificate.since is not None and certificate.since > now:
        flaws += 1
        found = f"is valid from {certificate.since:%Y-%m-%d} only; is this machine's clock right?"
        yield check("warn" if own else "FAIL", "certificate", found, hint=_remedy(own))
    elif not own and certificate.until is not None and certificate.until - now < timedelta(days=30):
        flaws += 1
        found = f"expires on {certificate.until:%Y-%m-%d}"
        yield check("warn", "certificate", found, hint=_remedy(own))
    if certificate.missing_names:
        flaws += 1
        found = f"does not name {', '.join(certificate.missing_names)}"
        hint = _remedy(own) if own else "open the page by a name that it holds"
        yield check("warn", "names", found, hint=hint)
    if certificate.renewed and not flaws:
        yield check("warn", "certificate", "will be made anew at the start", hint=_remedy(own))
    elif not flaws and certificate.until is not None:
        yield check("ok", "certificate", f"serves until {certificate.until:%Y-%m-%d}")


def _remedy(own: bool) -> str:
    if own:
        return "nothing to do: the session makes a new one, and browsers ask once more"
    return "set quest.certificate and quest.key to a pair that serves, or leave both empty"


@dataclass(frozen=True, slots=True, kw_only=True)
class PageFacts:
    """Where the headset's page will be.

    Attributes:
        where: Address and port that are listened on.
        problem: Why nothing can listen there; empty when it can.
        urls: To open, the likeliest first.
        lan: Whether the machine has an address on a network.
        local_only: Whether only this machine can open it.
    """

    where: str
    problem: str = ""
    urls: tuple[str, ...] = ()
    lan: bool = False
    local_only: bool = True


def page_checks(page: PageFacts) -> Iterator[Check]:
    """Whether the page can be served, and reached."""

    def check(level: CheckLevel, what: str, found: str, expected: str = "", hint: str = "") -> Check:
        where = page.where
        return Check(
            level=level, group=PAGE, where=where, what=what, found=found, expected=expected, hint=hint
        )

    if page.problem:
        hint = "end what listens there (ss -ltnp), or set quest.port to a free one"
        yield check("FAIL", "port", page.problem, "free", hint)
    else:
        yield check("ok", "port", "free")
    if page.local_only:
        port = page.where.rpartition(":")[2]
        found = f"this machine only: {page.urls[0]}"
        hint = f"over a USB cable: adb reverse tcp:{port} tcp:{port}; over the network: quest.host: 0.0.0.0"
        yield check("ok", "address", found, hint=hint)
    elif not page.lan:
        found = "this machine has no address on a network: no headset can open the page"
        yield check(
            "FAIL", "address", found, hint="join the headset's network, or use a USB cable (adb reverse)"
        )
    else:
        yield check("ok", "address", ", ".join(page.urls))
