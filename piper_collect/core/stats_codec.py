"""Running statistics as bytes, to go on with in another run.

Layout: a line that names the format and its version, the SHA-256 of all that follows, one line of JSON
(episodes, rows, the columns and their widths), then for each column three arrays as numpy's ``.npy``:
its moments [4, D], the lengths of its tails [4, D], and their values one after the other, as float32
where that holds them exactly.
"""

import json
from hashlib import sha256
from io import BytesIO
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from piper_collect.core.moments import Moments
from piper_collect.core.running_stats import RunningColumn, RunningStats
from piper_collect.core.tails import Tail, Tails
from piper_collect.core.types import FloatArray

_FORMAT = b"piper_collect running statistics, version 1\n"


def to_bytes(stats: RunningStats) -> bytes:
    """``stats``, whole and exact; equal statistics come to equal bytes."""
    head = {
        "episodes": stats.episodes,
        "rows": stats.rows,
        "columns": [[key, column.moments.mean.size] for key, column in stats.columns.items()],
    }
    body = BytesIO()
    body.write(json.dumps(head).encode() + b"\n")
    for column in stats.columns.values():
        for array in _arrays(column):
            np.save(body, array, allow_pickle=False)
    content = body.getvalue()
    return _FORMAT + sha256(content).digest() + content


def from_bytes(content: bytes) -> RunningStats:
    """The statistics that ``to_bytes`` gave ``content`` for.

    Raises:
        ValueError: when it is something else, of another version, or damaged.
    """
    if not content.startswith(_FORMAT):
        raise ValueError(f"not running statistics of this version: it begins {content[:50]!r}")
    digest_end = len(_FORMAT) + sha256().digest_size
    if sha256(content[digest_end:]).digest() != content[len(_FORMAT) : digest_end]:
        raise ValueError("the running statistics are damaged: their checksum is another")
    body = BytesIO(content[digest_end:])
    head = json.loads(body.readline())
    columns = {key: _column(body, width, head["rows"]) for key, width in head["columns"]}
    return RunningStats(episodes=head["episodes"], rows=head["rows"], columns=columns)


def _arrays(column: RunningColumn) -> tuple[NDArray[Any], ...]:
    moments = column.moments
    ends = (column.tails.low, column.tails.high)
    parts = [[tail.settled for tail in end] for end in ends] + [[tail.recent for tail in end] for end in ends]
    lengths = np.array([[values.size for values in part] for part in parts], np.int64)
    return (
        np.stack([moments.mean, moments.m2, moments.min, moments.max]),
        lengths,
        _narrow(np.concatenate([values for part in parts for values in part])),
    )


def _narrow(values: FloatArray) -> NDArray[Any]:
    with np.errstate(over="ignore", under="ignore"):
        narrow = values.astype(np.float32)
    return narrow if np.array_equal(narrow, values) else values


def _column(body: BytesIO, width: int, rows: int) -> RunningColumn:
    mean, m2, low, high = np.load(body, allow_pickle=False)
    lengths = np.load(body, allow_pickle=False)
    values = np.load(body, allow_pickle=False).astype(np.float64)
    places = np.concatenate(([0], np.cumsum(lengths)))
    parts = [values[start:end] for start, end in pairwise(places)]
    low_settled, high_settled, low_recent, high_recent = (
        parts[i * width : (i + 1) * width] for i in range(4)
    )
    return RunningColumn(
        moments=Moments(count=rows, mean=mean, m2=m2, min=low, max=high),
        tails=Tails(low=_tails(low_settled, low_recent), high=_tails(high_settled, high_recent)),
    )


def _tails(settled: list[FloatArray], recent: list[FloatArray]) -> tuple[Tail, ...]:
    return tuple(Tail(settled=s, recent=r) for s, r in zip(settled, recent, strict=True))
