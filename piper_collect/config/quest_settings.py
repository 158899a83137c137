"""How the page for the headset is served."""

import re
from dataclasses import dataclass

from piper_collect.config.checks import check_address, check_not_negative, check_positive


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestSettings:
    """The page that the headset opens (``devices.operator: quest``).

    Attributes:
        host: Address to listen on: ``127.0.0.1`` for this machine and a USB cable (``adb reverse``),
            ``0.0.0.0`` for every network that it is in.
        port: TCP port.
        names: Host names that the page is opened by, beside this machine's own.
        certificate: PEM file of a certificate of yours; empty makes a self-signed one and keeps it.
        key: PEM file of its key; empty when the certificate's file holds it.
        certificate_dir: Where the self-signed one is kept. ``~`` is expanded.
        pairing_s: How long a pairing code serves.
        panel_rate_hz: Most pictures a second of one camera in the headset; 0 shows none.
        panel_width: A wider picture is scaled down to this for the headset, in px.
        panel_quality: JPEG quality of pictures that are scaled down, 1 to 100.
    """

    host: str = "127.0.0.1"
    port: int = 4443
    names: tuple[str, ...] = ()
    certificate: str = ""
    key: str = ""
    certificate_dir: str = "~/.config/piper_collect"
    pairing_s: float = 600.0
    panel_rate_hz: float = 10.0
    panel_width: int = 640
    panel_quality: int = 70

    def __post_init__(self) -> None:
        check_positive(self, "pairing_s")
        check_not_negative(self, "panel_rate_hz")
        check_address(self.host, self.port)
        if self.key and not self.certificate:
            raise ValueError("key is given without its certificate")
        if self.panel_width < 64 or not 1 <= self.panel_quality <= 100:
            got = f"{self.panel_width} and {self.panel_quality}"
            raise ValueError(f"panel_width must be from 64 px, panel_quality from 1 to 100 (got {got})")
        for name in self.names:
            if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?", name):
                raise ValueError(f"names holds what is no host name: {name!r}")
