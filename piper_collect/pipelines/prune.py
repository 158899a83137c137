"""Removing bags whose episodes a dataset holds: looked at first, then removed, each whole."""

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from piper_collect.bag.claim import Claim
from piper_collect.bag.find import content_hash, find_bags
from piper_collect.bag.reader import open_bag
from piper_collect.bag.removal import bag_files, remove_bag, removed_halfway
from piper_collect.bag.sidecar import choose_config, read_record
from piper_collect.core.content_hash import hash_kind
from piper_collect.dataset.dialect import EpisodeReader
from piper_collect.dataset.guard import locked
from piper_collect.dataset.layout import EPISODES, INFO, META, SOURCES, STAGING, TASKS
from piper_collect.dataset.readers import open_any
from piper_collect.dataset.state import DatasetState
from piper_collect.errors import BagError, ConfigError, DatasetError, PiperCollectError
from piper_collect.pipelines.soundness import episode_faults, episode_files

Progress: TypeAlias = Callable[[int, int, str], None]
"""``progress(bags done, bags, name of the next one)``."""

_Signature: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneItem:
    """What was found out about one bag.

    Attributes:
        bag: Its folder.
        size_bytes: Of all its files; 0 where it is kept.
        dataset: The dataset that holds it; None where it is kept.
        episodes: Its episodes there.
        kept: Why it stays; empty where it may go.
        seen: What the bag's and the episodes' files were when they were looked at.
    """

    bag: Path
    size_bytes: int = 0
    dataset: Path | None = None
    episodes: tuple[int, ...] = ()
    kept: str = ""
    seen: Mapping[Path, _Signature] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prune:
    """What may be removed and what stays.

    Attributes:
        items: One a bag, in the order of their paths.
        halfway: What earlier prunes were killed in the middle of removing; it was out of the session already.
    """

    items: tuple[PruneItem, ...]
    halfway: tuple[Path, ...] = ()

    @property
    def going(self) -> tuple[PruneItem, ...]:
        """The bags that may be removed."""
        return tuple(item for item in self.items if not item.kept)

    @property
    def staying(self) -> tuple[PruneItem, ...]:
        """The bags that are kept, and why."""
        return tuple(item for item in self.items if item.kept)


def look_at(
    paths: Iterable[Path], datasets: Sequence[Path] = (), *, on_progress: Progress | None = None
) -> Prune:
    """Find out which bags below ``paths`` a dataset holds, whole and sound.

    A bag may go when a dataset has episodes of just its content (SHA-256), of all its parts, and each of
    them can be read to the last row and frame. Each dataset is locked while it is looked at. Nothing is
    changed.

    Args:
        paths: Sessions, bags, or folders that hold some.
        datasets: Where to look for the episodes; what each bag's configuration names where none is given.
        on_progress: Told how far it is.

    Raises:
        BagError: There is no bag below a path.
        ConfigError: No dataset is named.
        DatasetError: A dataset cannot be opened, or somebody is writing it.
    """
    named = list(paths)
    bags, halfway = _found(named)
    homes = {bag: tuple(datasets) or _configured(bag) for bag in bags}
    if bags and not any(homes.values()):
        raise ConfigError(
            "no dataset is named that could hold these bags",
            where=named[0],
            expected="session.dataset in the bags' configuration, or --dataset ROOT",
        )
    items = []
    with ExitStack() as stack:
        opened = {root: _opened(root, stack) for root in dict.fromkeys(r for h in homes.values() for r in h)}
        for done, bag in enumerate(bags):
            if on_progress is not None:
                on_progress(done, len(bags), bag.name)
            items.append(_item(bag, [opened[root] for root in homes[bag]]))
    return Prune(items=tuple(items), halfway=halfway)


def remove(prune: Prune) -> Iterator[PruneItem]:
    """Remove the bags that may go, one by one, and what earlier prunes left.

    Each dataset is locked meanwhile. A bag stays when it, or its episodes, changed since they were looked at.

    Yields:
        Each bag that was to go; ``kept`` says why one stayed after all.

    Raises:
        DatasetError: Somebody is writing a dataset; the bags that are left are as they were.
    """
    for left in prune.halfway:
        if left.exists():
            shutil.rmtree(left)
    for root in dict.fromkeys(item.dataset for item in prune.going if item.dataset is not None):
        with locked(root):
            for item in (item for item in prune.going if item.dataset == root):
                yield replace(item, kept=_removed(item))


