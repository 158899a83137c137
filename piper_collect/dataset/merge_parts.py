"""What is alike when datasets of any format are merged: what describes them, calibration, files that stay."""

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from piper_collect.core.camera_history import infos_by_episode
from piper_collect.dataset.embodiment import EMBODIMENT
from piper_collect.dataset.json_files import jsonl_bytes, read_json
from piper_collect.dataset.layout import CAMERAS, LATEST_SESSION, META, MODALITY, SESSIONS
from piper_collect.dataset.merge_checks import Member, Mergeable, joint_sessions
from piper_collect.dataset.meta_files import write_meta
from piper_collect.dataset.stage import extra_files
from piper_collect.dataset.transaction import Transaction
from piper_collect.errors import DatasetError
from piper_collect.files import sync


def stage_descriptions(change: Transaction, datasets: Sequence[Mergeable]) -> None:
    """Stage the records of all sessions, and what describes the columns."""
    records, _ = joint_sessions(datasets)
    if records:
        change.write(f"{META}/{SESSIONS}", jsonl_bytes(records, SESSIONS))
        write_meta(change, LATEST_SESSION, records[-1])
    for name in (MODALITY, EMBODIMENT):
        if (datasets[0].root / META / name).is_file():
            write_meta(change, name, read_json(datasets[0].root / META / name))


def calibrations(
    members: Sequence[Member], datasets: Sequence[Mergeable]
) -> list[Mapping[str, Mapping[str, object]]]:
    """Calibration by camera of each episode."""
    known = {}
    for dataset in datasets:
        path = dataset.root / CAMERAS
        content = read_json(path) if path.exists() else None
        known[dataset.root] = infos_by_episode(content, len(dataset.episodes))
    return [known[m.dataset.root][m.index] for m in members]


def link_extras(change: Transaction, member: Member, number: int) -> None:
    """Stage what lies beside an episode as that of episode ``number``."""
    root = member.dataset.root
    for was, now in zip(extra_files(member.index), extra_files(number), strict=True):
        if (root / was).exists():
            link(change, root / was, now)


def link(change: Transaction, existing: Path, file: str) -> None:
    """Stage a file of another dataset, by a hard link where the disk allows it.

    Raises:
        DatasetError: It is missing.
    """
    if not existing.is_file():
        raise DatasetError("a file of an episode is missing", where=existing)
    target = change.path(file)
    try:
        os.link(existing.resolve(), target)
    except OSError:  # another disk, or one without hard links
        shutil.copyfile(existing, target)
        sync(target)
