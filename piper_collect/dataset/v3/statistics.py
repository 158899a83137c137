"""Statistics with the five quantiles that LeRobot v3.0 normalises by."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from piper_collect.core.image_stats import ImageHistogram
from piper_collect.core.quantile_sketch import QuantileSketch, from_bytes, to_bytes
from piper_collect.core.running_stats import RunningStats
from piper_collect.dataset.episode_stats import Entry, episode_stats_line, with_episode
from piper_collect.dataset.running import carried_stats
from piper_collect.dataset.v3.layout import QUANTILES_STATE

MIDDLE = {"q10": 0.1, "q50": 0.5, "q90": 0.9}
"""Beside q01 and q99, which ``column_stats`` and ``ImageStats`` have."""
_QUANTILES = ("q01", "q10", "q50", "q90", "q99")
_DIGEST_BYTES = hashlib.sha256().digest_size

Cells = Mapping[str, NDArray[Any]]
Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GrowingStats:
    """Statistics of all rows of a dataset, without the rows.

    Attributes:
        outer: All but the middle quantiles, exact.
        middle: For those, by column.
    """

    outer: RunningStats = field(default_factory=RunningStats)
    middle: Mapping[str, QuantileSketch] = field(default_factory=dict)

    def added(self, cells: Cells, *, of_rows: int | None = None) -> "GrowingStats":
        """The statistics with one episode more; arguments and errors as ``RunningStats.added``."""
        return GrowingStats(outer=self.outer.added(cells, of_rows=of_rows), middle=_added(self.middle, cells))

    @classmethod
    def of(cls, episodes: Iterable[Cells], *, rows: int) -> "GrowingStats":
        """The statistics of all ``episodes``, taken one at a time (see ``RunningStats.of``)."""
        middle: dict[str, QuantileSketch] = {}

        def seen() -> Iterable[Cells]:
            for cells in episodes:
                middle.update(_added(middle, cells))
                yield cells

        outer = RunningStats.of(seen(), rows=rows)
        return cls(outer=outer, middle=middle)

    def entries(self, shapes: Shapes) -> dict[str, Entry]:
        """The entries of stats.json by column; those of arrays in the shape of ``array_shapes``."""
        found: dict[str, Entry] = {}
        for key, s in self.outer.result().items():
            middle = self.middle[key].quantiles(tuple(MIDDLE.values()))
            found[key] = {
                "min": s.min.tolist(),
                "max": s.max.tolist(),
                "mean": s.mean.tolist(),
                "std": s.std.tolist(),
                "count": [s.count],
                "q01": s.q01.tolist(),
                **{name: middle[at].tolist() for at, name in enumerate(MIDDLE)},
                "q99": s.q99.tolist(),
            }
        return {key: _shaped(entry, shapes.get(key)) for key, entry in found.items()}


def _added(middle: Mapping[str, QuantileSketch], cells: Cells) -> dict[str, QuantileSketch]:
    return {
        key: (middle.get(key) or QuantileSketch.empty(values.shape[1])).added(values.astype(np.float64))
        for key, values in cells.items()
    }


def array_shapes(features: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """The extents of the cells of several axes, by the ``features`` of info.json."""
    numeric = {k: f for k, f in features.items() if f["dtype"] not in ("video", "image", "string")}
    return {key: tuple(f["shape"]) for key, f in numeric.items() if len(f["shape"]) > 1}


def _shaped(entry: Entry, shape: tuple[int, ...] | None) -> Entry:
    """An entry of a column whose cells have this shape: LeRobot scales each number by its own statistics."""
    if shape is None:
        return entry
    return {n: v if n == "count" else np.array(v).reshape(shape).tolist() for n, v in entry.items()}


def episode_entries(
    cells: Cells, pictures: Mapping[str, ImageHistogram], shapes: Shapes | None = None
) -> dict[str, Entry]:
    """The statistics of an episode by feature.

    Args:
        cells: [T, D] by column, as stored.
        pictures: By video key, of the frames that were looked at.
        shapes: See ``array_shapes``; none where no cell is an array.

    Raises:
        ValueError: naming the column that holds a value that is not finite, or no rows.
    """
    stats = episode_stats_line(0, cells, {key: h.result() for key, h in pictures.items()})["stats"]
    for key, values in cells.items():
        middle = np.quantile(values.astype(np.float64), list(MIDDLE.values()), axis=0)
        stats[key] |= {name: middle[at].tolist() for at, name in enumerate(MIDDLE)}
    for key, histogram in pictures.items():
        channels = {name: histogram.quantile(q) for name, q in MIDDLE.items()}
        stats[key] |= {name: [[[v]] for v in values.tolist()] for name, values in channels.items()}
    shaped = {str(key): _shaped(entry, (shapes or {}).get(key)) for key, entry in stats.items()}
    return {key: {name: entry[name] for name in sorted(entry)} for key, entry in shaped.items()}


def with_pictures(total: Entry | None, episode: Entry) -> Entry:
    """The entry of a camera over the episodes so far and one more.

    Mean, std, min, max and count are those of all frames looked at; a quantile is the mean of the episodes'
    by their frames, as LeRobot's own aggregate has it.

    Raises:
        ValueError: when an entry is not of a camera.
    """
    entry = with_episode(total, episode)
    (new,), (all_frames,) = episode["count"], entry["count"]
    for name in _QUANTILES:
        value = np.array(episode[name], np.float64)
        if total is not None:
            before = np.array(total[name], np.float64)
            value = before + (value - before) * (new / all_frames)
        entry[name] = value.tolist()
    return entry


def over_pictures(entries: Iterable[Entry]) -> Entry | None:
    """The entry of a camera over all ``entries``; None when there are none."""
    total: Entry | None = None
    for entry in entries:
        total = with_pictures(total, entry)
    return total


def quantiles_bytes(stats: GrowingStats) -> bytes:
    """What ``carried`` reads again of the middle quantiles."""
    content = to_bytes(dict(stats.middle))
    return hashlib.sha256(content).digest() + content


def carried(root: Path, episodes: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> GrowingStats | None:
    """The statistics that an earlier save left, of the first episodes, or None when there are none."""
    outer, path = carried_stats(root, episodes, columns), root / QUANTILES_STATE
    if outer is None or not path.exists():
        return None
    content = path.read_bytes()
    body = content[_DIGEST_BYTES:]
    if hashlib.sha256(body).digest() != content[:_DIGEST_BYTES]:
        return None
    try:
        middle = from_bytes(body)
    except ValueError:
        return None
    is_same = set(middle) == set(columns) and all(s.rows == outer.rows for s in middle.values())
    return GrowingStats(outer=outer, middle=middle) if is_same else None
