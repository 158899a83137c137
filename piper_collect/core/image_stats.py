"""Statistics of pictures, as a trainer normalises by them."""

import math
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from piper_collect.core.quantiles import quantile_ranks, ranks_of
from piper_collect.core.types import FloatArray

_Pixel = TypeVar("_Pixel", bound=np.generic)

# LeRobot 0.3.3, lerobot/datasets/compute_stats.py: how many frames, and how much of each, it looks at.
_SAMPLES_AT_LEAST = 100
_SAMPLES_AT_MOST = 10_000
_SAMPLES_POWER = 0.75
_THINNED_FROM_PX = 300
_THINNED_TO_PX = 150


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ImageStats:
    """Statistics over all pixels of the pictures of a camera, by channel (C).

    Those of red, green and blue are scaled from 0..255 to [0, 1]; those of depth, one channel, are in
    millimetres.

    Attributes:
        mean: float64 [C].
        std: float64 [C], population standard deviation.
        min: float64 [C].
        max: float64 [C].
        q01: float64 [C], 1 % quantile, linear between order statistics.
        q99: float64 [C], 99 % quantile.
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
        counts: int64 [C, L], by channel and value: [3, 256] of red, green and blue, [1, 65536] of depth.
        frames: Number of pictures.
        scale: What the value is that statistics tell as 1.
    """

    counts: NDArray[np.int64]
    frames: int
    scale: int = 255

    @classmethod
    def empty(cls) -> "ImageHistogram":
        """No pictures."""
        return cls(counts=np.zeros((3, 256), np.int64), frames=0)

    @classmethod
    def empty_depth(cls) -> "ImageHistogram":
        """No depth images."""
        return cls(counts=np.zeros((1, 65536), np.int64), frames=0, scale=1)

    def added(self, picture: NDArray[np.uint8] | NDArray[np.uint16]) -> "ImageHistogram":
        """The histogram with one picture more, uint8 [H, W, 3], or a depth image, uint16 [H, W, 1].

        Raises:
            ValueError: when it is no such picture.
        """
        channels, levels = self.counts.shape
        kind = np.uint8 if levels == 256 else np.uint16
        shape = picture.shape
        if picture.dtype != kind or picture.ndim != 3 or shape[2] != channels or 0 in shape:
            wanted = f"{np.dtype(kind)} [H, W, {channels}]"
            raise ValueError(f"a picture is {wanted}, not {picture.dtype} {list(shape)}")
        counts = [np.bincount(picture[:, :, c].ravel(), minlength=levels) for c in range(channels)]
        return replace(self, counts=self.counts + np.stack(counts), frames=self.frames + 1)

    def merged(self, other: "ImageHistogram") -> "ImageHistogram":
        """The histogram of the pictures of both."""
        return replace(self, counts=self.counts + other.counts, frames=self.frames + other.frames)

    def quantile(self, fraction: float) -> FloatArray:
        """The quantile of each channel, float64 [C], linear between order statistics.

        Raises:
            ValueError: when there are no pictures.
        """
        if not self.frames:
            raise ValueError("there are no pictures to have statistics")
        found = []
        for counts in self.counts:
            up_to, ranks = np.cumsum(counts), ranks_of(int(counts.sum()), fraction)
            before, after = (_at(up_to, rank, self.scale) for rank in (ranks.before, ranks.after))
            found.append(ranks.between(before, after))
        return np.array(found)

    def result(self) -> ImageStats:
        """The statistics, from sums of whole numbers: no rounding before the last division.

        Raises:
            ValueError: when there are no pictures.
        """
        if not self.frames:
            raise ValueError("there are no pictures to have statistics")
        channels = np.array([_channel_stats(counts, self.scale) for counts in self.counts])
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


def thin(picture: NDArray[_Pixel]) -> NDArray[_Pixel]:
    """The pixels of a picture [H, W, C] that stock LeRobot (0.3.3) looks at.

    All of them where both sides are below 300 px; else every n-th row and column, n = ⌊longer side / 150⌋.
    """
    longest = max(picture.shape[:2])
    if longest < _THINNED_FROM_PX:
        return picture
    stride = longest // _THINNED_TO_PX
    return picture[::stride, ::stride]


def _channel_stats(counts: NDArray[np.int64], scale: int) -> tuple[float, ...]:
    """Mean, std, min, max, q01 and q99 of one channel's counts."""
    pixels, levels = int(counts.sum()), np.arange(len(counts))
    total, squares = int(counts @ levels), int(counts @ levels**2)
    present = np.flatnonzero(counts)
    up_to = np.cumsum(counts)
    low, high = quantile_ranks(pixels)
    q01, q99 = (
        ranks.between(_at(up_to, ranks.before, scale), _at(up_to, ranks.after, scale))
        for ranks in (low, high)
    )
    spread = math.sqrt(pixels * squares - total * total)
    of_all = scale * pixels
    return total / of_all, spread / of_all, int(present[0]) / scale, int(present[-1]) / scale, q01, q99


def _at(up_to: NDArray[np.int64], rank: int, scale: int) -> float:
    return int(np.searchsorted(up_to, rank, side="right")) / scale
