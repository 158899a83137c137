"""Reading and writing the session YAML, which is a ROS parameter file at the same time."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import yaml

from piper_collect.config.override import DeviceWords, override_devices
from piper_collect.config.parse import parse, plain
from piper_collect.config.schema import SessionConfig
from piper_collect.config.share import share_dir
from piper_collect.errors import ConfigError

_NODES = "/**"
_PARAMETERS = "ros__parameters"
_MOST_DEPTH = 50


class _UniqueKeys(yaml.SafeLoader):
    """Refuses a key that is given twice in a map; YAML itself would keep the last one silently."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[object] = set()
        for key_node, _ in node.value:
            key = key_node.value
            if not isinstance(key_node, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(
                    None, None, "a key is no text, but a list or a map", key_node.start_mark
                )
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} is given twice in one map", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


class _ExactText(yaml.SafeDumper):
    """Quotes text with characters that YAML takes for line breaks; plain, they would not come back."""

    def represent_text(self, text: str) -> yaml.ScalarNode:
        quoted = '"' if any(char in text for char in "\x85\u2028\u2029\ufeff") else None
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=quoted)


_ExactText.add_representer(str, _ExactText.represent_text)


def load_session(source: str | Path) -> SessionConfig:
    """Read a session configuration from a file, or from the package's ``config/`` by its bare name.

    Raises:
        ConfigError: when it cannot be read or holds something unknown.
    """
    path = find_config(source)
    return session_from_text(read_config(path), str(path))


def read_config(path: Path) -> str:
    """The text of a configuration file.

    Raises:
        ConfigError: when it cannot be read or is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as err:
        raise ConfigError(f"cannot be read: {err.strerror}", where=path) from err
    except UnicodeDecodeError as err:
        raise ConfigError(
            f"is not UTF-8: {err.reason} at byte {err.start}", where=path, hint="save the file as UTF-8"
        ) from err


def find_config(source: str | Path, folder: str = "") -> Path:
    """The path that ``source`` names: a file, or ``<name>.yaml`` of a folder of the package's ``config/``.

    Raises:
        ConfigError: There is neither.
    """
    path = Path(source).expanduser()
    if path.is_file():
        return path
    own = share_dir() / "config" / folder
    named = own / f"{source}.yaml"
    if named.is_file():
        return named
    known = sorted(p.stem for p in own.glob("*.yaml"))
    kind = "profile" if folder else "configuration"
    raise ConfigError(f"no such file, and no {kind} of that name", where=path, got=str(source), valid=known)


def session_from_text(text: str, where: str) -> SessionConfig:
    """Parse the YAML text of a session configuration; ``where`` names it in errors."""
    return session_from_mapping(load_yaml(text, where), where)


def load_yaml(text: str, where: str) -> object:
    """YAML text to plain values.

    Raises:
        ConfigError: with the line when the text is not YAML, or is none that a person wrote.
    """
    if _depth(text) > _MOST_DEPTH:
        raise ConfigError(
            "not valid YAML: nested too deep", where=where, expected=f"{_MOST_DEPTH} levels at most"
        )
    try:
        return yaml.load(text, Loader=_UniqueKeys)
    except (RecursionError, ValueError) as err:  # nested by indentation, a number of thousands of digits
        raise ConfigError(
            "not valid YAML: a value cannot be read", where=where, got=type(err).__name__
        ) from err
    except yaml.YAMLError as err:
        mark = getattr(err, "problem_mark", None)
        at = f"{where}:{mark.line + 1}" if mark else where
        raise ConfigError(f"not valid YAML: {getattr(err, 'problem', err)}", where=at) from err


def _depth(text: str) -> int:
    """The most brackets that are open at once."""
    depth = deepest = 0
    for char in re.findall(r"[\[\]{}]", text):
        depth += 1 if char in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


def session_from_mapping(mapping: object, where: str) -> SessionConfig:
    """Parse the plain values of a ROS parameter file (``/**: ros__parameters: …``)."""
    if not isinstance(mapping, Mapping) or set(mapping) != {_NODES}:
        raise ConfigError(
            "not a session configuration", where=where, expected=f"one top-level key {_NODES!r}"
        )
    inner = mapping[_NODES]
    if not isinstance(inner, Mapping) or set(inner) != {_PARAMETERS}:
        raise ConfigError("not a session configuration", where=where, expected=f"{_NODES}: {_PARAMETERS}:")
    return parse(SessionConfig, inner[_PARAMETERS] or {}, where)


def session_from_parameters(
    parameters: Mapping[str, object], also_known: Sequence[str] = ()
) -> SessionConfig:
    """Build the configuration from a node's flat, dotted parameters.

    Args:
        parameters: By their names.
        also_known: Names that the node has beside the configuration, for the message of a wrong one.

    Raises:
        ConfigError: A parameter is unknown, or of the wrong kind.
    """
    sections = sorted(field.name for field in fields(SessionConfig))
    nested: dict[str, Any] = {}
    for name, value in sorted(parameters.items()):
        *parents, leaf = name.split(".")
        section = name.partition(".")[0]
        if section not in sections:
            raise ConfigError(
                "unknown setting",
                where=f"parameters.{section}",
                got=section,
                valid=[*also_known, *sections],
            )
        level = nested
        for parent in parents:
            level = level.setdefault(parent, {})
            if not isinstance(level, dict):
                raise ConfigError(
                    "is a setting and a map of settings", where=f"parameters.{parent}", got=name
                )
        level[leaf] = list(value) if isinstance(value, tuple) else value
    return parse(SessionConfig, nested, "parameters")


def dump_session(config: SessionConfig) -> str:
    """The YAML text of ``config``; ``session_from_text`` reads it back equal."""
    content = {_NODES: {_PARAMETERS: plain(config)}}
    return str(yaml.dump(content, Dumper=_ExactText, sort_keys=False, allow_unicode=True))


def override_session(
    config: SessionConfig, *, task: str = "", root: str = "", devices: DeviceWords | None = None
) -> SessionConfig:
    """``config`` with what a command line says instead.

    Args:
        config: As it was read.
        task: Task string; empty keeps the configuration's.
        root: Recording root; empty keeps the configuration's.
        devices: Which devices are used; None keeps the configuration's.

    Raises:
        ConfigError: A device's word is not valid, or the configuration does not fit the devices.
    """
    session = config.session
    named = replace(config, session=replace(session, task=task or session.task, root=root or session.root))
    return override_devices(named, devices) if devices is not None else named
