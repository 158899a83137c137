"""A simulated session that runs for an hour while things go wrong: is anything lost that is not told?

Episodes are recorded one after the other, of a simulated arm, two cameras and teleoperation. In most of them
something fails, in a seeded order: a camera or the arm is killed or stands still, the recorder stands still,
is told to end, is killed, or cannot write any more. What the devices noted of what they published is held
against each bag, and memory and open files of each process are watched.
"""

import argparse
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from bench._soak_cell import CAMERAS, FAULT, READY, Cell, Life
from bench._soak_check import Finding, Truth, check

MOST_TAIL_S = 1.0
FLAT_MB, FLAT_FILES = 20.0, 4
WARM_S = 20.0
"""A process that has just begun still grows."""

NOTICED_S = 2.5
"""From a fault to the stop: one that is killed a moment before it is not silent long enough to be told."""

LONG_ENOUGH = 60
"""Samples, one a second, from which it can be told whether memory is flat."""

Fault = Callable[["_Soak"], None]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the bench's arguments."""
    parser.add_argument(
        "--minutes", type=float, default=60.0, metavar="M", help="how long (3 for a short look)"
    )
    parser.add_argument("--episodes", type=int, metavar="N", help="end after so many, if not before")
    parser.add_argument("--every", type=float, default=20.0, metavar="S", help="an episode each S seconds")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the faults and their moments")
    parser.add_argument("--faults", nargs="+", choices=list(FAULTS), metavar="FAULT", help="only these")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Record, hurt, recover, and check until the time is over."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench_soak_")))
        cell = stack.enter_context(_cell(folder))
        soak = _Soak(cell, random.Random(args.seed), args.every)
        soak.run(args.minutes * 60.0, args.faults or list(FAULTS), args.episodes)
        processes = [_held(life) for life in cell.lives if len(life.samples) >= LONG_ENOUGH]
    rows = soak.rows()
    total: dict[str, Any] = {key: sum(row[key] for row in rows) for key in _SUMMED}
    tail_s = max((f.tail_s for _, f in soak.findings), default=0.0)
    unlike = [p for p in processes if p["grew MB"] > FLAT_MB or p["grew files"] > FLAT_FILES]
    ended = f"{tail_s:.2f} s lost at most of what an ended recorder had, {MOST_TAIL_S} allowed"
    return {
        "settings": {"minutes": args.minutes, "every": args.every, "seed": args.seed},
        "table": rows,
        "processes": processes,
        "not recovered": soak.notes,
        "totals": {**total, "longest tail lost, s": round(tail_s, 3)},
        "goals": {
            f"{total['untold']} messages lost that no episode tells of, none expected": total["untold"] == 0,
            f"{total['foreign']} messages that nobody sent, none expected": total["foreign"] == 0,
            f"{total['lacking']} episodes that are gone, none expected": total["lacking"] == 0,
            ended: tail_s <= MOST_TAIL_S,
            f"memory and open files flat in {len(processes) - len(unlike)} of {len(processes)} processes "
            f"that ran for {LONG_ENOUGH} s or more": not unlike,
        },
    }


@contextmanager
def _cell(folder: Path) -> Iterator[Cell]:
    from ros_support import RosRun, rig_in

    run = RosRun(folder)
    try:
        with rig_in(run, folder) as rig:
            yield Cell(rig, folder)
    finally:
        run.close()


