"""A progress bar on stderr for long work."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from piper_collect.report.tables import console_for


class Bar(Protocol):
    """``bar(text, done, total)`` shows how far the work is."""

    def __call__(self, text: str, done: float, total: float) -> None: ...


@contextmanager
def progress_bar() -> Iterator[Bar]:
    """A bar that is gone again at the end."""
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console_for(sys.stderr), transient=True) as bar:
        task = bar.add_task("", total=None)

        def tell(text: str, done: float, total: float) -> None:
            bar.update(task, description=text, completed=done, total=total)

        yield tell
