"""`export --watch` at work while something else is measured: it always has a recording to export."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.recordings import record

SECONDS = 5.0
RECORDINGS = 24
"""More than two cores export in a minute."""


def make_recordings(folder: Path) -> None:
    """Write what there is to export, once: three JPEG cameras of 640x480 each."""
    for number in range(len(list(folder.glob("episode_*"))), RECORDINGS):
        record(folder / f"episode_{number:06d}", SECONDS, number=number)


@contextmanager
def exporting(recordings: Path, folder: Path) -> Iterator["Exported"]:
    """Export meanwhile, and stop afterwards; afterwards it is known how much was exported."""
    root = folder / "dataset"
    command = [sys.executable, "-m", "piper_collect.cli.main", "export", "--watch", "--no-progress"]
    command += [str(recordings), "-o", str(root)]
    exported = Exported()
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr.fileno()) as process:
        try:
            yield exported
        finally:
            exported.episodes = len(list(root.glob("data/*/*.parquet")))
            process.terminate()


class Exported:
    """How many episodes were in the dataset when the measurement ended."""

    episodes = 0
