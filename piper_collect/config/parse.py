"""Mappings from YAML to frozen dataclasses; an unknown key or a wrong type is one clear error."""

import dataclasses
import math
import re
import types
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from piper_collect.errors import ConfigError

T = TypeVar("T")

NAMES_KEY = "names"
NOTHING = [""]
"""How a file says "none": ROS parameter files cannot hold an empty list."""


def parse(cls: type[T], mapping: object, where: str) -> T:
    """Build the dataclass ``cls`` from ``mapping``.

    Values are checked against the annotations (bool, int, float, str, Literal, tuples, nested
    dataclasses). ``dict[str, Dataclass]`` reads a *named map*: a map with a list ``names`` that
    gives the members and their order, so that the file stays a valid ROS parameter file.

    Raises:
        ConfigError: naming the key, what was expected and the nearest valid word.
    """
    if not isinstance(mapping, Mapping):
        raise ConfigError("a map of settings is needed", where=where, got=repr(mapping))
    hints = get_type_hints(cls)
    fields = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    for key in mapping:
        if key not in fields:
            raise ConfigError("unknown setting", where=f"{where}.{key}", got=str(key), valid=sorted(fields))
    values: dict[str, Any] = {}
    for name, spec in fields.items():
        if name in mapping:
            values[name] = _convert(hints[name], mapping[name], f"{where}.{name}")
        elif spec.default is dataclasses.MISSING and spec.default_factory is dataclasses.MISSING:
            raise ConfigError("a setting is missing", where=f"{where}.{name}", expected=_words(hints[name]))
    try:
        return cls(**values)
    except ConfigError:
        raise
    except ValueError as err:
        raise ConfigError(str(err), where=where) from err


def _convert(hint: Any, value: object, where: str) -> Any:
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        inner = [h for h in get_args(hint) if h is not type(None)]
        return None if value is None else _convert(inner[0], value, where)
    if origin is Literal:
        if value not in get_args(hint):
            raise ConfigError("not a valid choice", where=where, got=value, valid=map(str, get_args(hint)))
        return value
    if origin is tuple:
        return _convert_tuple(hint, value, where)
    if origin is dict:
        return _convert_named_map(get_args(hint)[1], value, where)
    if dataclasses.is_dataclass(hint):
        return parse(hint, value, where)  # type: ignore[arg-type]
    return _convert_scalar(hint, value, where)


def _convert_scalar(hint: Any, value: object, where: str) -> Any:
    if hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        if not math.isfinite(value):
            raise ConfigError("not a usable number", where=where, expected="a finite number", got=value)
        return float(value)
    if hint is int and isinstance(value, int) and not isinstance(value, bool):
        return value
    if hint is str and isinstance(value, str) and "\x00" in value:
        raise ConfigError("not usable text", where=where, expected="text without NUL", got=repr(value))
    if hint in (str, bool) and isinstance(value, hint):
        return value
    raise ConfigError("wrong type", where=where, expected=_words(hint), got=f"{value!r}")


def _convert_tuple(hint: Any, value: object, where: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise ConfigError("wrong type", where=where, expected="a list", got=f"{value!r}")
    args = get_args(hint)
    if list(value) == NOTHING and args[-1] is Ellipsis:
        return ()
    if len(args) == 2 and args[1] is Ellipsis:
        return tuple(_convert(args[0], v, f"{where}[{i}]") for i, v in enumerate(value))
    if len(args) != len(value):
        raise ConfigError("wrong length", where=where, expected=f"{len(args)} values", got=len(value))
    return tuple(_convert(a, v, f"{where}[{i}]") for i, (a, v) in enumerate(zip(args, value, strict=True)))


def _convert_named_map(member: type[T], value: object, where: str) -> dict[str, T]:
    if not isinstance(value, Mapping):
        raise ConfigError("a map of settings is needed", where=where, got=repr(value))
    names = value.get(NAMES_KEY)
    if not isinstance(names, list | tuple) or not all(isinstance(n, str) for n in names):
        raise ConfigError(
            "a list of the members' names is needed", where=f"{where}.{NAMES_KEY}", got=repr(names)
        )
    if list(names) == NOTHING:
        return {}
    if len(set(names)) != len(names):
        raise ConfigError("a name is given twice", where=f"{where}.{NAMES_KEY}", got=list(names))
    for name in names:
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
            raise ConfigError(
                "not a name: it becomes part of topics and files",
                where=f"{where}.{NAMES_KEY}",
                expected="letters, digits and _, a letter first",
                got=repr(name),
            )
    for key in value:
        if key != NAMES_KEY and key not in names:
            raise ConfigError(
                "this member is not in the list of names", where=f"{where}.{key}", got=str(key), valid=names
            )
    return {name: parse(member, value.get(name, {}), f"{where}.{name}") for name in names}


def _words(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(map(str, get_args(hint)))
    return {float: "a number", int: "a whole number", str: "text", bool: "true or false"}.get(hint, str(hint))


def plain(value: object) -> Any:
    """The inverse of ``parse``: dataclasses to YAML values, named maps with their ``names`` list.

    ``None`` is left out and an empty list is written as ``NOTHING``, since ROS parameter files can hold
    neither.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        items = {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {k: v for k, v in items.items() if v is not None}
    if isinstance(value, dict):
        return {NAMES_KEY: list(value) or list(NOTHING), **{k: plain(v) for k, v in value.items()}}
    if isinstance(value, tuple):
        return [plain(v) for v in value] or list(NOTHING)
    return value
