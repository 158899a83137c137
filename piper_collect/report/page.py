"""One HTML file that shows what a look at a dataset or a bag found; it loads nothing and runs nothing."""

import os
import shutil
from pathlib import Path
from types import TracebackType
from typing import TextIO

from piper_collect.core.findings import LEVELS
from piper_collect.errors import ConfigError
from piper_collect.files import sync
from piper_collect.report.markup import Markup, element, join
from piper_collect.report.plots import Bar
from piper_collect.report.sections import episode_section, head_sections, worst_level
from piper_collect.report.style import STYLE
from piper_collect.report.svg import bar_chart
from piper_collect.report.views import EpisodeView, PageView

_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""The browser itself refuses scripts and anything from elsewhere."""
_MOST_BARS = 1000


class PageWriter:
    """Writes a page episode by episode: memory does not grow with their number.

    Used as a context manager. Episodes go to a file beside the page; ``finish`` puts the head before
    them and gives the page its name. Without ``finish`` nothing is left behind.

    Args:
        path: The page; an old one is replaced.

    Raises:
        ConfigError: Nothing can be written there.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        if path.is_dir():
            raise ConfigError("the page cannot be written", where=path, expected="a file", got="a folder")
        stem = f".{path.name}.{os.getpid()}"
        self._parts_path = path.with_name(f"{stem}.episodes.tmp")
        self._page_path = path.with_name(f"{stem}.page.tmp")
        try:
            self._parts: TextIO = self._parts_path.open("w+", encoding="utf-8", newline="\n")
        except OSError as err:
            raise ConfigError("the page cannot be written", where=path, got=err.strerror) from err
        self._bars: list[Bar] = []
        self._episodes = 0

    def add_episode(self, view: EpisodeView) -> None:
        """Append one episode."""
        self._episodes += 1
        self._parts.write(episode_section(view))
        self._parts.write("\n")
        level = worst_level(view.findings)
        kind = level if level in LEVELS[:2] else "plain"
        if len(self._bars) < _MOST_BARS:
            said = f"{view.label}: {view.line}" + (f", {len(view.findings)} findings" if level else "")
            self._bars.append(Bar(value=view.size, title=said, kind=kind, href=f"#{view.anchor}"))

    def finish(self, page: PageView) -> None:
        """Write the page and give it its name."""
        with self._page_path.open("w", encoding="utf-8", newline="\n") as file:
            file.write(_start(page))
            file.write(head_sections(page))
            file.write(self._episodes_heading(page))
            self._parts.seek(0)
            shutil.copyfileobj(self._parts, file)
            file.write(element("footer", f"Written by {page.made_by}."))
            file.write("\n</main>\n</body>\n</html>\n")
        sync(self._page_path)
        self._page_path.replace(self._path)
        sync(self._path.parent)

    def __enter__(self) -> "PageWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._parts.close()
        self._parts_path.unlink(missing_ok=True)
        self._page_path.unlink(missing_ok=True)

    def _episodes_heading(self, page: PageView) -> Markup:
        if not self._episodes:
            return Markup("")
        parts = [element("h2", page.episodes_title)]
        if len(self._bars) > 1:
            more = self._episodes - len(self._bars)
            said = f"{page.size_title}" + (f" (the first {len(self._bars)})" if more else "")
            chart = bar_chart(said, page.size_unit, self._bars)
            parts.append(element("div", chart, class_="card pad broad"))
        return join(*parts, "\n")


def _start(page: PageView) -> str:
    head = join(
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("title", f"{page.title} {page.report.subject}"),
        element("style", Markup(STYLE)),
    )
    return f'<!DOCTYPE html>\n<html lang="en">\n<head>{head}</head>\n<body>\n<main>\n'
