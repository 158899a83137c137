"""How a recording is known again: by a hash of its storage files."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

HashKind = Literal["blake3", "sha256"]
"""BLAKE3, or SHA-256, which takes three times as long. Neither agrees by chance, or can be made to."""

BLAKE3_MARK = "blake3:"
"""Begins a hash of that kind; one of SHA-256 is 64 hexadecimal digits alone."""

_SHA256 = re.compile("[0-9a-f]{64}")


def hash_kind(sources: Iterable[Mapping[str, Any]]) -> HashKind:
    """By which hash a dataset knows its recordings; all its episodes have the same kind.

    Args:
        sources: Its lines of episode_sources.jsonl. Those of datasets begun before BLAKE3 was in use have
            SHA-256, and get more of it.
    """
    hashes = (str(line.get("content_hash") or "") for line in sources)
    return "sha256" if any(map(_SHA256.fullmatch, hashes)) else "blake3"
