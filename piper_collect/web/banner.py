"""What the terminal says to the person who puts the headset on."""

import io
from collections.abc import Sequence

import segno

from piper_collect.web.addresses import is_loopback


def only_here(host: str) -> bool:
    """Whether a server that listens on ``host`` can be reached from this machine only."""
    return is_loopback(host) or host == "localhost"


def urls(host: str, port: int, addresses: Sequence[str]) -> tuple[str, ...]:
    """The addresses to open, the likeliest first.

    Args:
        host: What the server listens on.
        port: Its port.
        addresses: Of this machine.
    """
    if only_here(host):
        return (f"https://localhost:{port}/",)
    if host not in ("", "0.0.0.0", "::"):
        return (f"https://[{host}]:{port}/" if ":" in host else f"https://{host}:{port}/",)
    reachable = [address for address in addresses if not is_loopback(address)]
    return tuple(f"https://{address}:{port}/" for address in (*reachable, "localhost"))


def banner(pages: Sequence[str], code: str, lifetime_s: float, *, qr: bool) -> str:
    """The lines that show where to go and with which code.

    Args:
        pages: As ``urls`` gives them.
        code: Pairing code.
        lifetime_s: How long it serves.
        qr: Whether to draw the address and the code as a QR code, where another device can open it.
    """
    lines = ["", "Headset page:"]
    lines += [f"  {page}" for page in pages]
    lines += [f"Pairing code: {code[:3]} {code[3:]}   (serves once, for {lifetime_s / 60:.0f} minutes)"]
    if "localhost" in pages[0]:
        port = pages[0].rstrip("/").rpartition(":")[2]
        lines.append(f"Only this machine can open it; over a USB cable: adb reverse tcp:{port} tcp:{port}")
    elif qr:
        lines += ["", _qr(f"{pages[0]}#pair={code}")]
    return "\n".join(lines) + "\n"


def desk_banner(pages: Sequence[str], key: str, *, qr: bool) -> str:
    """The lines that show where the desk's page is, to whoever may see the key.

    Args:
        pages: As ``urls`` gives them.
        key: Opens it from another machine.
        qr: Whether to draw the first address with the key as a QR code.
    """
    lines = ["", "Desk page, with its key for this session:"]
    lines += [f"  {page}desk#key={key}" for page in pages]
    if qr:
        lines += ["", _qr(f"{pages[0]}desk#key={key}")]
    return "\n".join(lines) + "\n"


def _qr(text: str) -> str:
    out = io.StringIO()
    segno.make(text, error="l").terminal(out=out, compact=True, border=2)
    return out.getvalue().rstrip("\n")
