"""Statistics, recomputed: ``stats.json`` over all rows, ``episodes_stats.jsonl`` episode by episode."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from piper_collect.core.findings import Findings, Level
from piper_collect.core.stats_check import MOMENTS, QUANTILES, StatsCheck
from piper_collect.core.survey import CameraSurvey
from piper_collect.core.types import FloatArray
from piper_collect.dataset.layout import EPISODES_STATS, META, STATS
from piper_collect.pipelines.validation.json_values import as_list, as_number, as_object, shown
from piper_collect.pipelines.validation.metadata import Metadata
from piper_collect.pipelines.validation.rows import EpisodeRows

_NAMES = (*MOMENTS, *QUANTILES)
_COLOUR_TOLERANCE = 0.1  # other tools sample frames and pixels
_FLOATS = ("float16", "float32", "float64")


class DatasetStats:
    """Holds ``stats.json`` against the rows as they come, one episode at a time.

    Args:
        meta: The dataset's metadata.
        findings: Takes what is wrong.
    """

    def __init__(self, meta: Metadata, findings: Findings) -> None:
        self._where = f"{META}/{STATS}"
        self._findings = findings
        self._checks: dict[str, StatsCheck] = {}
        self._colour: dict[str, FloatArray] = {}
        self._seen: dict[str, tuple[FloatArray, int]] = {}
        if not meta.episodes.offsets:
            return  # of no rows there is nothing to tell
        stats = meta.stats
        if stats is None:
            if meta.version == "v2.0" and not meta.has(STATS):
                findings.add("error", "no-stats", self._where, "the file is missing")
            return
        for key, feature in meta.features.items():
            if key not in stats:
                if feature.dtype in _FLOATS:
                    findings.add("error", "stats", self._where, f"no statistics of {key}")
            elif feature.dtype in ("video", "image"):
                self._take_colour(key, as_object(stats[key]))
            elif feature.dtype != "string":
                self._take_column(key, as_object(stats[key]), feature.shape)

    def _take_column(self, key: str, entry: Mapping[str, Any], shape: tuple[int, ...]) -> None:
        told = _told(entry, self._where, key, self._findings)
        absent = [name for name in _NAMES if name not in entry]
        if absent:
            level: Level = "error" if set(absent) & set(MOMENTS) else "warning"
            self._findings.add(level, "stats", self._where, f"no {', '.join(absent)} of {key}")
        sizes = {name: len(values) for name, values in told.items()}
        wanted = shape[0] if len(shape) == 1 else None
        wrong = [name for name, size in sizes.items() if wanted is not None and size != wanted]
        if wrong:
            text = f"{wrong[0]} of {key} has {sizes[wrong[0]]} elements, the rows {wanted}"
            self._findings.add("error", "stats", self._where, text)
        elif told and len(set(sizes.values())) == 1:
            self._checks[key] = StatsCheck(told)

    def _take_colour(self, key: str, entry: Mapping[str, Any]) -> None:
        mean = _colour_mean(entry, self._where, key, self._findings)
        if mean is not None:
            self._colour[key] = mean

    def add(self, rows: EpisodeRows) -> None:
        """Take the rows of an episode; columns that are missing or not finite end the comparison."""
        for key in list(self._checks):
            cells = rows.cells.get(key)
            check = self._checks[key]
            if cells is None or not len(cells) or cells.shape[1] != check.size or not _finite(cells):
                if rows.length:
                    del self._checks[key]
                continue
            check.add(cells.astype(np.float64))

    def skip(self) -> None:
        """Rows of an episode cannot be read: nothing can be said of the whole any more."""
        self._checks.clear()

    def add_video(self, camera: CameraSurvey) -> None:
        """Take the colours of a decoded video."""
        if camera.key in self._colour and camera.pictures is not None and len(camera.pictures.mean):
            frames = len(camera.pictures.mean)
            total, seen = self._seen.get(camera.key, (np.zeros(3), 0))
            self._seen[camera.key] = (total + frames * camera.pictures.colour[0], seen + frames)

    def finish(self) -> None:
        """Say what does not hold."""
        for key, check in self._checks.items():
            for wrong in check.mismatches():
                text = f"{wrong.name} of {key}[{wrong.element}] is {wrong.told:.9g}, {wrong.found}"
                self._findings.add("error", "stats", self._where, text)
        for key, (total, seen) in self._seen.items():
            _check_colour(f"{self._where}, {key}", self._colour[key], total / seen, self._findings)


def check_episode_stats(
    meta: Metadata, rows: EpisodeRows, cameras: Mapping[str, CameraSurvey], findings: Findings
) -> None:
    """The line of ``episodes_stats.jsonl`` against the rows and pictures of its episode."""
    if meta.episodes_stats is None:
        return
    where = f"{META}/{EPISODES_STATS}, {rows.where}"
    if rows.index not in meta.episodes_stats.offsets:
        findings.add("error", "episode-stats", where, "there is no line of this episode")
        return
    stats = as_object(meta.episodes_stats.get(rows.index).get("stats"))
    for key, feature in meta.features.items():
        if key not in stats:
            if feature.dtype in (*_FLOATS, "video", "image"):
                findings.add("error", "episode-stats", where, f"no statistics of {key}")
            continue
        entry = as_object(stats[key])
        if feature.dtype in ("video", "image"):
            mean, camera = _colour_mean(entry, where, key, findings), cameras.get(key)
            if mean is not None and camera is not None and camera.pictures is not None:
                _check_colour(f"{where}, {key}", mean, camera.pictures.colour[0], findings)
            continue
        _check_entry(rows, key, entry, where, findings)


def _check_entry(
    rows: EpisodeRows, key: str, entry: Mapping[str, Any], where: str, findings: Findings
) -> None:
    cells = rows.cells.get(key)
    if cells is None or not len(cells) or not _finite(cells):
        return
    told = _told(entry, where, key, findings)
    absent = [name for name in MOMENTS if name not in entry]
    if absent:
        findings.add("error", "episode-stats", where, f"no {', '.join(absent)} of {key}")
    sizes = {name: len(values) for name, values in told.items()}
    if any(size != cells.shape[1] for size in sizes.values()):
        name = next(n for n, size in sizes.items() if size != cells.shape[1])
        text = f"{name} of {key} has {sizes[name]} elements, the rows {cells.shape[1]}"
        findings.add("error", "episode-stats", where, text)
        return
    if entry.get("count") != [rows.length]:
        text = f"count of {key} is {shown(entry.get('count'))}, the rows are [{rows.length}]"
        findings.add("error", "episode-stats", where, text)
    if not told:
        return
    check = StatsCheck(told)
    check.add(cells.astype(np.float64))
    for wrong in check.mismatches():
        text = f"{wrong.name} of {key}[{wrong.element}] is {wrong.told:.9g}, {wrong.found}"
        findings.add("error", "episode-stats", where, text)


def check_stats_files(meta: Metadata, findings: Findings) -> None:
    """``episodes_stats.jsonl`` is there where the version asks for it, and for no other episodes."""
    where = f"{META}/{EPISODES_STATS}"
    if meta.episodes_stats is None:
        if meta.version == "v2.1":
            findings.add("error", "no-stats", where, "the file is missing")
        return
    extra = sorted(set(meta.episodes_stats.offsets) - set(meta.episodes.offsets))
    if extra:
        findings.add("error", "episode-stats", where, f"has a line of episode {extra[0]}, which there is not")


def _finite(cells: Any) -> bool:
    return bool(np.isfinite(cells.astype(np.float64)).all())


def _told(entry: Mapping[str, Any], where: str, key: str, findings: Findings) -> dict[str, FloatArray]:
    """The statistics of an entry that are lists of finite numbers."""
    told = {}
    for name in _NAMES:
        if name not in entry:
            continue
        values = _vector(entry[name])
        if values is None:
            text = f"{name} of {key} is {shown(entry[name])}, not a list of finite numbers"
            findings.add("error", "stats", where, text)
        else:
            told[name] = values
    return told


def _vector(value: object) -> FloatArray | None:
    numbers = [as_number(int(p) if isinstance(p, bool) else p) for p in as_list(value)]
    known = [n for n in numbers if n is not None]
    return np.array(known) if known and len(known) == len(numbers) else None


def _colour_mean(entry: Mapping[str, Any], where: str, key: str, findings: Findings) -> FloatArray | None:
    """The mean of R, G and B, where every statistic has the shape (3, 1, 1) that trainers ask for."""
    mean = None
    for name in [n for n in _NAMES if n in entry]:
        try:
            values = np.array(entry[name], dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            values = np.empty(0)
        if values.shape != (3, 1, 1) or not np.isfinite(values).all():
            text = f"{name} of {key} is {shown(entry[name])}, not three finite numbers of shape (3, 1, 1)"
            findings.add("error", "stats", where, text)
            return None
        if name == "mean":
            mean = values[:, 0, 0]
    if mean is None:
        findings.add("error", "stats", where, f"no mean of {key}")
    elif mean.min() < 0 or mean.max() > 1:
        text = f"the mean of {key} is {shown(mean.round(3).tolist())}; pictures are taken from 0 to 1"
        findings.add("error", "stats", where, text)
        return None
    return mean


def _check_colour(where: str, told: FloatArray, found: FloatArray, findings: Findings) -> None:
    if np.max(np.abs(told - found)) > _COLOUR_TOLERANCE:
        text = (
            f"the mean colour told is {told.round(3).tolist()}, the pictures have {found.round(3).tolist()}"
        )
        findings.add("warning", "colour", where, text)
