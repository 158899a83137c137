#!/usr/bin/env python3
"""Write docs/configuration.md from the dataclasses of the session configuration.

usage: python scripts/configuration_docs.py > docs/configuration.md
"""

import dataclasses
import inspect
import re
import typing

from piper_collect.config import schema

HEAD = """\
# Configuration

One YAML file describes a session. It is a ROS parameter file too, so `ros2 param`, launch files and single
nodes take it as it is:

```yaml
/**:
  ros__parameters:
    session:
      task: stack the cups
```

`piper-collect record --config FILE` and `ros2 launch piper_collect collect.launch.py config:=FILE` start
it; a bare name (`default`, `piper_ros_realsense`) means one that comes with the package, in `config/`. What
is left out has the default below. An unknown key, a wrong type or a wrong word is refused in one line that
names the nearest valid one. The resolved file is kept as `session.yaml` beside the bags and inside each of
them, and `export` reads the mapping from there unless `--config` gives another.

ROS parameter files hold maps and lists of one type only, so cameras and sources are *named maps*: a list
`names` gives the members and their order. `['']` means an empty list.

This page is made by `scripts/configuration_docs.py`.
"""


def attributes(cls: type) -> dict[str, str]:
    """Attribute → its text in the docstring's ``Attributes`` section."""
    _, _, section = inspect.getdoc(cls).partition("Attributes:")
    found: dict[str, str] = {}
    name = ""
    for line in section.splitlines():
        start = re.match(r"    (\w+): (.*)", line)
        if start:
            name = start[1]
            found[name] = start[2]
        elif name and line.strip():
            found[name] += " " + line.strip()
    return found


def words(hint: object) -> str:
    """How a type is called on the page."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return " \\| ".join(f"`{a}`" for a in args)
    if origin is tuple:
        inner = words(args[0])
        return f"list of {inner}" if args[-1] is Ellipsis else f"list of {len(args)} {inner}"
    return {str: "text", float: "number", int: "whole number", bool: "true or false"}[hint]


def value(field: dataclasses.Field) -> str:
    """The default as YAML would have it."""
    if field.default is dataclasses.MISSING:
        return "(needed)"
    default = field.default
    if isinstance(default, tuple):
        return "`[" + ", ".join(map(str, default)) + "]`"
    shown = str(default).lower() if isinstance(default, bool) else repr(default)
    return f"`{shown}`".replace("'", '"')


def table(cls: type) -> str:
    """The settings of one section, nested ones by their dotted names."""
    lines = ["| setting | type | default | meaning |", "|---|---|---|---|"]

    def add(inner: type, prefix: str) -> None:
        hints = typing.get_type_hints(inner)
        texts = attributes(inner)
        for field in dataclasses.fields(inner):
            if dataclasses.is_dataclass(hints[field.name]):
                add(hints[field.name], f"{prefix}{field.name}.")
                continue
            text = (texts.get(field.name) or inspect.getdoc(inner).splitlines()[0]).replace("``", "`")
            kind = words(hints[field.name])
            lines.append(f"| `{prefix}{field.name}` | {kind} | {value(field)} | {text} |")

    add(cls, "")
    return "\n".join(lines)


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    hints = typing.get_type_hints(schema.SessionConfig)
    for field in dataclasses.fields(schema.SessionConfig):
        hint = hints[field.name]
        member = typing.get_args(hint)[1] if typing.get_origin(hint) is dict else hint
        title = field.name if member is hint else f"{field.name}.<name>"
        first = inspect.getdoc(member).splitlines()[0].replace("``", "`")
        parts.append(f"## {title}\n\n{first}\n\n{table(member)}\n")
    return "\n".join(parts)


if __name__ == "__main__":
    print(page(), end="")
