"""A running desk server without ROS, and pictures for it."""

import io
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy import ndimage

from piper_collect.web.addresses import own_addresses, own_names
from piper_collect.web.certificate import ensure_certificate, server_context
from piper_collect.web.desk_server import DeskPlace, DeskServer
from piper_collect.web.panels import Panels

KEY = "k7f29qmdx3tp"


@dataclass(slots=True, kw_only=True)
class Desk:
    server: DeskServer
    panels: Panels
    scheme: str

    @property
    def origin(self) -> str:
        return f"{self.scheme}://localhost:{self.server.port}"


def open_desk(tls: Path | None = None, *, port: int = 0, cameras: tuple[str, ...] = ("cam",)) -> Desk:
    """Serve the page on the loopback; over TLS with a certificate kept in ``tls``."""
    context = None
    if tls is not None:
        context = server_context(ensure_certificate(tls, (*own_names(), *own_addresses())))
    panels = Panels(cameras)
    place = DeskPlace(
        host="127.0.0.1", port=port, tls=context, names=own_names(), key=KEY, picture_rate_hz=50.0
    )
    server = DeskServer(place, panels=panels, clock_ns=time.time_ns)
    server.start()
    return Desk(server=server, panels=panels, scheme="https" if tls else "http")


def texture(shape: tuple[int, int] = (480, 640)) -> NDArray[np.uint8]:
    blobs = ndimage.gaussian_filter(np.random.default_rng(3).normal(size=shape), 3.0)
    grey = np.clip(128 + 40 * blobs / blobs.std(), 0, 255).astype(np.uint8)
    return np.repeat(grey[:, :, None], 3, axis=2)


def jpeg(pixels: NDArray[np.uint8]) -> bytes:
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "JPEG", quality=95)
    return out.getvalue()