def _removed(item: PruneItem) -> str:
    """Remove a bag; why not where it stays."""
    if _signatures(item.seen) != item.seen:
        return "it or its episodes changed since they were looked at"
    try:
        claim = Claim.take(item.bag)
        if claim is None:
            return "somebody is at work on it"
        try:
            remove_bag(item.bag)
        finally:
            claim.release()
    except (PiperCollectError, OSError) as err:
        return " ".join(str(err).split())
    return ""


def _found(paths: Sequence[Path]) -> tuple[list[Path], tuple[Path, ...]]:
    """The bags, and what earlier prunes left beside them or in a folder that was named."""
    bags: list[Path] = []
    halfway: dict[Path, None] = {}
    for path in paths:
        left = removed_halfway(path)
        try:
            found = find_bags([path])
        except BagError:
            if not left:
                raise
            found = []
        left += [rest for folder in sorted({bag.parent for bag in found}) for rest in removed_halfway(folder)]
        halfway |= dict.fromkeys(rest.absolute() for rest in left)
        bags += [bag for bag in found if bag not in bags]
    return bags, tuple(halfway)


def _configured(bag: Path) -> tuple[Path, ...]:
    """The dataset that the bag's own configuration names."""
    try:
        with open_bag(bag) as reader:
            named = choose_config(reader, read_record(reader))[0].session.dataset
    except (PiperCollectError, OSError):
        return ()
    root = Path(named).expanduser()
    return (root,) if named and (root / META / INFO).is_file() else ()


def _opened(root: Path, stack: ExitStack) -> EpisodeReader:
    if not root.is_dir():
        raise DatasetError("is no dataset", where=root, expected=f"a folder with {META}/{INFO}")
    stack.enter_context(locked(root))
    if (root / STAGING).exists():
        raise DatasetError(
            "holds an interrupted save", where=root, hint="run the export again, which repairs it"
        )
    return open_any(root)


def _item(bag: Path, datasets: Sequence[EpisodeReader]) -> PruneItem:
    if not datasets:
        return PruneItem(bag=bag, kept="its configuration names no dataset that is there; give --dataset")
    try:
        files = bag_files(bag)
        hashes = {kind: content_hash(bag, kind) for kind in {hash_kind(d.sources.values()) for d in datasets}}
    except (PiperCollectError, OSError) as err:
        return PruneItem(bag=bag, kept=" ".join(str(err).split()))
    reasons = []
    for dataset in datasets:
        kind = hash_kind(dataset.sources.values())
        held = DatasetState(sources=tuple(dataset.sources.values())).held(hashes[kind])
        if not held.parts:
            reasons.append(f"{dataset.root} has no episode of just this content")
            continue
        if not held.whole:
            reasons.append(f"{dataset.root} has {len(held.by_part)} of its {held.parts} parts")
            continue
        faults = [fault for index in held.indexes for fault in episode_faults(dataset, index)]
        if faults:
            more = f" and {len(faults) - 1} faults more" if len(faults) > 1 else ""
            reasons.append(f"{dataset.root}: {faults[0]}{more}")
            continue
        seen = [*files, *(f for index in held.indexes for f in episode_files(dataset, index))]
        seen += [dataset.root / META / name for name in (INFO, EPISODES, TASKS, SOURCES)]
        return PruneItem(
            bag=bag,
            size_bytes=sum(file.stat().st_size for file in files),
            dataset=dataset.root,
            episodes=held.indexes,
            seen=_signatures(seen),
        )
    return PruneItem(bag=bag, kept="; ".join(reasons))


def _signatures(files: Iterable[Path]) -> dict[Path, _Signature]:
    """What tells one state of a file from another; a file that is gone is left out."""
    found = {}
    for file in files:
        try:
            status = os.stat(file)
        except OSError:
            continue
        found[file] = (status.st_ino, status.st_size, status.st_mtime_ns)
    return found
