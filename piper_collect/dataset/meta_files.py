"""The metadata files that follow from all episodes together."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from piper_collect.config.profile import Profile
from piper_collect.core.running_stats import RunningStats
from piper_collect.dataset import metadata
from piper_collect.dataset.embodiment import EMBODIMENT, embodiment_json, known_embodiment
from piper_collect.dataset.json_files import json_bytes
from piper_collect.dataset.layout import DELTA_STATS, META, MODALITY, RELATIVE_STATS, STATS, STATS_STATE
from piper_collect.dataset.running import state_bytes
from piper_collect.dataset.transaction import Transaction

FINALIZED = (RELATIVE_STATS, DELTA_STATS)


def write_meta(change: Transaction, name: str, content: Mapping[str, Any]) -> None:
    """Stage one JSON file of ``meta/``."""
    change.write(f"{META}/{name}", json_bytes(content, name))


def write_stats(
    change: Transaction,
    stats: RunningStats,
    cameras: Mapping[str, Any],
    last_line: Mapping[str, Any],
    *,
    state: bool = True,
) -> None:
    """Stage stats.json and what the next run goes on from.

    Args:
        change: Where to.
        stats: Of all rows.
        cameras: Statistics of the pictures by video key, as stats.json holds them.
        last_line: The last line of the new episodes.jsonl.
        state: Whether to write what the next run goes on from; else it goes on from an older one.
    """
    write_meta(change, STATS, {**metadata.stats_json(stats.result()), **cameras})
    if state:
        change.write(STATS_STATE, state_bytes(stats, last_line))


def stage_description(
    change: Transaction, root: Path, profile: Profile, cameras: Sequence[str], robot_type: str
) -> None:
    """Stage modality.json, and embodiment.json where the profile has one, unless they are there."""
    modality = metadata.modality_json(profile, cameras)
    if not (root / META / MODALITY).exists():
        write_meta(change, MODALITY, modality)
    if profile.embodiment.tag and not (root / META / EMBODIMENT).exists():
        write_meta(change, EMBODIMENT, embodiment_json(profile, robot_type, modality))


def finalized_files(root: Path) -> tuple[str, ...]:
    """Names under ``meta/`` of what was made of one state of the dataset."""
    return (*FINALIZED, *known_embodiment(root).files)


def drop_finalized(root: Path, change: Transaction) -> tuple[str, ...]:
    """Take out what was said of another state of the dataset, statistics or that it is ready; tell so."""
    stale = [name for name in finalized_files(root) if (root / META / name).exists()]
    for name in stale:
        change.remove(f"{META}/{name}")
    if not stale:
        return ()
    return (f"{root}: {' and '.join(stale)} were of the dataset as it was, and are gone: run finalize again",)
