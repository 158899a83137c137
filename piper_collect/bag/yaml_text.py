"""YAML as rosbag2 writes it, read to strings."""

import yaml

_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)

# yaml-cpp, which rosbag2 writes with, has these in a text as they are (WriteDoubleQuotedString of its
# emitterutils.cpp); libyaml refuses the first and takes the others for ends of lines.
_AS_THEY_ARE = "\x7f\u2028\u2029"
_PRIVATE_USE = range(0xE000, 0xF900)


def read_texts(text: str) -> object:
    """Parse YAML; every scalar stays the string that is written: custom data such as "007" or "1e3", too.

    Raises:
        yaml.YAMLError: It is not YAML.
    """
    odd = "".join(c for c in _AS_THEY_ARE if c in text)
    if not odd:
        return yaml.load(text, Loader=_LOADER)
    free = [chr(code) for code in _PRIVATE_USE if chr(code) not in text]
    stand_ins = "".join(free[: len(odd)])
    tree = yaml.load(text.translate(str.maketrans(odd, stand_ins)), Loader=_LOADER)
    return _translated(tree, str.maketrans(stand_ins, odd))


def _translated(tree: object, table: dict[int, int]) -> object:
    if isinstance(tree, str):
        return tree.translate(table)
    if isinstance(tree, list):
        return [_translated(item, table) for item in tree]
    if isinstance(tree, dict):
        return {_translated(key, table): _translated(value, table) for key, value in tree.items()}
    return tree
