"""The metadata files that follow from all episodes together."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from piper_collect.core.running_stats import RunningStats
from piper_collect.dataset import metadata
from piper_collect.dataset.json_files import json_bytes
from piper_collect.dataset.layout import DELTA_STATS, META, RELATIVE_STATS, STATS, STATS_STATE
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


def drop_finalized(root: Path, change: Transaction) -> tuple[str, ...]:
    """Take out the statistics that ``finalize`` made of another state of the dataset, and say so."""
    stale = [name for name in FINALIZED if (root / META / name).exists()]
    for name in stale:
        change.remove(f"{META}/{name}")
    if not stale:
        return ()
    return (f"{root}: {' and '.join(stale)} were of the dataset as it was, and are gone: run finalize again",)
