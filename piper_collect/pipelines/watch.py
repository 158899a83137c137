"""Exports each recording as soon as its bag is closed, until told to stop."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from piper_collect.bag.claim import is_claimed
from piper_collect.bag.find import bags_at, unfinished_recordings
from piper_collect.bag.metadata import METADATA_FILE
from piper_collect.bag.session_folder import EPISODE_JSON
from piper_collect.bag.sidecar import path_text
from piper_collect.bag.source import side_files
from piper_collect.dataset.guard import lock_refusal
from piper_collect.errors import BagError, DatasetLockError
from piper_collect.pipelines.ahead import ahead_folder
from piper_collect.pipelines.bag_episodes import ExportOptions
from piper_collect.pipelines.export_outcome import BagOutcome
from piper_collect.pipelines.export_place import check_place
from piper_collect.pipelines.export_run import ExportRun, in_start_order
from piper_collect.pipelines.prepare import one_line, prepare

LOOK_S = 1.0
"""From one look at the folders to the next; a bag must not have changed from one to the next."""

QUIET_S = 60.0
"""For so long a bag must not have changed that is without metadata.yaml, which a recorder writes last, and
any bag where incomplete ones are exported: a copy that is not whole yet looks like one."""

_FIRST_WAIT_S, _LONGEST_WAIT_S = 10.0, 3600.0
_SHORT_S = 0.1
_TRIES = 3

_Signature: TypeAlias = tuple[tuple[str, int, int, int], ...]


@dataclass(slots=True)
class _Seen:
    """What is known of a bag.

    Attributes:
        signature: Its files when it was last looked at.
        since_s: When it was first seen so.
        wait_s: How long the next wait after a failure is.
        told: What was last said of it.
        settled: Whether there is nothing to do for it as long as it stays so.
        again_s: Not to be tried before.
    """

    signature: _Signature
    since_s: float
    wait_s: float
    told: str
    settled: bool = False
    again_s: float = 0.0


class Watch:
    """Looks for bags again and again, and exports those that are closed, one after the other.

    A bag that cannot be exported is tried again when its files change, and after a wait that grows from
    10 s to an hour: a full disk, say, may have room by then.

    Args:
        paths: Bags, or folders that hold some; they need not be there yet.
        root: The dataset; other processes may write it, too.
        options: How bags become episodes.
        stopped: Whether to stop; asked often, and never while an episode is in hand.
        on_outcome: Told what became of a bag; of one that fails again for the same reason only once.
        say: Told in words what is waited for, once each time it changes, and what was noticed of the dataset.
        look_s: See ``LOOK_S``.
        quiet_s: See ``QUIET_S``.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        root: Path,
        options: ExportOptions,
        *,
        stopped: Callable[[], bool],
        on_outcome: Callable[[BagOutcome], None],
        say: Callable[[str], None],
        look_s: float = LOOK_S,
        quiet_s: float = QUIET_S,
    ) -> None:
        self._paths = tuple(paths)
        self._root = root
        self._options = options
        self._stopped = stopped
        self._on_outcome = on_outcome
        self._say_line = say
        self._look_s, self._quiet_s = look_s, quiet_s
        self._seen: dict[Path, _Seen] = {}
        self._waits: tuple[str, ...] = ()
        self._notes: set[str] = set()

    def run(self) -> None:
        """Go on until told to stop.

        Raises:
            DatasetError: No dataset of this kind can be where it is to be, or nothing be written beside it.
        """
        check_place(self._root, self._options.profile, self._paths)
        while not self._stopped():
            waits: list[str] = []
            ready = self._ready(waits)
            if ready:
                self._export(ready)
                continue
            waits += self._unfinished()
            self._say(waits or [f"waiting for recordings below {_names(self._paths)}"])
            self._rest(self._look_s)

    def _say(self, waits: Sequence[str]) -> None:
        for text in waits:
            if text not in self._waits:
                self._say_line(text)
        self._waits = tuple(waits)

    def _rest(self, duration_s: float) -> None:
        end_s = time.monotonic() + duration_s
        while not self._stopped() and (left_s := end_s - time.monotonic()) > 0:
            time.sleep(min(left_s, _SHORT_S))

    def _ready(self, waits: list[str]) -> list[Path]:
        """The bags that are closed and to be exported; what is said of others goes to ``waits``."""
        now_s = time.monotonic()
        there: dict[Path, Path] = {}
        for path in self._paths:
            try:
                there |= {bag.resolve(): bag for bag in bags_at(path)}
            except (BagError, OSError) as err:  # a folder that goes while it is searched, say
                waits.append(f"waiting to look again: {' '.join(str(err).split())}")
        self._seen = {bag: seen for bag, seen in self._seen.items() if bag in there}
        ready = []
        for key, bag in there.items():
            try:
                signature = _signature(bag)
            except OSError:  # deleted since
                continue
            seen = self._seen.get(key)
            if seen is None or seen.signature != signature:
                seen = _Seen(
                    signature=signature,
                    since_s=now_s,
                    wait_s=_FIRST_WAIT_S,
                    told=seen.told if seen is not None else "",
                )
                self._seen[key] = seen
            if seen.settled or now_s < seen.again_s:
                continue
            if now_s - seen.since_s >= self._stands_still_s(bag):
                ready.append(bag)
            elif self._stands_still_s(bag) == self._quiet_s:
                waits.append(f"waiting for {path_text(bag)}, which may still be written")
        return ready

    def _stands_still_s(self, bag: Path) -> float:
        """For how long a bag must not have changed before it is read."""
        is_closed = bag.is_dir() and (bag / METADATA_FILE).is_file()
        return self._look_s / 2 if is_closed and not self._options.allow_incomplete else self._quiet_s

    def _unfinished(self) -> Iterator[str]:
        for path in self._paths:
            try:
                left = list(unfinished_recordings(path)) if path.is_dir() else []
                for recording in left:
                    # it is there once the claim is
                    if not (recording / EPISODE_JSON).is_file():
                        continue
                    if is_claimed(recording):
                        yield f"waiting for {path_text(recording)}, which is being recorded"
                    else:
                        yield (
                            f"left out, since it was never finished: {path_text(recording)} "
                            "(piper-collect recover makes an episode of it)"
                        )
            except OSError:  # it was finished, or discarded, while we looked
                continue

    def _export(self, bags: Sequence[Path]) -> None:
        ordered, failed = in_start_order(list(bags))
        for refused in failed:
            self._note(refused)
        with ahead_folder(self._root) as ahead:
            run = ExportRun(self._root, self._options)
            for path in ordered:
                outcome: BagOutcome | None = None
                for _ in range(_TRIES):
                    if not run.is_current:
                        run = ExportRun(self._root, self._options)
                    outcome = self._one(run, path, ahead)
                    if outcome is None or outcome.status != "failed" or run.is_current:
                        break
                if outcome is None:
                    return
                self._note(outcome)
                self._say_notes(run.notes([outcome]))

    def _say_notes(self, notes: Sequence[str]) -> None:
        for note in notes:
            if note not in self._notes:
                self._notes.add(note)
                self._say_line(f"note: {note}")

    def _one(self, run: ExportRun, path: Path, ahead: Path) -> BagOutcome | None:
        """What became of a bag; None when told to stop before it could be put into the dataset."""
        if not self._wait_for_turn():
            return None
        try:
            begun = run.begin(path)
        except DatasetLockError as err:
            return BagOutcome(bag=path, status="failed", reason=one_line(path, err))
        if isinstance(begun, BagOutcome):
            return begun
        # encoded ahead, so that others can change the dataset meanwhile
        job = replace(begun, ahead=ahead)
        prepared = prepare(job, lambda _: None, run.held)
        if lock_refusal(self._root) and not self._wait_for_turn():
            return None
        return run.finish(job, prepared, lambda _: None)

    def _wait_for_turn(self) -> bool:
        """Wait until the dataset can be written; false when told to stop."""
        while not self._stopped():
            refusal = lock_refusal(self._root)
            if not refusal:
                return True
            self._say([f"waiting for {path_text(self._root)}: {refusal}"])
            time.sleep(_SHORT_S)
        return False

    def _note(self, outcome: BagOutcome) -> None:
        """Keep what became of a bag, and tell it where it is new."""
        seen = self._seen.get(outcome.bag.resolve())
        if seen is None or not outcome.bag.exists():
            return  # deleted while it was read
        if outcome.status == "failed":
            seen.again_s = time.monotonic() + seen.wait_s
            seen.wait_s = min(2 * seen.wait_s, _LONGEST_WAIT_S)
        else:
            seen.settled = True
        said = f"{outcome.status} {outcome.reason}"
        if said != seen.told or not outcome.reason:
            seen.told = said
            self._on_outcome(outcome)


def _names(paths: Sequence[Path]) -> str:
    return ", ".join(map(path_text, paths))


def _signature(bag: Path) -> _Signature:
    """Tells one state of a bag's files from another."""
    files = sorted(f for f in bag.iterdir() if f.is_file()) if bag.is_dir() else [bag, *side_files(bag)]
    found = []
    for file in files:
        try:
            stat = file.stat()
        except FileNotFoundError:
            continue
        found.append((file.name, stat.st_ino, stat.st_size, stat.st_mtime_ns))
    return tuple(found)
