"""Files beside the format's own: raw headset input, and the statistics that ``finalize`` wrote."""

import itertools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from piper_collect.core.findings import Findings
from piper_collect.dataset.embodiment import EMBODIMENT, KnownEmbodiment, known_embodiment
from piper_collect.dataset.layout import DELTA_STATS, EXTRAS, META, RELATIVE_STATS
from piper_collect.dataset.ready import ready_fault
from piper_collect.errors import DatasetError
from piper_collect.pipelines.validation.json_values import as_object, parse_object, read_object, shown
from piper_collect.pipelines.validation.metadata import Metadata

_EPISODE_FILE = re.compile(r"episode_(\d{6,})\.(quest\.jsonl|samples\.parquet)")
_SIX = ("mean", "std", "min", "max", "q01", "q99")
_ORDER = ("min", "q01", "q99", "max")


def check_extras(meta: Metadata, findings: Findings) -> None:
    """Every extra file belongs to an episode, and JSON is JSON."""
    folder = meta.root / EXTRAS
    for path in sorted(folder.glob("episode_*")) if folder.is_dir() else ():
        match = _EPISODE_FILE.fullmatch(path.name)
        where = f"{EXTRAS}/{path.name}"
        if match is None:
            continue
        if int(match[1]) not in meta.episodes.offsets:
            findings.add("error", "orphan-file", where, "there is no such episode")
        elif match[2] == "quest.jsonl":
            _check_lines(path, where, findings)


def _check_lines(path: Path, where: str, findings: Findings) -> None:
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip() and parse_object(line, f"{where}:{number}", findings) is None:
                    return
    except OSError as err:
        findings.add("error", "json", where, f"cannot be read: {err.strerror}")


def check_action_stats(meta: Metadata, findings: Findings) -> None:
    """What ``finalize`` wrote: six statistics, windows of one length, in order; and whether word is true."""
    said = _embodiment(meta, findings)
    chunks = (said.chunks.file,) if said.chunks is not None else ()
    fault = ready_fault(meta.root, said)
    if fault:
        findings.add("error", "ready", f"{META}/{said.ready.file if said.ready else ''}", fault)
    for name in (RELATIVE_STATS, DELTA_STATS, *chunks):
        if not meta.has(name):
            continue
        where = f"{META}/{name}"
        content = read_object(meta.root / META / name, where, findings)
        horizons = set()
        for key, entry in (content or {}).items():
            shape = _check_entry(as_object(entry), f"{where}, {key}", findings)
            if shape is not None and len(shape) == 2:
                horizons.add(shape[0])
        if len(horizons) > 1:
            text = f"the windows are of {' and '.join(map(str, sorted(horizons)))} steps"
            findings.add("error", "action-stats", where, text)


def _embodiment(meta: Metadata, findings: Findings) -> KnownEmbodiment:
    try:
        return known_embodiment(meta.root)
    except DatasetError as err:
        findings.add("error", "embodiment", f"{META}/{EMBODIMENT}", err.what)
        return KnownEmbodiment()


def _check_entry(entry: Mapping[str, Any], where: str, findings: Findings) -> tuple[int, ...] | None:
    values = {}
    for name in _SIX:
        try:
            values[name] = np.array(entry.get(name), dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            values[name] = np.empty(0)
        if values[name].size == 0 or not np.isfinite(values[name]).all():
            text = f"{name} is {shown(entry.get(name))}, not finite numbers"
            findings.add("error", "action-stats", where, text)
            return None
    shapes = {value.shape for value in values.values()}
    if len(shapes) != 1:
        findings.add("error", "action-stats", where, "the statistics are of different shapes")
        return None
    for low, high in itertools.pairwise(_ORDER):
        if np.any(values[low] > values[high] + 1e-9):
            findings.add("error", "action-stats", where, f"{low} is greater than {high}")
    return values["mean"].shape
