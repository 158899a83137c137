"""What info.json says of a dataset, in every format."""

from collections.abc import Mapping
from typing import Any


class Described:
    """A dataset that has read its info.json.

    Attributes:
        info: Content of info.json.
    """

    __slots__ = ()
    info: Mapping[str, Any]

    @property
    def fps(self) -> float:
        """Nominal row rate, in Hz."""
        return float(self.info["fps"])

    @property
    def video_keys(self) -> tuple[str, ...]:
        """Keys of the video features, in their order."""
        return tuple(k for k, f in self.info["features"].items() if f["dtype"] == "video")
