"""Statistics of each episode, the lines of ``episodes_stats.jsonl``, and of all pictures of a camera.

LeRobot v2.1 reads one line an episode: every numeric column with lists of the column's width (one
number for scalars), every camera with lists of shape (3, 1, 1), and ``count`` of the rows or frames
looked at. ``q01`` and ``q99`` are ours to add.

All functions are pure: they take arrays or lines that were read, and give JSON values.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from piper_collect.core.image_stats import ImageStats
from piper_collect.core.moments import Moments, merged
from piper_collect.core.stats import column_stats
from piper_collect.core.types import FloatArray

Entry = dict[str, list[Any]]
"""The statistics of one feature, as JSON holds them."""


def episode_stats_line(
    episode_index: int, columns: Mapping[str, NDArray[Any]], images: Mapping[str, ImageStats]
) -> dict[str, Any]:
    """A line of episodes_stats.jsonl.

    Args:
        episode_index: Number of the episode.
        columns: [T, D] by column key, as stored; T >= 1.
        images: By video key, of the frames that were looked at.

    Raises:
        ValueError: naming the column that holds a value that is not finite, or no rows.
    """
    stats = {key: _column_entry(key, values) for key, values in columns.items()}
    stats |= {key: image_entry(image) for key, image in images.items()}
    return {"episode_index": episode_index, "stats": stats}


def image_entry(stats: ImageStats) -> Entry:
    """The entry of a camera: six statistics of shape (channels, 1, 1), and the number of frames."""
    return {
        "mean": _per_channel(stats.mean),
        "std": _per_channel(stats.std),
        "min": _per_channel(stats.min),
        "max": _per_channel(stats.max),
        "q01": _per_channel(stats.q01),
        "q99": _per_channel(stats.q99),
        "count": [stats.frames],
    }


def with_episode(total: Entry | None, episode: Entry) -> Entry:
    """The entry of a camera over the episodes so far and one more.

    Mean, std, min, max and count are those of all the frames looked at together, as LeRobot's own
    aggregate has them, each frame weighing the same. Quantiles cannot be told from the entries of
    episodes, so there are none. Taken episode by episode in their order, the same entry results to the
    bit whether the totals so far were kept or are computed again (``over_episodes``).

    Args:
        total: What this function gave for the episodes before; None when there are none.
        episode: The camera's entry in the line of the episode.

    Raises:
        ValueError: when an entry is not of a camera.
    """
    moments = _image_moments(episode)
    if total is not None:
        moments = merged(_image_moments(total), moments)
    return {
        "mean": _per_channel(moments.mean),
        "std": _per_channel(moments.std),
        "min": _per_channel(moments.min),
        "max": _per_channel(moments.max),
        "count": [moments.count],
    }


def over_episodes(episodes: Iterable[Entry]) -> Entry | None:
    """The entry of a camera over all ``episodes`` (its entries in their lines); None when there are none.

    Raises:
        ValueError: when an entry is not of a camera.
    """
    total: Entry | None = None
    for episode in episodes:
        total = with_episode(total, episode)
    return total


def _column_entry(key: str, values: NDArray[Any]) -> Entry:
    """Six statistics and the count; min and max of whole numbers and flags are whole numbers."""
    try:
        stats = column_stats(values)
    except ValueError as err:
        raise ValueError(f"column {key}: {err}") from err
    cells = values.astype(np.int64) if values.dtype == np.bool_ else values
    return {
        "mean": stats.mean.tolist(),
        "std": stats.std.tolist(),
        "min": cells.min(axis=0).tolist(),
        "max": cells.max(axis=0).tolist(),
        "q01": stats.q01.tolist(),
        "q99": stats.q99.tolist(),
        "count": [stats.count],
    }


def _per_channel(values: FloatArray) -> list[list[list[float]]]:
    return [[[value]] for value in values.tolist()]


def _image_moments(entry: Entry) -> Moments:
    (count,) = entry["count"]
    mean, std, low, high = (_channels(entry, name) for name in ("mean", "std", "min", "max"))
    return Moments(count=count, mean=mean, m2=std * std * count, min=low, max=high)


def _channels(entry: Entry, name: str) -> FloatArray:
    values = np.array(entry[name], np.float64)
    if values.shape not in ((3, 1, 1), (1, 1, 1)):
        raise ValueError(f"{name} of colours has the shape (3, 1, 1), not {values.shape}")
    return values.reshape(-1)
