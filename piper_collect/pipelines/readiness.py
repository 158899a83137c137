"""Whether a dataset has what its layout asks for, and the file that says so."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from piper_collect import __version__
from piper_collect.core.findings import Report
from piper_collect.dataset.embodiment import EMBODIMENT, KnownEmbodiment, known_embodiment
from piper_collect.dataset.json_files import json_bytes, read_json
from piper_collect.dataset.layout import META
from piper_collect.dataset.numeric import numeric_width
from piper_collect.dataset.reader import VERSIONS, DatasetReader, open_dataset
from piper_collect.dataset.readers import open_any
from piper_collect.dataset.ready import STATE, state_digest
from piper_collect.errors import DatasetError
from piper_collect.files import write_atomic

_CHANNELS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """The verdict.

    Attributes:
        file: The file that says that it is ready; there only where it is.
        missing: What it lacks; nothing where it is ready.
    """

    file: Path
    missing: tuple[str, ...]


def check_asked(root: Path) -> KnownEmbodiment:
    """What the dataset tells of its embodiment, which says what makes it ready.

    Raises:
        DatasetError: It does not say so, or is of a format that is not asked.
    """
    version = open_any(root).info["codebase_version"]
    if version not in VERSIONS:
        raise DatasetError(
            "datasets of this format are not looked at for a trainer's readiness",
            where=root,
            expected=" or ".join(VERSIONS),
            got=version,
            hint="piper-collect convert --to lerobot-v2.1",
        )
    said = known_embodiment(root)
    if said.ready is None:
        raise DatasetError(
            f"nothing says what makes it ready: that is in {META}/{EMBODIMENT}, by the profile",
            where=root,
            hint="export with a profile whose embodiment has ready, as trex has",
        )
    return said


def judge_ready(root: Path, report: Report) -> Ready:
    """Write the file that says that the dataset is ready, or take it away.

    The caller holds the lock of the dataset, since before it was validated.

    Args:
        root: The dataset.
        report: What ``validate`` found in it, every frame decoded.

    Raises:
        DatasetError: It does not say what makes it ready, or a file cannot be read or written.
    """
    said = check_asked(root)
    assert said.ready is not None
    dataset, path = open_dataset(root), root / META / said.ready.file
    missing = tuple(_missing(dataset, said, report))
    try:
        if missing:
            path.unlink(missing_ok=True)
        else:
            write_atomic(path, json_bytes(_word(dataset, said), path.name))
    except OSError as err:
        raise DatasetError(f"cannot be written: {err.strerror}", where=path) from err
    return Ready(file=path, missing=missing)


def _missing(dataset: DatasetReader, said: KnownEmbodiment, report: Report) -> Iterator[str]:
    assert said.ready is not None
    errors = report.count("error")
    if errors:
        yield f"validate finds {errors} error{'s' if errors != 1 else ''}"
    if not dataset.episodes:
        yield "there is no episode"
    for key in said.ready.views:
        yield from _view_faults(dataset, key)
    for key in said.ready.columns:
        if numeric_width(dataset.info["features"].get(key, {})) is None:
            yield f"the column {key} is missing"
    yield from _statistics_faults(dataset, said)


def _view_faults(dataset: DatasetReader, key: str) -> Iterator[str]:
    """An RGB video with a frame a row, in every episode."""
    if key not in dataset.video_keys:
        yield f"the view {key} is missing"
        return
    feature = dataset.info["features"][key]
    names, info = feature.get("names"), feature.get("info") or {}
    if list(feature["shape"])[-1:] != [_CHANNELS] or info.get("video.is_depth_map"):
        yield f"the view {key} is not RGB ({feature['shape']} {names})"
        return
    for index, line in dataset.lines.items():
        try:
            frames = len(dataset.frame_times(index, key))
        except DatasetError as err:
            yield str(err)
            return
        if frames != line.length:
            yield f"episode {index}: {key} has {frames} frames for {line.length} rows"
            return


def _statistics_faults(dataset: DatasetReader, said: KnownEmbodiment) -> Iterator[str]:
    chunks = said.chunks
    if chunks is None:
        return
    path = dataset.root / META / chunks.file
    if not path.is_file():
        yield f"{META}/{chunks.file} is missing: run finalize"
        return
    width = numeric_width(dataset.info["features"].get(chunks.action, {}))
    for name in ("q01", "q99", "mean", "std", "min", "max"):
        values = (read_json(path).get(chunks.key) or {}).get(name)
        if not isinstance(values, list) or len(values) != width:
            yield f"{META}/{chunks.file} has no {name} of {width} elements under {chunks.key}: run finalize"
            return


def _word(dataset: DatasetReader, said: KnownEmbodiment) -> dict[str, Any]:
    """What is said of a dataset that is ready."""
    assert said.ready is not None
    features = dataset.info["features"]
    return {
        "ready": True,
        "embodiment_tag": said.tag,
        "fps": dataset.info["fps"],
        "episodes": len(dataset.episodes),
        "rows": sum(line.length for line in dataset.lines.values()),
        "views": {key: list(features[key]["shape"]) for key in said.ready.views},
        "columns": {key: numeric_width(features[key]) for key in said.ready.columns},
        "checked_by": f"piper_collect {__version__}",
        STATE: state_digest(dataset.root, said),
    }
