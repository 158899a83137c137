"""What Isaac-GR00T's loaders ask of the metadata and the columns, apart from time.

Found by running n1.5, n1.6 and n1.7 with one thing changed at a time. The words name the error.
"""

from collections.abc import Iterator, Mapping

from piper_collect.dataset.layout import META, MODALITY, STATS, TASKS
from piper_collect.pipelines.validation.json_values import as_int, as_object, original_key, shown
from piper_collect.pipelines.validation.metadata import FeatureInfo, Metadata
from piper_collect.pipelines.validation.modality import DEFAULT_COLUMNS, GROOT_ROTATIONS
from piper_collect.pipelines.validation.row_demands import RowDemands
from piper_collect.pipelines.validation.totals import Missing

SIX = ("mean", "std", "min", "max", "q01", "q99")


def early_demands(meta: Metadata, missing: Missing, rows: RowDemands) -> Iterator[str]:
    if meta.modality is None:
        yield f"AssertionError: {META}/{MODALITY} is missing or damaged"
        return
    for group in ("state", "action", "video"):
        if not isinstance(meta.modality.get(group), dict):
            yield f"ValidationError: {META}/{MODALITY} has no {group}"
    for group in DEFAULT_COLUMNS:
        for name, entry in as_object(meta.modality.get(group)).items():
            rotation = as_object(entry).get("rotation_type")
            if rotation is not None and rotation not in GROOT_ROTATIONS:
                yield f"ValidationError: rotation_type {shown(rotation)} of {group}.{name} is unknown to it"
    for name, entry in as_object(meta.modality.get("video")).items():
        key = original_key(entry, name)
        feature = meta.features.get(key)
        if feature is None:
            yield f"KeyError: video.{name} shows {shown(key)}"
        else:
            yield from _video_facts(feature)
    yield from _info(meta, "chunks_size", "data_path", "video_path")
    if not meta.has(TASKS):
        yield f"FileNotFoundError: {META}/{TASKS}"
    if meta.has(STATS) and meta.stats is None:
        yield f"JSONDecodeError: {META}/{STATS}"
    yield from _slices(meta, rows, stats=meta.stats if _six(meta) else None)
    yield from _files(meta, missing, rows)
    if "timestamp" in rows.missing_columns:
        yield "AssertionError: the rows have no timestamp"
    yield from _language(meta, rows)


def _info(meta: Metadata, *keys: str) -> Iterator[str]:
    absent = [key for key in keys if key not in meta.info]
    if absent:
        yield f"KeyError: info.json has no {', '.join(absent)}"


def _video_facts(feature: FeatureInfo) -> Iterator[str]:
    declared = feature.declared
    names = declared.get("names")
    if not isinstance(names, list) or not {"height", "width"} <= {n for n in names if isinstance(n, str)}:
        yield f"TypeError or ValueError: the names of {feature.key} do not tell height and width"
        return
    old = as_object(declared.get("video_info"))
    if "channel" in names and "video.fps" in old:
        return
    told = as_object(declared.get("info"))
    absent = [key for key in ("video.channels", "video.fps") if key not in told]
    if absent:
        yield f"KeyError: the info of {feature.key} has no {' and no '.join(absent)}"


def _six(meta: Metadata) -> bool:
    """Whether n1.5 takes stats.json as it is."""
    return bool(meta.stats) and all(
        set(SIX) <= set(as_object(entry)) for entry in (meta.stats or {}).values()
    )


def _slices(meta: Metadata, rows: RowDemands, stats: Mapping[str, object] | None) -> Iterator[str]:
    for group, default in DEFAULT_COLUMNS.items():
        for name, entry in as_object(as_object(meta.modality).get(group)).items():
            key = original_key(entry, default)
            if rows.lack(key):
                yield f"KeyError: {group}.{name} slices {shown(key)}"
                continue
            start, end = (as_int(as_object(entry).get(word)) for word in ("start", "end"))
            feature = meta.features.get(key)
            if start is None or end is None or (feature and end > sum(feature.shape[:1])):
                yield f"IndexError: {group}.{name} slices past the end of {key}"
            if stats is None:
                continue
            absent = [name for name in SIX if name not in as_object(stats.get(key))]
            if absent:
                yield f"KeyError: {META}/{STATS} has no {', '.join(absent)} of {key}"


def modern_demands(meta: Metadata, missing: Missing, rows: RowDemands) -> Iterator[str]:
    videos = ("video_path",) if as_object(as_object(meta.modality).get("video")) else ()
    yield from _info(meta, "chunks_size", "data_path", *videos)
    if not meta.has(TASKS):
        yield f"FileNotFoundError: {META}/{TASKS}"
    if meta.modality is None:
        yield f"FileNotFoundError: {META}/{MODALITY} is missing or damaged"
        return
    if meta.video_keys and not isinstance(meta.modality.get("video"), dict):
        yield f"KeyError: {META}/{MODALITY} has no video"
    if meta.stats is None:
        yield f"AssertionError: {META}/{STATS} is missing or damaged"
    yield from _language(meta, rows)
    yield from _slices(meta, rows, stats=meta.stats)
    for name, entry in as_object(meta.modality.get("video")).items():
        key = original_key(entry, f"observation.images.{name}")
        if key not in meta.features:
            yield f"AssertionError: video.{name} shows {shown(key)}"
    yield from _files(meta, missing, rows)


def _files(meta: Metadata, missing: Missing, rows: RowDemands) -> Iterator[str]:
    """GR00T opens the videos that modality.json names, and no others."""
    entries = as_object(as_object(meta.modality).get("video"))
    shown_keys = {original_key(e, f"observation.images.{n}") for n, e in entries.items()}
    gone = [item for item in missing if not item[1] or item[1] in shown_keys]
    if rows.too_short:
        yield f"KeyError or IndexError: {rows.too_short} episodes have fewer rows than their lines say"
    if gone or rows.unreadable:
        yield f"FileNotFoundError: {max(len(gone), rows.unreadable)} files are missing or unreadable"


def _language(meta: Metadata, rows: RowDemands) -> Iterator[str]:
    for name, entry in as_object(as_object(meta.modality).get("annotation")).items():
        key = original_key(entry, f"annotation.{name}")
        if rows.lack(key):
            yield f"KeyError: {shown(key)}, the column of annotation.{name}"


def early_notes(meta: Metadata) -> Iterator[str]:
    """What n1.5 does besides."""
    if meta.stats is not None and not _six(meta):
        yield f"it computes {META}/{STATS} anew and overwrites it: some entries lack one of {', '.join(SIX)}"
    elif not meta.has(STATS):
        yield f"it writes {META}/{STATS} into the dataset"


def modern_notes(meta: Metadata) -> Iterator[str]:
    """What n1.6 and n1.7 ask for beyond loading."""
    if meta.modality is not None and not as_object(meta.modality.get("annotation")):
        yield f"its language key must be task, for {META}/{MODALITY} has no annotation"


def latest_notes(meta: Metadata) -> Iterator[str]:
    """What n1.7 does besides."""
    yield from modern_notes(meta)
    if meta.stats is not None and "__fingerprints__" not in meta.stats:
        yield f"its trainer rewrites {META}/{STATS} and drops the entries of cameras"
