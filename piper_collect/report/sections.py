"""The parts of the page: banner, consumers, findings, facts, episodes."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from piper_collect.core.findings import LEVELS, Finding, Level
from piper_collect.core.survey import ConsumerOutlook
from piper_collect.report.facts import folded_facts
from piper_collect.report.markup import Markup, element, foreign, join, shortened
from piper_collect.report.pictures import page_image
from piper_collect.report.plots import Histogram
from piper_collect.report.svg import histogram, line_plot
from piper_collect.report.views import EpisodeView, FilmStrip, PageView, PlotGroup

STILL_WIDTH_PX = 144
EPISODE_PICTURE_BYTES = 160_000
"""Most that the pictures of one episode take in the page."""
_POSTER_WIDTH_PX = 64
_POSTER_BYTES = 3_000
_SHORT_TASK = 60
_MOST_LISTED = 40
_MOST_EPISODE_FINDINGS = 60

_WORD: dict[Level, tuple[str, str]] = {
    "error": ("error", "errors"),
    "warning": ("warning", "warnings"),
    "info": ("note", "notes"),
}
_VERDICT: dict[Level | None, tuple[str, str, str]] = {
    "error": ("error", "✕", "Not good: there are errors"),
    "warning": ("warning", "!", "Worth a look: there are warnings"),
    "info": ("good", "✓", "Good: nothing wrong was found"),
    None: ("good", "✓", "Good: nothing wrong was found"),
}


def worst_level(findings: Iterable[Finding]) -> Level | None:
    """The worst level among findings; None without any."""
    found = {f.level for f in findings}
    return next((level for level in LEVELS if level in found), None)


def head_sections(page: PageView) -> Markup:
    """All that stands before the episodes."""
    report = page.report
    return join(
        _banner(page),
        _tiles(page.tiles),
        _consumers(page.outlooks) if page.outlooks else None,
        element("h2", "Findings"),
        _findings(report.findings, report.unlisted),
        *[_plot_group(group, "h2") for group in page.groups],
        folded_facts("All numbers", report.facts),
        "\n",
    )


def episode_section(view: EpisodeView) -> Markup:
    """One episode, folded; its anchor lies inside, so that a link unfolds it."""
    level = worst_level(view.findings)
    badge = _badge(level, _counted(view.findings)) if level else element("span")
    poster = _poster(view.strips)
    summary = element(
        "summary",
        poster,
        element("b", view.label),
        element("span", foreign(view.task), class_="task", title=shortened(view.task)),
        element("span", view.line, class_="line"),
        badge,
    )
    body = element(
        "div",
        element("p", foreign(view.task)) if len(view.task) > _SHORT_TASK else None,
        _episode_findings(view.findings) if view.findings else None,
        *_strips(view.strips),
        *[_plot_group(group, "h3") for group in view.groups],
        folded_facts("Numbers of this episode", view.facts),
        class_="body",
        id=view.anchor,
    )
    return element("details", summary, body, class_="episode")


def _banner(page: PageView) -> Markup:
    report = page.report
    tone, mark, verdict = _VERDICT[worst_level(report.findings)]
    counts = [
        _badge(level, _number(report.count(level), *_WORD[level])) for level in LEVELS if report.count(level)
    ]
    if page.outlooks:
        counts.append(_loads_badge(page.outlooks))
    unlisted = sum(report.unlisted.values())
    if unlisted:
        counts.append(element("span", f"and {unlisted} not listed", class_="soft"))
    said = element(
        "div",
        element("h1", f"{page.title} ", foreign(report.subject)),
        element("p", verdict, class_="verdict"),
        element("div", *counts, class_="counts"),
        *[element("p", f"{name}: ", foreign(text), class_="soft") for name, text in page.about],
        class_="said",
    )
    icon = element("div", mark, class_="mark", aria_hidden="true")
    return element("header", icon, said, class_=f"card banner {tone}")


def _loads_badge(outlooks: Sequence[ConsumerOutlook]) -> Markup:
    loads = sum(outlook.loads for outlook in outlooks)
    tone = "good" if loads == len(outlooks) else "warning" if loads else "error"
    return _tone_badge(tone, f"{loads} of {len(outlooks)} consumers load it")


def _tiles(tiles: Sequence[tuple[str, str]]) -> Markup | None:
    if not tiles:
        return None
    parts = [
        element("div", element("b", foreign(value)), element("span", name), class_="card tile")
        for name, value in tiles
    ]
    return element("div", *parts, class_="tiles")


def _consumers(outlooks: Sequence[ConsumerOutlook]) -> Markup:
    names = ("consumer", "loads it", "worst distance", "wrong frames", "why, and what else it does")
    head = element("tr", *[element("th", n, scope="col", class_=_number_class(n)) for n in names])
    rows = [_consumer(o) for o in outlooks]
    table = element("table", element("thead", head), element("tbody", *rows), class_="outlooks")
    return join(
        element("h2", "Who loads it"),
        element("div", table, class_="card wide"),
    )


def _consumer(outlook: ConsumerOutlook) -> Markup:
    wrong = outlook.wrong_rows if outlook.loads else None
    if not outlook.loads:
        badge = _tone_badge("error", "✕ refuses")
    elif wrong:
        badge = _tone_badge("warning", "! wrong frames")
    else:
        badge = _tone_badge("good", "✓ loads")
    worst = "" if outlook.worst_ms is None else f"{outlook.worst_ms:.3g} ms"
    said = [element("div", foreign(reason)) for reason in outlook.reason.split("; ") if reason]
    if outlook.note:
        said.append(element("div", foreign(outlook.note), class_="soft"))
    return element(
        "tr",
        element("th", outlook.consumer, scope="row"),
        element("td", badge),
        element("td", worst, class_="number", data_label="worst distance"),
        element("td", "" if wrong is None else wrong, class_="number", data_label="wrong frames"),
        element("td", *said),
    )


def _number_class(name: str) -> str | None:
    return "number" if name in ("worst distance", "wrong frames") else None


def _findings(findings: Sequence[Finding], unlisted: Mapping[str, int]) -> Markup:
    if not findings:
        return element("p", "None.", class_="soft")

    def kind(finding: Finding) -> tuple[int, str]:
        return LEVELS.index(finding.level), finding.code

    groups = groupby(sorted(findings, key=kind), key=kind)
    return join(*[_finding_group(code, list(found), unlisted.get(code, 0)) for (_, code), found in groups])


def _episode_findings(findings: Sequence[Finding]) -> Markup:
    worst_first = sorted(findings, key=lambda f: LEVELS.index(f.level))[:_MOST_EPISODE_FINDINGS]
    more = len(findings) - len(worst_first)
    return join(_findings(worst_first, {}), element("p", f"and {more} more", class_="soft") if more else None)


def _finding_group(code: str, found: Sequence[Finding], unlisted: int) -> Markup:
    level = found[0].level
    total = len(found) + unlisted
    start = join(_badge(level, _WORD[level][0]), " ", element("code", code), " ")
    if total == 1:
        where = element("span", foreign(found[0].where), class_="path")
        return element("div", start, where, element("div", foreign(found[0].text)), class_="card one")
    items = [
        element("li", element("div", foreign(f.where), class_="path"), foreign(f.text))
        for f in found[:_MOST_LISTED]
    ]
    if total > len(items):
        items.append(element("li", f"and {total - len(items)} more of this kind", class_="soft"))
    summary = element("summary", start, element("span", f"× {total}", class_="soft"))
    body = element("div", element("ul", *items, class_="found"), class_="body")
    return element("details", summary, body, open=level == "error")


def _badge(level: Level | None, text: str) -> Markup:
    return _tone_badge(level or "good", text)


def _tone_badge(tone: str, text: str) -> Markup:
    return element("span", text, class_=f"badge {tone}")


def _counted(findings: Sequence[Finding]) -> str:
    parts = []
    for level in LEVELS:
        count = sum(f.level == level for f in findings)
        if count:
            parts.append(_number(count, *_WORD[level]))
    return ", ".join(parts)


def _number(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def _poster(strips: Sequence[FilmStrip]) -> Markup:
    stills = [strip.stills[len(strip.stills) // 2] for strip in strips[:1] if strip.stills]
    if not stills:
        return element("span")
    image = page_image(stills[0].pixels, width_px=_POSTER_WIDTH_PX, limit_bytes=_POSTER_BYTES)
    return element("img", src=image.uri, alt="", width=image.width, height=image.height)


def _strips(strips: Sequence[FilmStrip]) -> list[Markup]:
    pictures = sum(len(strip.stills) for strip in strips)
    limit = (EPISODE_PICTURE_BYTES - _POSTER_BYTES) // max(pictures, 1)
    return [_strip(strip, limit) for strip in strips]


def _strip(strip: FilmStrip, limit_bytes: int) -> Markup:
    cells = []
    for still in strip.stills:
        image = page_image(still.pixels, width_px=STILL_WIDTH_PX, limit_bytes=limit_bytes)
        said = f"{strip.camera} at {still.time_s:.2f} s"
        picture = element(
            "img", src=image.uri, alt=said, title=said, width=image.width, height=image.height, loading="lazy"
        )
        cells.append(element("div", picture, element("span", f"{still.time_s:.2f} s")))
    caption = element(
        "figcaption", element("b", foreign(strip.camera)), " ", element("span", strip.note, class_="soft")
    )
    film = element("div", *cells, class_="film") if cells else element("p", "No pictures.", class_="soft")
    return element("figure", caption, film, class_="strip")


def _plot_group(group: PlotGroup, heading: str) -> Markup | None:
    if not group.plots:
        return None
    small = all(isinstance(plot, Histogram) for plot in group.plots)
    drawn = [histogram(p) if isinstance(p, Histogram) else line_plot(p) for p in group.plots]
    grid = element("div", *drawn, class_="plots small" if small else "plots")
    if heading == "h2":
        grid = element("div", grid, class_="card pad")
    return join(element(heading, group.title), grid)
