"""HTML that cannot be broken by what it shows: text is escaped unless it was made here."""

import html
import re

_INVISIBLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
"""What HTML cannot hold or UTF-8 cannot spell; tab and newline are left alone."""
_MOST_CHARACTERS = 800
_VOID = frozenset({"meta", "img", "path", "rect"})
"""Elements without content; SVG's need the slash, HTML's bear it."""


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def escape(text: object) -> Markup:
    """Any text as HTML text or attribute; what cannot be shown is spelled as ``\\x00`` or ``\\ud800``."""
    if isinstance(text, Markup):
        return text
    spelled = _INVISIBLE.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), str(text))
    return Markup(html.escape(spelled, quote=True))


def element(name: str, /, *children: object, **attributes: object) -> Markup:
    """One element with escaped children and attributes.

    Args:
        name: Tag.
        children: Markup as it is, everything else as text; None is left out.
        attributes: A trailing underscore is cut (``class_``), the others become dashes; None and False
            are left out, True is an attribute without a value.
    """
    words = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        spelled = key.rstrip("_").replace("_", "-")
        words.append(spelled if value is True else f'{spelled}="{escape(value)}"')
    if name in _VOID:
        return Markup(f"<{' '.join(words)}/>")
    return Markup(f"<{' '.join(words)}>{join(*children)}</{name}>")


def join(*children: object) -> Markup:
    """Children one after the other."""
    return Markup("".join(escape(child) for child in children if child is not None))


def foreign(text: object) -> Markup:
    """Text that somebody else wrote: cut where it is endless, and it cannot turn what is around it."""
    if isinstance(text, Markup):
        return text
    return element("bdi", shortened(str(text)))


def shortened(text: str) -> str:
    """The text, or its beginning and how long it is."""
    if len(text) <= _MOST_CHARACTERS:
        return text
    return f"{text[:_MOST_CHARACTERS]} … ({len(text)} characters)"
