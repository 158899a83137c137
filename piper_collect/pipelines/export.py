"""Bags to a dataset: one episode a bag, each committed whole or not at all."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

from piper_collect.bag.find import find_bags, unfinished_recordings
from piper_collect.bag.sidecar import path_text
from piper_collect.dataset.guard import locked
from piper_collect.errors import DatasetError
from piper_collect.pipelines.ahead import ahead_folder
from piper_collect.pipelines.bag_episodes import ExportOptions
from piper_collect.pipelines.export_outcome import BagOutcome, ExportSummary
from piper_collect.pipelines.export_place import check_place
from piper_collect.pipelines.export_run import ExportRun, in_start_order
from piper_collect.pipelines.prepare import BagJob, PreparedBag, Tell, prepare, prepare_ahead
from piper_collect.pipelines.ray_workers import on_ray
from piper_collect.pipelines.workers import Lost, started

Progress = Callable[[int, int, str, float], None]
"""``progress(bag number from 0, bags, name, fraction of the bag's work)``."""


def export(
    paths: Iterable[Path],
    root: Path | None,
    options: ExportOptions,
    *,
    workers: int | None = 1,
    ray: str | None = None,
    on_progress: Progress | None = None,
) -> ExportSummary:
    """Add the bags below ``paths`` to the dataset at ``root``, which is made when it is not there.

    Bags come in the order of their start, and the dataset is the same for any number of workers. One that
    it holds (by content) is left alone, so that an export that was stopped is simply run again.

    Args:
        paths: Bags or folders that hold some.
        root: The dataset; None for a new one, ``<recording root>/<task>_<YYYYMMDD_HHMMSS>``.
        options: How.
        workers: Bags that are read and encoded at the same time. From 2 on each in a process of its own,
            which imports the program's main module; this process then only adds to the dataset. None for
            as many as ``default_workers`` says, or with ``ray`` as the cluster has processors for.
        ray: Address of a Ray cluster that reads and encodes them (see ``on_ray``).
        on_progress: Told how far it is.

    Returns:
        What became of each bag; a bag that fails does not stop the others.

    Raises:
        BagError: There is no bag below a path.
        DatasetError: No dataset of this kind can be at ``root``, several workers cannot write beside it, or a
            machine of the cluster cannot do the work.
        DatasetLockError: Another process is writing the dataset, or its folder cannot be written.
        ConfigError: There is no such cluster.
    """
    searched = list(paths)
    bags = find_bags(searched)
    if root is not None:
        check_place(root, options.profile, [*bags, *searched])
        if root.exists():
            with locked(root):  # said now, and held from the first bag on
                pass
    found, outcomes = in_start_order(bags)
    tell = _Tally(found, on_progress)
    with ExitStack() as stack:
        job = ExportRun(root, options, stack)
        if workers is None and ray is None:
            workers = job.default_workers(found)
        if ray is None and min(workers or 0, len(found)) < 2:
            outcomes += _one_by_one(job, found, tell)
        else:
            outcomes += _at_once(job, found, tell, workers, ray)
        notes = (*job.notes(outcomes), *_unfinished(searched))
        return ExportSummary(root=job.root, bags=tuple(outcomes), notes=notes)


def _unfinished(paths: Iterable[Path]) -> Iterator[str]:
    """The recordings that a search passed by."""
    for path in paths:
        for left in unfinished_recordings(path) if path.is_dir() else ():
            yield (
                f"left out, since it was never finished: {path_text(left)} "
                "(piper-collect recover makes an episode of it, unless a recorder is writing it now)"
            )


class _Tally:
    """How far each bag is, told as how far all are."""

    def __init__(self, found: Sequence[Path], on_progress: Progress | None) -> None:
        self._found = found
        self._on_progress = on_progress
        self._fractions = [0.0] * len(found)

    def of(self, number: int) -> Tell:
        return lambda fraction: self(number, fraction)

    def __call__(self, number: int, fraction: float) -> None:
        self._fractions[number] = fraction
        if self._on_progress is not None:
            done = sum(self._fractions)
            whole = min(int(done), len(self._found) - 1)
            self._on_progress(whole, len(self._found), self._found[number].name, done - whole)


def _one_by_one(job: ExportRun, found: Sequence[Path], tell: _Tally) -> Iterator[BagOutcome]:
    with ExitStack() as stack:
        ahead = _Ahead(stack)
        for number, path in enumerate(found):
            tell(number, 0.0)
            begun = job.begin(path)
            if isinstance(begun, BagJob):
                if begun.options.split_s is None:  # of a recording in parts each is saved when it is encoded
                    begun = replace(begun, ahead=ahead.beside(job.writer.root))
                prepared = prepare(begun, tell.of(number), job.held)
                begun = job.finish(begun, prepared, tell.of(number))
            yield begun
            tell(number, 1.0)


class _Ahead:
    """A folder for videos beside the dataset, made when first asked for; None where none can be made."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._made: Path | None = None
        self._tried = False

    def beside(self, root: Path) -> Path | None:
        if not self._tried:
            self._tried = True
            with suppress(DatasetError):
                self._made = self._stack.enter_context(ahead_folder(root))
        return self._made


def _at_once(
    job: ExportRun, found: Sequence[Path], tell: _Tally, workers: int | None, ray: str | None
) -> list[BagOutcome]:
    outcomes: dict[int, BagOutcome] = {}
    numbers: list[int] = []  # of the bags that are jobs

    def jobs(stack: ExitStack) -> Iterator[BagJob]:
        ahead: Path | None = None
        for number, path in enumerate(found):
            begun = job.begin(path)
            if isinstance(begun, BagJob):
                ahead = ahead or stack.enter_context(ahead_folder(job.writer.root))
                numbers.append(number)
                yield replace(begun, ahead=ahead)
            else:
                outcomes[number] = begun
                tell(number, 1.0)

    def done(crew: ExitStack, stack: ExitStack) -> Iterator[tuple[BagJob, PreparedBag | Lost]]:
        if ray is not None:
            cluster = crew.enter_context(on_ray(ray, workers))
            return cluster.in_order(jobs(stack), held=lambda: job.writer.held_by_hash())
        processes = crew.enter_context(started(prepare_ahead, min(workers or 1, len(found))))
        return processes.in_order(
            jobs(stack), told=lambda place, fraction: tell(numbers[place], fraction), answer=job.held
        )

    # the processes are gone before the folder that they write into is
    with ExitStack() as stack, ExitStack() as crew:
        for place, (begun, prepared) in enumerate(done(crew, stack)):
            outcomes[numbers[place]] = job.finish(begun, prepared, lambda _: None)
            tell(numbers[place], 1.0)
    return [outcomes[number] for number in range(len(found))]
