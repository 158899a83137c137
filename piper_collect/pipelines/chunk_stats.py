"""Statistics over chunks of actions, as a layout asks for them in ``embodiment.json``."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from piper_collect.config.embodiment import ChunkStats
from piper_collect.core.chunks import POSE_WIDTH, chunk_rows, delta_base, grid_rows
from piper_collect.core.running_stats import RunningStats
from piper_collect.core.stats import ColumnStats
from piper_collect.core.types import FloatArray
from piper_collect.dataset.dialect import EpisodeReader
from piper_collect.dataset.embodiment import KnownEmbodiment
from piper_collect.dataset.numeric import numeric_width
from piper_collect.dataset.parquet import TIMESTAMP, column_values
from piper_collect.errors import DatasetError


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkResult:
    """The statistics, and of how much they are.

    Attributes:
        chunks: What was asked for.
        count: Chunks.
        stats: Of all steps of all chunks together, [D].
    """

    chunks: ChunkStats
    count: int
    stats: ColumnStats


def chunk_statistics(
    dataset: EpisodeReader, said: KnownEmbodiment, on_episode: Callable[[int], None]
) -> ChunkResult | None:
    """The statistics that the dataset's embodiment asks for; None where it asks for none.

    Args:
        dataset: The dataset.
        said: What it tells of its embodiment.
        on_episode: Called with the number of episodes done.

    Raises:
        DatasetError: A column is missing, rows are not those of the list of episodes, or a value has no
            statistics.
    """
    chunks = said.chunks
    if chunks is None:
        return None
    _check_columns(dataset, said, chunks)
    counts = [len(grid_rows(times, chunks.rate_hz)) for times in _all_times(dataset)]
    if not counts:
        raise DatasetError("holds no rows", where=dataset.root)

    def values() -> Iterator[dict[str, FloatArray]]:
        for done, index in enumerate(dataset.lines, start=1):
            yield {chunks.key: _chunk_values(dataset, said, chunks, index)}
            on_episode(done)

    try:
        stats = RunningStats.of(values(), rows=sum(counts) * chunks.steps).result()
    except ValueError as err:
        raise DatasetError(f"no statistics of its chunks: {err}", where=dataset.root) from err
    return ChunkResult(chunks=chunks, count=sum(counts), stats=stats[chunks.key])


def _check_columns(dataset: EpisodeReader, said: KnownEmbodiment, chunks: ChunkStats) -> None:
    features = dataset.info["features"]
    widths = [numeric_width(features.get(key, {})) for key in (chunks.state, chunks.action)]
    if widths[0] is None or widths[0] != widths[1]:
        raise DatasetError(
            "the columns of the chunks are not there, or of different widths",
            where=dataset.root,
            expected=f"{chunks.state} and {chunks.action}",
            got=widths,
        )
    if said.poses and said.poses[-1] + POSE_WIDTH > widths[0]:
        raise DatasetError("a pose is beyond the end of the columns", where=dataset.root, got=said.poses)


def _all_times(dataset: EpisodeReader) -> Iterator[FloatArray]:
    """When the rows of each episode were, float64 [T]."""
    for index, line in dataset.lines.items():
        path = dataset.data_path(index)
        times = column_values(dataset.rows(index, [TIMESTAMP]), TIMESTAMP)[:, 0].astype(np.float64)
        if len(times) != line.length or not len(times):
            raise DatasetError(
                "has other rows than the list of episodes says",
                where=path,
                expected=line.length,
                got=len(times),
            )
        if not np.isfinite(times).all() or (np.diff(times) <= 0).any():
            raise DatasetError("the times of the rows do not increase", where=path)
        yield times


def _chunk_values(
    dataset: EpisodeReader, said: KnownEmbodiment, chunks: ChunkStats, index: int
) -> FloatArray:
    """All steps of all chunks of an episode, float64 [K * steps, D]."""
    path = dataset.data_path(index)
    table = dataset.rows(index, [TIMESTAMP, chunks.state, chunks.action])
    times, state, action = (
        column_values(table, key).astype(np.float64) for key in (TIMESTAMP, chunks.state, chunks.action)
    )
    starts, ends = chunk_rows(grid_rows(times[:, 0], chunks.rate_hz), chunks.steps)
    try:
        return delta_base(state[starts], action[ends], said.poses)
    except ValueError as err:
        raise DatasetError(f"{chunks.state} or {chunks.action} holds {err}", where=path) from err
