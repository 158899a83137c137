"""Nested counts and measures as tables, folded away."""

from collections.abc import Mapping

from piper_collect.report.markup import Markup, element, foreign

_MOST_FACTS = 60
_MOST_COLUMNS = 12
_FACTS_BYTES = 60_000
"""More than this of nested numbers is not shown."""


def folded_facts(title: str, facts: Mapping[str, object]) -> Markup | None:
    """JSON values under a heading to be unfolded; None where there are none."""
    if not facts:
        return None
    body = _facts(facts)
    if len(body) > _FACTS_BYTES:
        body = element("p", "Too much to show here; the report as JSON has all of it.", class_="soft")
    return element("details", element("summary", title), element("div", body, class_="body wide"))


def _facts(facts: Mapping[str, object]) -> Markup:
    """Names and values; a mapping of like mappings becomes a table of its own."""
    columns = _columns(facts)
    if columns:
        head = element("tr", element("th"), *[element("th", foreign(c), scope="col") for c in columns])
        rows = [
            element("tr", _row_head(key), *[element("td", _fact(value.get(c, ""))) for c in columns])
            for key, value in list(facts.items())[:_MOST_FACTS]
            if isinstance(value, Mapping)
        ]
        rows.insert(0, head)
    else:
        rows = [
            element("tr", _row_head(key), element("td", _fact(value)))
            for key, value in list(facts.items())[:_MOST_FACTS]
        ]
    more = len(facts) - _MOST_FACTS
    if more > 0:
        rows.append(element("tr", element("td", f"and {more} more", class_="soft")))
    return element("table", element("tbody", *rows), class_="facts")


def _columns(facts: Mapping[str, object]) -> list[str]:
    """The common keys of at least two mappings of plain values; empty where it is no such thing."""
    inner = list(facts.values())
    if len(inner) < 2 or not all(isinstance(value, Mapping) and value for value in inner):
        return []
    keys = list(dict.fromkeys(str(k) for value in inner if isinstance(value, Mapping) for k in value))
    plain = all(
        not isinstance(v, Mapping) for value in inner if isinstance(value, Mapping) for v in value.values()
    )
    return keys if plain and len(keys) <= _MOST_COLUMNS else []


def _row_head(key: str) -> Markup:
    return element("th", foreign(key), scope="row")


def _fact(value: object) -> Markup:
    if isinstance(value, Mapping):
        return _facts(value) if value else element("span", "none", class_="soft")
    if isinstance(value, list | tuple):
        if any(isinstance(item, Mapping) for item in value):
            return _facts({str(number): item for number, item in enumerate(value)})
        shown = [_plain(item) for item in value[:_MOST_FACTS]]
        more = f" and {len(value) - len(shown)} more" if len(value) > len(shown) else ""
        return foreign((", ".join(shown) or "none") + more)
    return foreign(_plain(value))


def _plain(value: object) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
