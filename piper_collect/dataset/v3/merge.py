"""Several v3.0 datasets as one: the same as an export of all their recordings in this order makes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from piper_collect.dataset.episode_stats import Entry
from piper_collect.dataset.merge_checks import Member
from piper_collect.dataset.merge_parts import calibrations, link_extras, stage_descriptions
from piper_collect.dataset.parquet import read_table, write_table
from piper_collect.dataset.renumber import renumbered, used_tasks
from piper_collect.dataset.running import stats_cells
from piper_collect.dataset.transaction import Transaction
from piper_collect.dataset.v3.layout import TASK_SOURCES
from piper_collect.dataset.v3.made import MadeEpisode
from piper_collect.dataset.v3.reader import LeRobotV3Reader
from piper_collect.dataset.v3.rewrite import Remade, RewriteV3, numbered_source
from piper_collect.dataset.v3.statistics import array_shapes, episode_entries
from piper_collect.dataset.v3.tables import episode_tables, stats_of, task_sources_table
from piper_collect.errors import DatasetError


class MergeV3:
    """Stages the new dataset, whose kind is that of the first one.

    Args:
        change: Where to.
        out: The root of the new dataset.
        members: Its episodes.
        datasets: Those that they are of.
        tell: Told how many episodes of how many are done.
    """

    def __init__(
        self,
        change: Transaction,
        out: Path,
        members: Sequence[Member],
        datasets: Sequence[LeRobotV3Reader],
        tell: Callable[[int, int], None],
    ) -> None:
        self._change, self._members, self._datasets, self._tell = change, members, datasets, tell
        self._first = datasets[0]
        self._stats = {d.root: _episode_stats(d.root) for d in datasets}
        stats = next((d.stats for d in datasets if d.stats), None)
        self._columns = [k for k in stats or {} if k not in self._first.picture_keys]
        self._empty = replace(
            self._first, root=out, tasks={}, episodes={}, sources={}, sessions=(), stats=stats
        )

    def stage(self) -> int:
        """Stage everything; the number of rows.

        Raises:
            DatasetError: An episode cannot be read.
        """
        infos = calibrations(self._members, self._datasets)
        order = [
            Remade(
                tasks=used_tasks(member.dataset, member.index),
                make=partial(self._made, member),
                cameras=cameras,
            )
            for member, cameras in zip(self._members, infos, strict=True)
        ]
        new = RewriteV3(self._change, self._empty, order).stage()
        self._tell(len(order), len(order))
        stage_descriptions(self._change, self._datasets)
        methods = [m for d in self._datasets for m in _collected(d.root)]
        if methods:
            table = task_sources_table(new.episodes, new.sources, self._first.fps, methods[0])
            write_table(table, self._change.path(TASK_SOURCES))
        return int(new.episodes[-1]["dataset_to_index"])

    def _made(self, member: Member, index: int, first_index: int, tasks: Sequence[str]) -> MadeEpisode:
        self._tell(index, len(self._members))
        dataset, old = member.dataset, member.index
        table = renumbered(dataset.rows(old), index, first_index, dataset.tasks, tasks)
        missing = [key for key in self._columns if key not in table.column_names]
        if missing:
            raise DatasetError("columns are missing", where=dataset.data_path(old), got=", ".join(missing))
        link_extras(self._change, member, index)
        shapes = array_shapes(self._first.info["features"])
        told = self._stats[dataset.root].get(old, {})
        pictures = {k: e for k, e in told.items() if k in self._first.picture_keys}
        return MadeEpisode(
            table=table,
            clips={key: dataset.clip(old, key) for key in dataset.video_keys},
            videos={},
            entries={**episode_entries(stats_cells(table, self._columns), {}, shapes), **pictures},
            source=numbered_source(member.source, index),
        )


def _episode_stats(root: Path) -> dict[int, Mapping[str, Entry]]:
    tables = episode_tables(root, statistics=True)
    return {int(row["episode_index"]): stats_of(row) for _, table in tables for row in table.to_pylist()}


def _collected(root: Path) -> list[str]:
    """How the episodes of a dataset were collected, where it says so."""
    path = root / TASK_SOURCES
    return read_table(path)["collection_method"].to_pylist() if path.exists() else []
