"""The definition of a message type as its Python class tells it, where its files are not to be found."""

import re
from importlib import import_module

_BASIC = {"boolean": "bool", "octet": "byte", "double": "float64", "float": "float32"}
_SEQUENCE = re.compile(r"sequence<(?P<of>.+?)(?:, (?P<most>\d+))?>")
_ARRAY = re.compile(r"(?P<of>.+)\[(?P<size>\d+)\]")
_BOUNDED_TEXT = re.compile(r"(?P<of>w?string)<(?P<most>\d+)>")
_NOTHING = "uint8 structure_needs_at_least_one_member"


def fields_by_type(type_name: str, message_class: type) -> dict[str, str]:
    """The fields of a type and of all within it, as the text of definitions; constants are not among them.

    Args:
        type_name: ``package/msg/Name``.
        message_class: Its class, of rosidl's generator.
    """
    lines = []
    texts: dict[str, str] = {}
    for name, kind in message_class.get_fields_and_field_types().items():
        written = _written(kind)
        lines.append(f"{written} {name}")
        within = written.partition("[")[0]
        if "/" in within:
            package, leaf = within.split("/")
            inner = getattr(import_module(f"{package}.msg"), leaf)
            texts |= fields_by_type(f"{package}/msg/{leaf}", inner)
    return texts | {type_name: "\n".join(lines or [_NOTHING]) + "\n"}


def _written(kind: str) -> str:
    """A type as definitions write it."""
    if found := _SEQUENCE.fullmatch(kind):
        most = f"<={found['most']}" if found["most"] else ""
        return f"{_written(found['of'])}[{most}]"
    if found := _ARRAY.fullmatch(kind):
        return f"{_written(found['of'])}[{found['size']}]"
    if found := _BOUNDED_TEXT.fullmatch(kind):
        return f"{found['of']}<={found['most']}"
    return _BASIC.get(kind, kind)
