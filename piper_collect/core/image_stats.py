"""Statistics of pictures, as a trainer normalises by them."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from piper_collect.core.quantiles import quantile_ranks, ranks_of
from piper_collect.core.types import FloatArray

_LEVELS = np.arange(256)

# LeRobot 0.3.3, lerobot/datasets/compute_stats.py: how many frames, and how much of each, it looks at.
_SAMPLES_AT_LEAST = 100
_SAMPLES_AT_MOST = 10_000
_SAMPLES_POWER = 0.75
_THINNED_FROM_PX = 300
_THINNED_TO_PX = 150


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ImageStats:
    """Statistics over all pixels of the pictures of a camera, values scaled from 0..255 to [0, 1].

    Attributes:
        mean: float64 [3], red, green, blue.
        std: float64 [3], population standard deviation.
        min: float64 [3].
        max: float64 [3].
        q01: float64 [3], 1 % quantile, linear between order statistics.
        q99: float64 [3], 99 % quantile.
        frames: Number of pictures.
    """

    mean: FloatArray
    std: FloatArray
    min: FloatArray
    max: FloatArray
    q01: FloatArray
    q99: FloatArray
    frames: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ImageHistogram:
    """How often each value occurs in each channel of the pictures counted.

    Attributes:
        counts: int64 [3, 256], red, green, blue.
        frames: Number of pictures.
    """

    counts: NDArray[np.int64]
    frames: int

    @classmethod
    def empty(cls) -> "ImageHistogram":
        """No pictures."""
        return cls(counts=np.zeros((3, 256), np.int64), frames=0)

    def added(self, rgb: NDArray[np.uint8]) -> "ImageHistogram":
        """The histogram with one picture more, uint8 [H, W, 3].

        Raises:
            ValueError: when it is no such picture.
        """
        if rgb.dtype != np.uint8 or rgb.ndim != 3 or rgb.shape[2] != 3 or 0 in rgb.shape:
            raise ValueError(f"a picture is uint8 [H, W, 3], not {rgb.dtype} {list(rgb.shape)}")
        counts = [np.bincount(rgb[:, :, channel].ravel(), minlength=256) for channel in range(3)]
        return ImageHistogram(counts=self.counts + np.stack(counts), frames=self.frames + 1)

    def merged(self, other: "ImageHistogram") -> "ImageHistogram":
        """The histogram of the pictures of both."""
        return ImageHistogram(counts=self.counts + other.counts, frames=self.frames + other.frames)

    def quantile(self, fraction: float) -> FloatArray:
        """The quantile of each channel, float64 [3], linear between order statistics, in [0, 1].

        Raises:
            ValueError: when there are no pictures.
        """
        if not self.frames:
            raise ValueError("there are no pictures to have statistics")
        found = []
        for counts in self.counts:
            up_to, ranks = np.cumsum(counts), ranks_of(int(counts.sum()), fraction)
            found.append(ranks.between(_at(up_to, ranks.before), _at(up_to, ranks.after)))
        return np.array(found)

    def result(self) -> ImageStats:
        """The statistics, from sums of whole numbers: no rounding before the last division.

        Raises:
            ValueError: when there are no pictures.
        """
        if not self.frames:
            raise ValueError("there are no pictures to have statistics")
        channels = np.array([_channel_stats(counts) for counts in self.counts])
        mean, std, low, high, q01, q99 = channels.T
        return ImageStats(mean=mean, std=std, min=low, max=high, q01=q01, q99=q99, frames=self.frames)


def sample_rows(length: int) -> NDArray[np.int64]:
    """The rows of an episode of ``length`` rows whose frames stock LeRobot (0.3.3) looks at.

    Their number is min(max(⌊length^0.75⌋, 100), 10000), or ``length`` where that is less. They lie evenly
    from the first row to the last, each rounded to the nearest row (halves to the even one).

    Raises:
        ValueError: when there are no rows.
    """
    if length < 1:
        raise ValueError(f"an episode has at least 1 row, not {length}")
    wanted = min(max(int(length**_SAMPLES_POWER), _SAMPLES_AT_LEAST), _SAMPLES_AT_MOST)
    return np.round(np.linspace(0, length - 1, min(wanted, length))).astype(np.int64)


def thin(rgb: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The pixels of a picture [H, W, 3] that stock LeRobot (0.3.3) looks at.

    All of them where both sides are below 300 px; else every n-th row and column, n = ⌊longer side / 150⌋.
    """
    longest = max(rgb.shape[:2])
    if longest < _THINNED_FROM_PX:
        return rgb
    stride = longest // _THINNED_TO_PX
    return rgb[::stride, ::stride]


def _channel_stats(counts: NDArray[np.int64]) -> tuple[float, ...]:
    """Mean, std, min, max, q01 and q99 of one channel's 256 counts."""
    pixels = int(counts.sum())
    total, squares = int(counts @ _LEVELS), int(counts @ _LEVELS**2)
    present = np.flatnonzero(counts)
    up_to = np.cumsum(counts)
    low, high = quantile_ranks(pixels)
    q01, q99 = (ranks.between(_at(up_to, ranks.before), _at(up_to, ranks.after)) for ranks in (low, high))
    spread = math.sqrt(pixels * squares - total * total)
    scale = 255 * pixels
    return total / scale, spread / scale, int(present[0]) / 255, int(present[-1]) / 255, q01, q99


def _at(up_to: NDArray[np.int64], rank: int) -> float:
    return int(np.searchsorted(up_to, rank, side="right")) / 255
