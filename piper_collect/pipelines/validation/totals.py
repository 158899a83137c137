"""The files of the dataset against its own counts and lists, before any of them is opened."""

import os
from pathlib import Path
from typing import TypeAlias

from piper_collect.core.findings import Findings
from piper_collect.dataset.layout import EPISODES, INFO, META, STAGING, TASKS
from piper_collect.pipelines.validation.json_values import as_int, as_list, as_text, shown
from piper_collect.pipelines.validation.metadata import Metadata

_INFO = f"{META}/{INFO}"
_MOST_NAMED = 5

Missing: TypeAlias = frozenset[tuple[int, str]]
"""(episode, video key) of videos that are not there; the key is empty for rows."""


def check_totals(meta: Metadata, findings: Findings) -> Missing:
    """Totals, numbering, files missing and files too many.

    Returns:
        Which files are missing, so that they are not looked for again.
    """
    _check_counts(meta, findings)
    _check_splits(meta, findings)
    _check_lines(meta, findings)
    missing = _check_missing(meta, findings)
    _check_orphans(meta, findings)
    if (meta.root / STAGING).exists():
        text = "an interrupted save was left here; the next command that changes the dataset repairs it"
        findings.add("error", "interrupted-save", STAGING, text)
    return missing


def _check_counts(meta: Metadata, findings: Findings) -> None:
    lengths = (as_int(line.get("length")) or 0 for _, line in meta.episodes.items())
    counted = {
        "total_episodes": len(meta.episodes.offsets),
        "total_frames": sum(lengths),
        "total_tasks": len(meta.tasks),
    }
    for key, count in counted.items():
        if key not in meta.info:
            findings.add("error", "totals", _INFO, f"has no {key}; the other files say {count}")
        elif as_int(meta.info[key]) != count:
            text = f"{key} is {shown(meta.info[key])}, the other files say {count}"
            findings.add("error", "totals", _INFO, text)
    videos = len(meta.video_keys) * len(meta.episodes.offsets)
    chunks = -(-len(meta.episodes.offsets) // meta.chunks_size)
    for key, count in {"total_videos": videos, "total_chunks": chunks}.items():
        if key in meta.info and as_int(meta.info[key]) != count:
            text = f"{key} is {shown(meta.info[key])}, there should be {count}"
            findings.add("warning", "totals", _INFO, text)


def _check_splits(meta: Metadata, findings: Findings) -> None:
    train = as_text((meta.info.get("splits") or {}).get("train")) if _has_splits(meta) else ""
    expected = f"0:{len(meta.episodes.offsets)}"
    if train != expected:
        text = f"the split train is {shown(train) if train else 'not given'}, the episodes are {expected}"
        findings.add("warning", "splits", _INFO, text)


def _has_splits(meta: Metadata) -> bool:
    return isinstance(meta.info.get("splits"), dict)


def _check_lines(meta: Metadata, findings: Findings) -> None:
    where = f"{META}/{EPISODES}"
    numbers = list(meta.episodes.offsets)
    if numbers != list(range(len(numbers))):
        gap = next(i for i, number in enumerate(numbers) if i != number)
        text = f"the episode numbers have gaps: {numbers[gap]} comes where {gap} should"
        findings.add("error", "episode-numbers", where, text)
    known = set(meta.tasks.values())
    for index, line in meta.episodes.items():
        at = f"{where}, episode {index}"
        length = as_int(line.get("length"))
        if length is None or length < 1:
            findings.add("error", "length", at, f"length is {shown(line.get('length'))}")
        tasks = as_list(line.get("tasks"))
        if not tasks:
            findings.add("error", "tasks", at, f"tasks is {shown(line.get('tasks'))}")
        strange = [task for task in tasks if not isinstance(task, str) or task not in known]
        if strange:
            findings.add("error", "tasks", at, f"{shown(strange[0])} is not in {META}/{TASKS}")
        told = as_int(line.get("task_index"))
        if "task_index" in line and (told is None or meta.tasks.get(told) not in tasks):
            text = f"task_index {shown(line['task_index'])} is not one of its tasks"
            findings.add("error", "tasks", at, text)


def _check_missing(meta: Metadata, findings: Findings) -> Missing:
    missing: set[tuple[int, str]] = set()
    for key in ("", *meta.video_keys):
        gone = [i for i in meta.episodes.offsets if not _path(meta, i, key).is_file()]
        missing |= {(i, key) for i in gone}
        if gone:
            what = f"the video of {key}" if key else "the parquet file"
            named = ", ".join(str(i) for i in gone[:_MOST_NAMED]) + (
                ", ..." if len(gone) > _MOST_NAMED else ""
            )
            some = "every episode" if len(gone) == len(meta.episodes.offsets) else f"episodes {named}"
            example = _path(meta, gone[0], key).relative_to(meta.root)
            text = f"{what} of {some} is missing ({len(gone)} of {len(meta.episodes.offsets)}; {example})"
            findings.add("error", "file-missing", key or "data", text)
    return frozenset(missing)


def _path(meta: Metadata, index: int, key: str) -> Path:
    return meta.video_path(index, key) if key else meta.data_path(index)


def _check_orphans(meta: Metadata, findings: Findings) -> None:
    named = {str(_path(meta, i, key)) for i in meta.episodes.offsets for key in ("", *meta.video_keys)}
    for top in ("data", "videos"):
        for folder, inner, files in os.walk(meta.root / top):
            inner.sort()
            for name in sorted(files):
                path = os.path.join(folder, name)
                if path not in named:
                    where = os.path.relpath(path, meta.root)
                    findings.add("error", "orphan-file", where, "no episode names this file")
