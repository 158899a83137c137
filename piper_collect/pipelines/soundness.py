"""Whether an episode of a dataset is there and whole: every row and every frame of it, read to the end."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from piper_collect.dataset.clip_files import clip_file
from piper_collect.dataset.dialect import EpisodeReader
from piper_collect.dataset.layout import samples_path
from piper_collect.dataset.parquet import column_values, read_table
from piper_collect.dataset.pictures import picture_size, whole_pictures
from piper_collect.dataset.probe import probe_video
from piper_collect.errors import DatasetError

_EXACT = ("frame_index", "episode_index", "index")


def episode_files(dataset: EpisodeReader, index: int) -> list[Path]:
    """The files that hold an episode, alone or with others."""
    sources = [dataset.clip(index, key).source for key in dataset.video_keys]
    files = [dataset.data_path(index), *(source for source in sources if isinstance(source, Path))]
    samples = dataset.root / samples_path(index)
    return [*files, samples] if samples.exists() else files


def episode_faults(dataset: EpisodeReader, index: int) -> Iterator[str]:
    """What is missing or damaged in an episode; nothing where all of it can be read.

    Rows are compared with the metadata: columns, length, numbers, tasks, finite values. Each video is decoded
    to its end, and its frames are counted.

    Args:
        dataset: The dataset.
        index: Number of the episode.
    """
    if index not in dataset.lines:
        yield f"episode {index} is not in the dataset"
        return
    try:
        table = dataset.rows(index)
        samples = dataset.root / samples_path(index)
        if samples.exists() and len(read_table(samples)) != len(table):
            yield f"episode {index}: {samples.name} has other rows"
    except DatasetError as err:
        yield f"episode {index}: {err}"
        return
    yield from (f"episode {index}: {fault}" for fault in _row_faults(dataset, index, table))
    for key in dataset.video_keys:
        yield from (f"episode {index}, {key}: {fault}" for fault in _video_faults(dataset, index, key))


def _row_faults(dataset: EpisodeReader, index: int, table: pa.Table) -> Iterator[str]:
    length = dataset.lines[index].length
    if not len(table) or len(table) != length:
        yield f"{len(table)} rows, the metadata say {length}"
        return
    declared = {key: f for key, f in dataset.info["features"].items() if f["dtype"] != "video"}
    missing = [key for key in declared if key not in table.column_names]
    if missing:
        yield f"columns are missing: {', '.join(missing)}"
        return
    first = sum(line.length for i, line in dataset.lines.items() if i < index)
    expected = {
        "frame_index": np.arange(len(table)),
        "episode_index": np.full(len(table), index),
        "index": first + np.arange(len(table)),
    }
    for key in [key for key in _EXACT if key in table.column_names]:
        if not np.array_equal(column_values(table, key)[:, 0], expected[key]):
            yield f"the numbers in {key} are not its own"
    for key in declared:
        yield from _cell_faults(dataset, table, key)


def _cell_faults(dataset: EpisodeReader, table: pa.Table, key: str) -> Iterator[str]:
    kind: Any = table.schema.field(key).type
    if table[key].null_count:
        yield f"{table[key].null_count} values of {key} are missing"
        return
    if dataset.info["features"][key]["dtype"] == "image":
        yield from _image_faults(table, key)
        return
    values = column_values(table, key)
    if pa.types.is_floating(getattr(kind, "value_type", kind)) and not np.isfinite(values).all():
        yield f"values of {key} are not finite"
    if key == "task_index" and not set(values[:, 0].tolist()) <= set(dataset.tasks):
        yield "its task is not in tasks.jsonl"


def _image_faults(table: pa.Table, key: str) -> Iterator[str]:
    """Pictures in rows that cannot be decoded; the first of them."""
    for row, cell in enumerate(table[key].to_pylist()):
        try:
            picture_size((cell or {}).get("bytes") or b"")
        except DatasetError as err:
            yield f"{key}, row {row}: {err}"
            return


def _video_faults(dataset: EpisodeReader, index: int, key: str) -> Iterator[str]:
    try:
        with clip_file(dataset.clip(index, key)) as path:
            probe, decoded = probe_video(path), whole_pictures(path)
    except DatasetError as err:
        yield str(err)
        return
    told = dataset.lines[index].frames.get(key, len(probe.pts))
    if not len(probe.pts) or not len(probe.pts) == decoded == told:
        yield f"{decoded} of {len(probe.pts)} frames can be decoded, the metadata say {told}"
    elif probe.repeated_pts or probe.missing_pts:
        yield "the times of its frames do not increase"
