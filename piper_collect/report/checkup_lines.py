"""A check-up on a terminal or in a pipe: a heading a group, a line a check, the verdict last."""

from collections.abc import Sequence
from typing import TextIO

from rich.text import Text

from piper_collect.core.checkup import Check, CheckLevel, Checkup, grouped
from piper_collect.report.tables import console_for

_STYLES: dict[CheckLevel, str] = {"ok": "green", "warn": "yellow", "FAIL": "bold red", "not known": "cyan"}
_LEVEL_WIDTH = max(map(len, _STYLES))


def print_checks(checks: Sequence[Check], stream: TextIO | None = None) -> None:
    """Print checks to ``stream`` (stdout by default); colours on a terminal only, beside the words."""
    console = console_for(stream)
    for group, lines in grouped(checks):
        console.print(Text(group, style="bold"), soft_wrap=True)
        for level, line in lines:
            told = Text(f"  {level:<{_LEVEL_WIDTH}}  ", style=_STYLES[level])
            told.append(line, style="default")
            console.print(told, soft_wrap=True)
    console.file.flush()


def print_verdict(checkup: Checkup, stream: TextIO | None = None) -> None:
    """Print the last line."""
    console = console_for(stream)
    console.print(Text(checkup.verdict, style=_STYLES["ok" if checkup.ok else "FAIL"]), soft_wrap=True)
