"""Tables and lines on a terminal or in a pipe, in any locale."""

import sys
from collections.abc import Iterable, Sequence
from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

_PIPE_WIDTH = 200
"""Columns where there is no terminal, so that nothing is cut there."""


def console_for(stream: TextIO | None = None) -> Console:
    """A console on ``stream`` (stdout by default): plain where it is no terminal."""
    target = stream if stream is not None else sys.stdout
    return Console(
        file=target,
        width=None if target.isatty() else _PIPE_WIDTH,
        markup=False,
        highlight=False,
        emoji=False,
    )


def make_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """A table of plain cells; columns of numbers are right-aligned, None is an empty cell."""
    cells = [list(row) for row in rows]
    table = Table(title=Text(title) if title else None, title_justify="left")
    for i, name in enumerate(columns):
        numbers = all(isinstance(row[i], int | float) or row[i] is None for row in cells)
        table.add_column(Text(name), justify="right" if numbers and cells else "left", overflow="fold")
    for row in cells:
        table.add_row(*(Text(_cell(value)) for value in row))
    return table


def print_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], stream: TextIO | None = None
) -> None:
    """Print a table to ``stream`` (stdout by default)."""
    console_for(stream).print(make_table(title, columns, rows))


def print_lines(lines: Iterable[str], stream: TextIO | None = None) -> None:
    """Print lines that a terminal may wrap and a pipe gets whole."""
    console = console_for(stream)
    for line in lines:
        console.print(Text(line), soft_wrap=True)


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.2f}" if isinstance(value, float) else str(value)
