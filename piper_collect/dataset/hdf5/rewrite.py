"""Episodes taken out of a dataset of HDF5 cases: their files go, those of the others stay as they are."""

from collections.abc import Sequence

from piper_collect.dataset.hdf5.index import cases_info, known_cameras, stage_all_cameras, stage_lines
from piper_collect.dataset.hdf5.reader import HDF5CasesReader
from piper_collect.dataset.json_files import jsonl_bytes
from piper_collect.dataset.layout import EXTRAS, INFO, META, SOURCES
from piper_collect.dataset.meta_files import drop_finalized, write_meta
from piper_collect.dataset.stage import extra_files
from piper_collect.dataset.transaction import Transaction


def cases_folders(dataset: HDF5CasesReader) -> tuple[str, ...]:
    """Folders below the root in which such a change writes."""
    return (META, EXTRAS, *dataset.robots)


def stage_kept(change: Transaction, dataset: HDF5CasesReader, kept: Sequence[int]) -> tuple[str, ...]:
    """Stage the dataset with only these episodes, numbered from 0; their numbers in their cases stay.

    Returns:
        What was taken out besides, for people.

    Raises:
        DatasetError: A file of it cannot be read.
    """
    before = list(dataset.episodes.values())
    lines = [{**before[old], "episode_index": new} for new, old in enumerate(kept)]
    sources = [
        {**dataset.sources[old], "episode_index": new} if old in dataset.sources else {}
        for new, old in enumerate(kept)
    ]
    for index in dataset.episodes:
        if index not in kept:
            change.remove(before[index]["hdf5_path"])
    stage_lines(change, before, lines, sources)
    if dataset.sources:
        change.write(f"{META}/{SOURCES}", jsonl_bytes(sources, SOURCES))
    _stage_extras(change, dataset, kept)
    info = dataset.info
    write_meta(change, INFO, cases_info(info.get("robot_type"), dataset.fps, info["features"], lines))
    return drop_finalized(dataset.root, change)


def _stage_extras(change: Transaction, dataset: HDF5CasesReader, kept: Sequence[int]) -> None:
    """Files under ``extras/`` are numbered as the episodes are."""
    root, stay = dataset.root, [old for new, old in enumerate(kept) if new == old]
    for index in dataset.episodes:
        if index not in stay:
            for file in extra_files(index):
                change.remove(file)
    for new, old in enumerate(kept):
        for file, target in zip(extra_files(old), extra_files(new), strict=True):
            if new != old and (root / file).exists():
                change.take(file, target)
    infos = known_cameras(root, len(dataset.episodes))
    stage_all_cameras(change, [infos[old] for old in kept])
