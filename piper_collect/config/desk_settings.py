"""How the page for the person at the desk is served."""

from dataclasses import dataclass

from piper_collect.config.checks import check_address, check_positive


@dataclass(frozen=True, slots=True, kw_only=True)
class DeskSettings:
    """The page that shows the session to the person at the desk; it only looks.

    Beyond this machine it is served over HTTPS, with certificate and names of the section ``quest``, to
    whoever has the key that the terminal shows.

    Attributes:
        serve: Whether there is such a page.
        host: Address to listen on: ``127.0.0.1`` for this machine only, ``0.0.0.0`` for every network that it
            is in.
        port: TCP port; where it is taken, a free one is.
        picture_rate_hz: Most pictures a second of one camera.
        picture_width: A wider picture is scaled down to this, in px.
        picture_quality: JPEG quality of pictures that are scaled down, 1 to 100.
        reference: Dataset whose first episode cameras are aligned to. ``~`` is expanded; empty takes
            ``session.dataset``.
    """

    serve: bool = True
    host: str = "127.0.0.1"
    port: int = 4444
    picture_rate_hz: float = 5.0
    picture_width: int = 640
    picture_quality: int = 75
    reference: str = ""

    def __post_init__(self) -> None:
        check_positive(self, "picture_rate_hz")
        check_address(self.host, self.port)
        if self.picture_width < 64 or not 1 <= self.picture_quality <= 100:
            got = f"{self.picture_width} and {self.picture_quality}"
            raise ValueError(f"picture_width must be from 64 px, picture_quality from 1 to 100 (got {got})")
