"""JSON that someone else wrote: parsed without trust, and read key by key."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from piper_collect.core.findings import Findings
from piper_collect.errors import DatasetError

_MOST_BYTES = 256 * 1024 * 1024


def as_int(value: object) -> int | None:
    """``value`` where it is a whole number (4.0 too) and no bool, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if value == value and abs(value) < 2**63 and int(value) == value else None


def as_number(value: object) -> float | None:
    """``value`` where it is a finite number and no bool, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < 1e300 else None


def as_text(value: object) -> str:
    """``value`` where it is a string, else empty."""
    return value if isinstance(value, str) else ""


def as_object(value: object) -> Mapping[str, Any]:
    """``value`` where it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """``value`` where it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def original_key(entry: object, default: str) -> str:
    """The column or video that an entry of modality.json names; what is no text is shown as it is."""
    value = as_object(entry).get("original_key")
    return default if value is None else value if isinstance(value, str) else shown(value)


def shown(value: object) -> str:
    """``value`` as messages show it: JSON, cut short."""
    try:
        text = json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        text = repr(type(value))
    return text if len(text) <= 60 else text[:57] + "..."


def parse_object(text: bytes, where: str, findings: Findings) -> dict[str, Any] | None:
    """One JSON object, or None and a finding; NaN and infinities are kept, and a finding as well."""
    strange: list[str] = []

    def constant(word: str) -> float:
        strange.append(word)
        return float(word)

    try:
        value = json.loads(text.decode("utf-8"), parse_constant=constant)
    except UnicodeDecodeError as err:
        findings.add("error", "json", where, f"is not UTF-8: {err}")
        return None
    except (ValueError, RecursionError) as err:
        said = err.msg if isinstance(err, json.JSONDecodeError) else str(err)
        findings.add("error", "json", where, f"is not valid JSON: {said}" if text.strip() else "is empty")
        return None
    if not isinstance(value, dict):
        findings.add("error", "json", where, f"is not a JSON object but {shown(value)}")
        return None
    if strange:
        findings.add("error", "json", where, f"{strange[0]} is no JSON ({len(strange)} values)")
    return value


def read_object(path: Path, where: str, findings: Findings) -> dict[str, Any] | None:
    """The JSON object in a file that is there, or None and a finding."""
    try:
        content = _content(path)
    except DatasetError as err:
        findings.add("error", "json", where, str(err))
        return None
    return parse_object(content, where, findings)


def _content(path: Path) -> bytes:
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise DatasetError("is too large for metadata", expected=f"at most {_MOST_BYTES} bytes")
        return path.read_bytes()
    except OSError as err:
        raise DatasetError(f"cannot be read: {err.strerror}") from err


class JsonLines:
    """A file of one JSON object a line, found by an index in each line and read one line at a time.

    Attributes:
        where: How messages name the file.
        offsets: Where the line of each index starts, by index in order.
        lines: Number of lines that are not blank.
    """

    def __init__(self, path: Path, where: str, offsets: Mapping[int, int], lines: int) -> None:
        self.where = where
        self.offsets = offsets
        self.lines = lines
        self._path = path

    @classmethod
    def scan(cls, path: Path, where: str, key: str, findings: Findings) -> "JsonLines":
        """Find every line; one without a whole ``key`` from 0 on, or with one met before, is a finding."""
        offsets: dict[int, int] = {}
        lines = start = 0
        for number, line in enumerate(_lines(path, where, findings), 1):
            offset, start = start, start + len(line)
            if not line.strip():
                continue
            lines += 1
            value = parse_object(line, f"{where}:{number}", findings)
            if value is None:
                continue
            index = as_int(value.get(key))
            if index is None or index < 0:
                text = f"{key} is {shown(value.get(key))}, not a whole number from 0 on"
                findings.add("error", "json-lines", f"{where}:{number}", text)
            elif index in offsets:
                text = f"{key} {index} was given in a line before"
                findings.add("error", "duplicate-line", f"{where}:{number}", text)
            else:
                offsets[index] = offset
        return cls(path, where, dict(sorted(offsets.items())), lines)

    def get(self, index: int) -> Mapping[str, Any]:
        """The line of ``index``; empty where there is none."""
        if index not in self.offsets:
            return {}
        try:
            with self._path.open("rb") as file:
                file.seek(self.offsets[index])
                return as_object(json.loads(file.readline()))
        except (OSError, ValueError, RecursionError):
            return {}

    def only(self, indexes: Iterable[int]) -> "JsonLines":
        """The same file with the lines of these indexes, as far as there are such."""
        offsets = {index: self.offsets[index] for index in indexes if index in self.offsets}
        return JsonLines(self._path, self.where, offsets, len(offsets))

    def items(self) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Every (index, line), in the order of the index."""
        return ((index, self.get(index)) for index in self.offsets)


def _lines(path: Path, where: str, findings: Findings) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            yield from file
    except OSError as err:
        findings.add("error", "json", where, f"cannot be read: {err.strerror}")
