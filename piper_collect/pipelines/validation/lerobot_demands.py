"""What LeRobot asks of the metadata and the columns, apart from time.

Found by running 0.3.2, 0.3.3 and 0.4.4 with one thing changed at a time. The words name the error.
"""

from collections.abc import Iterator, Mapping

from piper_collect.dataset.layout import EPISODES_STATS, META, TASKS
from piper_collect.pipelines.validation.json_values import as_list, as_object, shown
from piper_collect.pipelines.validation.metadata import Metadata
from piper_collect.pipelines.validation.row_demands import RowDemands, some
from piper_collect.pipelines.validation.totals import Missing

_INFO = ("total_episodes", "chunks_size", "data_path")


def lerobot_demands(meta: Metadata, missing: Missing, rows: RowDemands, strays: int) -> Iterator[str]:
    for key in (*_INFO, *(("video_path",) if meta.video_keys else ())):
        if key not in meta.info:
            yield f"KeyError: info.json has no {key}"
    if not meta.has(TASKS):
        yield f"it turns to the hub for {META}/{TASKS}, which is missing"
    if meta.version == "v2.1":
        yield from _episode_stats(meta)
    if missing or rows.unreadable:
        keys = sorted({key or "the rows" for _, key in missing})
        what = f"of {', '.join(keys)}" if keys else "that cannot be read"
        yield f"it turns to the hub for {max(len(missing), rows.unreadable)} files {what}"
    if strays:
        yield f"DatasetGenerationError: {strays} files under data/ are not parquet"
    if rows.missing_columns:
        yield f"KeyError: the rows have no column {', '.join(sorted(rows.missing_columns))}"
    if rows.float_indexes and meta.video_keys:
        yield f"ValueError at the first video: {some(rows.float_indexes)} are floating point numbers"
    if rows.plain_pictures:
        yield f"TypeError: the type of {some(rows.plain_pictures)} does not say that they are pictures"
    if rows.wrong_lengths:
        yield f"ValueError or wrong windows: {rows.wrong_lengths} episodes are not as long as their lines say"
    if rows.unknown_tasks:
        yield "KeyError: a row's task_index has no line in tasks.jsonl"


def _episode_stats(meta: Metadata) -> Iterator[str]:
    if meta.episodes_stats is None:
        yield f"it turns to the hub for {META}/{EPISODES_STATS}, which is missing"
        return
    for index, line in meta.episodes_stats.items():
        for key, entry in as_object(line.get("stats")).items():
            wrong = _bad_entry(key, as_object(entry))
            if wrong:
                yield f"{wrong} ({META}/{EPISODES_STATS}, episode {index}, {key})"
                return


def _bad_entry(key: str, entry: Mapping[str, object]) -> str:
    for name in ("mean", "std", "min", "max", "count"):
        if name not in entry:
            return f"KeyError: '{name}'"
    if not isinstance(entry["count"], list) or len(entry["count"]) != 1:
        return f"ValueError: the shape of count must be (1), it is {shown(entry['count'])}"
    mean = entry["mean"]
    if "image" in key and not (isinstance(mean, list) and len(mean) == 3 and isinstance(mean[0], list)):
        return "ValueError: the shape of mean must be (3,1,1)"
    return ""


def conversion_demands(meta: Metadata, missing: Missing, rows: RowDemands) -> Iterator[str]:
    if meta.version != "v2.1":
        yield f"ValueError: its conversion takes v2.1 only, this is {meta.version}"
    for key in ("total_chunks", "total_videos"):
        if key not in meta.info:
            yield f"KeyError: info.json has no {key}"
    if not meta.has(TASKS):
        yield f"FileNotFoundError: {META}/{TASKS}"
    if meta.episodes_stats is None:
        yield f"FileNotFoundError: {META}/{EPISODES_STATS}"
    elif meta.version == "v2.1":
        yield from _episode_stats(meta)
    if missing or rows.unreadable:
        yield f"ValueError: {max(len(missing), rows.unreadable)} files are missing or unreadable"
    if rows.list_cells:
        yield (
            f"DatasetGenerationError: [1]-shaped features are stored as lists ({some(rows.list_cells)}), "
            "scalars are asked for"
        )
    if rows.undeclared:
        yield f"DatasetGenerationError: columns and features differ ({some(rows.undeclared)})"


def lerobot_notes(meta: Metadata) -> Iterator[str]:
    """What its trainer and policies ask for beyond loading."""
    cameras = [key for key in meta.video_keys if not _has_image_stats(meta, key)]
    if cameras:
        yield f"its trainer stops: no image statistics of shape (3,1,1) of {some(cameras)}"
    policy = [key for key in ("observation.state", "action") if key not in meta.features]
    if policy:
        yield f"its policies look for columns {' and '.join(policy)}"
    unnamed = [k for k, f in meta.features.items() if "names" not in f.declared]
    if unnamed:
        yield f"its policies ask for names in {len(unnamed)} features more"


def _has_image_stats(meta: Metadata, key: str) -> bool:
    if meta.version == "v2.1" and meta.episodes_stats is not None and meta.episodes_stats.offsets:
        entry = as_object(meta.episodes_stats.get(next(iter(meta.episodes_stats.offsets))).get("stats")).get(
            key
        )
    else:
        entry = (meta.stats or {}).get(key)
    mean = as_list(as_object(entry).get("mean"))
    return len(mean) == 3 and isinstance(mean[0], list)
