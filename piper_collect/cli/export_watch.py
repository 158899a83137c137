"""``piper-collect export --watch``: what it prints, and how it is told to stop."""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from types import FrameType
from typing import TYPE_CHECKING

from piper_collect.errors import UsageError

if TYPE_CHECKING:
    from piper_collect.pipelines.bag_episodes import ExportOptions
    from piper_collect.pipelines.export_outcome import BagOutcome

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_LOWEST = 19


def get_low_priority() -> None:
    """Let this process have what processor and disk time others leave; what it cannot get it goes without."""
    os.nice(_LOWEST)
    ionice = shutil.which("ionice")
    if ionice is not None:
        subprocess.run([ionice, "-c", "3", "-p", str(os.getpid())], check=False, stderr=subprocess.DEVNULL)


def watch(args: argparse.Namespace, options: "ExportOptions") -> int:
    """Export what comes until told to stop; 1 when a bag could not be exported, else 0.

    Raises:
        UsageError: An option makes no sense here.
    """
    from piper_collect.bag.sidecar import path_text
    from piper_collect.pipelines.watch import Watch

    _check(args)
    said = _Said(args)
    with _stop_asked() as asked:
        said.line(
            f"watching {', '.join(map(path_text, args.paths))} for {path_text(args.output)}; Ctrl-C ends it"
        )
        Watch(
            args.paths,
            args.output,
            options,
            stopped=lambda: bool(asked),
            on_outcome=said.outcome,
            say=said.line,
        ).run()
    return said.end()


def _check(args: argparse.Namespace) -> None:
    if args.output is None:
        raise UsageError(
            "--watch needs -o ROOT", hint="name the dataset, so that it is the same one the next time"
        )
    given = {"--replace": args.replace, "--workers": args.workers is not None, "--ray": args.ray is not None}
    for word in (word for word, is_given in given.items() if is_given):
        raise UsageError(
            f"{word} does not go with --watch", hint="--watch exports new bags, one after the other"
        )


@contextmanager
def _stop_asked() -> Iterator[list[int]]:
    """The signals that came so far; the second one interrupts."""
    asked: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        asked.append(number)
        if len(asked) > 1:
            raise KeyboardInterrupt

    before = {number: signal.signal(number, note) for number in _SIGNALS}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Said:
    """Prints what happens, and counts.

    Args:
        args: The verb's arguments.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self._json = bool(args.json)
        self._quiet = bool(args.quiet or args.json)
        self._held = 0
        self._last: dict[str, str] = {}

    def line(self, text: str) -> None:
        if not self._quiet:
            self._tell_held()
            print(text, flush=True)

    def outcome(self, bag: "BagOutcome") -> None:
        from piper_collect.bag.sidecar import path_text

        name = path_text(bag.bag)
        self._last[name] = bag.status
        if self._json:
            print(json.dumps({**asdict(bag), "bag": name}, allow_nan=False), flush=True)
        if bag.status == "held":
            self._held += 1
        elif bag.status == "failed":
            self._tell_held()
            print(f"error: {bag.reason}", file=sys.stderr, flush=True)
        elif bag.status == "skipped":
            self.line(f"skipped {name}: {bag.reason} (--allow-incomplete takes it all the same)")
        else:
            self._exported(name, bag)

    def _exported(self, name: str, bag: "BagOutcome") -> None:
        numbers = ", ".join(map(str, bag.episodes))
        frames = "".join(f", {camera} {count} frames" for camera, count in (bag.video_frames or {}).items())
        self.line(f"exported {name} as episode {numbers}: {bag.rows} rows, {bag.duration_s:.1f} s{frames}")
        for note in bag.notes:
            self.line(f"note: {name}: {note}")
        if bag.warning:
            print(bag.warning, file=sys.stderr, flush=True)

    def _tell_held(self) -> None:
        held, self._held = self._held, 0
        if held and not self._quiet:
            print(f"in the dataset already: {held} recording{'s' if held > 1 else ''}", flush=True)

    def end(self) -> int:
        """Say how it went; the exit code."""
        counts = {s: list(self._last.values()).count(s) for s in ("exported", "skipped", "failed")}
        self.line("stopped: " + (", ".join(f"{n} {s}" for s, n in counts.items() if n) or "nothing new"))
        return 1 if counts["failed"] else 0