class _Soak:
    """The episodes of one run."""

    def __init__(self, cell: Cell, chance: random.Random, every_s: float) -> None:
        self.cell = cell
        self.chance = chance
        self.every_s = every_s
        self.findings: list[tuple[str, Finding]] = []
        self.done: list[tuple[str, str]] = []
        self.truth = Truth()
        self.ended = ""
        self.died_ns: int | None = None
        self.said_ns: dict[str, int] = {}
        self.notes: list[str] = []

    def run(self, seconds: float, faults: list[str], episodes: int | None = None) -> None:
        """Go round the faults, in another order each time, until the time is over or so many are made."""
        end_s = time.monotonic() + seconds
        order: list[str] = []
        while time.monotonic() < end_s and (episodes is None or len(self.done) < episodes):
            if not order:
                order = self.chance.sample(faults, len(faults))
            self.episode(order.pop())

    def episode(self, fault: str) -> None:
        """Record one, in which this goes wrong, and check what is there of it."""
        self.cell.begin()
        begun_s = time.monotonic()
        self.ended, self.died_ns = "", None
        length_s = 0.7 * self.every_s
        self.cell.wait(self.chance.uniform(0.3, 0.6) * length_s)
        self.said_ns = self.cell.newest_ns()
        FAULTS[fault](self)
        if not self.ended:
            self.cell.wait(max(NOTICED_S, begun_s + length_s - time.monotonic()))
            self.cell.finish("stop_episode")
            self.ended = "stopped"
        self.done.append((fault, self.ended))
        self.check(fault)

    def check(self, fault: str) -> None:
        """Recover what is left, hold every episode against the truth, and make room."""
        from piper_collect.pipelines.recover import recover

        for session in sorted(self.cell.root.glob("*/")):
            if any(session.glob(".recording/episode_*")):
                self.notes += [
                    r.error or r.status for r in recover([session], delete_original=True) if not r.bag
                ]
            for bag in sorted(session.glob("episode_*")):
                found = check(bag, self.truth, self.cell.lives, end_ns=self.died_ns, said_ns=self.said_ns)
                self.findings.append((fault, found))
                shutil.rmtree(bag)

    def rows(self) -> list[dict[str, Any]]:
        """A row for each fault, and what became of its episodes."""
        return [self._row(fault) for fault in dict.fromkeys(fault for fault, _ in self.done)]

    def _row(self, fault: str) -> dict[str, Any]:
        ends = [end for name, end in self.done if name == fault]
        found = [finding for name, finding in self.findings if name == fault]
        kept = sum(end != "discarded" for end in ends)
        return {
            "fault": fault,
            "episodes": len(ends),
            "kept": len(found),
            "lacking": kept - len(found),
            "marked": sum(f.marked for f in found),
            "published": sum(f.published for f in found),
            "missing": sum(f.missing for f in found),
            "untold": sum(f.untold for f in found),
            "foreign": sum(f.foreign for f in found),
        }


_SUMMED = ("episodes", "kept", "lacking", "marked", "published", "missing", "untold", "foreign")


# -- faults ----------------------------------------------------------------------------------------


def _nothing(soak: _Soak) -> None:
    return


def _discard(soak: _Soak) -> None:
    soak.cell.finish("discard_episode")
    soak.ended = "discarded"


def _kill_camera(soak: _Soak) -> None:
    camera = soak.chance.choice(CAMERAS)
    soak.cell.kill(camera)
    soak.cell.wait(soak.chance.uniform(0.0, 2.0))
    soak.cell.start(camera)


def _kill_arm(soak: _Soak) -> None:
    soak.cell.kill("arm")
    soak.cell.start("arm")


def _stall_source(soak: _Soak) -> None:
    soak.cell.stall(soak.chance.choice(("arm", "teleop", *CAMERAS)), soak.chance.uniform(0.3, 2.5))


def _stall_recorder(soak: _Soak) -> None:
    soak.cell.stall("recorder", soak.chance.uniform(0.3, 3.0))


def _kill_recorder(soak: _Soak) -> None:
    soak.died_ns = time.time_ns()
    soak.cell.kill("recorder")
    soak.ended = "killed"
    soak.cell.start("recorder")


def _interrupt_recorder(soak: _Soak) -> None:
    soak.cell.kill("recorder", soak.chance.choice((signal.SIGINT, signal.SIGTERM)))
    soak.ended = "interrupted"
    soak.cell.start("recorder")


def _full_disk(soak: _Soak) -> None:
    soak.cell.fail_writes(True)
    soak.died_ns = time.time_ns()
    soak.cell.until(lambda: soak.cell.state() in (FAULT, READY), "the recorder writes on")
    soak.ended = "not saved"
    soak.cell.fail_writes(False)


FAULTS: dict[str, Fault] = {
    "none": _nothing,
    "discard": _discard,
    "kill-camera": _kill_camera,
    "kill-arm": _kill_arm,
    "stall-source": _stall_source,
    "stall-recorder": _stall_recorder,
    "kill-recorder": _kill_recorder,
    "interrupt-recorder": _interrupt_recorder,
    "full-disk": _full_disk,
}


def _held(life: Life) -> dict[str, Any]:
    """What a process held at first, once it was warm, and at last: medians of a third of its time each."""
    begun_s = life.samples[0][0]
    warm = [s for s in life.samples if s[0] - begun_s >= WARM_S and s[1] > 0.0]
    third = max(1, len(warm) // 3)
    first, last = warm[:third], warm[-third:]
    mb = [median(s[1] for s in part) for part in (first, last)]
    files = [median(s[2] for s in part) for part in (first, last)]
    return {
        "process": life.role,
        "seconds": round(life.samples[-1][0] - begun_s),
        "MB": round(mb[1], 1),
        "grew MB": round(mb[1] - mb[0], 2),
        "files": files[1],
        "grew files": files[1] - files[0],
    }
