"""Several datasets as one, without encoding anything again.

The result is what an export of the same recordings in the same order would have made.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias

from pyarrow import Table

from piper_collect.core.camera_history import cameras_content
from piper_collect.core.running_stats import RunningStats
from piper_collect.dataset import metadata
from piper_collect.dataset.embodiment import EMBODIMENT
from piper_collect.dataset.episode_stats import over_episodes
from piper_collect.dataset.guard import check_apart, check_empty, locked, new_or_locked
from piper_collect.dataset.json_files import json_bytes, jsonl_bytes
from piper_collect.dataset.layout import (
    CAMERAS,
    EPISODES,
    EPISODES_STATS,
    INFO,
    LATEST_SESSION,
    META,
    MODALITY,
    SESSIONS,
    SOURCES,
    STAGING,
    STATS,
    TASKS,
)
from piper_collect.dataset.merge_checks import (
    Member,
    Mergeable,
    check_alike,
    check_binding,
    hash_notes,
    joint_sessions,
    without_duplicates,
)
from piper_collect.dataset.merge_parts import calibrations, link, link_extras, stage_descriptions
from piper_collect.dataset.meta_files import finalized_files, write_meta, write_stats
from piper_collect.dataset.parquet import write_table
from piper_collect.dataset.reader import VERSIONS
from piper_collect.dataset.readers import open_any
from piper_collect.dataset.renumber import (
    picture_keys,
    recounted,
    renumbered,
    renumbered_line,
    used_tasks,
    with_totals,
)
from piper_collect.dataset.running import stats_cells
from piper_collect.dataset.transaction import Transaction, recover
from piper_collect.dataset.v3 import layout as v3
from piper_collect.dataset.v3.merge import MergeV3
from piper_collect.dataset.v3.reader import LeRobotV3Reader
from piper_collect.errors import DatasetError

Progress: TypeAlias = Callable[[int, int], None]
"""``progress(episodes done, episodes)``."""

_KNOWN_META = {
    INFO, EPISODES, TASKS, STATS, EPISODES_STATS, MODALITY, SOURCES, SESSIONS, LATEST_SESSION, EMBODIMENT,
    *(PurePosixPath(file).name for file in (v3.TASKS, v3.TASK_SOURCES, v3.EPISODES_FOLDER)),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """What was written.

    Attributes:
        root: The new dataset.
        episodes: Episodes taken of each dataset, in the order given.
        rows: Rows of all of them.
        skipped: One line for each episode that came twice and was left out.
        notes: What was not taken along or could not be compared, for people.
    """

    root: Path
    episodes: Mapping[Path, int]
    rows: int
    skipped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def merge_datasets(
    roots: Sequence[Path], out: Path, *, skip_duplicates: bool = False, on_progress: Progress | None = None
) -> Merged:
    """Write the episodes of all ``roots``, one dataset after the other, into a new dataset ``out``.

    Rows get new numbers; videos and what lies beside the episodes are linked, or copied where the disk is
    another one. All or nothing: an error or a kill leaves no dataset at ``out``, and the others as they are.

    Args:
        roots: Two or more datasets of one kind.
        out: Missing, or an empty folder.
        skip_duplicates: Take a recording that comes twice once, instead of refusing.
        on_progress: Told how far it is.

    Raises:
        DatasetError: They are of different kinds or bound to different control, a recording comes twice,
            an episode cannot be read, somebody is writing one of them, or ``out`` cannot be written.
    """
    _check_places(roots, out)
    try:
        with ExitStack() as stack:
            datasets = [_opened(root, stack) for root in roots]
            check_alike(datasets)
            notes = check_binding(datasets)
            members, twice = without_duplicates(datasets, skip=skip_duplicates)
            if not members:
                raise DatasetError("there is no episode to merge", where=roots[0])
            new_root = stack.enter_context(new_or_locked(out))
            recover(out)
            check_empty(out)
            rows = _committed(out, Transaction(out, new_root=new_root), members, datasets, on_progress)
    except OSError as err:
        raise DatasetError(f"the dataset cannot be written: {err}", where=out) from err
    return Merged(
        root=out,
        episodes={d.root: sum(m.dataset is d for m in members) for d in datasets},
        rows=rows,
        skipped=tuple(
            f"{m.dataset.root}, episode {m.index}: {same.dataset.root} has it as episode {same.index}"
            for m, same in twice
        ),
        notes=(*notes, *hash_notes(datasets), *joint_sessions(datasets)[1], *_left_out(datasets)),
    )


def _check_places(roots: Sequence[Path], out: Path) -> None:
    if len(roots) < 2:
        raise DatasetError("there is nothing to merge", expected="two datasets or more", got=len(roots))
    places = [root.resolve() for root in roots]
    for number, place in enumerate(places):
        if place in places[:number]:
            raise DatasetError("the same dataset is named twice", where=roots[number])
    check_apart(out, roots)


def _opened(root: Path, stack: ExitStack) -> Mergeable:
    if not root.is_dir():
        raise DatasetError("is no dataset", where=root, expected=f"a folder with {META}/{INFO}")
    stack.enter_context(locked(root))
    if (root / STAGING).exists():
        raise DatasetError(
            "holds an interrupted save", where=root, hint="run the export again, which repairs it"
        )
    dataset = open_any(root)
    if not isinstance(dataset, Mergeable):
        raise DatasetError(
            "datasets of this format cannot be merged",
            where=root,
            expected=" or ".join((*VERSIONS, v3.VERSION)),
            got=dataset.info["codebase_version"],
            hint="piper-collect convert each --to lerobot-v2.1, merge those, and convert back",
        )
    return dataset


def _committed(
    out: Path,
    change: Transaction,
    members: Sequence[Member],
    datasets: Sequence[Mergeable],
    on_progress: Progress | None,
) -> int:
    """Stage and commit, or leave nothing; the number of rows."""
    try:
        change.begin()
        tell = on_progress or (lambda done, total: None)
        of_v3 = [dataset for dataset in datasets if isinstance(dataset, LeRobotV3Reader)]
        if of_v3:  # and all the others, since they are alike
            rows = MergeV3(change, out, members, of_v3, tell).stage()
        else:
            rows = _Merge(change, members, datasets, tell).stage()
        change.commit()
    except BaseException as error:
        if not change.committed:
            change.roll_back()
            raise
        change.finish()
        if not isinstance(error, OSError):
            raise
    return rows


def _left_out(datasets: Iterable[Mergeable]) -> list[str]:
    """What lies in a dataset and is not taken along."""
    notes = []
    for dataset in datasets:
        names = {path.name for path in (dataset.root / META).iterdir()}
        finalized = set(finalized_files(dataset.root))
        stale = sorted(names & finalized)
        if stale:
            notes.append(f"{' and '.join(stale)} of {dataset.root} are not taken along: run finalize")
        others = sorted(names - _KNOWN_META - finalized)
        notes += [f"not taken along: {dataset.root / META / name}" for name in others]
    return notes


@dataclass(slots=True, kw_only=True)
class _Lines:
    """What the metadata are made from, episode by episode."""

    episodes: list[Mapping[str, Any]] = field(default_factory=list)
    sources: list[Mapping[str, Any]] = field(default_factory=list)
    stats: list[bytes] = field(default_factory=list)
    pictures: list[Mapping[str, Any]] = field(default_factory=list)


class _Merge:
    """Stages the new dataset, whose folders and names are those of the first one."""

    def __init__(
        self,
        change: Transaction,
        members: Sequence[Member],
        datasets: Sequence[Mergeable],
        tell: Progress,
    ) -> None:
        self._change = change
        self._members = members
        self._datasets = datasets
        self._first = datasets[0]
        self._tell = tell
        self._tasks = tuple(dict.fromkeys(task for m in members for task in used_tasks(m.dataset, m.index)))
        self._pictures = picture_keys(self._first)
        self._stats_lines = {d.root: _by_episode(d.root / META / EPISODES_STATS) for d in datasets}
        self._old_stats = next((d.stats for d in datasets if d.stats), None)
        self._numeric = [k for k in self._old_stats or () if k in self._first.info["features"]]
        self._numeric = [k for k in self._numeric if k not in self._pictures]
        self._rows = sum(_length(m) for m in members)
        self._stats = RunningStats()

    def stage(self) -> int:
        """Stage everything; the number of rows."""
        lines, first_index = _Lines(), 0
        for number, member in enumerate(self._members):
            self._tell(number, len(self._members))
            first_index += self._take(lines, member, number, first_index)
        self._tell(len(self._members), len(self._members))
        self._stage_meta(lines, first_index)
        return first_index

    def _take(self, lines: _Lines, member: Member, number: int, first_index: int) -> int:
        dataset, old = member.dataset, member.index
        table = dataset.rows(old)
        if len(table) != dataset.episodes[old].get("length") or not len(table):
            raise DatasetError(
                f"episode {old} has other rows than {META}/{EPISODES} says",
                where=dataset.data_path(old),
                expected=dataset.episodes[old].get("length"),
                got=len(table),
            )
        new = renumbered(table, number, first_index, dataset.tasks, self._tasks)
        write_table(new, self._change.path(self._place(self._first.data_path(number))))
        self._count(new, dataset.data_path(old))
        for key in dataset.video_keys:
            place = self._place(self._first.video_path(number, key))
            link(self._change, dataset.video_path(old, key), place)
        link_extras(self._change, member, number)
        lines.episodes.append(renumbered_line(dataset.episodes[old], number, new))
        if member.source:
            lines.sources.append({**member.source, "episode_index": number})
        self._take_stats(lines, member, number, new, is_same=new is table)
        return len(new)

    def _count(self, table: Table, path: Path) -> None:
        """Add the rows to the statistics of all, as an export counts them."""
        if self._numeric:
            try:
                self._stats = self._stats.added(stats_cells(table, self._numeric), of_rows=self._rows)
            except ValueError as err:
                raise DatasetError(f"no statistics: {err}", where=path) from err

    def _take_stats(self, lines: _Lines, member: Member, number: int, table: Table, *, is_same: bool) -> None:
        """The episode's line of episodes_stats.jsonl: kept as bytes, for there are many and they are long."""
        known, path = self._stats_lines[member.dataset.root], member.dataset.root / META / EPISODES_STATS
        if known is None:
            return
        if member.index not in known:
            raise DatasetError(f"has no line of episode {member.index}", where=path)
        line: Mapping[str, Any] = json.loads(known[member.index])
        if not is_same:
            line = recounted(line, number, table, self._pictures)
        lines.stats.append(json_bytes(line, EPISODES_STATS, indent=None))
        wanted = self._pictures & set(self._old_stats or ())
        lines.pictures.append({key: line["stats"].get(key) for key in wanted})

    def _place(self, path: Path) -> str:
        return path.relative_to(self._first.root).as_posix()

    def _stage_meta(self, lines: _Lines, rows: int) -> None:
        change = self._change
        written: dict[str, Sequence[Mapping[str, Any]]] = {
            EPISODES: lines.episodes,
            TASKS: metadata.task_lines(self._tasks),
        }
        if (self._first.root / META / SOURCES).is_file():
            written[SOURCES] = lines.sources
        for name, content in written.items():
            change.write(f"{META}/{name}", jsonl_bytes(content, name))
        if self._stats_lines[self._first.root] is not None:
            change.write(f"{META}/{EPISODES_STATS}", b"".join(lines.stats))
        stage_descriptions(change, self._datasets)
        self._stage_cameras()
        self._stage_stats(lines)
        info, episodes = self._first.info, len(self._members)
        size = int(info.get("chunks_size", 1000))
        totals = metadata.stock_totals(episodes, len(self._first.video_keys), size)
        write_meta(
            change, INFO, with_totals(info, totals, episodes=episodes, rows=rows, tasks=len(self._tasks))
        )

    def _stage_cameras(self) -> None:
        content = cameras_content(calibrations(self._members, self._datasets))
        if content:
            self._change.write(CAMERAS, json_bytes(content, CAMERAS))

    def _stage_stats(self, lines: _Lines) -> None:
        """stats.json of all rows as an export counts them, and of pictures as far as episodes tell."""
        old = self._old_stats
        if old is None:
            return
        entries = {k: [entry[k] for entry in lines.pictures] for k in old if k in self._pictures}
        told = {k: over_episodes(e) for k, e in entries.items() if e and all(e)}
        write_stats(self._change, self._stats, told, lines.episodes[-1])


def _length(member: Member) -> int:
    """Rows of an episode, as its list tells."""
    length = member.dataset.episodes[member.index].get("length")
    return length if isinstance(length, int) else 0


def _by_episode(path: Path) -> dict[int, bytes] | None:
    """The lines of a file by episode; None where there is no file.

    Raises:
        DatasetError: A line is not one of an episode.
    """
    if not path.is_file():
        return None
    found: dict[int, bytes] = {}
    for line in path.read_bytes().split(b"\n"):
        if line.strip():
            found[_episode_of(line, path)] = line
    return found


def _episode_of(line: bytes, path: Path) -> int:
    try:
        value = json.loads(line)
        index, stats = value["episode_index"], value["stats"]
    except (ValueError, TypeError, KeyError) as err:
        raise DatasetError(f"a line is not one of an episode: {err!r}", where=path) from err
    if not isinstance(index, int) or not isinstance(stats, dict):
        raise DatasetError("a line is not one of an episode", where=path, got=str(index)[:40])
    return index
