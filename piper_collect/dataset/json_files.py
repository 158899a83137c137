"""Strict JSON, one object a line where wanted."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from piper_collect.errors import DatasetError

# Legal inside a JSON string, yet some readers break lines at them.
_LINE_BREAKS = {"\x85": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def json_bytes(value: object, where: str, *, indent: int | None = 2) -> bytes:
    """``value`` as strict UTF-8 JSON with one final newline.

    Raises:
        DatasetError: for NaN and infinities, values JSON cannot hold, and text that is not Unicode.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent)
        for char, escape in _LINE_BREAKS.items():
            text = text.replace(char, escape)
        return text.encode("utf-8") + b"\n"
    except (TypeError, ValueError) as err:
        raise DatasetError(f"a value cannot be written as JSON: {err}", where=where) from err


def jsonl_bytes(lines: Iterable[Mapping[str, object]], where: str) -> bytes:
    """One JSON object a line, no blank line.

    Raises:
        DatasetError: as ``json_bytes``.
    """
    return b"".join(json_bytes(line, where, indent=None) for line in lines)


def read_json(path: Path) -> dict[str, Any]:
    """Read one JSON object.

    Raises:
        DatasetError: when the file is missing, empty or not a JSON object.
    """
    return _parse_object(_read_text(path), str(path))


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    """Read one JSON object a line; blank lines are skipped.

    Raises:
        DatasetError: naming the line that is not a JSON object.
    """
    lines = _read_text(path).split("\n")
    return [_parse_object(line, f"{path}:{i + 1}") for i, line in enumerate(lines) if line.strip()]


def _read_text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except OSError as err:
        raise DatasetError(f"cannot be read: {err.strerror}", where=path) from err
    except UnicodeDecodeError as err:
        raise DatasetError(f"is not UTF-8: {err}", where=path) from err


def _parse_object(text: str, where: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as err:
        got = "nothing" if not text.strip() else f"{text[:60]!r}"
        said = err.msg if isinstance(err, json.JSONDecodeError) else err
        raise DatasetError(f"is not valid JSON: {said}", where=where, got=got) from err
    if not isinstance(value, dict):
        raise DatasetError("is not a JSON object", where=where, got=type(value).__name__)
    return value
