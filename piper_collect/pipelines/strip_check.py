"""Proof of alignment on simulated cameras: the time in every picture against the time in the file."""

from dataclasses import dataclass
from pathlib import Path

from piper_collect.dataset.readers import open_any
from piper_collect.errors import DatasetError
from piper_collect.imaging.strip import read_strip, strip_error_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class StripCheck:
    """What the strips of a dataset say.

    Attributes:
        frames: Frames looked at.
        unreadable: Frames without a readable strip.
        worst_ms: Largest distance between PTS and (capture stamp - T0); None without a readable strip.
    """

    frames: int
    unreadable: int
    worst_ms: float | None

    @property
    def ok(self) -> bool:
        """Whether every frame has a strip and lies within 1 ms of where it says it was taken."""
        return self.unreadable == 0 and self.worst_ms is not None and self.worst_ms <= 1.0


def check_strips(root: Path) -> StripCheck:
    """Read the strip of every frame of every video of the dataset at ``root``.

    Raises:
        DatasetError: when the dataset cannot be read or does not say where its episodes start.
    """
    dataset = open_any(root)
    frames = unreadable = 0
    worst_ms: float | None = None
    for index in dataset.lines:
        if index not in dataset.sources:
            raise DatasetError("the start of the episode is not known", where=f"{root}, episode {index}")
        t0_ns = int(dataset.sources[index]["t0_ns"])
        for key in dataset.video_keys:
            for time_s, picture in dataset.frames(index, key):
                frames += 1
                reading = read_strip(picture)
                if reading is None:
                    unreadable += 1
                    continue
                error_ms = abs(strip_error_ms(reading, t0_ns + round(time_s * 1e9)))
                worst_ms = error_ms if worst_ms is None else max(worst_ms, error_ms)
    return StripCheck(frames=frames, unreadable=unreadable, worst_ms=worst_ms)
